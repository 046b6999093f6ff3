"""Shared by comparisons with PyTorch's calls: ranks on GPUs of their own, calls as CUDA graphs, times."""

import os
import statistics

import torch
import torch.distributed as dist

ROUNDS, WARMUPS = 21, 4
TOLERANCE = 0.03  # for sums in bf16, relative to the largest element


def start():
    """Initialises this process as one of the ranks that torchrun started."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)


def finish():
    torch.cuda.synchronize()
    dist.barrier()
    os._exit(0)  # a normal exit would hang: the communicator waits for what the graphs still hold


def say(*words):
    """Prints on rank 0 only."""
    if dist.get_rank() == 0:
        print(*words, flush=True)


def everyones(tensor):
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, tensor.contiguous())
    return gathered


def largest(value):
    """The largest value of all ranks."""
    found = torch.tensor([float(value)], device="cuda")
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return found.item()


def require_near(found, expected, tolerance, name):
    error = ((found.double() - expected.double()).abs().max() / expected.double().abs().max()).item()
    if not error < tolerance:
        raise SystemExit(f"rank {dist.get_rank()}: {name} is wrong by {error:.3g}")


def captured(call):
    """Captures the call in a CUDA graph. Returns a function that replays it and the tensor that gets its result."""
    with torch.no_grad():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
    return graph.replay, result


def replayed(call):
    """The result of the call when replayed as a CUDA graph."""
    replay, result = captured(call)
    result.zero_()
    replay()
    torch.cuda.synchronize()
    return result.clone()


def device_us(call, count=1):
    """Time of one call in a row of `count`."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return 1000 * start.elapsed_time(end) / count


def time_us(call):
    dist.barrier()
    torch.cuda.synchronize()
    return largest(device_us(call))


def medians(ours, by_hand):
    """Median time in us of each call, then for each of ours the median of by_hand's time / its time."""
    rounds = [[time_us(call) for call in (*ours, by_hand)] for _ in range(ROUNDS + WARMUPS)][WARMUPS:]
    ratios = [[times[-1] / time for time in times[:-1]] for times in rounds]
    return [
        *(f"{statistics.median(side):.0f}" for side in zip(*rounds)),
        *(f"{statistics.median(side):.2f}" for side in zip(*ratios)),
    ]


def eager_and_captured(one):
    """medians() of one.fused and one.by_hand, first eager and then as CUDA graphs."""
    with torch.no_grad():
        eager = medians([one.fused], one.by_hand)
    fused, by_hand = (captured(call)[0] for call in (one.fused, one.by_hand))
    return [*eager, *medians([fused], by_hand)]
