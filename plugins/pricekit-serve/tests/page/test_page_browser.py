"""The page in a browser: it prices a product, asks its own server only, and is accessible and safe.

Needs Chromium, playwright and axe-playwright-python; otherwise these tests are skipped.
"""

import shutil
import threading
import time

import pytest
import uvicorn
from pricekit_serve import app

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
def address(served, wide):
    """Servers without and with a token."""
    bundles = {"shop": served, "wide": wide}
    apps = [app(bundles, engine="ort-cpu"), app(served, engine="ort-cpu", token=TOKEN)]
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


def opened(browser, address, **options):
    page = browser.new_context(**options).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    return page, said, asked


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_product_gets_its_price_with_reasons_and_similar_products(browser, address, width, scheme):
    size = {"width": width, "height": 900}
    page, said, asked = opened(browser, address[0], viewport=size, color_scheme=scheme)
    page.fill("#cell-0", HOSTILE)
    page.click("#ask")
    page.wait_for_selector(".price")
    assert "90 of 100 such products cost" in page.inner_text("#answer")
    assert page.locator("h2").count() == 2
    assert page.locator("table").nth(0).locator("tr").count() > 2
    assert page.locator("table").nth(1).locator("tr").count() == 6
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert said == []
    assert all(url.startswith((address[0], "data:")) for url in asked)
    violations = axe.Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in violations] == []


def test_another_model_has_its_own_columns(browser, address):
    page, said, _ = opened(browser, address[0])
    page.select_option("#model", "wide")
    page.fill("#cell-0", "Tea")
    page.fill("#cell-1", "2 kg")
    page.click("#ask")
    page.wait_for_selector(".price")
    assert page.locator("h2").count() == 1  # its bundle contains no products
    assert said == []


def test_a_server_with_a_token_asks_for_it(browser, address):
    page, _, _ = opened(browser, address[1])
    page.wait_for_selector(".error")
    assert "needs a token" in page.inner_text(".error")
    page.fill("#token", TOKEN)
    page.dispatch_event("#token", "change")
    page.wait_for_selector("#cell-0")
    assert page.locator(".error").count() == 0
    page.fill("#cell-0", "Tea")
    page.click("#ask")
    page.wait_for_selector(".price")
