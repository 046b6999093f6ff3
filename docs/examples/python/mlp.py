"""Trains a tensor-parallel MLP twice, by torch.distributed alone and by mc2.torch, and checks that the losses are
equal.

    python3 mlp.py                                 two ranks on this machine's CPU
    torchrun --nproc-per-node 4 mlp.py             as many as torchrun starts, each on a GPU if there are enough
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing

import mc2.torch

ROWS, HIDDEN, INNER, STEPS = 512, 128, 256, 5


class Copied(torch.autograd.Function):
    """Returns x, which is the same on all ranks. The backward pass sums the gradient over the ranks."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class Summed(torch.autograd.Function):
    """Sums x over the ranks. The backward pass leaves the gradient as it is."""

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad


class PlainMlp(torch.nn.Module):
    """The two layers' shards, with the collectives written out."""

    def __init__(self, up, down):
        super().__init__()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.up = torch.nn.Parameter(up.weight.detach().chunk(ranks, 0)[rank].clone())
        self.down = torch.nn.Parameter(down.weight.detach().chunk(ranks, 1)[rank].clone())

    def forward(self, x):
        return Summed.apply(torch.nn.functional.gelu(Copied.apply(x) @ self.up.t()) @ self.down.t())


def train(model, x, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def compare():
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    torch.manual_seed(1)  # every rank draws the same whole layers and data
    up, down = torch.nn.Linear(HIDDEN, INNER, bias=False), torch.nn.Linear(INNER, HIDDEN, bias=False)
    x, target = torch.randn(ROWS, HIDDEN).to(device), torch.randn(ROWS, HIDDEN).to(device)
    up, down = up.to(device), down.to(device)
    # The second layer's forward is a matmul and an all-reduce, and so is the first one's backward.
    share = INNER // dist.get_world_size()
    try:
        found = mc2.torch.tune(
            "matmul_all_reduce", m=ROWS, n=HIDDEN, k=share, dtype=torch.float32, device=device, rounds=3, race_rounds=9
        ).text
    except mc2.Error as error:  # raised on all ranks if the machine is too busy
        found = f"runs unfused: {error}"
    plain = train(PlainMlp(up, down), x, target)
    with_mc2 = torch.nn.Sequential(
        mc2.torch.ColumnParallelLinear.from_linear(up), torch.nn.GELU(), mc2.torch.RowParallelLinear.from_linear(down)
    )
    fused = train(with_mc2, x, target)
    if dist.get_rank() == 0:
        print(found)
        print("step  torch.distributed    mc2.torch")
        for step, (a, b) in enumerate(zip(plain, fused)):
            print(f"{step:4}  {a:17.8f}  {b:11.8f}")
    differing = [step for step, (a, b) in enumerate(zip(plain, fused)) if not abs(a - b) <= 1e-5 * abs(a)]
    if differing or not plain[-1] < plain[0]:
        sys.exit(f"losses differ at steps {differing}, or did not fall")


def run(rank, ranks, meeting):
    """One rank of a job on this machine's CPU."""
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    compare()
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        has_gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        if has_gpus:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if has_gpus else "gloo")
        compare()
        dist.destroy_process_group()
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(run, (2, folder + "/meeting"), nprocs=2)
        print("losses are equal")
