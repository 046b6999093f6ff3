"""Times the linear layers of Llama 3 in tensor-parallel form: mc2.torch, the unfused calls and PyTorch's own fused
operators.

    torchrun --nproc-per-node 4 tests/bench/torch_layers.py --rows 1024,4096,8192
    python3 tests/bench/torch_layers.py --ranks 2 --shrink 8          starts its two processes itself

NCCL and bf16 where there is a GPU for every rank, else gloo and f32 on the CPU. Each shape is tuned first, which is not
timed. The competitors run in turn, in alternating order; a time is the slowest rank's, and a cell the median of the
rounds.
"""

import argparse
import os
import socket
import statistics
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

from mc2 import _core
from mc2.torch import _groups, _passes, _symmetric, functional
from mc2.torch._problem import Problem
from mc2.torch.tuning import Clock, captured, interleaved, tune

KINDS = ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul")
MODELS = {"llama-3-8b": (4096, 14336, 6144), "llama-3-70b": (8192, 28672, 10240)}  # hidden, mlp, q + k + v


def layers(model, ranks):
    """Yields (name, kind, n, k) of a rank's share of each linear layer, with and without sequence parallelism."""
    hidden, mlp, qkv = MODELS[model]
    for name, n, k in (("attention out", hidden, hidden // ranks), ("mlp down", hidden, mlp // ranks)):
        yield name, "matmul_all_reduce", n, k
        yield name, "matmul_reduce_scatter", n, k
    yield "attention in", "all_gather_matmul", qkv // ranks, hidden
    yield "mlp up", "all_gather_matmul", 2 * mlp // ranks, hidden


def check_equal(results, dtype):
    """Exits unless each competitor's result equals the unfused one, up to the rounding of sums in another order."""
    expected = results["unfused"].double()
    for name, result in results.items():
        error = float((result.double() - expected).abs().max() / expected.abs().max())
        if not error <= 16 * torch.finfo(dtype).eps * dist.get_world_size():
            raise SystemExit(f"{name} differs from unfused by {error:.1e} of its largest element")


def measure(kind, m, n, k, device, dtype, arguments):
    group = _groups.resolve(None)
    tuned = tune(kind, m=m, n=n, k=k, dtype=dtype, device=device, race_rounds=arguments.rounds)
    rows = m // group.size if kind in _core.GATHERING_KINDS else m
    generator = torch.Generator(device=device).manual_seed(group.rank)
    x, w = (
        torch.empty(shape, device=device).uniform_(-1, 1, generator=generator).to(dtype)
        for shape in ((rows, k), (k, n))
    )
    operator, fused = getattr(functional, kind), _symmetric.operator(kind, group)
    calls = {"mc2": lambda: operator(x, w), "unfused": lambda: _passes.unfused(kind, group, x, w)}
    if fused:
        calls["torch fused"] = lambda: fused(x, w)
    with torch.no_grad():
        check_equal({name: call() for name, call in calls.items()}, dtype)
        runs = {name: captured(call) for name, call in calls.items()} if arguments.graph else calls
        clock, problem = Clock(group, device, not arguments.back_to_back), Problem(kind, group, device, dtype, m, n, k)
        times = interleaved(problem, list(runs.values()), clock, arguments.rounds)
    return tuned, dict(zip(runs, times))


def cell(times, name):
    return f"{statistics.median(times[name]):10.0f}" if name in times else f"{'-':>10}"


def line(m, n, k, tuned, times, is_captured):
    ratio, low, high = _core.paired_ratio(times["mc2"], times["unfused"])
    plan = tuned.captured_plan if is_captured else tuned.plan
    is_fused = tuned.is_captured_fused if is_captured else tuned.is_fused
    cut = f"{plan.cut}, {plan.variant}" if is_fused else "unfused"
    return (
        f"{m:6} {n:6} {k:6} {cell(times, 'mc2')} {cell(times, 'unfused')} {cell(times, 'torch fused')}  "
        f"{ratio:5.3f} ({low:5.3f} to {high:5.3f})  {cut}"
    )


def start(ranks, arguments):
    """Starts one process per rank on this machine, as torchrun would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(run_rank, (ranks, port, arguments), ranks)


def run_rank(rank, ranks, port, arguments):
    os.environ.update(
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    )
    os.environ.setdefault("USE_LIBUV", "0")  # PyTorch's default since 2.4, but Debian builds PyTorch without libuv
    run(arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="llama-3-8b", help=", ".join(MODELS))
    parser.add_argument("--rows", default="1024,4096,8192", help="tokens of a step")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--shrink", type=int, default=1, help="divides the widths of the layers, for slow machines")
    parser.add_argument("--ranks", type=int, help="processes to start where torchrun has started none (default: 2)")
    parser.add_argument("--graph", action="store_true", help="replay CUDA graphs instead of calling")
    parser.add_argument(
        "--back-to-back", action="store_true", help="mean of calls one behind the other, so that launching counts"
    )
    arguments = parser.parse_args()
    for option, given, legal in (("--kinds", arguments.kinds, KINDS), ("--models", arguments.models, MODELS)):
        unknown = [name for name in given.split(",") if name not in legal]
        if unknown:
            parser.error(f"{option}: {', '.join(unknown)}: legal are {', '.join(legal)}")
    for option, given in (("--rows", arguments.rows), ("--rounds", arguments.rounds), ("--shrink", arguments.shrink)):
        wrong = [each for each in str(given).split(",") if not each.isdecimal() or int(each) < 1]
        if wrong:
            parser.error(f"{option}: {', '.join(wrong)}: legal are whole numbers from 1 on")
    started = os.environ.get("WORLD_SIZE") if "RANK" in os.environ else None
    if started is None and arguments.ranks is not None and not 2 <= arguments.ranks <= 1024:
        parser.error(f"--ranks: is {arguments.ranks}; legal: 2 to 1024")
    if started is not None and arguments.ranks not in (None, int(started)):
        parser.error(f"--ranks: is {arguments.ranks}, but {started} processes were started; leave it out")
    if started is None:
        start(arguments.ranks or 2, arguments)
    else:
        run(arguments)


def run(arguments):
    has_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpus else torch.device("cpu")
    if has_gpus:
        torch.cuda.set_device(device)
    elif arguments.graph:
        sys.exit("--graph needs a GPU for every rank")
    dist.init_process_group("nccl" if has_gpus else "gloo")
    dtype = torch.bfloat16 if has_gpus else torch.float32
    group = _groups.resolve(None)
    if group.rank == 0:
        print(
            f"{group.size} ranks, {_groups.fingerprint(group, device)}, PyTorch {torch.__version__}, {dtype}; us, "
            f"medians of "
            f"{arguments.rounds}, slowest "
            f"rank{', CUDA graphs' * arguments.graph}{', back to back' * arguments.back_to_back}"
        )
        print(
            f"{'m':>6} {'n':>6} {'k':>6} {'mc2':>10} {'unfused':>10} {'torch':>10}  mc2 / unfused (95 %)    plan",
            flush=True,
        )
    for model in arguments.models.split(","):
        for name, kind, n, k in layers(model, group.size):
            if kind not in arguments.kinds.split(","):
                continue
            if group.rank == 0:
                print(f"{model} {name}, {kind}")
            for m in map(int, arguments.rows.split(",")):
                n_used, k_used = n // arguments.shrink, k // arguments.shrink
                tuned, times = measure(kind, m, n_used, k_used, device, dtype, arguments)
                if group.rank == 0:
                    print(line(m, n_used, k_used, tuned, times, arguments.graph), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
