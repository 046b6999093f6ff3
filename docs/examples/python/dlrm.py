"""Trains a recommendation model (DLRM) whose tables are spread over the ranks, by torch.distributed's calls and by
mc2's.

    torchrun --nproc-per-node 2 dlrm.py                    on GPUs if there are enough
    torchrun --nproc-per-node 2 dlrm.py --samples 16384 --bag 40
    python3 dlrm.py --samples 2048 --rows 1000             two ranks on this machine's CPU, and smaller tables

Every rank holds some embedding tables whole and looks up the whole batch in them. One all-to-all gives it the features
of its share of the samples, with which it does the rest, as in data parallelism. mc2 pools and exchanges in one call.
Both programs start with the same weights and take the same steps in turn.
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

import mc2
import mc2.torch

DENSE_COUNT = 13  # numbers of a sample that need no table
RATE = 0.05


# Each program's way to the features of this rank's samples, [samples of the rank, ranks * tables * columns].


class Exchange(torch.autograd.Function):
    """Sends equal parts of the rows to all ranks. The backward pass sends their gradients back."""

    @staticmethod
    def forward(ctx, x):
        received = torch.empty_like(x)
        dist.all_to_all_single(received, x.contiguous())
        return received

    @staticmethod
    def backward(ctx, grad):
        return Exchange.apply(grad.contiguous())


def by_torch(tables, batch):
    """tables [all rows, columns]: this rank's tables, one below the other."""
    pooled = F.embedding_bag(batch["rows"], tables, batch["offsets"], mode="sum", include_last_offset=True, sparse=True)
    features = pooled.view(-1, batch["samples"], tables.shape[1]).transpose(0, 1).flatten(1)
    received = Exchange.apply(features)
    return received.view(dist.get_world_size(), -1, features.shape[1]).transpose(0, 1).flatten(1)


def by_mc2(tables, batch):
    """tables [tables, rows, columns]: this rank's tables."""
    return mc2.torch.embedding_all_to_all(batch["indices"], tables, batch["offsets"], sparse=True, k=batch["k"])


PROGRAMS = [by_torch, by_mc2]


class Model(torch.nn.Module):
    """This rank's tables, and the dense layers, which all ranks have."""

    def __init__(self, tables, hidden, features):
        super().__init__()
        count, columns = features
        pairs = (count + 1) * count // 2
        layers = lambda *widths: torch.nn.Sequential(
            *(layer for a, b in zip(widths, widths[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU()))
        )
        self.tables = torch.nn.Parameter(tables)
        self.bottom = layers(DENSE_COUNT, hidden, columns)
        self.top = torch.nn.Sequential(layers(pairs + columns, 2 * hidden, hidden), torch.nn.Linear(hidden, 1))

    def forward(self, embed, batch):
        """Returns one number for each of this rank's samples."""
        dense = self.bottom(batch["dense"])
        sparse = embed(self.tables, batch).view(len(dense), -1, dense.shape[1])
        vectors = torch.cat([dense.unsqueeze(1), sparse], 1)
        products = vectors @ vectors.transpose(1, 2)
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1, device=dense.device)
        return self.top(torch.cat([dense, products[:, i, j]], 1)).squeeze(1)

    def replicated(self):
        return [*self.bottom.parameters(), *self.top.parameters()]


def step(model, embed, batch):
    """Takes a step of gradient descent and returns this rank's loss."""
    loss = F.binary_cross_entropy_with_logits(model(embed, batch).float(), batch["clicked"])
    loss.backward()
    ranks = dist.get_world_size()
    with torch.no_grad():
        gradients = torch.cat([one.grad.flatten() for one in model.replicated()])
        dist.all_reduce(gradients)
        for one, grad in zip(model.replicated(), gradients.split([one.numel() for one in model.replicated()])):
            one.sub_(grad.view_as(one), alpha=RATE / ranks)
        model.tables.sub_(model.tables.grad, alpha=RATE / ranks)
    model.zero_grad(set_to_none=True)
    return loss.detach()


def new_batch(options, ranks, generator, device):
    """Draws a batch: all samples' bags for this rank's tables, and the other inputs of this rank's samples."""
    m, count, share = options.samples, options.tables, options.samples // ranks
    lengths = torch.randint(0, 2 * options.bag + 1, (count * m,), generator=generator, device=device)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    indices = torch.randint(0, options.rows, (int(offsets[-1]),), generator=generator, device=device)
    table = torch.arange(count, device=device).repeat_interleave(lengths.view(count, m).sum(1))
    random = lambda *shape: torch.rand(shape, generator=generator, device=device)
    return {
        "indices": indices,
        "offsets": offsets,
        "rows": indices + table * options.rows,
        "k": options.bag,
        "samples": m,
        "dense": random(share, DENSE_COUNT),
        "clicked": (random(share) < 0.25).float(),
    }


def seconds(run, device):
    """Returns how long run() takes on the slowest rank, and this rank's result of it."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronize()
    dist.barrier()
    synchronize()
    start = time.perf_counter()
    result = run()
    synchronize()
    taken = torch.tensor([time.perf_counter() - start], device=device)
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return taken.item(), result


def mean_of_ranks(value):
    total = value.clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def compare(options, device):
    """Returns the times of the rounds, in which each program looks up and takes a step, and the losses of all steps."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator(device).manual_seed(1 + rank)
    tables = torch.empty((options.tables, options.rows, options.columns), device=device).uniform_(
        -0.05, 0.05, generator=generator
    )
    models = []
    for own in (tables.flatten(0, 1), tables.clone()):
        torch.manual_seed(0)  # the same on all ranks
        models.append(Model(own, options.hidden, (ranks * options.tables, options.columns)).to(device))
    batches = [new_batch(options, ranks, generator, device) for _ in range(4)]
    if options.tune:
        found = mc2.torch.tune(
            "embedding_all_to_all",
            m=options.samples,
            n=options.tables * options.columns,
            k=options.bag,
            dtype=torch.float32,
            tables=mc2.EmbeddingTables(options.tables, options.rows),
        )
        if rank == 0:
            print(found.text, flush=True)
    rounds, losses = [], []
    for turn in range(options.rounds + 3):
        batch, times = batches[turn % len(batches)], []
        losses.append([])
        for model, embed in zip(models, PROGRAMS):
            with torch.no_grad():
                times.append(seconds(lambda: embed(model.tables, batch), device)[0])
            taken, loss = seconds(lambda: step(model, embed, batch), device)
            times.append(taken)
            losses[-1].append(mean_of_ranks(loss))
        rounds.append(times)
    return rounds[3:], losses


def arguments():
    parser = argparse.ArgumentParser(
        description="Trains a recommendation model by torch.distributed's calls and by mc2's."
    )
    for name, value, text in (
        ("samples", 65536, "of a batch, over all ranks"),
        ("tables", 8, "of a rank"),
        ("rows", 1_000_000, "of a table"),
        ("columns", 128, "of a table"),
        ("bag", 20, "rows that a sample names in a table, on average"),
        ("hidden", 512, "width of the dense layers"),
        ("rounds", 21, "of measuring"),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{text}; default {value}")
    parser.add_argument(
        "--no-tune",
        dest="tune",
        action="store_false",
        help="run what mc2 has planned, or plans by what it has measured",
    )
    options = parser.parse_args()
    if options.samples % dist.get_world_size():
        parser.error(f"--samples is {options.samples}; needs a multiple of the {dist.get_world_size()} ranks")
    return options


def main(device):
    """Runs one rank. Rank 0 prints the comparison."""
    options = arguments()
    rounds, losses = compare(options, device)
    if dist.get_rank() != 0:
        return
    print(
        f"{dist.get_world_size()} ranks of {options.tables} tables, {options.samples} samples, {options.bag} rows a bag"
    )
    print("medians                torch.distributed      mc2  ratio")
    for name, of_torch, of_mc2 in (("look up, us", 0, 2), ("train a step, us", 1, 3)):
        ratio = statistics.median(times[of_torch] / times[of_mc2] for times in rounds)
        torch_us, mc2_us = (1e6 * statistics.median(times[which] for times in rounds) for which in (of_torch, of_mc2))
        print(f"{name:22} {torch_us:17.0f} {mc2_us:8.0f} {ratio:6.2f}")
    off = max(abs(ours / theirs - 1) for theirs, ours in losses)
    print(
        f"loss {losses[0][0]:.4f}, after {len(losses)} steps {losses[-1][0]:.4f} and {losses[-1][1]:.4f}; they differ "
        f"by {off:.1e} at most",
        flush=True,
    )


def run(rank, ranks, meeting):
    """One rank of a job on this machine's CPU."""
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    main(torch.device("cpu"))
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        is_on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if is_on_gpus else torch.device("cpu")
        if is_on_gpus:
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if is_on_gpus else "gloo")
        main(device)
        mc2.torch.forget()
        dist.destroy_process_group()
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(run, (2, folder + "/meeting"), nprocs=2)
