"""The page: hostile texts, its policy, its size, and that it is written as a whole."""

import base64
import hashlib
import re
import sys

import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError
from pricekit.report.page import (
    Figure,
    Figures,
    Paragraph,
    Picture,
    Piece,
    Product,
    ProductList,
    Section,
    TableBlock,
    render,
)

HOSTILE = (
    "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)> {{ 7*7 }} </style> \u202eabc 🥭 "
    + "w" * 50_000
)


def _everything(text):
    return [
        Section(
            text[:60],
            [
                Paragraph(text),
                Paragraph(text, "code"),
                Figures([Figure(text, text, text)]),
                TableBlock(text, [text], [[text]]),
                Picture("data:image/svg+xml;base64,AA==", text, text),
                ProductList([Product(text, [text], [Piece(text, 0.5), Piece(text)], [text])]),
            ],
        )
    ]


def test_texts_are_shown_as_text_everywhere():
    page = render(HOSTILE[:80], _everything(HOSTILE))
    assert page.count("<script>") == 1
    assert "<img src=x" not in page
    assert "49" not in re.sub(r"sha256-[^']+", "", page.replace("{{ 7*7 }}", ""))
    assert page.count("</style>") == 1
    assert "&lt;script&gt;alert(1)" in page


def test_only_the_script_of_the_page_may_run():
    page = render("t", [])
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'content="(default-src[^"]*)"', page)[1]
    assert f"script-src &#39;sha256-{digest}&#39;" in policy or f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_links_lead_to_sections():
    page = render("t", [Section("Where the prices fail", []), Section("The data", [])])
    links = re.findall(r'href="#([^"]+)"', page)
    assert links == ["where-the-prices-fail", "the-data"]
    assert all(f'id="{link}"' in page for link in links)


def test_a_report_of_hostile_rows_is_small_and_escaped(bundle, tmp_path):
    table = pk.make_catalog(120, seed=8)
    table["catalog_content"] = table["catalog_content"] + "\n" + HOSTILE
    table["<b>shelf</b> $x$"] = pd.Series(["<i>left</i>", "$\\frac{1}{2}$", "_^{"] * 40)
    file = pk.load(bundle).report(table, out=tmp_path / "r.html")
    page = file.read_text("utf-8")
    assert len(page) < 1_000_000
    assert page.count("<script>") == 1
    assert "<b>shelf" not in page
    assert "http://" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert "https://" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)


def test_a_model_without_rows_leaves_an_earlier_report(bundle, tmp_path):
    file = tmp_path / "r.html"
    file.write_text("earlier", "utf-8")
    with pytest.raises(DataError):
        pk.load(bundle).report(out=file)
    assert file.read_text("utf-8") == "earlier"


def test_a_missing_library_is_named_before_any_work(run, tmp_path, monkeypatch, raises):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr("pricekit.report.page.find_spec", lambda name: None if name == "jinja2" else name)
    with raises(ConfigError):
        pk.load(run).report(out=tmp_path / "r.html")
