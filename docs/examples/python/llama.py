"""A Llama-like model under torch.compile and PyTorch's tensor parallelism, without mc2 and with it. The model knows
nothing of mc2.

    torchrun --nproc-per-node 2 llama.py                            on GPUs if there are enough, else on the CPU
    torchrun --nproc-per-node 2 llama.py --sequence --length 8192   sequence parallel: gathers and reduce-scatters
    torchrun --nproc-per-node 2 llama.py --graphs                   both programs in CUDA graphs

The program compiles the model, tunes the shapes that the compiler has met (MC2_STORE keeps the plans), compiles the
model again with mc2, and times both in turn. Needs PyTorch 2.6 or later.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.head_width = width // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=bias) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, self.head_width).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, width, hidden, bias):
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=bias), nn.Linear(width, hidden, bias=bias)
        self.w2 = nn.Linear(hidden, width, bias=bias)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width, heads, hidden, bias):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention, self.ffn = Attention(width, heads, bias), FeedForward(width, hidden, bias)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class Llama(nn.Module):
    """x and the hidden states are [batch, length, width]."""

    def __init__(self, layers, width, heads, hidden, vocabulary, bias=False):
        super().__init__()
        self.layers = nn.ModuleList(Block(width, heads, hidden, bias) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


_COLUMNS = ("attention.wq", "attention.wk", "attention.wv", "ffn.w1", "ffn.w3")
_ROWS = ("attention.wo", "ffn.w2")


def shard(model, mesh):
    """Shards the layers so that an all-reduce follows attention.wo and ffn.w2."""
    for layer in model.layers:
        parallelize_module(
            layer,
            mesh,
            {**{name: ColwiseParallel() for name in _COLUMNS}, **{name: RowwiseParallel() for name in _ROWS}},
        )
    return model


def shard_sequence(model, mesh):
    """Shards the layers so that an all-gather precedes attention and ffn, a reduce-scatter follows them, and norms work
    on a rank's share of the sequence. x is a DTensor with Shard(1); the result is whole on every rank."""
    parallelize_module(
        model,
        mesh,
        {"norm": SequenceParallel(), "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())},
    )
    gather = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    for layer in model.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "norm1": SequenceParallel(),
                "norm2": SequenceParallel(),
                "attention": gather,
                "ffn": gather,
                **{name: ColwiseParallel() for name in _COLUMNS},
                **{name: RowwiseParallel(output_layouts=Shard(1), use_local_output=False) for name in _ROWS},
            },
        )
    return model


def arguments():
    parser = argparse.ArgumentParser(description="A Llama-like model, compiled without mc2 and with it.")
    for name, value in (
        ("layers", 8),
        ("width", 4096),
        ("heads", 32),
        ("hidden", 14336),
        ("vocabulary", 8192),
        ("batch", 1),
        ("length", 4096),
        ("rounds", 21),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--tune", type=float, default=60, metavar="SECONDS", help="for shapes without a plan")
    parser.add_argument("--sequence", action="store_true", help="sequence parallel")
    parser.add_argument(
        "--graphs", action="store_true", help='both as CUDA graphs, as mode="reduce-overhead" makes them'
    )
    return parser.parse_args()


def seconds(model, x):
    """Returns how long model(x) takes on the slowest rank."""
    synchronize = torch.cuda.synchronize if x.is_cuda else lambda: None
    synchronize()
    dist.barrier()
    start = time.perf_counter()
    model(x)
    synchronize()
    taken = torch.tensor([time.perf_counter() - start], device=x.device)
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return taken.item()


@torch.no_grad()
def compare(options, device, dtype):
    import mc2.torch

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    torch.manual_seed(1)
    with device:
        model = Llama(options.layers, options.width, options.heads, options.hidden, options.vocabulary).to(dtype)
        x = torch.randn(options.batch, options.length, options.width, dtype=dtype)
    model = (shard_sequence if options.sequence else shard)(model, mesh)
    x = distribute_tensor(x, mesh, [Shard(1)]) if options.sequence else x

    graphs = {"triton.cudagraphs": options.graphs}
    unfused = torch.compile(model, options=graphs)
    expected = unfused(x).clone()

    def with_mc2():
        mc2.torch.inductor.enable()
        compiled = torch.compile(model, options={**graphs, "debug": False})  # other options: both stay compiled
        y = compiled(x).clone()  # the next call may overwrite this call's result
        mc2.torch.inductor.disable()
        return compiled, y

    fused, y = with_mc2()
    if mc2.torch.tune_seen(options.tune, mesh.get_group()):
        torch._dynamo.reset()
        unfused(x)
        fused, y = with_mc2()
    error = ((y - expected).norm() / expected.norm()).item()
    for compiled in (unfused, fused) * 3:
        compiled(x)
    pairs = [(seconds(unfused, x), seconds(fused, x)) for _ in range(options.rounds)]
    without, with_it = (statistics.median(times) * 1e6 for times in zip(*pairs))
    saved = statistics.median((a - b) * 1e6 for a, b in pairs)
    if dist.get_rank() == 0:
        print(mc2.torch.inductor.report())
        promised = sum(site.gain_us for site in mc2.torch.inductor.sites() if site.is_fused)
        print(
            f"one forward pass: {without:.0f} us without mc2, {with_it:.0f} with it; {saved:.0f} us less, "
            f"{promised:.0f} by the plans"
        )
        print(f"results differ by {error:.1e} in the 2-norm")


if __name__ == "__main__":
    has_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if has_gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpus else torch.device("cpu")
    dist.init_process_group("nccl" if has_gpus else "gloo")
    compare(arguments(), device, torch.bfloat16 if has_gpus else torch.float32)
    torch.compiler.reset()  # frees CUDA graphs with NCCL's collectives before the communicators
    dist.destroy_process_group()
