"""What a source reads and writes: values and types, versions, addresses, credentials, errors."""

import uuid

import pytest
from pricekit_lake.delta import Delta
from pricekit_lake.iceberg import Iceberg

from pricekit.testing import check_source


@pytest.mark.parametrize("check", check_source(Delta), ids=str)
def test_delta(check):
    check()


@pytest.mark.parametrize("number", range(len(check_source(Iceberg))))
def test_iceberg(number, catalogue):
    class Tested(Iceberg):
        def scratch(self, folder):
            return f"iceberg://shop/sales.t{uuid.uuid4().hex}"

    check_source(Tested)[number]()
