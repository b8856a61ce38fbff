"""File formats: bytes of CSV, TSV, JSON lines and Parquet files to chunks of raw columns."""
