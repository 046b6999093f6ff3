"""Tunes random legal operators with a budget of a second and names those that got no plan.

    tune_random.py PATH_OF_MC2 [--count 200] [--seed 1] [--budget 1] [--store FILE]

The operators have every kind, m from 1 on, 2 to 8 ranks, and every type and link that the host offers. The last line
counts plans and failures; the exit code is 0 where each operator got a plan. CTest does not run this program, because
it occupies the machine for about ten minutes.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

LINKS = ["shm", "shm", "2.5Gbit,20us", "1Gbit,50us", "tcp:2.5Gbit"]
KINDS = [
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "all_gather_matmul",
    "matmul_all_to_all",
    "all_to_all_matmul",
    "embedding_all_to_all",
]


def operators(generator):
    """Yields the options of one operator after the other. Some are not legal on this host; the program then says so."""
    while True:
        kind, ranks = generator.choice(KINDS), generator.randint(2, 8)
        size = lambda largest: int(2 ** generator.uniform(0, largest))  # noqa: E731
        m, n, k = size(11), size(10), size(10)
        if kind not in ("matmul_all_reduce", "embedding_all_to_all"):
            m = ranks * max(1, m // ranks)  # ranks hold shards of the rows
        options = [
            "--op",
            kind,
            "--m",
            str(m),
            "--n",
            str(n),
            "--k",
            str(k),
            "--ranks",
            str(ranks),
            "--link",
            generator.choice(LINKS),
            "--dtype",
            generator.choice(["f32", "f32", "bf16", "i8"]),
        ]
        if kind == "embedding_all_to_all":
            tables = ranks * generator.randint(1, 2)
            options += ["--tables", str(tables), "--table-rows", str(size(14)), "--m", str(ranks * max(1, m // ranks))]
        yield options


def tune(program, options, arguments, store):
    command = [str(program), "tune", *options, "--budget", str(arguments.budget), "--store", str(store), "--json"]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done, time.monotonic() - start, " ".join(command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1)
    parser.add_argument("--store", type=pathlib.Path, help="default: one that is thrown away")
    arguments = parser.parse_args()
    generator, plans, failures, not_legal, uncut, unmodelled, slowest = (
        random.Random(arguments.seed),
        0,
        [],
        0,
        0,
        0,
        0.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or pathlib.Path(folder) / "store.db"
        for options in operators(generator):
            done, seconds, command = tune(arguments.program, options, arguments, store)
            if done.returncode in (2, 4):  # not legal, or not on this host
                not_legal += 1
                continue
            slowest = max(slowest, seconds)
            if done.returncode == 0:
                plan = json.loads(done.stdout)
                plans += 1
                uncut += len(plan["cut"].get("block_rows", plan["cut"].get("block_columns", []))) == 1
                unmodelled += plan["strategy"] == "raced"
            else:
                failures.append(command)
                print(f"exit code {done.returncode}: {command}\n  {done.stderr.strip().splitlines()[-1]}", flush=True)
            if plans + len(failures) == arguments.count:
                break
    print(
        f"{plans} plans ({uncut} uncut, {unmodelled} raced without a model), {len(failures)} failures; {not_legal} "
        f"operators were not "
        f"legal here; the slowest took {slowest:.1f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
