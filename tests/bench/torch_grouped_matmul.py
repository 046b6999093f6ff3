"""Compares a grouped matmul of mc2 with torch._grouped_mm, on one Hopper GPU.

    python3 tests/bench/torch_grouped_matmul.py libmc2-grouped-matmul.so

Both multiply the same rows by the same experts' weights, in turn, and are compared with the definition in double
precision. Prints a CSV: medians in us. PyTorch's time includes its allocations and a kernel that reads the number of
rows of each expert on the device. mc2's list of tiles is made beforehand, as in a prepared plan.
"""

import ctypes
import random
import statistics
import sys

import torch
from torch_rig import device_us

ROUNDS, CALLS, WARMUPS = 15, 5, 3
ROWS_PER_EXPERT = 256
TOLERANCE = 0.01  # for a bf16 result, relative to the largest element
# model and matmul: experts a rank, n, k
SHAPES = {
    "deepseek-v3 up": (32, 4096, 7168),
    "deepseek-v3 down": (32, 7168, 2048),
    "mixtral-8x7b up": (4, 28672, 4096),
    "mixtral-8x7b down": (4, 4096, 14336),
    "qwen3-235b up": (16, 3072, 4096),
    "qwen3-235b down": (16, 4096, 1536),
    "qwen3-30b up": (16, 1536, 2048),
    "qwen3-30b down": (16, 2048, 768),
}


class Arguments(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.POINTER(ctypes.c_int64)),
        ("expert_count", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("k", ctypes.c_int64),
        ("b_is_transposed", ctypes.c_int),
        ("a", ctypes.c_void_p),
        ("b", ctypes.c_void_p),
        ("c", ctypes.c_void_p),
    ]


def tables(experts, chance):
    """Yields ways of sharing rows among experts: name and number of rows of each expert."""
    weights = [1 / (place + 1) for place in range(experts)]
    chance.shuffle(weights)
    yield "equal", [ROWS_PER_EXPERT] * experts
    yield "zipf", [int(ROWS_PER_EXPERT * experts * weight / sum(weights)) for weight in weights]
    yield "random", [chance.choice([0, chance.randrange(1, 4 * ROWS_PER_EXPERT)]) for _ in range(experts)]
    yield "decode", [chance.randrange(0, 17) for _ in range(experts)]


def open_library(path, kind):
    """Opens a library that has the functions mc2_make_KIND and mc2_run_KIND."""
    library = ctypes.CDLL(path)
    getattr(library, f"mc2_make_{kind}").restype = ctypes.c_void_p
    getattr(library, f"mc2_run_{kind}").argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return library


def compared(ours, theirs):
    """Three columns: medians in us of both calls, which take turns, and the median of theirs / ours."""
    for _ in range(WARMUPS):
        ours(), theirs()
    pairs = [(device_us(ours, CALLS), device_us(theirs, CALLS)) for _ in range(ROUNDS)]
    medians = [statistics.median(side) for side in zip(*pairs)]
    ratio = statistics.median(slow / fast for fast, slow in pairs)
    return f"{medians[0]:.1f},{medians[1]:.1f},{ratio:.3f}"


def error(found, a, weights, rows):
    worst, first = 0.0, 0
    for expert, count in enumerate(rows):
        if count:
            part = slice(first, first + count)
            right = a[part].double() @ weights[expert].double()
            worst = max(worst, float((found[part].double() - right).abs().max() / right.abs().max()))
        first += count
    return worst


def main(path):
    library = open_library(path, "grouped")
    chance = random.Random(3)
    torch.manual_seed(0)
    draw = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("matmul,experts,n,k,rows_are,rows,weights,mc2_us,torch_us,torch_over_mc2")
    for name, (experts, n, k) in SHAPES.items():
        for shared, rows in tables(experts, chance):
            a, offsets = draw(sum(rows), k), torch.tensor(rows, device="cuda").cumsum(0).to(torch.int32)
            for is_transposed in (False, True):
                b = draw(experts, n, k) if is_transposed else draw(experts, k, n)
                weights = b.transpose(1, 2) if is_transposed else b
                c = torch.full((sum(rows), n), float("nan"), device="cuda", dtype=torch.bfloat16)
                handle = library.mc2_make_grouped(
                    ctypes.byref(
                        Arguments(
                            (ctypes.c_int64 * experts)(*rows),
                            experts,
                            n,
                            k,
                            is_transposed,
                            a.data_ptr(),
                            b.data_ptr(),
                            c.data_ptr(),
                        )
                    )
                )
                stream = torch.cuda.current_stream().cuda_stream
                ours = lambda: library.mc2_run_grouped(handle, stream)
                theirs = lambda: torch._grouped_mm(a, weights, offs=offsets)
                ours()
                for found in (c, theirs()):
                    worst = error(found, a, weights, rows)
                    if not worst <= TOLERANCE:
                        raise SystemExit(f"{name}, {shared}: off by {worst}")
                print(
                    f"{name},{experts},{n},{k},{shared},{sum(rows)},{'n x k' if is_transposed else 'k x n'},"
                    f"{compared(ours, theirs)}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1])
