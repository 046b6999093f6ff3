"""What comparisons with PyTorch's calls share: ranks on GPUs of their own, calls as CUDA graphs, times."""

import os
import statistics

import torch
import torch.distributed as dist

ROUNDS, WARMUPS = 21, 4
TOLERANCE = 0.03  # of bf16's sums, relative to the largest


def start():
    """A rank of those that torchrun has started."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)


def finish():
    torch.cuda.synchronize()
    dist.barrier()
    os._exit(0)  # graphs hold what their communicator waits for


def say(*words):
    """By rank 0."""
    if dist.get_rank() == 0:
        print(*words, flush=True)


def everyones(tensor):
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, tensor.contiguous())
    return gathered


def largest(value):
    """Of all ranks."""
    found = torch.tensor([float(value)], device="cuda")
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return found.item()


def require_near(found, expected, tolerance, name):
    error = ((found.double() - expected.double()).abs().max() / expected.double().abs().max()).item()
    if not error < tolerance:
        raise SystemExit(f"rank {dist.get_rank()}: {name} is wrong by {error:.3g}")


def captured(call):
    """What replays the call as a CUDA graph, and where it leaves its result."""
    with torch.no_grad():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
    return graph.replay, result


def replayed(call):
    """The call's result as a CUDA graph leaves it."""
    replay, result = captured(call)
    result.zero_()
    replay()
    torch.cuda.synchronize()
    return result.clone()


def device_us(call, count=1):
    """Of one call, in a row of so many."""
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
    """In us of each, and the medians of by_hand's ratios to ours."""
    rounds = [[time_us(call) for call in (*ours, by_hand)] for _ in range(ROUNDS + WARMUPS)][WARMUPS:]
    ratios = [[times[-1] / time for time in times[:-1]] for times in rounds]
    return [
        *(f"{statistics.median(side):.0f}" for side in zip(*rounds)),
        *(f"{statistics.median(side):.2f}" for side in zip(*ratios)),
    ]


def eager_and_captured(one):
    """medians() of one.fused beside one.by_hand, as they are and as CUDA graphs."""
    with torch.no_grad():
        eager = medians([one.fused], one.by_hand)
    fused, by_hand = (captured(call)[0] for call in (one.fused, one.by_hand))
    return [*eager, *medians([fused], by_hand)]
