"""The report in a browser: no request, no error, no scrolling to the side, accessible, sortable, printable.

Needs Chromium, playwright and axe-playwright-python: `nox -s pages`.
"""

import shutil

import pandas as pd
import pytest

import pricekit as pk

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
    }


def _open(browser, file, **options):
    page = browser.new_context(**options).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, said, [url for url in asked if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize("name", ["run", "hostile"])
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


def test_a_click_sorts_a_table(browser, pages):
    page, _, _ = _open(browser, pages["run"])
    table = page.locator("table", has=page.locator("caption", has_text="Groups of rows"))
    column = table.locator("th").all_inner_texts().index("SMAPE")
    table.locator("th button").nth(column).click()
    cells = [row.locator("td").nth(column).inner_text() for row in table.locator("tbody tr").all()]
    assert len(cells) > 3
    assert list(map(float, cells)) == sorted(map(float, cells))
    table.locator("th button").nth(column).click()
    cells = [row.locator("td").nth(column).inner_text() for row in table.locator("tbody tr").all()]
    assert list(map(float, cells)) == sorted(map(float, cells), reverse=True)


def test_the_page_can_be_read_without_script(browser, pages):
    page, _, _ = _open(browser, pages["run"], java_script_enabled=False)
    assert page.locator("th button").count() == 0
    assert page.locator("section").count() == 5
    assert page.locator("figure img").count() >= 6
