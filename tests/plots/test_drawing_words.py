"""Labels show any text as it is, with the characters that the font has."""

import pytest
from matplotlib import rc_context

from pricekit.metrics import METRICS
from pricekit.plots.drawing import MISSING, WIDTH, metric_label, number, plain, price_label


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$x_{1}^2$", "$x_{1}^2$"),
        ("_^{", "_^{"),
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("tea \N{ROCKET}", f"tea {MISSING}"),
        ("茶", MISSING),
        ("a\N{ZERO WIDTH JOINER}b\ud800", f"a\N{ZERO WIDTH JOINER}b{MISSING}"),
        ("שלום", "שלום"),
        ("e" + 9 * "\N{COMBINING ACUTE ACCENT}", "e" + 3 * "\N{COMBINING ACUTE ACCENT}"),
        ("\u202eabc", "\\u202eabc"),
    ],
)
def test_a_label_shows_a_text_as_it_is(text, shown):
    with rc_context({"font.family": ["DejaVu Sans"]}):
        found = plain(text)
    assert found.replace("\N{ZERO WIDTH JOINER}", "") == shown.replace("\N{ZERO WIDTH JOINER}", "")


def test_a_long_text_is_cut():
    assert plain("word" * 12_500) == ("word" * 12_500)[: WIDTH - 1] + "…"
    assert len(plain("\x1b" * 50_000)) == WIDTH


def test_fonts_that_are_not_installed_count_as_matplotlib_counts_them():
    with rc_context({"font.family": ["No Such Font"]}):
        assert plain("tea") == "tea"
    with rc_context({"font.family": ["No Such Font", "DejaVu Sans"]}):
        assert plain("tea") == "tea"


def test_labels_name_metric_and_currency():
    assert metric_label(METRICS["smape"], "EUR") == "SMAPE (%)"
    assert metric_label(METRICS["mae"], "EUR") == "MAE (EUR)"
    assert metric_label(METRICS["mae"], None) == "MAE (currency of the table)"
    assert metric_label(METRICS["rmsle"], "EUR") == "RMSLE"
    assert (price_label("true price", "VND"), price_label("true price", None)) == (
        "true price (VND)",
        "true price",
    )


def test_numbers_of_an_axis():
    assert [number(v) for v in (0.05, 2.5, 1.0, 12000.0, 1e9)] == ["0.05", "2.5", "1", "12,000", "1e+09"]
