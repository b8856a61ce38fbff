"""Loads for `pricekit serve`: batching, rows, overload, stop, reload, soak, hostile, silent, bodies, explanations.

    python benchmarks/serving_load.py batching BUNDLE TABLE    requests/s of 64 clients, with and without batches (wrk)
    python benchmarks/serving_load.py rows BUNDLE TABLE        rows/s of requests of 1,000 rows, and of predict
    python benchmarks/serving_load.py overload BUNDLE TABLE    10 times the requests that it can answer, for 60 s
    python benchmarks/serving_load.py stop BUNDLE TABLE        SIGTERM under load, 20 times, every answer checked
    python benchmarks/serving_load.py reload BUNDLE TABLE --other BUNDLE2    the same for SIGHUP
    python benchmarks/serving_load.py soak BUNDLE TABLE        mixed sizes for 20 minutes: growth of memory
    python benchmarks/serving_load.py hostile BUNDLE TABLE     1,000 hostile requests
    python benchmarks/serving_load.py silent BUNDLE TABLE      1,000 silent and 1,000 trickling clients beside 20 others
    python benchmarks/serving_load.py bodies BUNDLE TABLE      health while 12 clients send the worst allowed requests
    python benchmarks/serving_load.py explanations BUNDLE TABLE    prices beside 30 requested explanations a second

BUNDLE is a bundle from `pricekit export` that reads the column `catalog_content`, TABLE a CSV file with that column.
Clients and server share this machine. `batching` needs wrk (Debian's package of that name). Exit code 1: an answer
was wrong, lost, or a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

import pandas as pd
from load import hostile, restarts, silent, speed_of_answers, worst
from load.server import serving


def attack(bundle: str, count: int, seed: int) -> int:
    """Print how a server answers hostile requests; return the number of problems."""
    found = hostile.attacks(count, seed)
    with serving(bundle, hostile.OPTIONS) as server:
        problems = hostile.run(server.port, found)
        good = hostile.Attack("afterwards", hostile._json({"rows": [{"catalog_content": "tea"}]}), (200,))
        problems += hostile.run(server.port, [good])
        problems += [line for line in server.lines if "Traceback" in line]
        problems += ["the server has ended"] if server.process.poll() is not None else []
    kinds = Counter(each.kind for each in found)
    print(f"{len(found):,} hostile requests with seed {seed}: {dict(kinds)}")
    print(f"{len(problems)} problems", *problems[:20], sep="\n")
    return len(problems)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = (
        "batching",
        "rows",
        "overload",
        "stop",
        "reload",
        "soak",
        "hostile",
        "silent",
        "bodies",
        "explanations",
    )
    parser.add_argument("what", choices=commands)
    parser.add_argument("bundle")
    parser.add_argument("table")
    parser.add_argument("--other", help="another bundle, for reload")
    parser.add_argument("--clients", type=int, default=64, help="of batching")
    parser.add_argument(
        "--seconds", type=float, help="of each round of batching [10], or of overload and silent [60]"
    )
    parser.add_argument(
        "--only", help="kinds whose names have this word, or together: all in turn, of bodies"
    )
    parser.add_argument("--rate", type=float, default=30.0, help="requested explanations a second")
    parser.add_argument("--files", type=int, help="that the server may open, of silent")
    parser.add_argument("--rounds", type=int, default=5, help="of batching and rows")
    parser.add_argument("--size", type=int, default=1000, help="rows of a request, of rows and overload")
    parser.add_argument("--times", type=float, help="restarts [20], or times the capacity, of overload [10]")
    parser.add_argument("--deadline", type=float, default=10.0, help="--timeout of the server, of overload")
    parser.add_argument("--minutes", type=float, default=20.0, help="of soak")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each answer, of soak")
    parser.add_argument("--count", type=int, default=1000, help="of hostile")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "reload" and given.other is None:
        parser.error("reload needs --other, another bundle")
    return given


def main() -> int:
    """Read the arguments, measure, print; return the exit code."""
    given = _arguments()
    texts = pd.read_csv(given.table)["catalog_content"].astype(str).drop_duplicates().tolist()
    print(f"load average before: {os.getloadavg()[0]:.2f}")
    bundle, seconds = given.bundle, given.seconds
    if given.what == "batching":
        how = {"clients": given.clients, "rounds": given.rounds}
        speed_of_answers.batching(bundle, texts[:2000], seconds=seconds or 10.0, **how)
    elif given.what == "rows":
        speed_of_answers.rows(bundle, given.table, texts, size=given.size, rounds=given.rounds)
    elif given.what == "overload":
        how = {"size": given.size, "deadline": given.deadline}
        speed_of_answers.overload(bundle, texts, seconds=seconds or 60.0, times=given.times or 10.0, **how)
    elif given.what == "soak":
        restarts.soak(bundle, texts, minutes=given.minutes, pause=given.pause, seed=given.seed)
    elif given.what == "silent":
        result = silent.beside(bundle, texts[:2000], seconds=seconds or 60.0, files=given.files)
        print(result)
        return min(1, len(result.problems))
    elif given.what == "bodies":
        worst.bodies(bundle, seconds=seconds or 60.0, clients=12, only=given.only)
    elif given.what == "explanations":
        worst.explanations(bundle, texts[:200], seconds=seconds or 60.0, rate=given.rate)
    elif given.what == "hostile":
        return min(1, attack(bundle, given.count, given.seed))
    else:
        times = int(given.times or 20)
        found = (
            restarts.stops(bundle, texts[:2000], times=times, seed=given.seed)
            if given.what == "stop"
            else restarts.reloads([bundle, given.other], texts[:2000], times=times)
        )
        print(f"{given.what}, {times} times: {found}")
        return min(1, found.wrong + found.lost)
    return 0


if __name__ == "__main__":
    sys.exit(main())
