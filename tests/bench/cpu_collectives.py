"""Compares mc2's all-reduce of CPU tensors with those of gloo, DeepSpeed and vLLM, between processes of one machine.

    python3 tests/bench/cpu_collectives.py RANKS [--deepspeed SOURCE] [--vllm SOURCE] [--sizes KIB ...] [--types NAME
    ...]

SOURCE is a copy of the project's repository, whose shm.cpp is compiled here: csrc/cpu/comm of DeepSpeed, csrc/cpu of
vLLM. gloo is the one in PyTorch. Every rank has cores / RANKS threads, pinned to cores of its own. The results are
compared with the sum first. Then all take turns, each with as many calls in a row as take 10 ms, at most 50.
Rank 0 prints a CSV: medians in us of one call, of the slowest rank, and the median over rounds of the fastest peer's
time / mc2's.
"""

import argparse
import importlib.machinery
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import mc2.torch

SIZES_KIB = (16, 64, 256, 1024, 4096, 32768)
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ROUNDS, WARMUPS = 41, 5
ROW_US, MOST_IN_ROW = 10_000, 50
VLLM_MOST_RANKS = 8
DEEPSPEED = """
#include <torch/extension.h>
#include "shm.h"
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("open", [](int size, int rank, std::string port) {
    static std::string address = "127.0.0.1", kept;
    kept = port;
    shm_initialize(size, rank, address.data(), kept.data());
  });
  m.def("all_reduce", [](torch::Tensor data) { all_reduce_outer_loop(data, data.numel(), data.nbytes()); });
}
"""
VLLM = """
#include <torch/extension.h>
int64_t init_shm_manager(const std::string&, const int64_t, const int64_t, const int64_t);
std::string join_shm_manager(int64_t, const std::string&);
void shm_allreduce(int64_t, torch::Tensor&);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("open", &init_shm_manager);
  m.def("join", &join_shm_manager);
  m.def("all_reduce", [](int64_t handle, torch::Tensor data) { shm_allreduce(handle, data); });
}
"""


def module_path(name):
    return pathlib.Path(tempfile.gettempdir()) / f"mc2-peer-{name}" / f"mc2_peer_{name}.so"


def compile_peer(name, source, wrapper):
    """Compiles a peer's module. To be called before the ranks start, because they import the result."""
    from torch.utils.cpp_extension import load

    folder = module_path(name).parent
    folder.mkdir(exist_ok=True)
    if not (folder / "wrapper.cpp").exists():  # writing it again would cause another compilation
        (folder / "wrapper.cpp").write_text(wrapper)
    load(
        f"mc2_peer_{name}",
        [str(source), str(folder / "wrapper.cpp")],
        extra_cflags=["-std=c++17", "-O3", "-fopenmp", "-march=native", "-w"],
        extra_ldflags=["-fopenmp"],
        extra_include_paths=[str(source.parent), str(source.parent.parent)],
        build_directory=str(folder),
    )


def imported(name):
    loader = importlib.machinery.ExtensionFileLoader(f"mc2_peer_{name}", str(module_path(name)))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def everyones(value):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


def calls(options, threads, key):
    """Functions that all-reduce a tensor in place, by name."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {"mc2": mc2.torch.cpu_all_reduce, "gloo": lambda tensor: dist.all_reduce(tensor)}
    if options.deepspeed:
        deepspeed = imported("deepspeed")
        deepspeed.open(ranks, rank, key)
        dist.barrier()
        found["deepspeed"] = deepspeed.all_reduce
    if options.vllm and ranks <= VLLM_MOST_RANKS:
        vllm = imported("vllm")
        handle = vllm.open(f"mc2-peer-{key}", ranks, rank, threads)
        dist.barrier()
        vllm.join(handle, f"mc2-peer-{key}")
        dist.barrier()
        found["vllm"] = lambda tensor: vllm.all_reduce(handle, tensor)
    return found


def is_right(call, dtype, count):
    tensor = (torch.arange(count) % 7 - 3 + dist.get_rank()).to(dtype)
    ranks = dist.get_world_size()
    expected = ((torch.arange(count) % 7 - 3) * ranks + ranks * (ranks - 1) // 2).to(dtype)
    try:
        call(tensor)
    except (RuntimeError, ValueError):  # gloo before PyTorch 2 has no bf16
        return False
    return torch.equal(tensor, expected)


def time_us(call, tensor, count):
    """Time of one call in a row of `count`. mc2's own all-reduce synchronises the ranks before, because gloo's barrier
    releases them milliseconds apart."""
    mc2.torch.cpu_all_reduce(torch.zeros(1))
    start = time.perf_counter()
    for _ in range(count):
        call(tensor)
    return (time.perf_counter() - start) * 1e6 / count


def rank_main(options):
    rank, ranks, key = (os.environ[name] for name in ("RANK", "WORLD_SIZE", "MC2_BENCH_KEY"))
    rank, ranks = int(rank), int(ranks)
    cores = sorted(os.sched_getaffinity(0))
    threads = max(1, len(cores) // ranks)
    if len(cores) >= ranks:
        os.sched_setaffinity(0, cores[rank * threads : (rank + 1) * threads])
    torch.set_num_threads(threads)
    dist.init_process_group(
        "gloo", init_method=f"file://{tempfile.gettempdir()}/mc2-bench-{key}", rank=rank, world_size=ranks
    )
    known = calls(options, threads, key)
    if rank == 0:
        print(
            "type,KiB,ranks,threads," + ",".join(f"{name}_us" for name in known) + ",fastest_peer,fastest_over_mc2",
            flush=True,
        )
    for name in options.types:
        dtype = TYPES[name]
        able = {peer: all(everyones(is_right(call, dtype, 5000))) for peer, call in known.items()}
        if not able["mc2"]:
            raise SystemExit(f"mc2's sum of {name} is wrong")
        for size in options.sizes:
            tensor = torch.zeros(size * 1024 // (torch.finfo(dtype).bits // 8), dtype=dtype)
            racing = [peer for peer in known if able[peer]]
            counts = {}
            for peer in racing:
                slowest = max(everyones(time_us(known[peer], tensor, 3)))
                counts[peer] = max(1, min(MOST_IN_ROW, int(ROW_US / slowest)))
            rounds = []
            for turn in range(ROUNDS + WARMUPS):
                order = racing[turn % len(racing) :] + racing[: turn % len(racing)]
                times = {peer: time_us(known[peer], tensor, counts[peer]) for peer in order}
                rounds.append([max(each) for each in zip(*everyones([times[peer] for peer in racing]))])
            rounds = rounds[WARMUPS:]
            medians = dict(zip(racing, (statistics.median(side) for side in zip(*rounds))))
            best = min(racing[1:], key=medians.get, default="mc2")
            ratio = statistics.median(times[racing.index(best)] / times[0] for times in rounds)
            if rank == 0:
                columns = [f"{medians[peer]:.1f}" if peer in medians else "" for peer in known]
                print(",".join(map(str, (name, size, ranks, threads, *columns, best, f"{ratio:.2f}"))), flush=True)
    dist.barrier()
    mc2.torch.forget()
    os._exit(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ranks", type=int)
    parser.add_argument("--deepspeed")
    parser.add_argument("--vllm")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES_KIB)
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    options = parser.parse_args()
    if "RANK" in os.environ:
        return rank_main(options)
    if options.deepspeed:
        compile_peer("deepspeed", pathlib.Path(options.deepspeed) / "csrc/cpu/comm/shm.cpp", DEEPSPEED)
    if options.vllm:
        compile_peer("vllm", pathlib.Path(options.vllm) / "csrc/cpu/shm.cpp", VLLM)
    threads = max(1, len(os.sched_getaffinity(0)) // options.ranks)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "WORLD_SIZE": str(options.ranks),
        "MC2_BENCH_KEY": str(os.getpid()),
    }
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env={**environment, "RANK": str(rank)})
        for rank in range(options.ranks)
    ]
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()
