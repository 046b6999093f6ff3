#!/usr/bin/env python3
"""Fits the rates of planner/src/gpu_matmul.cpp to data/gpu/matmuls_h100.csv and says how well they tell what they were
not fitted to, as docs/cost_model.md §12 has it.

    python3 tests/bench/matmul_rates.py [FILE]
"""
import csv
import pathlib
import re
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["launch_us", "multiply_us", "load_us", "element_us", "wave_us", "memory_us_per_byte", "cache_us_per_byte",
         "cached_bytes"]
FIRST = [2.2, 2.3e-5, 1e-3, 5e-5, 2, 3.6e-7, 1.7e-7, 2.4e7]
SMS = 132
DEPTH = 64
TABLE_OF_TILES = re.search(r"kTiles\{(.*?)\};", (ROOT / "planner/src/gpu_matmul.cpp").read_text(), re.DOTALL).group(1)
TILE_ROWS, TILE_COLUMNS = numpy.array(re.findall(r"\{(\d+), (\d+)\}", TABLE_OF_TILES), float).T


def matmul_us(log_rates, shapes):
    """As MatmulTimes::us. @param shapes  m, n, k, SMs of each"""
    launch, multiply, load, element, wave, memory, cache, cached_bytes = numpy.exp(log_rates)
    m, n, k, sms = shapes.T
    step = ((multiply * TILE_ROWS * TILE_COLUMNS) ** 4 + (load * (TILE_ROWS + TILE_COLUMNS)) ** 4) ** 0.25
    count = numpy.ceil(m[:, None] / TILE_ROWS) * numpy.ceil(n[:, None] / TILE_COLUMNS)
    wave_us = numpy.ceil(k / DEPTH)[:, None] * step + wave
    compute = numpy.ceil(count / sms[:, None]) * wave_us + element * TILE_ROWS * TILE_COLUMNS
    size = 2 * (m * k + k * n + m * n)
    cached = numpy.clip(2 - size / cached_bytes, 0, 1)
    move = size * (cached * cache + (1 - cached) * memory)
    return launch + (compute.min(1) ** 6 + move ** 6) ** (1 / 6)


def fit(shapes, us):
    """Log rates: Levenberg's method on relative errors, of which large ones count less."""
    rates, damping = numpy.log(FIRST), 1e-3

    def residuals(at):
        return numpy.log(matmul_us(at, shapes) / us)

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
    """Errors of each (n, k) told from the nearest of three others at the same m: by W and by FLOPs."""
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


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data/gpu/matmuls_h100.csv"
    with path.open() as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    table = numpy.array([[float(row[key]) for key in ("m", "n", "k", "sm_count", "median_us")] for row in rows])
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


if __name__ == "__main__":
    main()
