"""What a merchant waits for on the page of pricekit-serve, and whether the price is visible without scrolling.

    python -m pip install playwright     # and Chromium
    python benchmarks/server_page.py BUNDLE TABLE --rows 200 --rounds 5

Serves the bundle and opens its page in Chromium, 1200 pixels wide and 800 high. In each round, it fills in the example,
asks for its price and reasons, and then prices the first rows of the table as a CSV file.
"""

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import pandas as pd
import uvicorn
from playwright.sync_api import Page, sync_playwright
from pricekit_serve import app

SIZE = {"width": 1200, "height": 800}


def main() -> None:
    """Parse the command line and print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    server = uvicorn.Server(
        uvicorn.Config(app(args.bundle, engine="ort-cpu"), port=0, log_config=None, ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        _measure(f"http://127.0.0.1:{port}/", args.table, args.rows, args.rounds)
    finally:
        server.should_exit = True
        thread.join()


def _measure(address: str, table: Path, rows: int, rounds: int) -> None:
    price, reasons, priced, lowest = [], [], [], 0.0
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        file = Path(folder) / "rows.csv"
        pd.read_csv(table, nrows=rows, dtype="str", keep_default_na=False).to_csv(file, index=False)
        for _ in range(rounds):
            page = browser.new_context(viewport=SIZE).new_page()
            page.goto(address)
            page.wait_for_selector("#cell-0")
            begin = time.perf_counter()
            page.click("#example")
            price.append(_seconds(page, ".price", begin))
            box = page.locator(".price").bounding_box() or {"y": 0.0, "height": 0.0}
            lowest = max(lowest, box["y"] + box["height"])
            reasons.append(_seconds(page, ".reasons", begin))
            page.click("#tab-many")
            page.set_input_files("#file", file)
            page.wait_for_selector("#column-0")
            begin = time.perf_counter()
            page.click("#ask-many")
            priced.append(_seconds(page, "#download", begin))
        browser.close()
    print(
        f"price {median(price):.2f} s after the click, its lower edge at {lowest:.0f} of {SIZE['height']} pixels"
    )
    print(f"reasons and similar products {median(reasons):.2f} s")
    print(f"{rows:,} rows of a table {median(priced):.2f} s")


def _seconds(page: Page, selector: str, begin: float) -> float:
    """Return when an element was there, in seconds since `begin`."""
    page.wait_for_selector(selector)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
