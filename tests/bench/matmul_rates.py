#!/usr/bin/env python3
"""Fits the rates of planner/src/gpu_matmul.cpp and prints their errors on matmuls that were not fitted, as in
docs/cost_model.md §12. Three sets of rates are fitted:
  the library's matmul           to data/gpu/library_matmuls_h200.csv; an H100's memory to data/gpu/matmuls_h100.csv
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
    "join_us",
    "join_us_per_byte",
]
FIRST = [1.8, 2.2e-5, 7e-4, 7e-5, 1, 2.5e-7, 1.9e-7, 2.3e7, 2, 1e-7]
FIRST_GROUPED = [2.2, 2.3e-5, 1e-3, 5e-5, 2, 3.6e-7]
SMS = 132
DEPTH = 64
PARTS = (1, 2, 3, 4)
LEAST_DEPTH = 4 * DEPTH
WORTHWHILE = 1 / 1.03
SLOW_TILES = ("448x64", "512x64", "64x512")


def tiles_in(table):
    """Rows and columns of each tile in a table of gpu_matmul.cpp."""
    text = re.search(table + r"\{(.*?)\};", (ROOT / "planner/src/gpu_matmul.cpp").read_text(), re.DOTALL).group(1)
    return [(int(rows), int(columns)) for rows, columns in re.findall(r"\{(\d+), (\d+),", text)]


TILES, GROUPED_TILES = tiles_in("kTiles"), numpy.array(tiles_in("kGroupedTiles"), float).T


def step_us(log_rates, rows, columns):
    """Time of 64 steps of k of a tile."""
    _, multiply, load = numpy.exp(log_rates[:3])
    return ((multiply * rows * columns) ** 4 + (load * (rows + columns)) ** 4) ** 0.25


def tile_us(log_rates, slowness, shapes):
    """Times of the library's matmul by the formula of MatmulTimes::us_of.
    @param slowness  of each shape's tile
    @param shapes    m, n, k, products, SMs, parts of k, rows and columns of the tile of each"""
    launch, _, _, element, wave, memory, cache, cached_bytes, join, join_per_byte = numpy.exp(log_rates)
    m, n, k, batch, sms, parts, rows, columns = shapes.T
    count = numpy.ceil(m / rows) * batch * numpy.ceil(n / columns) * parts
    step = slowness * step_us(log_rates, rows, columns)
    compute = numpy.ceil(count / sms) * (numpy.ceil(k / DEPTH / parts) * step + wave) + element * rows * columns
    size = 2 * (batch * m * k + (1 + batch) / 2 * k * n + batch * m * n)
    cached = numpy.clip(2 - size / cached_bytes, 0, 1)
    move = size * (cached * cache + (1 - cached) * memory)
    joined = numpy.where(parts > 1, join + join_per_byte * 4 * batch * m * n * parts, 0)
    return launch + (compute**6 + move**6) ** (1 / 6) + joined


def best_us(log_rates, slowness, shape):
    """The time of one shape by the tile and the parts of k that suit it best.
    @param slowness  by tile; @param shape  m, n, k, products, SMs"""
    m, n, k, batch, sms = shape
    of = []
    for rows, columns in TILES:
        count = -(-m // rows) * batch * -(-n // columns)
        of += [(parts, rows, columns) for parts in PARTS if parts == 1 or (count <= sms and k >= parts * LEAST_DEPTH)]
    every = numpy.array([[*shape, *one] for one in of], float)
    return tile_us(log_rates, numpy.array([slowness[one[1:]] for one in of]), every).min()


def grouped_us(log_rates, shapes):
    """Times of matmuls of several experts. @param shapes  rows, n, k, tiles of 128 rows, experts with rows of each"""
    rows, n, k, row_tiles, experts = shapes.T
    launch, _, _, element, wave, memory = numpy.exp(log_rates)
    tile_rows, columns = GROUPED_TILES
    count = row_tiles[:, None] * numpy.ceil(n[:, None] / columns)
    wave_us = numpy.ceil(k / DEPTH)[:, None] * step_us(log_rates, tile_rows, columns) + wave
    compute = (numpy.ceil(count / SMS) * wave_us + element * tile_rows * columns).min(1)
    move = 2 * (rows * k + experts * k * n + rows * n) * memory
    return launch + (compute**6 + move**6) ** (1 / 6)


def fit(shapes, us, told, first):
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
    errors = numpy.abs(errors)
    print(f"{name:64} {len(errors):5} {100 * numpy.median(errors):6.1f} {100 * numpy.quantile(errors, 0.9):6.1f}")


def read(path, *keys):
    with (ROOT / path).open() as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    return rows, numpy.array([[float(row[key]) for key in keys] for row in rows])


class Library:
    """Times of all algorithms that the library offers, without the tiles that are known to be slow."""

    def __init__(self, path):
        rows, table = read(path, "m", "n", "k", "batch", "sm_count", "k_parts", "median_us")
        table[table[:, 4] == 0, 4] = SMS
        sides = [row["tile"].split("x") if "x" in row["tile"] else (0, 0) for row in rows]
        self.tiles = [(int(rows), int(columns)) for columns, rows in sides]
        self.is_known = numpy.array([tile in TILES for tile in self.tiles])
        self.shapes = numpy.column_stack([table[:, :6], numpy.array(self.tiles, float)])
        self.us = table[:, 6]
        self.offered = {}  # the places of each shape's algorithms, in the library's order
        for place, (row, tile) in enumerate(zip(rows, self.shapes)):
            if row["tile"] not in SLOW_TILES:
                self.offered.setdefault(tuple(tile[:5].astype(int)), []).append(place)
        weights = list(dict.fromkeys(map(tuple, self.shapes[:, 1:3])))
        self.weight = numpy.array([weights.index(tuple(shape)) for shape in self.shapes[:, 1:3]])

    def learn(self, places):
        """The rates, and the slowness of each tile, that fit best, in turns. A tile's slowness is held near 1, the
        more the fewer times there are."""
        slowness = dict.fromkeys(TILES, 1.0)
        log_rates = numpy.log(FIRST)
        steps = numpy.exp(numpy.linspace(-0.25, 0.25, 51))
        for _ in range(4):
            of = numpy.array([slowness[self.tiles[place]] for place in places])
            log_rates = fit(
                self.shapes[places],
                self.us[places],
                lambda rates, shapes, of=of: tile_us(rates, of, shapes),
                numpy.exp(log_rates),
            )
            for tile in TILES:
                some = [place for place in places if self.tiles[place] == tile]
                costs = []
                for step in slowness[tile] * steps:
                    errors = numpy.log(tile_us(log_rates, step, self.shapes[some]) / self.us[some])
                    costs.append(numpy.sum(numpy.sqrt(1 + (errors / 0.05) ** 2) - 1) + 32 * numpy.log(step) ** 2)
                slowness[tile] *= steps[numpy.argmin(costs)]
        return log_rates, slowness

    def chosen(self, log_rates, slowness, shape):
        """The place of the algorithm that mc2 takes for a shape, as choose_tile() has it."""
        places = self.offered[shape]
        if not self.is_known[places[0]]:
            return places[0]
        known = [place for place in places if self.is_known[place]]
        of = numpy.array([slowness[self.tiles[place]] for place in known])
        us = tile_us(log_rates, of, self.shapes[known])
        us[0] *= WORTHWHILE
        return known[us.argmin()]

    def judge(self, log_rates, slowness, shapes):
        """For each shape the signed error of its prediction, and the time of what is taken over the library's own
        choice."""
        errors, gains = [], []
        for shape in shapes:
            us = self.us[self.chosen(log_rates, slowness, shape)]
            errors.append(best_us(log_rates, slowness, shape) / us - 1)
            gains.append(us / self.us[self.offered[shape][0]])
        return numpy.array(errors), numpy.array(gains)


def carried(library, fitted, shapes, random):
    """Errors when each (n, k) is predicted from the nearest of three others at the same m, scaled by W and by FLOPs."""
    of = {}
    for shape in shapes:
        us = library.us[library.chosen(*fitted, shape)]
        of.setdefault(shape[1:3], {})[shape[0]] = us, best_us(*fitted, shape)
    by_waves, by_flops = [], []
    for _ in range(10):
        for n, k in of:
            others = [other for other in of if other != (n, k)]
            three = [others[i] for i in random.permutation(len(others))[:3]]
            nearest = min(three, key=lambda other: numpy.hypot(numpy.log(other[0] / n), numpy.log(other[1] / k)))
            for m, (time, told) in of[n, k].items():
                there_us, there_told = of[nearest][m]
                by_waves.append(abs(there_us * told / there_told / time - 1))
                by_flops.append(abs(there_us * n * k / (nearest[0] * nearest[1]) / time - 1))
    return by_waves, by_flops


def between(library, fitted, shapes):
    """Errors for other m when an (n, k) was measured at powers of two: W, times a factor that lies on a line in log m
    between those of the nearest measured m."""
    measured, errors = {}, []
    told = {shape: best_us(*fitted, shape) for shape in shapes}
    for shape in shapes:
        off = numpy.log(library.us[library.chosen(*fitted, shape)] / told[shape])
        measured.setdefault(shape[1:3], {})[shape[0]] = off
    for shape in shapes:
        of = measured[shape[1:3]]
        known = [m for m in of if m & (m - 1) == 0]
        if shape[0] not in known:
            factor = numpy.interp(numpy.log(shape[0]), numpy.log(known), [of[m] for m in known])
            errors.append(abs(numpy.exp(factor - of[shape[0]]) - 1))
    return errors


def library():
    data = Library("data/gpu/library_matmuls_h200.csv")
    number = {shape: data.weight[places[0]] for shape, places in data.offered.items()}
    is_whole = (data.shapes[:, 3] == 1) & (data.shapes[:, 4] == SMS)
    whole = [shape for shape in data.offered if shape[3] == 1 and shape[4] == SMS]
    log_rates, slowness = fitted = data.learn(numpy.flatnonzero(data.is_known & is_whole))
    for name, rate in zip(NAMES, numpy.exp(log_rates)):
        print(f"{name:20} {rate:.4g}")
    print("kTiles:", ", ".join(f"{{{rows}, {columns}, {slow:.2f}}}" for (rows, columns), slow in slowness.items()))
    print(f"{'':64} {'count':>5} median    90 %")
    show("(n, k) as fitted", data.judge(*fitted, whole)[0])
    of_others = {}  # what rates that were fitted to two thirds of the (n, k) say of the last third: error, gain
    given, other_m = [], []
    for third in range(3):
        others = data.learn(numpy.flatnonzero(data.is_known & is_whole & (data.weight % 3 != third)))
        asked = [shape for shape in data.offered if number[shape] % 3 == third]
        of_others |= dict(zip(asked, zip(*data.judge(*others, asked))))
        other_m += between(data, others, [shape for shape in whole if number[shape] % 3 == third])
        places = numpy.flatnonzero(data.is_known & is_whole & (data.weight % 3 == third))
        of = numpy.array([others[1][data.tiles[place]] for place in places])
        given += list(numpy.abs(tile_us(others[0], of, data.shapes[places]) / data.us[places] - 1))

    def show_some(name, batch=range(1, 2), sms=range(SMS, SMS + 1), m=range(1, 10000)):
        wanted = [shape for shape in of_others if shape[3] in batch and shape[4] in sms and shape[0] in m]
        show(name, [of_others[shape][0] for shape in wanted])

    show_some("(n, k) that were not fitted to")
    for low, high in ((16, 128), (129, 320), (321, 1024), (1025, 8192)):
        show_some(f"  of them m from {low} to {high}", m=range(low, high + 1))
    show_some("on 116 or 100 SMs", sms=range(SMS))
    show_some("4 products of 64 rows", batch=[4], m=[64])
    show_some("4 products of 128 to 1024 rows", batch=[4], m=range(128, 1025))
    show("other m, if the (n, k) was measured at powers of two", other_m)
    show("an algorithm whose tile and parts of k are given", given)
    waves, flops = carried(data, fitted, whole, numpy.random.default_rng(1))
    show("another (n, k) from the nearest of three, by W; 10 times", waves)
    show("the same by FLOPs", flops)
    random, few = numpy.random.default_rng(1), []
    for _ in range(10):
        some = random.permutation(60)[:20]
        is_in = data.is_known & is_whole & numpy.isin(data.weight, some)
        places = random.permutation(numpy.flatnonzero(is_in))[:64]
        of = numpy.array([slowness[data.tiles[place]] for place in places])
        rates = fit(
            data.shapes[places], data.us[places], lambda rates, shapes, of=of: tile_us(rates, of, shapes), FIRST
        )
        few += list(data.judge(rates, slowness, [shape for shape in whole if number[shape] not in some])[0])
    show("rates of 64 matmuls of 20 (n, k), asked for the others; 10 times", few)
    show_gains(numpy.array([gain for shape, (_, gain) in of_others.items() if shape[3] == 1 and shape[4] == SMS]))
    transposed(log_rates, slowness)
    as_mc2_calls_it(log_rates, slowness)
    of_h100(log_rates, slowness)


def show_gains(gains):
    mean = numpy.exp(numpy.log(gains).mean())
    print(f"time over the library's own choice: {mean:.3f} in the mean, {gains.min():.2f} to {gains.max():.2f}")
    print(f"of {len(gains)} choices {(gains != 1).sum()} differ")


def transposed(log_rates, slowness):
    """Prints the errors, and the times of what mc2 takes, where B is stored as [n, k]. Nothing is fitted to them."""
    data = Library("data/gpu/library_matmuls_transposed_h200.csv")
    errors, gains = data.judge(
        log_rates, slowness, [shape for shape in data.offered if shape[3] == 1 and shape[4] == SMS]
    )
    show("B stored as [n, k]", errors)
    show("the same, at the GPU's speed that day", (1 + errors) / numpy.median(1 + errors) - 1)
    show_gains(gains)


def as_mc2_calls_it(log_rates, slowness):
    """Prints the errors on data/gpu/matmuls_h200.csv, for which choose_tile() chose with these rates."""
    _, table = read("data/gpu/matmuls_h200.csv", "m", "n", "k", "batch", "sm_count", "median_us")
    table[table[:, 4] == 0, 4] = SMS
    table = table[(table[:, 3] == 1) & (table[:, 4] == SMS)]
    ratios = numpy.array([best_us(log_rates, slowness, tuple(map(int, row[:5]))) for row in table]) / table[:, 5]
    show("measured anew, as mc2 calls it", ratios - 1)
    show("the same, at the GPU's speed that day", ratios / numpy.median(ratios) - 1)


def of_h100(log_rates, slowness):
    """An H100 differs by its memory's rate: prints the one that fits data/gpu/matmuls_h100.csv best, and its errors.
    There the library chose by itself."""
    _, table = read("data/gpu/matmuls_h100.csv", "m", "n", "k", "sm_count", "median_us")
    table = table[table[:, 3] == 0]
    shapes = [(int(m), int(n), int(k), 1, SMS) for m, n, k in table[:, :3]]
    best = None
    for memory in numpy.arange(3.2e-7, 4.0e-7, 0.05e-7):
        rates = log_rates.copy()
        rates[NAMES.index("memory_us_per_byte")] = numpy.log(memory)
        errors = numpy.abs([best_us(rates, slowness, shape) for shape in shapes] / table[:, 4] - 1)
        if best is None or errors.mean() < best[1].mean():
            best = memory, errors
    print(f"memory_us_per_byte   {best[0]:.3g}")
    show("an H100, its library's own choice", best[1])


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
    rates = fit(shapes[is_known], us[is_known], grouped_us, FIRST_GROUPED)
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
        of_few = fit(shapes[some], us[some], grouped_us, FIRST_GROUPED)
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
    chosen(grouped())


if __name__ == "__main__":
    main()
