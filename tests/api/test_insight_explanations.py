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


def test_an_unknown_id_is_named_with_examples(bundle, catalog, raises):
    with raises(DataError, "row", missing=["nowhere"]):
        pk.explain(bundle, catalog, row="nowhere")


def test_a_table_may_call_its_text_column_differently(bundle):
    frame = pk.make_catalog(3)
    renamed = frame.rename(columns={"catalog_content": "title"})
    named, found = (
        pk.explain(bundle, table, text=text, engine="ort-cpu", evaluations=20)
        for table, text in ((frame, None), (renamed, "title"))
    )
    assert [each.to_dict() for each in found] == [each.to_dict() for each in named]


def test_importance_reads_the_columns_that_it_is_told(bundle, raises):
    frame = (
        pk.make_catalog(30).rename(columns={"catalog_content": "title", "price": "cost"}).assign(often=1.0)
    )
    found = pk.importance(bundle, frame, text="title", price="cost", weight="often", repeats=1)
    assert found.rows == 30
    assert {"Item Name", "Value"} <= set(found.lines["line"])
    assert (found.lines["kind"] == "line").all()
    with raises(TypeError):
        pk.importance(bundle, frame, wieght="often")
