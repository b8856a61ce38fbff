"""How the methods of a model find rows by their ids and read columns with other names."""

import pytest

import pricekit as pk
from pricekit.errors import DataError


def test_rows_are_found_by_their_ids(bundle, catalog):
    ids = pk.read_table(catalog).ids.astype(str)
    found = pk.load(bundle, engine="ort-cpu").explain(catalog, row=[ids[7], ids[2]], evaluations=10)
    assert [str(each.id) for each in found] == [ids[2], ids[7]]
    assert len(pk.load(bundle, engine="ort-cpu").explain(pk.make_catalog(3), evaluations=10)) == 3
    (named,) = pk.load(bundle, engine="ort-cpu").explain(catalog, row=ids[7], evaluations=10)
    assert named.price == pytest.approx(found[1].price)


def test_an_unknown_id_is_named_with_examples(bundle, catalog, raises):
    with raises(DataError, "row", missing=["nowhere"]):
        pk.load(bundle).explain(catalog, row="nowhere")


def test_a_table_may_call_its_text_column_differently(bundle):
    frame = pk.make_catalog(3)
    renamed = frame.rename(columns={"catalog_content": "title"})
    named, found = (
        pk.load(bundle, engine="ort-cpu").explain(table, text=text, evaluations=20)
        for table, text in ((frame, None), (renamed, "title"))
    )
    assert [each.to_dict() for each in found] == [each.to_dict() for each in named]


def test_importance_reads_the_columns_that_it_is_told(bundle, raises):
    frame = (
        pk.make_catalog(30).rename(columns={"catalog_content": "title", "price": "cost"}).assign(often=1.0)
    )
    found = pk.load(bundle).importance(frame, text="title", price="cost", weight="often", repeats=1)
    assert found.rows == 30
    assert {"Item Name", "Value"} <= set(found.lines["line"])
    assert (found.lines["kind"] == "line").all()
    with raises(TypeError):
        pk.load(bundle).importance(frame, wieght="often")
