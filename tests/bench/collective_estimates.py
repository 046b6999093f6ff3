"""Compares estimates of a collective's time by mc2's models and by PyTorch with measurements, for sizes that were not
tuned, on the GPUs of one host.

    torchrun --nproc-per-node 2 collective_estimates.py

MC2_STORE must hold the results of `mc2.torch.tune` for Llama-3-8B's layers at m = 4096 on this host.

Prints CSV. PyTorch's two estimates are those of Inductor's overlap scheduler: by bandwidths, and by NCCL's own
estimator.
"""

import statistics

import torch
import torch.distributed as dist
from torch._inductor import comm_analysis
from torch._subclasses import FakeTensorMode
from torch.fx import Graph
from torch_rig import device_us, largest, say, start

import mc2.torch
from mc2.torch import inductor

C = torch.ops._c10d_functional
TUNED = (
    ("matmul_all_reduce", 4096, 2048),
    ("matmul_all_reduce", 4096, 7168),
    ("matmul_reduce_scatter", 4096, 2048),
    ("all_gather_matmul", 3072, 4096),
)
ROWS, WIDTHS = (512, 1024, 3000, 4096, 6144, 12288), (2048, 5120)
CALLS, ROUNDS = 20, 7


def call(name, x, ranks):
    """A call as compiled programs make it: into memory that exists already; an all-reduce in place."""
    if name == "all_reduce":
        return lambda: dist.all_reduce(x)
    rows = x.shape[0] * ranks if name == "all_gather_into_tensor" else x.shape[0] // ranks
    y = x.new_empty(rows, x.shape[1])
    return lambda: getattr(dist, name)(y, x)


def node(name, x, group, ranks):
    """The collective's node in a graph after mc2's compiler pass."""
    graph, fake = Graph(), FakeTensorMode()
    given = graph.placeholder("x")
    given.meta["val"] = fake.from_tensor(x)
    args = {"all_gather_into_tensor": (given, ranks, group), "all_reduce": (given, "sum", group)}.get(
        name, (given, "sum", ranks, group)
    )
    made = graph.call_function(getattr(C, name).default, args)
    with fake:
        made.meta["val"] = made.target(given.meta["val"], *args[1:])
    wait = graph.call_function(C.wait_tensor.default, (made,))
    wait.meta["val"] = made.meta["val"]
    graph.output(wait)
    inductor.fuse(graph)
    return made


def measured_us(run):
    """Time of one of many calls, whose launches are queued ahead: median over rounds, of the slowest rank."""
    times = []
    for _ in range(ROUNDS):
        dist.barrier()
        torch.cuda._sleep(int(1e7))  # longer than the host needs for the launches
        times.append(largest(device_us(run, CALLS)))
    return statistics.median(times)


def main():
    start()
    ranks, group = dist.get_world_size(), dist.group.WORLD.group_name
    for kind, n, k in TUNED:
        mc2.torch.tune(kind, m=4096, n=n, k=k, dtype=torch.bfloat16)
    inductor.enable()
    say(
        f"# {torch.cuda.get_device_name()} x {ranks}, PyTorch {torch.__version__}, NCCL "
        f"{'.'.join(map(str, torch.cuda.nccl.version()))}"
    )
    say("collective,message_bytes,mc2_us,pytorch_bandwidth_us,pytorch_nccl_us,measured_us")
    for name in ("all_reduce", "reduce_scatter_tensor", "all_gather_into_tensor"):
        for rows in ROWS:
            for width in WIDTHS:
                x = torch.randn(
                    rows // ranks if name == "all_gather_into_tensor" else rows,
                    width,
                    dtype=torch.bfloat16,
                    device="cuda",
                )
                made = node(name, x, group, ranks)
                mc2_ms = inductor.estimate_ms(made)
                theirs = [
                    comm_analysis.estimate_nccl_collective_runtime_from_fx_node(made, use_nccl_estimator=by_nccl)
                    for by_nccl in (False, True)
                ]
                taken = measured_us(call(name, x, ranks))
                ours = "" if mc2_ms is None else f"{mc2_ms * 1e3:.1f}"
                say(f"{name},{rows * width * 2},{ours},{theirs[0] * 1e3:.1f},{theirs[1] * 1e3:.1f},{taken:.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
