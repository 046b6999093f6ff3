"""Decodes with Llama-like blocks of random weights, tensor parallel, by torch.distributed's calls and by mc2's, and
says where the time goes.

    torchrun --nproc-per-node 2 decode.py                  on GPUs if there are enough, in CUDA graphs
    torchrun --nproc-per-node 2 decode.py --batch 1 16 64  sequences that each step gives one token more
    python3 decode.py --width 512 --hidden 1024            two ranks on this machine's CPU, and smaller blocks

A block has two all-reduces. The residual and the next norm follow each. mc2 does all three in one call. The programs
run their steps in turn. "no all-reduce" leaves out the sums over ranks: its results are wrong, and neither of the other
programs can be faster.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F

import mc2.torch

EPSILON = 1e-5


def rms_norm(y, weight):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(y, weight.shape, weight, EPSILON)
    return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


# How each program ends the second matmul of a pair: it sums x @ w over the ranks, adds y, and normalises the rows.
# Each returns the sum and the normalised rows.


def by_torch(x, w, norm_weight, y):
    part = x @ w
    dist.all_reduce(part)
    y = part.add_(y)
    return y, rms_norm(y, norm_weight)


def by_mc2(x, w, norm_weight, y):
    return mc2.torch.matmul_all_reduce_rms_norm(x, w, norm_weight, residual=y, epsilon=EPSILON)


def without_sum(x, w, norm_weight, y):
    y = (x @ w).add_(y)
    return y, rms_norm(y, norm_weight)


PROGRAMS = {"torch.distributed": by_torch, "mc2": by_mc2, "no all-reduce": without_sum}


class Block:
    """A rank's shards of a block's weights, as torch.nn.Linear stores them, and keys and values of earlier tokens."""

    def __init__(self, sizes, batch, random):
        width, heads, kv_heads, head_width, hidden, context = sizes
        matrix = lambda rows, columns: random(rows, columns) / columns**0.5
        self.qkv, self.out = matrix((heads + 2 * kv_heads) * head_width, width), matrix(width, heads * head_width)
        self.gate_up, self.down = matrix(2 * hidden, width), matrix(width, hidden)
        self.norms = 1 + random(2, width) / 8
        self.keys, self.values = random(2, batch, kv_heads, context, head_width)
        self.split = [heads * head_width, kv_heads * head_width, kv_heads * head_width]

    def attention(self, x):
        """Returns the attention of the newest token, which takes the last place of the context."""
        q, k, v = (x @ self.qkv.t()).split(self.split, -1)
        batch, kv_heads, _, head_width = self.keys.shape
        for cache, newest in ((self.keys, k), (self.values, v)):
            cache[:, :, -1] = newest.view(batch, kv_heads, head_width)
        q = q.view(batch, kv_heads, -1, head_width)  # heads that share keys and values are rows
        shares = torch.softmax(q @ self.keys.transpose(-2, -1) / head_width**0.5, -1)
        return (shares @ self.values).view(batch, -1)

    def __call__(self, x, y, end):
        """Returns the next y [batch, width] and its normalised rows. x: y normalised by the block before."""
        y, x = end(self.attention(x), self.out.t(), self.norms[0], y)
        gate, up = (x @ self.gate_up.t()).chunk(2, -1)
        return end(F.silu(gate) * up, self.down.t(), self.norms[1], y)


def step(blocks, y, end):
    """Decodes one token for each sequence."""
    x = rms_norm(y, torch.ones_like(y[0]))
    for block in blocks:
        y, x = block(x, y, end)
    return x


def replayable(run):
    """Captures run() as a CUDA graph on GPUs. Returns the function that runs it again, and a result, which the graph
    overwrites."""
    for _ in range(3):
        result = run()
    if not result.is_cuda:
        return run, result
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    graph.replay()
    return graph.replay, result


def seconds(run, device):
    """Returns how long run() takes on the slowest rank."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronize()
    dist.barrier()
    synchronize()
    start = time.perf_counter()
    run()
    synchronize()
    taken = torch.tensor([time.perf_counter() - start], device=device)
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return taken.item()


def tune(m, n, k, dtype):
    try:
        found = mc2.torch.tune("matmul_all_reduce", m=m, n=n, k=k, dtype=dtype).text
    except mc2.Error as error:  # raised on all ranks
        found = f"runs as torch.distributed's calls: {error}"
    if dist.get_rank() == 0:
        print(found, flush=True)


@torch.no_grad()
def compare(options, device, batch):
    """Returns the line of the table for one batch size."""
    ranks, dtype = dist.get_world_size(), torch.bfloat16 if device.type == "cuda" else torch.float32
    own, shared = (torch.Generator(device).manual_seed(seed) for seed in (1 + dist.get_rank(), 0))
    random = lambda *shape: torch.randn(shape, generator=own, device=device).to(dtype)
    head_width = options.width // options.heads
    sizes = (
        options.width,
        options.heads // ranks,
        options.kv_heads // ranks,
        head_width,
        options.hidden // ranks,
        options.context,
    )
    blocks = [Block(sizes, batch, random) for _ in range(options.layers)]
    for block in blocks:  # the same on all ranks
        dist.broadcast(block.norms, 0)
    y = torch.randn((batch, options.width), generator=shared, device=device).to(dtype)
    if options.tune:
        for k in (blocks[0].out.shape[1], blocks[0].down.shape[1]):
            tune(batch, options.width, k, dtype)
    programs = [replayable(lambda end=end: step(blocks, y, end)) for end in PROGRAMS.values()]
    expected, found = (result.float() for _, result in programs[:2])
    error = ((found - expected).norm() / expected.norm()).item()
    rounds = [[seconds(run, device) for run, _ in programs] for _ in range(options.rounds + 3)][3:]
    torch_us, mc2_us, alone_us = (1e6 * statistics.median(times) for times in zip(*rounds))
    ratio = statistics.median(times[0] / times[1] for times in rounds)
    return (
        f"{batch:5} {1e6 * batch / torch_us:28.0f} {1e6 * batch / mc2_us:8.0f} {ratio:6.2f} {torch_us:29.0f} "
        f"{mc2_us:8.0f} "
        f"{alone_us:14.0f} {error:14.1e}"
    )


def arguments():
    parser = argparse.ArgumentParser(
        description="Decodes with Llama-like blocks, by torch.distributed's calls and by mc2's."
    )
    for name, value in (
        ("layers", 8),
        ("width", 8192),
        ("heads", 64),
        ("kv-heads", 8),
        ("hidden", 28672),
        ("context", 1024),
        ("rounds", 21),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 16, 64], help="sequences; default 1 4 16 64")
    parser.add_argument(
        "--no-tune",
        dest="tune",
        action="store_false",
        help="run what mc2 has planned, or plans by what it has measured",
    )
    options = parser.parse_args()
    for name in ("heads", "kv_heads", "hidden"):
        if getattr(options, name) % dist.get_world_size():
            parser.error(
                f"--{name.replace('_', '-')} is {getattr(options, name)}; needs a multiple of the "
                f"{dist.get_world_size()} ranks"
            )
    return options


def main(device):
    """Runs one rank. Rank 0 prints the table."""
    options = arguments()
    lines = [compare(options, device, batch) for batch in options.batch]
    if dist.get_rank() == 0:
        print(
            f"{options.layers} blocks, {dist.get_world_size()} ranks, context {options.context}\n"
            "batch   tokens/s: torch.distributed      mc2  ratio   us a step: torch.distributed      mc2  no "
            "all-reduce  mc2 is off by"
        )
        print("\n".join(lines), flush=True)


def run(rank, ranks, meeting):
    """One rank of a job on this machine's CPU."""
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    main(torch.device("cpu"))
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
        main(device)
        dist.barrier()
        torch.cuda.synchronize()
        os._exit(0)  # skips the end of the communicators, which would wait for what the graphs hold
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (2, folder + "/meeting"), nprocs=2)
