"""The built site in Chromium: no network, a search that finds what people look for, no scrolling to the side.

`nox -s docs` builds the site and names its folder in PRICEKIT_SITE. The pages are opened as files.
"""

import os
import re
import shutil
from pathlib import Path
from types import FunctionType

import pytest

import pricekit.bundles
import pricekit.plots
import pricekit.testing
from pricekit.cli.main import COMMANDS
from pricekit.config import RunConfig

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SITE = Path(os.environ.get("PRICEKIT_SITE", "nowhere")).absolute()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not SITE.is_dir(), reason="PRICEKIT_SITE names no built site"),
]

SEARCHES = {
    "predict in Spark": "docs/spark.html",
    "exit code 4": "docs/command-line.html#exit-code-4",
    "exit code 5": "docs/command-line.html#exit-code-5",
    "max_grad_norm default": "docs/reference/settings.html#setting-training.max_grad_norm",
    "training.learning_rate": "docs/reference/settings.html#setting-training.learning_rate",
    "PriceRegressor": "docs/reference/objects.html#pricekit.PriceRegressor",
    "cross_validate": "docs/reference/functions.html#pricekit.cross_validate",
    "out of memory": "docs/troubleshooting.html#out-of-memory",
    "pricekit compare": "docs/reference/commands.html#pricekit-compare",
    "glossary": "docs/glossary.html",
    "deployment": "docs/deployment.html",
}
"""What is searched for, and the address of the first result."""

PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")) if SITE.is_dir() else []


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize(("words", "address"), SEARCHES.items(), ids=[w.replace(" ", "-") for w in SEARCHES])
def test_the_first_result_of_a_search_is_right(browser, words, address):
    page = browser.new_page()
    page.goto(f"{(SITE / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
    page.wait_for_selector("#search-results li a")
    page.wait_for_function(
        "document.querySelector('#search-results .search-summary')?.innerText.match(/\\d/)"
    )
    found = [link.get_attribute("href") for link in page.locator("#search-results li > a").all()[:3]]
    page.close()
    assert found[0] == address, found


@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_scrolls_to_the_side_or_asks_for_something(browser, width):
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    asked, said, wide = [], [], {}
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    for name in PAGES:
        if name == "index.html":
            continue
        page.goto((SITE / name).as_uri())
        if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
            wide[name] = found
    assert wide == {}
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_the_first_page_leads_to_the_start(browser):
    page = browser.new_page()
    page.goto((SITE / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    assert page.locator("h1").first.inner_text().startswith("pricekit")
    page.close()


def test_the_references_are_complete():
    def text(name: str) -> str:
        return (SITE / "docs" / "reference" / f"{name}.html").read_text("utf-8")

    public = text("functions") + text("objects")
    values = [name for name in pricekit.__all__ if isinstance(getattr(pricekit, name), type | FunctionType)]
    assert [name for name in values if f'id="pricekit.{name}"' not in public] == []
    assert [n for n in pricekit.bundles.__all__ if f'id="pricekit.bundles.{n}"' not in public] == []
    assert [n for n in pricekit.plots.__all__ if f'id="pricekit.plots.{n}"' not in text("plots")] == []
    assert [
        n for n in pricekit.testing.__all__ if f"pricekit.testing.{n}" not in text("plugin-testing")
    ] == []
    assert [name for name in COMMANDS if f'id="pricekit-{name}"' not in text("commands")] == []
    settings = text("settings")
    sections = {n: f for n, f in RunConfig.model_fields.items() if hasattr(f.annotation, "model_fields")}
    for section, field in sections.items():
        for key in field.annotation.model_fields:
            assert key == "name" or f'id="setting-{section}.{key}"' in settings, f"{section}.{key}"


def test_the_texts_for_assistants_have_each_page():
    index, texts = ((SITE / name).read_text("utf-8") for name in ("llms.txt", "llms-full.txt"))
    assert re.match(r"# pricekit\n\n> Price products .+\.\n\n## Start\n\n- ", index)
    links = re.findall(r"^- \[[^]]+\]\((\S+)\)(?:: .+)?$", index, re.M)
    captions = re.findall(r"^## (.+)$", index, re.M)
    assert len(index.splitlines()) == 3 + len(links) + 3 * len(captions)
    assert sorted(links) == sorted(
        {*PAGES} - {"index.html", "docs/index.html", "search.html", "genindex.html"}
    )
    assert re.findall(rf"^{'-' * 79}\n(.+)\n{'-' * 79}$", texts, re.M) == [link[:-5] for link in links]
    generated = (
        "training.max_grad_norm",
        "pricekit.cross_validate(",
        "pricekit bundle inspect",
        "competition.py",
    )
    assert [text for text in (*generated, "class pricekit.Model(") if text not in texts] == []


def test_the_gallery_shows_each_example():
    page = (SITE / "examples" / "README.html").read_text("utf-8")
    folder = Path(__file__).parents[1] / "examples"
    examples = [path.name for path in folder.iterdir() if path.suffix in (".py", ".ipynb")]
    assert len(examples) >= 5
    assert [name for name in examples if f'caption-text">{name}<' not in page] == []
