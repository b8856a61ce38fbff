"""The report in a browser: no request, no error, no scrolling to the side, accessible, sortable, printable.

Needs Chromium, playwright and axe-playwright-python: `nox -s pages`.
"""

import shutil

import pandas as pd
import pytest

import pricekit as pk
from pricekit.report.page import Section, TableBlock, render

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'> \u202eabc 🥭 " + "w" * 50_000
)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(run, bundle, catalog, tmp_path_factory):
    """A report with everything, and one of hostile rows."""
    folder = tmp_path_factory.mktemp("reports")
    table = pk.make_catalog(120, seed=8)
    table["catalog_content"] = table["catalog_content"] + "\n" + HOSTILE
    table["<b>shelf</b>"] = pd.Series(["<i>left</i>", HOSTILE[:300]] * 60)
    return {
        "run": pk.load(run).report(catalog, out=folder / "run.html", against=[run]),
        "hostile": pk.load(bundle).report(table, out=folder / "hostile.html"),
        "drift": _drift_page(bundle, table, folder / "drift.html"),
    }


def _drift_page(bundle, table, out):
    pk.load(bundle).drift(table, out=out)
    return out


def _open(browser, file, **options):
    page = browser.new_context(**options).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, said, [url for url in asked if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize("name", ["run", "hostile", "drift"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_quiet_narrow_and_accessible(browser, pages, name, width, scheme):
    page, said, asked = _open(
        browser, pages[name], viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    assert (said, asked) == ([], [])
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    violations = axe.Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in violations] == []


def _show_all(page, table):
    tools = table.locator("xpath=../preceding-sibling::*[1]")
    if (button := tools.locator("button")).count() and button.is_visible():
        button.click()


def test_a_long_table_shows_some_rows_and_finds_the_others(browser, tmp_path):
    rows = [["shelf", f"group {n}", str(n)] for n in range(60)]
    file = tmp_path / "long.html"
    file.write_text(
        render("t", [Section("Groups", [TableBlock("Groups", ["by", "group", "rows"], rows)])]), "utf-8"
    )
    page, said, _ = _open(browser, file)
    visible, status = page.locator("tbody tr:visible"), page.locator(".tools [role=status]")
    assert (visible.count(), status.inner_text()) == (15, "15 of 60 rows")
    page.fill("input[type=search]", "GROUP 59")
    assert visible.all_inner_texts() == ["shelf\tgroup 59\t59"]
    page.fill("input[type=search]", "")
    page.click("text=Show all 60")
    assert visible.count() == 60
    page.click("text=Show 15 rows")
    page.locator("th button").nth(2).click()
    page.locator("th button").nth(2).click()
    assert visible.first.inner_text().endswith("59")
    assert visible.count() == 15
    assert said == []


def test_the_three_sentences_are_visible_at_once(browser, pages):
    page, _, _ = _open(browser, pages["run"], viewport={"width": 1200, "height": 800})
    assert page.locator(".summary dd").count() == 3
    assert page.locator(".summary dd").last.evaluate(
        "one => one.getBoundingClientRect().bottom < innerHeight"
    )


def test_pictures_stand_side_by_side_if_there_is_room(browser, pages):
    for width, beside in ((1200, True), (400, False)):
        page, _, _ = _open(browser, pages["run"], viewport={"width": width, "height": 800})
        figures = page.locator("section:has(figure) figure")
        first, second = figures.nth(0).bounding_box(), figures.nth(1).bounding_box()
        assert (first["y"] == second["y"]) == beside


def test_a_click_sorts_a_table(browser, pages):
    page, _, _ = _open(browser, pages["run"])
    table = page.locator("table", has=page.locator("caption", has_text="Groups of rows"))
    _show_all(page, table)
    column = table.locator("th").all_inner_texts().index("SMAPE")
    table.locator("th button").nth(column).click()
    cells = [row.locator("td").nth(column).inner_text() for row in table.locator("tbody tr").all()]
    assert len(cells) > 3
    assert list(map(float, cells)) == sorted(map(float, cells))
    table.locator("th button").nth(column).click()
    cells = [row.locator("td").nth(column).inner_text() for row in table.locator("tbody tr").all()]
    assert list(map(float, cells)) == sorted(map(float, cells), reverse=True)


@pytest.mark.parametrize("name", ["run", "drift"])
def test_no_name_is_broken_on_a_narrow_screen(browser, pages, name):
    page, _, _ = _open(browser, pages[name], viewport={"width": 400, "height": 800})
    broken = page.evaluate(
        """() => [...document.querySelectorAll("th button, td:first-child, dt")].flatMap((cell) => {
            const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
            for (let node = walker.nextNode(); node; node = walker.nextNode())
                for (const word of node.data.matchAll(/[^ -]{1,30}/g)) {
                    const range = document.createRange();
                    range.setStart(node, word.index);
                    range.setEnd(node, word.index + word[0].length);
                    const lines = new Set([...range.getClientRects()].map((one) => one.top)).size;
                    if (lines > 1 && !word[0].includes("www")) found.push(word[0]);
                }
            return found;
        })"""
    )
    assert broken == []


def test_the_page_can_be_read_without_script(browser, pages):
    page, _, _ = _open(browser, pages["run"], java_script_enabled=False)
    assert page.locator("th button").count() == 0
    assert page.locator("section").count() == 7
    assert page.locator("tbody tr").count() == page.locator("tbody tr:visible").count() > 15
    assert page.locator("figure img").count() >= 6
