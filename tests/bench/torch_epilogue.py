"""Compares the cost of residual and RMSNorm inside mc2.torch's call with PyTorch's own calls after it, on GPUs.

    torchrun --nproc-per-node 2 tests/bench/torch_epilogue.py [--m 1024 4096] [--n 4096] [--k 2048]

Each shape is tuned first. Results are compared with an oracle in double precision. Then three calls are captured in
CUDA graphs and replayed in turn: mc2's call with residual and RMSNorm, the call followed by PyTorch's add_() and
rms_norm(), and the bare call. A kernel before each replay covers its launch. Rank 0 prints a CSV: medians in us of its
own times.
"""

import argparse
import statistics

import torch
import torch.distributed as dist
from torch_rig import captured, device_us, everyones, finish, say, start

import mc2.torch

EPSILON = 1e-6
ROUNDS, WARMUPS = 55, 5
COVER_CYCLES = 200_000
TOLERANCE = 0.03  # for sums in bf16, relative to 1 + |expected|


def require_near(found, expected, name):
    error = ((found.double() - expected).abs() / (1 + expected.abs())).max().item()
    if not error < TOLERANCE:
        raise SystemExit(f"rank {dist.get_rank()}: {name} is wrong by {error:.3g}")


class Case:
    """One operator on this rank's random matrices, and the same residual and weight on every rank."""

    def __init__(self, kind, m, n, k):
        own, shared = (torch.Generator("cuda").manual_seed(seed) for seed in (dist.get_rank(), 99))
        self.kind = kind
        self.x, self.w = (
            torch.randn(shape, generator=own, device="cuda").div_(8).bfloat16() for shape in ((m, k), (k, n))
        )
        rows = m // dist.get_world_size() if kind == "matmul_reduce_scatter" else m
        self.residual, self.weight = (
            torch.randn(shape, generator=shared, device="cuda").bfloat16() for shape in ((rows, n), (n,))
        )

    def fused(self):
        call = getattr(mc2.torch, f"{self.kind}_rms_norm")
        return call(self.x, self.w, self.weight, residual=self.residual, epsilon=EPSILON)

    def apart(self):
        y = self.bare().add_(self.residual)
        return y, torch.nn.functional.rms_norm(y, (y.shape[-1],), self.weight, EPSILON)

    def bare(self):
        return getattr(mc2.torch, self.kind)(self.x, self.w)

    def check(self, results):
        total = sum(a @ b for a, b in zip(everyones(self.x.double()), everyones(self.w.double())))
        share = len(self.residual)
        first = dist.get_rank() * share if self.kind == "matmul_reduce_scatter" else 0
        y = total[first : first + share] + self.residual.double()
        require_near(results[0], y, "y")
        require_near(
            results[1], y * torch.rsqrt(y.square().mean(-1, keepdim=True) + EPSILON) * self.weight.double(), "normed"
        )


def time_us(replay):
    dist.barrier()
    torch.cuda.synchronize()
    torch.cuda._sleep(COVER_CYCLES)
    return device_us(replay)


def measure(case):
    """Medians in us: fused, apart, bare."""
    case.check(case.fused())
    runs = [captured(call) for call in (case.fused, case.apart, case.bare)]
    times = [[], [], []]
    for round_number in range(-WARMUPS, ROUNDS):
        for i in (0, 1, 2) if round_number % 2 else (2, 1, 0):
            times[i].append(time_us(runs[i][0]))
    case.check(runs[0][1])
    return [statistics.median(own[WARMUPS:]) for own in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--m", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--k", type=int, default=2048)
    options = parser.parse_args()
    start()
    say("operator,m,fused_us,apart_us,bare_us,apart / fused")
    for m in options.m:
        for kind in ("matmul_all_reduce", "matmul_reduce_scatter"):
            mc2.torch.tune(kind, m=m, n=options.n, k=options.k, dtype=torch.bfloat16)
            fused, apart, bare = measure(Case(kind, m, options.n, options.k))
            say(f"{kind},{m},{fused:.1f},{apart:.1f},{bare:.1f},{apart / fused:.2f}")
    finish()


if __name__ == "__main__":
    main()
