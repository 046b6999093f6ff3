"""Compares mc2.torch.embedding_all_to_all with PyTorch's own calls, on GPUs.

    torchrun --nproc-per-node 2 tests/bench/torch_bags.py

PyTorch's calls are one embedding_bag over all tables as a single table, with row numbers prepared by a data loader, and
an all_to_all_single. The results are compared with each other. On small shapes, mc2's are also compared with the
definition in double precision: eager, compiled, in a CUDA graph and with gradients. A row number outside the table must
give NaN and fail the next call. Then the calls are timed in turn: eager, captured and with gradients. Rank 0 prints a
CSV: medians in us of the slowest rank's times.
"""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_to_all_single as exchange
from torch_rig import (
    TOLERANCE,
    eager_and_captured,
    everyones,
    finish,
    largest,
    medians,
    replayed,
    require_near,
    say,
    start,
)

import mc2.torch

# samples, tables of a rank, rows of a table, columns, rows of a bag
SHAPES = [
    (65536, 8, 1_000_000, 128, 20),
    (16384, 16, 500_000, 128, 40),
    (16384, 13, 1_000_000, 128, 1),
    (4096, 8, 1_000_000, 256, 80),
]


class Bags:
    def __init__(self, m, table_count, row_count, columns, k, dtype=torch.bfloat16, index_type=torch.int64, seed=0):
        own = torch.Generator("cuda").manual_seed(100 * seed + dist.get_rank())
        self.k = k
        lengths = torch.randint(0, 2 * k + 1, (table_count * m,), generator=own, device="cuda")
        self.offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(index_type)
        self.indices = torch.randint(0, row_count, (int(self.offsets[-1]),), generator=own, device="cuda").to(
            index_type
        )
        self.tables = (
            torch.empty((table_count, row_count, columns), device="cuda").uniform_(-1, 1, generator=own).to(dtype)
        )
        self.laid_out = self.tables.detach().flatten(0, 1)  # detached: sparse gradients do not pass through views
        table = torch.arange(table_count, device="cuda").repeat_interleave(lengths.view(table_count, m).sum(1))
        self.rows = self.indices + table * row_count

    def fused(self, pooling="sum", sparse=True):
        return mc2.torch.embedding_all_to_all(
            self.indices, self.tables, self.offsets, pooling=pooling, sparse=sparse, k=self.k
        )

    def by_hand(self, pooling="sum"):
        ranks, (count, _, columns) = dist.get_world_size(), self.tables.shape
        weights = self.laid_out
        pooled = torch.nn.functional.embedding_bag(
            self.rows, weights, self.offsets, mode=pooling, include_last_offset=True, sparse=True
        )
        features = pooled.view(count, -1, columns).transpose(0, 1).reshape(-1, count * columns)
        received = exchange(torch.empty_like(features), features)
        return received.view(ranks, -1, count * columns).transpose(0, 1).flatten(1)

    def trained(self, call):
        tables = self.laid_out if call == self.by_hand else self.tables
        tables.requires_grad_()
        y = call()
        (gradient,) = torch.autograd.grad(y, tables, torch.ones_like(y))
        tables.requires_grad_(False)
        return gradient

    def tune(self, pooling="sum"):
        count, rows, columns = self.tables.shape
        tables = mc2.EmbeddingTables(count, rows, pooling)
        m = (len(self.offsets) - 1) // count
        return mc2.torch.tune(
            "embedding_all_to_all", m=m, n=count * columns, k=self.k, dtype=self.tables.dtype, tables=tables
        )

    def definition(self, tables, pooling):
        count, m = len(tables), (len(self.offsets) - 1) // len(tables)
        weights = tables.flatten(0, 1)
        pooled = torch.nn.functional.embedding_bag(
            self.rows, weights, self.offsets.long(), mode=pooling, include_last_offset=True
        )
        return pooled.view(count, m, -1).transpose(0, 1).flatten(1)


def check(dtype, index_type, pooling):
    """Compares small shapes with the definition, whichever plan runs them."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    bags = Bags(48 * ranks, 3, 200, 24, 4, dtype, index_type)
    say(f"# {bags.tune(pooling).text}")
    for seed in range(4):  # other bags in other memory, and of other lengths
        bags = Bags(48 * ranks, 3, 200, 24, 4, dtype, index_type, seed)
        features = bags.definition(bags.tables.double(), pooling)
        share = slice(48 * rank, 48 * (rank + 1))
        expected = torch.cat([one[share] for one in everyones(features)], 1)
        name = f"{dtype}, {index_type}, {pooling}, seed {seed}"
        for _ in range(4):
            require_near(bags.fused(pooling), expected, TOLERANCE, name)
        compiled = torch.compile(lambda one: one.fused(pooling, False) * 2, fullgraph=True, backend="aot_eager")
        require_near(compiled(bags), 2 * expected, TOLERANCE, f"{name}, compiled")
        require_near(replayed(lambda: bags.fused(pooling)), expected, TOLERANCE, f"{name}, captured")
        for sparse in (False, True):
            gradient = bags.trained(lambda: bags.fused(pooling, sparse))
            whole = bags.tables.double().requires_grad_()
            bags.definition(whole, pooling).sum().backward()
            require_near(gradient.to_dense(), whole.grad, TOLERANCE, f"{name}, gradient")


def bad_rows():
    """Checks that a bad row gives NaN and that a later call fails on all ranks. After forget(), calls are right."""
    bags = Bags(48 * dist.get_world_size(), 3, 200, 24, 4)
    bags.tune()
    expected, indices = bags.fused(), bags.indices
    if dist.get_rank() == 1:
        bags.indices = torch.where(torch.arange(len(indices), device="cuda") == 5, 200, indices)
    y = bags.fused()
    bags.indices = indices
    torch.cuda.synchronize()
    if not largest(y.isnan().any()):
        raise SystemExit("a row that there is not went unnoticed")
    try:
        for _ in range(3):
            bags.fused()
            torch.cuda.synchronize()
        raise SystemExit(f"rank {dist.get_rank()}: the next calls did not fail")
    except mc2.NativeError as error:
        print(f"# rank {dist.get_rank()}: {error}", flush=True)
    dist.barrier()
    mc2.torch.forget()
    bags.tune()
    require_near(bags.fused(), expected, TOLERANCE, "after a bad row")


def main():
    start()
    for case in (
        (torch.bfloat16, torch.int64, "sum"),
        (torch.float32, torch.int32, "mean"),
        (torch.float16, torch.int64, "mean"),
    ):
        check(*case)
    lines = [
        "samples,tables,rows,columns,bag_rows,fused_us,by_hand_us,ratio,captured_us,by_hand_captured_us,captured_ratio,"
        "trained_us,by_hand_trained_us,trained_ratio"
    ]
    for shape in SHAPES:
        bags = Bags(*shape)
        say(f"# {bags.tune().text}")
        require_near(bags.fused(), bags.by_hand(), TOLERANCE, f"{shape}")
        untrained = eager_and_captured(bags)
        trained = medians([lambda: bags.trained(bags.fused)], lambda: bags.trained(bags.by_hand))
        lines.append(",".join(map(str, (*shape, *untrained, *trained))))
        say(lines[-1])
        del bags
        mc2.torch.forget()
        torch.cuda.empty_cache()
    bad_rows()
    say("\n".join(lines))
    finish()


if __name__ == "__main__":
    main()
