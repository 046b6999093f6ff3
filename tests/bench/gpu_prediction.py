#!/usr/bin/env python3
"""Measures the errors of plans that were not tuned, on GPUs: tunes some operators, then plans others and runs them.

    gpu_prediction.py PATH_OF_MC2 --ranks 4 [--seed 1] [--tuned 15] [--count 42] [--budget 5] [--seconds 500]
                      [--store FILE] --csv FILE

The tuned operators are those of published layers at m = 1024, 4096 or 8192. Half of the others have the n and k of a
tuned one at another m, half have n and k of their own; log m is random, from 128 rows a rank to 12288 rows. Each is
planned (mc2 plan --json) and run (mc2 run --json) with what the store holds by then. FILE gets a row for each, as in
data/gpu/prediction_h200_x4.csv; --summary FILE prints the table of such a file.
"""

import argparse
import csv
import itertools
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

KINDS = ["matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"]
LAYERS = [(4096, 14336), (5120, 13824), (8192, 28672), (4096, 4096), (8192, 8192)]  # width, inner width
COLUMNS = [
    "kind",
    "m",
    "n",
    "k",
    "profiled n and k",
    "predicted_us",
    "low_us",
    "high_us",
    "measured_us",
    "error_%",
    "inside",
    "predicted serial_us",
    "serial_us",
    "blocks",
    "variant",
]


def shape_of(kind, width, inner, ranks):
    """n and k of one rank, which has a share of the layer's columns or rows."""
    return (inner // ranks, width) if kind == "all_gather_matmul" else (width, inner // ranks)


def tuned_operators(generator, ranks, count):
    every = [
        (kind, m, *shape_of(kind, *layer, ranks)) for kind in KINDS for m in (1024, 4096, 8192) for layer in LAYERS
    ]
    return generator.sample(every, count)


def other_operators(generator, tuned, ranks, count):
    """Different operators that were not tuned; half of them have a tuned n and k."""
    met = set(tuned)
    while len(met) < len(tuned) + count:
        kind, _, n, k = generator.choice(tuned)
        is_new = len(met) % 2 == 1
        if is_new:
            width, inner = (128 * generator.randint(16, 64) for _ in range(2))
            n, k = shape_of(kind, width, inner * ranks, ranks)
        m = int(2 ** generator.uniform(math.log2(128 * ranks), math.log2(12288)))
        step = 128 * ranks
        operator = kind, max(step, m // step * step), n, k
        if operator not in met:
            met.add(operator)
            yield *operator, "no" if is_new else "yes"


def options_of(operator, ranks):
    kind, m, n, k = operator[:4]
    return ["--backend", "cuda", "--op", kind, "--m", m, "--n", n, "--k", k, "--dtype", "bf16", "--ranks", ranks]


def ask(mc2, store, command, *options):
    """The JSON that the program prints; None where the program fails."""
    words = [str(word) for word in (mc2, command, *options, "--store", store, "--json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode == 0:
        return json.loads(done.stdout)
    print(" ".join(words), done.stderr.strip()[:200], sep="\n  ", file=sys.stderr)
    return None


def cut_text(blocks):
    """The blocks as text, e.g. "4 x 512 + 2048"."""
    runs = [(rows, len(list(run))) for rows, run in itertools.groupby(blocks)]
    return " + ".join(f"{count} x {rows}" if count > 1 else str(rows) for rows, count in runs)


def row_of(operator, plan, ran):
    ran = ran["measured"]
    makespan, fused_us = plan["makespan"], ran["fused_us"]
    variant = plan["variant"]
    fields = ",".join(f"{key}={value}" for key, value in sorted(variant["fields"].items()))
    return [
        *operator[:4],
        operator[4],
        *(f"{makespan[key]:.1f}" for key in ("us", "low_us", "high_us")),
        f"{fused_us:.1f}",
        f"{100 * (makespan['us'] / fused_us - 1):+.1f}",
        "yes" if makespan["low_us"] <= fused_us <= makespan["high_us"] else "no",
        f"{plan['serial_us']:.1f}",
        f"{ran['serial_us']:.1f}",
        cut_text(plan["cut"]["block_rows"]),
        variant["name"] + (f"({fields})" if fields else ""),
    ]


def measure(options):
    end = time.monotonic() + options.seconds
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, open(options.csv, "w", newline="") as file:
        table, store = csv.writer(file), pathlib.Path(options.store or pathlib.Path(folder) / "store.db")
        table.writerow(COLUMNS)
        tuned = tuned_operators(generator, options.ranks, options.tuned)
        for operator in tuned:
            ask(options.mc2, store, "tune", *options_of(operator, options.ranks), "--budget", options.budget)
        others = list(other_operators(generator, tuned, options.ranks, options.count))
        generator.shuffle(others)
        for operator in others:
            if time.monotonic() > end:
                break
            words = options_of(operator, options.ranks)
            plan = ask(options.mc2, store, "plan", *words)
            ran = plan and ask(options.mc2, store, "run", *words, "--budget", 0.6)
            if ran:
                table.writerow(row_of(operator, plan, ran))
                file.flush()


def spread_text(errors):
    return f"{statistics.median(errors):.1f} %; {sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))]:.1f} %"


def summary(path):
    rows = list(csv.DictReader(line for line in open(path) if not line.startswith("#")))
    groups = {
        "all-reduce": lambda r: r["kind"] == KINDS[0],
        "reduce-scatter": lambda r: r["kind"] == KINDS[1],
        "all-gather": lambda r: r["kind"] == KINDS[2],
        "n and k that were profiled": lambda r: r["profiled n and k"] == "yes",
        "other n and k": lambda r: r["profiled n and k"] == "no",
        "m < 1024": lambda r: int(r["m"]) < 1024,
        "m >= 1024": lambda r: int(r["m"]) >= 1024,
        "all": lambda r: True,
    }
    print(
        "operators,runs,time: error (median; 90 %),inside,width: median,serial: error (median; 90 %),"
        "benefit: error in points (median),overlap and are slower than serial by 1 %"
    )
    for name, belongs in groups.items():
        own = [row for row in rows if belongs(row)]
        if not own:
            continue
        number = lambda row, key: float(row[key])  # noqa: E731
        errors = [abs(number(row, "error_%")) for row in own]
        serial = [100 * abs(number(row, "predicted serial_us") / number(row, "serial_us") - 1) for row in own]
        width = [100 * (number(row, "high_us") - number(row, "low_us")) / number(row, "predicted_us") for row in own]
        fused = [
            row
            for row in own
            if "+" in row["blocks"]
            or " x " in row["blocks"]
            or number(row, "predicted_us") < 0.999 * number(row, "predicted serial_us")
        ]
        benefit = [
            100
            * abs(
                number(row, "predicted_us") / number(row, "predicted serial_us")
                - number(row, "measured_us") / number(row, "serial_us")
            )
            for row in fused
        ]
        slower = sum(number(row, "measured_us") > 1.01 * number(row, "serial_us") for row in fused)
        inside = sum(row["inside"] == "yes" for row in own)
        print(
            f"{name},{len(own)},{spread_text(errors)},{inside} of {len(own)},{statistics.median(width):.0f} "
            f"%,{spread_text(serial)},"
            f"{statistics.median(benefit) if benefit else 0:.1f},{slower} of {len(fused)}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mc2", nargs="?")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tuned", type=int, default=15)
    parser.add_argument("--count", type=int, default=42)
    parser.add_argument("--budget", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--csv")
    parser.add_argument("--store", help="keeps what was tuned; a temporary one else")
    parser.add_argument("--summary")
    options = parser.parse_args()
    if not options.summary and not (options.mc2 and options.csv):
        parser.error("give the program and --csv FILE, or --summary FILE")
    if options.summary:
        summary(options.summary)
    else:
        measure(options)


if __name__ == "__main__":
    main()
