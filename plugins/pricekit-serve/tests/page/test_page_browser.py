"""The page in a browser: it prices a product, asks its own server only, and is accessible and safe.

Needs Chromium, playwright and axe-playwright-python; otherwise these tests are skipped.
"""

import csv
import io
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import uvicorn
from pricekit_serve import app

import pricekit as pk
from conftest import TINY
from pricekit.plugin.runners import Predictor

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

TOKEN = "0123456789abcdef"
HOSTILE = "Green Tea, 20 Count <script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def nine(tmp_path_factory) -> Path:
    """A bundle that reads nine columns, one of them of numbers and one of three values."""
    table = pk.make_catalog(200)
    table["points"] = [f"{80 + n % 20}" for n in range(200)]
    table["colour"] = [("Red", "Green", "Blue")[n % 3] for n in range(200)]
    names = [*(f"note {n}" for n in range(5)), "__proto__"]
    for n, name in enumerate(names):
        table[name] = [f"number {n * row}" for row in range(200)]
    text = ["catalog_content", "points", "colour", *names]
    out = tmp_path_factory.mktemp("nine") / "nine"
    pk.train(table, text=text, id="sample_id", config=TINY).export(out, with_comparables=table)
    return out


@contextmanager
def _served(*apps):
    """Serve apps in threads, each at an own address."""
    servers = [uvicorn.Server(uvicorn.Config(each, port=0, log_config=None, ws="none")) for each in apps]
    threads = [threading.Thread(target=server.run) for server in servers]
    for thread in threads:
        thread.start()
    while not all(server.started for server in servers):
        time.sleep(0.01)
    yield [f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/" for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(served, wide, nine):
    """Servers without and with a token, and one of a model of nine columns."""
    bundles = {"shop": served, "wide": wide}
    with _served(
        app(bundles, engine="ort-cpu"),
        app(served, engine="ort-cpu", token=TOKEN),
        app(nine, engine="ort-cpu"),
    ) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def sure(tmp_path_factory):
    """The address of a model that is sure of some prices, rows, and whether their prices may go out within × 2."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 1_200)
    price = np.where(kinds, 10, 20) * np.exp(rng.normal(0, np.where(kinds, 0.05, 1.5)))
    texts = [f"{'Plain' if kind else 'Rare'} tea number {n}" for n, kind in enumerate(kinds)]
    table = pd.DataFrame({"catalog_content": texts, "price": price})
    bundle = tmp_path_factory.mktemp("sure") / "sure"
    pk.train(table, text="catalog_content", config=TINY, features=["trees"]).export(bundle)
    rows = texts[:8]
    expected = Predictor.load(bundle, "ort-cpu").predict(rows, within=2)["release"].to_numpy()
    with _served(app(bundle, engine="ort-cpu")) as (address,):
        yield address, rows, expected


def opened(browser, address, **options):
    page = browser.new_context(**options).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    return page, said, asked


def violations(page):
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]


def priced_one(page, text="Green Tea, 20 Count"):
    page.fill("#cell-0", text)
    page.click("#ask")
    page.wait_for_selector(".reasons")


def is_visible(page, selector):
    """Return whether an element is within the window as it is scrolled, and nothing covers it."""
    return page.eval_on_selector(
        selector,
        """element => {
            const {left, right, top, bottom} = element.getBoundingClientRect();
            const front = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
            return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && element.contains(front);
        }""",
    )


def pasted(page, text):
    page.wait_for_selector("#cell-0")
    page.click("#tab-many")
    page.fill("#pasted", text)


def downloaded(page):
    page.wait_for_selector("#download")
    with page.expect_download() as download:
        page.click("#download")
    return download.value.suggested_filename, Path(download.value.path()).read_bytes().decode("utf-8-sig")


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_product_gets_its_price_with_reasons_and_similar_products(browser, address, width, scheme):
    size = {"width": width, "height": 800}
    page, said, asked = opened(browser, address[0], viewport=size, color_scheme=scheme)
    priced_one(page, HOSTILE)
    assert "90 of 100 such products cost" in page.inner_text("#answer")
    assert page.locator(".range .band").count() == 1
    assert page.locator(".range .dot").count() == page.locator("#similar tbody tr").count() == 5
    assert page.locator("#factors tbody tr").count() > 2
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert said == []
    assert all(url.startswith((address[0], "data:")) for url in asked)
    assert violations(page) == []


@pytest.mark.parametrize("width", [400, 1200])
def test_the_price_is_visible_after_a_click_without_scrolling(browser, address, width):
    page, _, _ = opened(browser, address[2], viewport={"width": width, "height": 800})
    page.wait_for_selector("#cell-0")
    assert page.locator("#cells input, #cells textarea").count() == 9
    priced_one(page, "Green Tea, 20 Count\n" * 30)
    assert is_visible(page, ".price")
    assert is_visible(page, ".range")


def test_inputs_fit_their_columns_and_an_example_fills_them(browser, address):
    page, said, _ = opened(browser, address[2])
    page.wait_for_selector("#cell-0")
    kinds = page.eval_on_selector_all("#cells input, #cells textarea", "all => all.map(one => one.localName)")
    assert kinds == ["textarea", *["input"] * 8]
    assert page.get_attribute("#cell-1", "inputmode") == "decimal"
    values = page.eval_on_selector_all("#cell-2-values option", "all => all.map(one => one.value)")
    assert sorted(values) == ["Blue", "Green", "Red"]
    page.click("#example")
    page.wait_for_selector(".reasons")
    assert page.input_value("#cell-1").isdigit()
    assert page.input_value("#cell-2") in values
    assert said == []


STOCK = """
import pandas as pd
import pricekit

class Stock(pricekit.plugin.Feature):
    '''A number of a column, and the length of a text of another one.'''
    names = ("stock", "shelf")
    columns = ("stock", "shelf")
    def transform(self, table, state):
        stock = pd.to_numeric(table.frame["stock"], errors="coerce").fillna(0)
        return pd.concat([stock, table.frame["shelf"].fillna("").str.len()], axis=1).to_numpy("float32")

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("stock", f"{__name__}:Stock", "of columns")
"""


def test_columns_besides_the_text_have_inputs_too(browser, tmp_path, monkeypatch):
    (tmp_path / "stock.py").write_text(STOCK)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", "")
    pk.use_plugins(tmp_path / "stock.py")
    table = pk.make_catalog(120).assign(stock=range(120), shelf=["left", "right"] * 60)
    config = {**TINY, "features": ["fast15", "stock"]}
    pk.train(table, text="catalog_content", config=config).export(tmp_path / "stock")
    with _served(app(tmp_path / "stock", engine="ort-cpu")) as (address,):
        page, said, _ = opened(browser, address)
        page.wait_for_selector("#cell-2")
        assert page.locator("#cells label").all_inner_texts() == ["catalog_content", "stock", "shelf"]
        assert page.get_attribute("#cell-1", "inputmode") == "decimal"
        assert page.locator("#cell-2-values option").count() == 2
        page.fill("#cell-1", "7")
        page.fill("#cell-2", "left")
        priced_one(page)
        pasted(page, "catalog_content\tSTOCK\tshelf\nTea\t5\tleft")
        assert page.locator("#mapping select").evaluate_all("all => all.map(one => one.value)") == [
            "0",
            "1",
            "2",
        ]
        page.click("#ask-many")
        page.wait_for_selector("#prices")
        assert said == []
    monkeypatch.undo()
    pk.use_plugins()


def test_factors_name_their_column_and_their_effects_make_up_the_price(browser, address):
    page, _, _ = opened(browser, address[2])
    page.wait_for_selector("#cell-0")
    page.fill("#cell-1", "95")
    page.fill("#cell-2", "Red")
    priced_one(page)
    named = page.locator("#factors tbody td.of").all_inner_texts()
    assert {"points", "colour"} <= set(named)
    assert "95" in page.locator("#factors tbody tr", has_text="points").inner_text()
    assert page.locator("#factors .bar div").count() == len(named)


def test_similar_products_tell_what_differs(browser, address, texts):
    page, _, _ = opened(browser, address[0])
    page.wait_for_selector("#cell-0")
    priced_one(page, texts[0].split("\n")[0] + " remarkable")
    first = page.locator("#similar tbody tr").first
    assert "%" in first.inner_text()
    first.locator("summary").click()
    assert first.locator("dd").first.is_visible()
    assert "remarkable" not in "".join(first.locator("mark").all_inner_texts())


def test_a_second_click_replaces_the_first_answer(browser, address, texts):
    page, said, _ = opened(browser, address[0])
    page.wait_for_selector("#cell-0")
    page.fill("#cell-0", texts[0])
    for _ in range(3):
        page.click("#ask")
    page.wait_for_selector(".reasons")
    assert page.locator(".price").count() == page.locator(".reasons").count() == 1
    assert page.locator(".range .dot").count() == page.locator("#similar tbody tr").count()
    assert said == []


def test_a_price_of_earlier_cells_is_marked(browser, address):
    page, _, _ = opened(browser, address[0])
    priced_one(page)
    assert page.locator("#answer.stale").count() == 0
    page.fill("#cell-0", "Black Tea")
    assert page.locator("#answer.stale").count() == 1


def test_the_keyboard_suffices(browser, address):
    page, _, _ = opened(browser, address[2])
    page.wait_for_selector("#cell-1")
    page.focus("#cell-1")
    page.keyboard.type("95")
    page.keyboard.press("Enter")
    page.wait_for_selector(".price")
    assert page.inner_text("#status").startswith(page.inner_text(".price"))
    page.focus("#tab-one")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#pasted")
    assert page.evaluate("document.activeElement.id") == "tab-many"


def test_a_refused_cell_is_named_and_marked(browser, address):
    page, _, _ = opened(browser, address[2])
    page.wait_for_selector("#cell-0")
    page.fill("#cell-3", "x" * 50_001)
    page.click("#ask")
    page.wait_for_selector(".error")
    assert "50,001 characters" in page.inner_text(".error")
    assert page.get_attribute("#cell-3", "aria-invalid") == "true"


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cells_from_a_spreadsheet_are_priced(browser, address, width, scheme, wide):
    page, said, _ = opened(browser, address[0], viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.wait_for_selector("#cell-0")
    page.select_option("#model", "wide")
    page.wait_for_selector("#cell-1")
    formula = '=HYPERLINK("http://x","y")'
    cells = [
        ["SKU", "Title", "Size"],
        ["7", "Tea", "2 kg"],
        ["8", "Line 1\nline 2", formula],
        ["9", "Tea", ""],
    ]
    text = io.StringIO()
    csv.writer(text, delimiter="\t").writerows(cells)
    pasted(page, text.getvalue())
    assert page.locator("#mapping select").evaluate_all("all => all.map(one => one.value)") == ["1", "2"]
    page.click("#ask-many")
    name, content = downloaded(page)
    assert name == "table-prices.csv"
    found = list(csv.reader(io.StringIO(content), delimiter="\t"))
    assert found[0] == [*cells[0], "price", "price_low", "price_high"]
    assert [row[:3] for row in found[1:]] == cells[1:]
    rows = pd.DataFrame(cells[1:], columns=["sku", "title", "size"]).drop(columns="sku")
    expected = Predictor.load(wide, "ort-cpu").predict(rows, interval=0.9)
    np.testing.assert_allclose([list(map(float, row[3:])) for row in found[1:]], expected, rtol=1e-6)
    assert page.locator("#prices tbody tr").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert violations(page) == []
    assert said == []


def test_prices_that_may_go_out_are_marked(browser, sure, tmp_path):
    address, rows, expected = sure
    page, said, _ = opened(browser, address)
    page.wait_for_selector("#cell-0")
    page.select_option("#within", "2")
    may, may_not = (int(np.flatnonzero(expected == value)[0]) for value in (True, False))
    for place, words in ((may, "It may go out without a person"), (may_not, "A person should look at it")):
        page.fill("#cell-0", rows[place])
        page.click("#ask")
        page.wait_for_selector(f"#answer .shown:not(.stale) :text('{words}')")
        assert words in page.inner_text("#status")
    pasted(page, "\n".join(["catalog_content", *rows]))
    page.click("#ask-many")
    _, content = downloaded(page)
    found = list(csv.DictReader(io.StringIO(content)))
    assert [row["release"] for row in found] == [str(value).lower() for value in expected]
    assert f"{expected.sum()} prices may go out" in page.inner_text("#result")
    assert page.locator("#prices tbody tr").first.locator("td").last.inner_text() in ("yes", "no")
    assert violations(page) == []
    assert said == []


def test_a_model_of_few_rows_does_not_say_which_prices_may_go_out(browser, address):
    page, _, _ = opened(browser, address[2])
    page.wait_for_selector("#cell-0")
    assert page.is_visible("#within") is False


def test_a_large_file_is_priced_in_several_requests(browser, address, tmp_path):
    file = tmp_path / "new.csv"
    rows = [[f"Tea {n}; strong", "1,5"] for n in range(1200)]
    with file.open("w", encoding="cp1252", newline="") as target:
        csv.writer(target, delimiter=";").writerows([["catalog_content", "café"], *rows])
    page, _, asked = opened(browser, address[0])
    pasted(page, "")
    page.set_input_files("#file", file)
    page.click("#ask-many")
    name, content = downloaded(page)
    found = list(csv.reader(io.StringIO(content), delimiter=";"))
    assert name == "new-prices.csv"
    assert found[0][:3] == ["catalog_content", "café", "price"]
    assert [row[:2] for row in found[1:]] == rows
    assert "," in found[1][2]  # as in the table
    assert len([url for url in asked if url.endswith("/predict")]) == 3
    assert page.locator("#prices tbody tr").count() == 200


def test_a_long_paste_is_read_without_being_shown(browser, address):
    page, _, _ = opened(browser, address[0])
    pasted(page, "")
    page.eval_on_selector(
        "#pasted",
        """area => {
            const data = new DataTransfer();
            data.setData("text", "catalog_content\\n" + "Green Tea, 20 Count, in a tin\\n".repeat(10000));
            area.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
        }""",
    )
    assert page.input_value("#pasted") == ""
    assert page.get_attribute("#pasted", "placeholder") == "10,000 rows from the clipboard"
    assert "10,000 rows, 1 column." in page.inner_text("#result")
    page.click("#ask-many")
    page.click("#stop")
    page.wait_for_selector("text=You stopped before all rows had a price.")


def test_rows_with_errors_are_named_and_the_others_are_priced(browser, address):
    page, _, _ = opened(browser, address[0])
    rows = ["catalog_content,price", "Tea,1", f"{'x' * 50_001},2", "Tea,3,4", "Coffee,5"]
    pasted(page, "\n".join(rows))
    page.click("#ask-many")
    _, content = downloaded(page)
    found = list(csv.reader(io.StringIO(content)))
    names = ["catalog_content", "price", "", "predicted_price", "predicted_price_low", "predicted_price_high"]
    assert found[0] == [*names, "error"]
    assert ["50,001 characters" in row[-1] for row in found[1:]] == [False, True, False, False]
    assert [row[-1] for row in found[3:]] == ["has 3 cells; the first row has 2", ""]
    assert [bool(row[3]) for row in found[1:]] == [True, False, False, True]
    assert "2 rows without a price" in page.inner_text("#result")


def test_a_column_that_the_table_lacks_is_named_and_can_be_chosen(browser, address):
    page, _, _ = opened(browser, address[0])
    pasted(page, "product,stock\nTea,4")
    assert "No column of the table is named catalog_content" in page.inner_text("#result")
    page.select_option("#column-0", "product")
    page.click("#ask-many")
    page.wait_for_selector("#prices")
    assert "Tea" in page.inner_text("#prices")


def test_names_of_columns_may_be_missing(browser, address):
    page, _, _ = opened(browser, address[0])
    pasted(page, "Green tea, 20 bags\nCoffee, 500 g")
    assert page.is_visible("#column-0")


def test_a_quote_without_an_end_and_a_workbook_get_a_sentence(browser, address, tmp_path):
    page, _, _ = opened(browser, address[0])
    pasted(page, 'catalog_content\n"Tea')
    assert "has no end" in page.inner_text("#result .error")
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04")
    page.set_input_files("#file", tmp_path / "book.xlsx")
    page.wait_for_selector("text=Save the sheet as CSV")


def test_another_model_has_its_own_columns(browser, address):
    page, said, _ = opened(browser, address[0])
    page.wait_for_selector("#cell-0")
    page.select_option("#model", "wide")
    page.wait_for_selector("#cell-1")
    page.fill("#cell-1", "2 kg")
    priced_one(page, "Tea")
    assert page.locator("#similar").count() == 0  # its bundle contains no products
    assert said == []


def test_a_server_with_a_token_asks_for_it(browser, address):
    page, _, _ = opened(browser, address[1])
    page.wait_for_selector(".error")
    assert "needs a token" in page.inner_text(".error")
    page.fill("#token", TOKEN)
    page.dispatch_event("#token", "change")
    page.wait_for_selector("#cell-0")
    assert page.locator(".error").count() == 0
    priced_one(page, "Tea")
