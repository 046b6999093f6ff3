#!/usr/bin/env python3
"""Fits the rates of planner/src/gpu_matmul.cpp and prints their errors on matmuls that were not fitted, as in
docs/cost_model.md §12. Four sets of rates are fitted:
  the library's matmul           to data/gpu/matmuls_h100.csv
  with a named tile              to data/gpu/named_tiles_h200.csv
  matmuls of several experts     to data/gpu/grouped_matmuls_h200.csv
  the cost of choosing experts   to data/gpu/chosen_matmul_h200.csv

    python3 tests/bench/matmul_rates.py
"""
import csv
import pathlib
import re

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = [
    "launch_us",
    "multiply_us",
    "load_us",
    "element_us",
    "wave_us",
    "memory_us_per_byte",
    "cache_us_per_byte",
    "cached_bytes",
]
FIRST = [2.2, 2.3e-5, 1e-3, 5e-5, 2, 3.6e-7, 1.7e-7, 2.4e7]
SMS = 132
CACHED_BYTES = 2.30e7
DEPTH = 64


def tiles_in(table):
    """Rows and columns of each tile in a table of gpu_matmul.cpp."""
    text = re.search(table + r"\{(.*?)\};", (ROOT / "planner/src/gpu_matmul.cpp").read_text(), re.DOTALL).group(1)
    return numpy.array(re.findall(r"\{(\d+), (\d+)\}", text), float).T


TILES, GROUPED_TILES = tiles_in("kTiles"), tiles_in("kGroupedTiles")


def waves_us(log_rates, tiles, row_tiles, n, k, sms, move):
    """Times by the formula of MatmulTimes::us_of. @param row_tiles  [shapes, tiles], or [shapes, 1]"""
    launch, multiply, load, element, wave = numpy.exp(log_rates[:5])
    rows, columns = tiles
    step = ((multiply * rows * columns) ** 4 + (load * (rows + columns)) ** 4) ** 0.25
    count = row_tiles * numpy.ceil(n[:, None] / columns)
    wave_us = numpy.ceil(k / DEPTH)[:, None] * step + wave
    compute = numpy.ceil(count / sms[:, None]) * wave_us + element * rows * columns
    return launch + (compute.min(1) ** 6 + move**6) ** (1 / 6)


def matmul_us(log_rates, shapes):
    """Times of the library's matmul. @param shapes  m, n, k, SMs of each"""
    memory, cache, cached_bytes = numpy.exp(log_rates[5:])
    m, n, k, sms = shapes.T
    size = 2 * (m * k + k * n + m * n)
    cached = numpy.clip(2 - size / cached_bytes, 0, 1)
    move = size * (cached * cache + (1 - cached) * memory)
    return waves_us(log_rates, TILES, numpy.ceil(m[:, None] / TILES[0]), n, k, sms, move)


def named_us(log_rates, shapes):
    """Times of a matmul with a named tile. @param shapes  m, n, k, rows and columns of the tile of each"""
    launch, multiply, load, element, wave, memory, cache = numpy.exp(log_rates)
    m, n, k, rows, columns = shapes.T
    step = ((multiply * rows * columns) ** 4 + (load * (rows + columns)) ** 4) ** 0.25
    waves = numpy.ceil(numpy.ceil(m / rows) * numpy.ceil(n / columns) / SMS)
    compute = waves * (numpy.ceil(k / DEPTH) * step + wave) + element * rows * columns
    size = 2 * (m * k + k * n + m * n)
    cached = numpy.clip(2 - size / CACHED_BYTES, 0, 1)
    return launch + (compute**6 + (size * (cached * cache + (1 - cached) * memory)) ** 6) ** (1 / 6)


def grouped_us(log_rates, shapes):
    """Times of matmuls of several experts. @param shapes  rows, n, k, tiles of 128 rows, experts with rows of each"""
    rows, n, k, row_tiles, experts = shapes.T
    move = 2 * (rows * k + experts * k * n + rows * n) * numpy.exp(log_rates[5])
    return waves_us(log_rates, GROUPED_TILES, row_tiles[:, None], n, k, numpy.full(len(n), SMS), move)


def fit(shapes, us, told=matmul_us, first=FIRST):
    """The log rates that fit best, by Levenberg's method on relative errors, with less weight on large errors."""
    rates, damping = numpy.log(first), 1e-3

    def residuals(at):
        return numpy.log(told(at, shapes) / us)

    def cost(errors):
        return numpy.sum(numpy.sqrt(1 + (errors / 0.05) ** 2) - 1)

    now = residuals(rates)
    for _ in range(200):
        jacobian = numpy.stack([(residuals(rates + 1e-5 * unit) - now) / 1e-5 for unit in numpy.eye(len(rates))], 1)
        weights = 1 / numpy.sqrt(1 + (now / 0.05) ** 2)
        normal = jacobian.T @ (weights[:, None] * jacobian)
        damped = normal + damping * (numpy.diag(numpy.diag(normal)) + 1e-9 * numpy.eye(len(rates)))
        step = numpy.linalg.solve(damped, -jacobian.T @ (weights * now))
        tried = residuals(rates + numpy.clip(step, -0.5, 0.5))
        if cost(tried) < cost(now):
            done = cost(now) - cost(tried) < 1e-7 * cost(now)
            rates, now, damping = rates + numpy.clip(step, -0.5, 0.5), tried, max(damping / 5, 1e-9)
            if done:
                break
        else:
            damping *= 5
            if damping > 1e9:
                break
    return rates


def show(name, errors):
    print(f"{name:64} {len(errors):5} {100 * numpy.median(errors):6.1f} {100 * numpy.quantile(errors, 0.9):6.1f}")


def carried(shapes, us, told_us, random):
    """Errors when each (n, k) is predicted from the nearest of three others at the same m, scaled by W and by FLOPs."""
    of = {}
    for shape, time, told in zip(shapes, us, told_us):
        of.setdefault(tuple(shape[1:3]), {})[shape[0]] = time, told
    by_waves, by_flops = [], []
    for n, k in of:
        others = [other for other in of if other != (n, k)]
        three = [others[i] for i in random.permutation(len(others))[:3]]
        nearest = min(three, key=lambda other: numpy.hypot(numpy.log(other[0] / n), numpy.log(other[1] / k)))
        for m, (time, told) in of[n, k].items():
            there_us, there_told = of[nearest][m]
            by_waves.append(abs(there_us * told / there_told / time - 1))
            by_flops.append(abs(there_us * n * k / (nearest[0] * nearest[1]) / time - 1))
    return by_waves, by_flops


def read(path, *keys):
    with (ROOT / path).open() as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    return rows, numpy.array([[float(row[key]) for key in keys] for row in rows])


def library():
    _, table = read("data/gpu/matmuls_h100.csv", "m", "n", "k", "sm_count", "median_us")
    table[table[:, 3] == 0, 3] = SMS
    shapes, us = table[:, :4], table[:, 4]
    weights = list(dict.fromkeys(map(tuple, shapes[:, 1:3])))
    is_known = numpy.array([weights.index(tuple(shape)) < 40 for shape in shapes[:, 1:3]])
    lengths = {24, 80, 160, 448, 1000, 1800}
    is_asked = numpy.array([m in lengths for m in shapes[:, 0]])
    is_whole = shapes[:, 3] == SMS
    fitted = is_known & is_whole & ~is_asked
    rates = fit(shapes[fitted], us[fitted])
    for name, rate in zip(NAMES, numpy.exp(rates)):
        print(f"{name:20} {rate:.4g}")
    errors = numpy.abs(matmul_us(rates, shapes) / us - 1)
    print(f"{'':64} {'count':>5} median    90 %")
    show("all SMs, as fitted", errors[fitted])
    show("m that were not fitted to", errors[is_known & is_whole & is_asked])
    show("(n, k) that were not fitted to", errors[~is_known & is_whole])
    for low, high in ((0, 128), (129, 320), (321, 1024), (1025, 8192)):
        some = ~is_known & is_whole & (shapes[:, 0] >= low) & (shapes[:, 0] <= high)
        show(f"  of them m from {max(16, low)} to {high}", errors[some])
    show("on 116 or 100 SMs", errors[~is_whole])
    random = numpy.random.default_rng(1)
    draws = [carried(shapes[is_whole], us[is_whole], matmul_us(rates, shapes[is_whole]), random) for _ in range(10)]
    show("another (n, k) from the nearest of three, by W; 10 times", numpy.concatenate([waves for waves, _ in draws]))
    show("the same by FLOPs", numpy.concatenate([flops for _, flops in draws]))
    few = []
    for _ in range(10):
        of = random.permutation(len(weights))[:20]
        is_in = numpy.array([weights.index(tuple(shape)) in of for shape in shapes[:, 1:3]])
        some = random.permutation(numpy.flatnonzero(is_in & is_whole))[:64]
        asked = ~is_in & is_whole
        few.append(numpy.abs(matmul_us(fit(shapes[some], us[some]), shapes[asked]) / us[asked] - 1))
    show("rates of 64 matmuls of 20 (n, k), asked for the others; 10 times", numpy.concatenate(few))


def named():
    """Fits the rates of a matmul with a named tile and prints their errors, and those of the rates of the best tile."""
    rows, table = read("data/gpu/named_tiles_h200.csv", "m", "n", "k", "median_us")
    tiles = numpy.array([[int(side) for side in row["tile"].split("x")] for row in rows], float)
    shapes, us = numpy.column_stack([table[:, :3], tiles[:, ::-1]]), table[:, 3]
    weights = list(dict.fromkeys(map(tuple, shapes[:, 1:3])))
    is_known = numpy.array([weights.index(tuple(shape)) < 40 for shape in shapes[:, 1:3]])
    rates = fit(shapes[is_known], us[is_known], named_us, FIRST[:7])
    for name, rate in zip(NAMES, numpy.exp(rates)):
        print(f"{name:20} {rate:.4g}")
    show("a named tile, as fitted", numpy.abs(named_us(rates, shapes) / us - 1)[is_known])
    show("(n, k) that were not fitted to", numpy.abs(named_us(rates, shapes) / us - 1)[~is_known])
    best = numpy.log([1.70, 2.23e-5, 9.24e-4, 2.22e-5, 2.62, 2.51e-7, 1.81e-7])
    show("the same by the rates of the tile that suits best", numpy.abs(named_us(best, shapes) / us - 1)[~is_known])


def carried_groups(rows, shapes, us, told_us):
    """Errors when each matmul is predicted from the nearest one of another (n, k) with as many experts and the same
    sharing of rows, scaled by W and by FLOPs."""
    by_waves, by_flops = [], []
    for i, row in enumerate(rows):
        is_alike = [all(other[key] == row[key] for key in ("rows_are", "experts")) for other in rows]
        alike = numpy.flatnonzero(is_alike & (shapes[:, 1:3] != shapes[i, 1:3]).any(1))
        off = numpy.abs(numpy.log(shapes[alike, :3] / shapes[i, :3])).sum(1)
        j = alike[off.argmin()]
        by_waves.append(abs(us[j] * told_us[i] / told_us[j] / us[i] - 1))
        by_flops.append(abs(us[j] * shapes[i, :3].prod() / shapes[j, :3].prod() / us[i] - 1))
    return by_waves, by_flops


def grouped():
    """Fits the rates of matmuls of several experts and prints their errors. @return the rates"""
    rows, table = read(
        "data/gpu/grouped_matmuls_h200.csv", "rows", "n", "k", "row_tiles", "experts_with_rows", "median_us"
    )
    shapes, us = table[:, :5], table[:, 5]
    weights = list(dict.fromkeys(map(tuple, shapes[:, 1:3])))
    number = numpy.array([weights.index(tuple(shape)) for shape in shapes[:, 1:3]])
    is_known = number < 24
    rates = fit(shapes[is_known], us[is_known], grouped_us, FIRST[:6])
    for name, rate in zip(NAMES, numpy.exp(rates)):
        print(f"{name:20} {rate:.4g}")
    told = grouped_us(rates, shapes)
    errors, mean = numpy.abs(told / us - 1), shapes[:, 0] / shapes[:, 4]
    print(f"{'several experts':64} {'count':>5} median    90 %")
    show("as fitted", errors[is_known])
    show("(n, k) that were not fitted to", errors[~is_known])
    for low, high in ((0, 16), (16, 128), (128, 512), (512, 1e9)):
        show(f"  of them {low} to {high:.0f} rows an expert", errors[~is_known & (mean > low) & (mean <= high)])
    waves, flops = carried_groups(rows, shapes, us, told)
    show("another (n, k) from the nearest rows, by W", waves)
    show("the same by FLOPs", flops)
    random, few = numpy.random.default_rng(1), []
    for _ in range(10):
        is_in = numpy.isin(number, random.permutation(len(weights))[:18])
        some = random.permutation(numpy.flatnonzero(is_in))[:64]
        of_few = fit(shapes[some], us[some], grouped_us, FIRST[:6])
        few.append(numpy.abs(grouped_us(of_few, shapes[~is_in]) / us[~is_in] - 1))
    show("rates of 64 matmuls of 18 (n, k), asked for the others; 10 times", numpy.concatenate(few))
    return rates


def chosen(rates):
    """Fits the cost of choosing experts besides the matmul, where rows choose all experts equally often.
    @param rates  those of grouped()"""
    rows, table = read("data/gpu/chosen_matmul_h200.csv", "experts", "top_k", "n", "k", "tokens", "mc2_us")
    parts, us = [], table[:, 5]
    for row, (experts, top_k, n, k, tokens, _) in zip(rows, table):
        products = tokens * top_k
        each = products / experts
        any_rows = experts * (1 - numpy.exp(-each))
        shape = numpy.array([[products, n, k, any_rows * numpy.ceil(max(each, 1) / 128), any_rows]])
        adds_up = " down" in row["matmul"]
        parts.append([grouped_us(rates, shape)[0], 1, products, 2 * products * k, 2 * products * n * adds_up])
    parts = numpy.array(parts)
    passes = numpy.linalg.lstsq(parts[:, 1:] / us[:, None], (us - parts[:, 0]) / us, rcond=None)[0]
    for name, rate in zip(("sort_us", "choice_us", "gather_us_per_byte", "sum_us_per_byte"), passes):
        print(f"{name:20} {rate:.4g}")
    show("chosen experts, as fitted", numpy.abs((parts[:, 0] + parts[:, 1:] @ passes) / us - 1))


def main():
    library()
    named()
    chosen(grouped())


if __name__ == "__main__":
    main()
