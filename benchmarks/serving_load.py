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

COMMANDS = [
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
]


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
    parser.add_argument("what", choices=COMMANDS)
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
    args = parser.parse_args()
    if args.what == "reload" and args.other is None:
        parser.error("reload needs --other, another bundle")
    return args


def main() -> int:
    """Read the arguments, measure, print; return the exit code."""
    args = _arguments()
    texts = pd.read_csv(args.table)["catalog_content"].astype(str).drop_duplicates().tolist()
    print(f"load average before: {os.getloadavg()[0]:.2f}")
    bundle, seconds = args.bundle, args.seconds
    if args.what == "batching":
        how = {"clients": args.clients, "rounds": args.rounds}
        speed_of_answers.batching(bundle, texts[:2000], seconds=seconds or 10.0, **how)
    elif args.what == "rows":
        speed_of_answers.rows(bundle, args.table, texts, size=args.size, rounds=args.rounds)
    elif args.what == "overload":
        how = {"size": args.size, "deadline": args.deadline}
        speed_of_answers.overload(bundle, texts, seconds=seconds or 60.0, times=args.times or 10.0, **how)
    elif args.what == "soak":
        restarts.soak(bundle, texts, minutes=args.minutes, pause=args.pause, seed=args.seed)
    elif args.what == "silent":
        result = silent.beside(bundle, texts[:2000], seconds=seconds or 60.0, files=args.files)
        print(result)
        return min(1, len(result.problems))
    elif args.what == "bodies":
        worst.bodies(bundle, seconds=seconds or 60.0, clients=12, only=args.only)
    elif args.what == "explanations":
        worst.explanations(bundle, texts[:200], seconds=seconds or 60.0, rate=args.rate)
    elif args.what == "hostile":
        return min(1, attack(bundle, args.count, args.seed))
    else:
        times = int(args.times or 20)
        found = (
            restarts.stops(bundle, texts[:2000], times=times, seed=args.seed)
            if args.what == "stop"
            else restarts.reloads([bundle, args.other], texts[:2000], times=times)
        )
        print(f"{args.what}, {times} times: {found}")
        return min(1, found.wrong + found.lost)
    return 0


if __name__ == "__main__":
    sys.exit(main())
