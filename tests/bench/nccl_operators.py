#!/usr/bin/env python3
"""Checks mc2.torch's operators over NCCL against products in double precision, before and after tuning, on the GPUs of
this host.

    MC2_STORE=FILE torchrun --nproc-per-node 4 tests/bench/nccl_operators.py

Prints a line for each operator and shape. The exit code is 1 where a result or a gradient is wrong on any rank.
"""

import sys

import mc2.torch
import torch
import torch.distributed as dist
from torch_rig import everyones, say, start

SHAPES = ((512, 1024, 768), (2048, 2048, 1024))
KINDS = ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul")
ROUNDING = 2.0**-8  # rounding of bf16, once for each rank's product in the sum


def expected(kind, x, w):
    """The correct result of this rank, from the operands of all ranks."""
    xs, ws = everyones(x.double()), everyones(w.double())
    rank, size = dist.get_rank(), dist.get_world_size()
    own = slice(rank * len(x) // size, (rank + 1) * len(x) // size)
    if kind == "all_gather_matmul":
        return torch.cat(xs) @ w.double()
    if kind == "all_to_all_matmul":
        return torch.cat([one[own] for one in xs]) @ w.double()
    products = [one @ other for one, other in zip(xs, ws)]
    if kind == "matmul_all_to_all":
        return torch.cat([product[own] for product in products])
    return sum(products) if kind == "matmul_all_reduce" else sum(products)[own]


def gradients(run, x, w, grad):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    run(x, w).backward(grad)
    return x.grad.double(), w.grad.double()


def error_of(found, wanted):
    if found.shape != wanted.shape:
        return float("inf")
    return float((found.double() - wanted).abs().max() / wanted.abs().max())


def check(kind, m, n, k, device):
    """Whether all results and gradients are right on this rank."""
    generator = torch.Generator(device=device).manual_seed(dist.get_rank())
    size = dist.get_world_size()
    rows = m // size if kind == "all_gather_matmul" else m
    x = torch.randn(rows, k, device=device, generator=generator).bfloat16()
    w = torch.randn(k, n, device=device, generator=generator).bfloat16()
    wanted, operator = expected(kind, x, w), getattr(mc2.torch, kind)
    grad = torch.randn(wanted.shape, device=device, generator=generator).bfloat16()
    untuned = gradients(operator, x, w, grad)
    is_right = True
    for when in ("untuned", "tuned"):
        if when == "tuned":
            mc2.torch.tune(kind, m=m, n=n, k=k, dtype=torch.bfloat16, device=device)
        with torch.no_grad():
            errors = [error_of(operator(x, w), wanted)]
        errors += [error_of(*pair) for pair in zip(gradients(operator, x, w, grad), untuned)]
        is_right &= max(errors) <= 2 * size * ROUNDING
        texts = ", ".join(f"{error:.1e}" for error in errors)
        say(f"{kind} m={m} n={n} k={k} {when}: errors of result and gradients {texts}")
    return is_right


def main():
    start()
    device = torch.device("cuda", torch.cuda.current_device())
    wrong = sum(not check(kind, *shape, device) for kind in KINDS for shape in SHAPES)
    everywhere = torch.tensor([wrong], device=device)
    dist.all_reduce(everywhere)
    dist.destroy_process_group()
    sys.exit(f"{int(everywhere)} wrong" if everywhere else 0)


if __name__ == "__main__":
    main()
