"""`pricekit.explain`: which rows of a table it explains."""

import pytest

import pricekit as pk
from pricekit.errors import DataError


def test_rows_are_found_by_their_ids(bundle, catalog):
    ids = pk.read_table(catalog).ids.astype(str)
    found = pk.explain(bundle, catalog, row=[ids[7], ids[2]], engine="ort-cpu", evaluations=10)
    assert [str(each.id) for each in found] == [ids[2], ids[7]]
    assert len(pk.explain(bundle, pk.make_catalog(3), engine="ort-cpu", evaluations=10)) == 3
    (named,) = pk.explain(bundle, catalog, row=ids[7], engine="ort-cpu", evaluations=10)
    assert named.price == pytest.approx(found[1].price)


def test_an_unknown_id_is_named_with_examples(bundle, catalog):
    with pytest.raises(
        DataError, match="no row with the id nowhere; it has 400 rows with sample_id "
    ) as caught:
        pk.explain(bundle, catalog, row="nowhere")
    assert caught.value.parameters == ("row",)
