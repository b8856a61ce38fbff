"""A Spark session on this machine."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

HAS_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ


@pytest.fixture(scope="session")
def spark(_own_cache: None) -> Iterator[Any]:
    """The session that the runner would start, with small Arrow batches."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if not HAS_JAVA:
        pytest.skip("no Java: install default-jre-headless")
    from pricekit_spark.session import session_of

    with session_of(None, 2) as session:
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 37)
        session.conf.set("spark.sql.shuffle.partitions", 2)
        yield session
