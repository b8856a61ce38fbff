"""What images add to prices, how fast their statistics are, and how many links are read.

    pip install -e plugins/pricekit-images
    python benchmarks/images.py gain [--rows 6000] [--seeds 0 1 2] [--weights ENCODER]
    python benchmarks/images.py speed [--images 1000] [--side 800] [--rounds 5] [--weights ENCODER]
    python benchmarks/images.py links [--links 10000] [--rate 2000] [--kill-after 3000]

`gain` trains on generated products without and with the feature `images`, and compares the prices of the same held-out
rows. `speed` computes the feature of JPEG files of smooth noise, each time from the files. `links` reads links of a
server on this machine that fails 1 request in 20 and stalls 1 in 50, in a process that is killed once and started
again; it prints the memory of the second process at each fifth of the links, the seconds, and the requests. What was
under way at the kill is sent again.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from pricekit_images import reading
from pricekit_images.feature import Images
from pricekit_images.memory import MEMORY, Memory

import pricekit as pk
from pricekit.io.cpus import usable_cpus
from pricekit.plugin import Table

FEATURES = ["optimized22", "columns", "trees"]
TIMEOUT = 2.0
"""Seconds after which a request counts as stalled; the server stalls for twice as long."""


def gain(options: argparse.Namespace) -> None:
    """Print the error without and with images for each seed, with the interval of the difference."""
    print(f"{'seed':>4} {'without':>8} {'with':>8} {'difference':>11}  95% interval")
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PRICEKIT_IMAGES_ROOT"] = folder
            table = pk.make_catalog(options.rows, seed, images=Path(folder, "pictures"))
            given = {"feature_options": {"images": {"weights": options.weights or ""}}}
            plain = pk.train(table, features=FEATURES, out=Path(folder, "plain"))
            seen = pk.train(table, features=[*FEATURES, "images"], settings=given, out=Path(folder, "seen"))
            one, other = pk.compare(plain, seen).to_dict()["runs"]
            low, high = other["interval"]
            scores = f"{one['score']:8.2f} {other['score']:8.2f} {other['difference']:11.2f}"
            print(f"{seed:4} {scores}  {low:.2f} to {high:.2f}", flush=True)


def speed(options: argparse.Namespace) -> None:
    """Print images per second, the median over the rounds."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PRICEKIT_IMAGES_ROOT"] = folder
        content = picture(options.side)
        for number in range(options.images):
            Path(folder, f"{number}.jpg").write_bytes(content)
        table = table_of([f"{number}.jpg" for number in range(options.images)])
        plugin = Images(Images.Options(weights=options.weights or ""))
        state = plugin.fit(table, *([np.ones(len(table))] if options.weights else []))
        seconds = []
        for _ in range(options.rounds):
            reading._memory = Memory(MEMORY)
            begin = time.perf_counter()
            plugin.transform(table, state)
            seconds.append(time.perf_counter() - begin)
    rate = options.images / float(np.median(seconds))
    print(f"{rate:,.0f} images/s of {options.side} x {options.side} pixels on {usable_cpus()} CPUs")


def picture(side: int, seed: int = 0) -> bytes:
    """Return a JPEG file: smooth noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=85)
    return file.getvalue()


def table_of(cells: list[str]) -> Table:
    """Return a table of images."""
    frame = pd.DataFrame({"text": ["product"] * len(cells), "image_link": cells})
    return pk.read_table(frame, text="text")


class Server:
    """Serves a small picture at each path; of the first requests of the paths, some fail and some stall."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        outer, contents = self, [picture(200, seed) for seed in range(50)]

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Answer, fail or stall."""
                number = int(self.path[1:])
                outer.asked[self.path] += 1
                first = outer.asked[self.path] == 1
                if first and number % 50 == 7:
                    time.sleep(2 * TIMEOUT)
                    self.close_connection = True
                    return
                fails = first and number % 20 == 3
                body = b"" if fails else contents[number % 50]
                self.send_response(503 if fails else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                if not fails:
                    outer.sent[self.path] += 1

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of connections that the kill ended
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


def links(options: argparse.Namespace) -> None:
    """Read links in a process that is killed, and in another one; print what was asked for twice."""
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PRICEKIT_CACHE": folder, "PRICEKIT_IMAGES_ALLOW": "127.0.0.1"}
        command = [sys.executable, __file__, "read", server.url, str(options.links), str(options.rate)]
        begin = time.perf_counter()
        first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        while len(server.sent) < options.kill_after and first.poll() is None:
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        print(f"killed after {len(server.sent):,} images and {time.perf_counter() - begin:.1f} s")
        begin = time.perf_counter()
        subprocess.run(command, env=environment, check=True)
        seconds = time.perf_counter() - begin
    twice = sum(count > 1 for count in server.sent.values())
    print(f"the other {options.links - options.kill_after:,} images took {seconds:.1f} s")
    print(
        f"{sum(server.asked.values()):,} requests, {len(server.sent):,} images sent, {twice:,} of them twice"
    )


def read(options: argparse.Namespace) -> None:
    """Read links in fifths; print how many are missing, and the memory."""
    import psutil

    plugin = Images(Images.Options(timeout=TIMEOUT, rate=options.rate))
    state = {"medians": [0.0] * (len(plugin.names) - 1)}
    for numbers in np.array_split(np.arange(options.links), 5):
        found = plugin.transform(table_of([f"{options.url}/{number}" for number in numbers]), state)
        memory = psutil.Process().memory_info().rss / 1e6
        missing = int(found[:, 0].sum())
        print(f"{numbers[-1] + 1:8,} links: {missing} missing, {memory:,.0f} MB", flush=True)


def main() -> None:
    """Parse the command line and run a measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("gain")
    one.add_argument("--rows", type=int, default=6000)
    one.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    one.add_argument("--weights", help="an ONNX file, or the folder of a transformers vision model")
    one.set_defaults(run=gain)
    one = commands.add_parser("speed")
    one.add_argument("--images", type=int, default=1000)
    one.add_argument("--side", type=int, default=800)
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--weights")
    one.set_defaults(run=speed)
    one = commands.add_parser("links")
    one.add_argument("--links", type=int, default=10_000)
    one.add_argument("--rate", type=float, default=2000)
    one.add_argument("--kill-after", type=int, default=3000)
    one.set_defaults(run=links)
    one = commands.add_parser("read")
    one.add_argument("url")
    one.add_argument("links", type=int)
    one.add_argument("rate", type=float)
    one.set_defaults(run=read)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
