"""File formats: convert CSV, TSV, JSON lines and Parquet files to chunks of raw columns."""
