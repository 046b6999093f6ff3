#!/usr/bin/env python3
"""Compares the prediction of mc2 model for a whole step with the measured step.

The step is a stack of Llama-like blocks on two ranks in network namespaces.

    MC2_PROGRAM=build/ci/planner/cli/mc2 PYTHONPATH=build/ci/executor/python python3 tests/bench/model_steps.py 1gbit
    [--over mpi]

Each rank has one core. Two lengths are tuned for every layer; the steps have these lengths and others. For each length,
prints the time of the unfused step, that of the step by mc2, and the saving that mc2 model predicts, as in
data/bench/model_steps.csv. Over gloo the steps call torch.distributed and mc2.torch. Over mpi both use mc2's backend
mpi; the unfused step uses the variant that is the fastest serial by the model. Needs root, iproute2, PyTorch with gloo,
and Open MPI. docs/benchmarks.md has the last results.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "cli"))
LAYERS, WIDTH, HEADS, HIDDEN, RANKS = 8, 1024, 16, 2816, 2
TUNED, OTHERS = (256, 512), (320, 384, 448, 640)
# Name, n and k of the whole layer, which is a matmul followed by an all-reduce.
SITES = (
    ("attention_out", WIDTH, WIDTH),
    ("mlp_down", WIDTH, HIDDEN),
)
# By default glibc returns large blocks of memory to the kernel and gets them again in each step, fused or not, which
# takes up to a quarter of the step.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_ARENA_MAX": "1"}


def op_of(m, n, k):
    """The operator of one rank."""
    return mc2.OpSpec("matmul_all_reduce", m=m, n=n, k=k, dtype="f32", ranks=RANKS)


def kept_models(store, op, fingerprint):
    return [model for model in store.list_models(op, fingerprint) if (model.op.n, model.op.k) == (op.n, op.k)]


def require_same(found, expected, m):
    difference = (found - expected).norm() / expected.norm()
    if difference > 1e-5:
        sys.exit(f"model_steps.py: results differ by {difference:.1e} in the 2-norm at m={m}")


class Stack:
    """Blocks with random weights, sharded as in Megatron-LM: one all-reduce after attention and one after the MLP."""

    def __init__(self, rank):
        torch.manual_seed(rank)
        share, inner = WIDTH // RANKS, HIDDEN // RANKS
        shapes = {"qkv": (WIDTH, 3 * share), "out": (share, WIDTH), "up": (WIDTH, 2 * inner), "down": (inner, WIDTH)}
        self.blocks = [
            {name: torch.randn(shape) / shape[0] ** 0.5 for name, shape in shapes.items()} for _ in range(LAYERS)
        ]

    @staticmethod
    def norm(x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)

    @staticmethod
    def attention(x, w):
        q, k, v = (
            part.view(len(x), -1, WIDTH // HEADS).transpose(0, 1) for part in (Stack.norm(x) @ w["qkv"]).chunk(3, -1)
        )
        scores = (q @ k.transpose(1, 2)) * (WIDTH // HEADS) ** -0.5
        mask = torch.full(scores.shape[1:], float("-inf")).triu(1)
        return (torch.softmax(scores + mask, -1) @ v).transpose(0, 1).reshape(len(x), -1)

    def __call__(self, x, reduced_product):
        for w in self.blocks:
            x = x + reduced_product(self.attention(x, w), w["out"])
            gate, up = (self.norm(x) @ w["up"]).chunk(2, -1)
            x = x + reduced_product(torch.nn.functional.silu(gate) * up, w["down"])
        return x


def unfused(x, w):
    y = torch.mm(x, w)
    dist.all_reduce(y)
    return y


def step_us(stack, x, reduced_product):
    """Time of one step on the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    stack(x, reduced_product)
    taken = torch.tensor([(time.perf_counter() - start) * 1e6])
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return taken.item()


def pair_us(stack, x, is_fused_first):
    """Times of one step unfused and one by mc2."""
    fused = step_us(stack, x, mc2.torch.matmul_all_reduce) if is_fused_first else None
    without = step_us(stack, x, unfused)
    return without, fused or step_us(stack, x, mc2.torch.matmul_all_reduce)


def run_rank(options):
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {options.rank % os.cpu_count()})
    dist.init_process_group("gloo", init_method=f"tcp://{options.address}:29511", rank=options.rank, world_size=RANKS)
    for m in TUNED:
        for _, n, k in SITES:
            found = mc2.torch.tune("matmul_all_reduce", m=m, n=n, k=k // RANKS, dtype=torch.float32)
            if options.rank == 0:
                print("#", found.text, flush=True)
    stack = Stack(options.rank)
    with torch.no_grad():
        for m in (*TUNED, *OTHERS):
            torch.manual_seed(7)
            x = torch.randn(m, WIDTH)
            require_same(stack(x, mc2.torch.matmul_all_reduce), stack(x, unfused), m)
            pairs = [pair_us(stack, x, is_fused_first=i % 2 == 1) for i in range(options.rounds)]
            if options.rank == 0:
                print(json.dumps({"m": m, "pairs": pairs}), flush=True)
    dist.destroy_process_group()
    mc2.torch.forget()


class MpiStep:
    """Steps of one length over mc2's backend mpi. Every layer is prepared twice: with its kept or planned cut, and as
    the fastest serial."""

    def __init__(self, world, store, stack, m):
        self.stack, self.x, self.prepared = stack, torch.randn(m, WIDTH, generator=torch.Generator().manual_seed(7)), {}
        for block in stack.blocks:
            for name in ("out", "down"):
                self.prepared[id(block[name])] = self.prepare(world, store, block[name].numpy(), m)

    @staticmethod
    def prepare(world, store, w, m):
        op = op_of(m, w.shape[1], w.shape[0])
        plan = mc2.find_plan(op, world.fingerprint, store=store).plan
        model = kept_models(store, op, world.fingerprint)[0]
        serial = min(
            (mc2.predict(op, model, [m], variant.variant) for variant in model.variants),
            key=lambda each: each.serial_us,
        )
        a, c = np.empty((m, op.k), np.float32), np.empty((m, op.n), np.float32)
        return a, c, world.prepare(plan, [a], [w], [c]), world.prepare(serial, [a], [w], [c])

    def run(self, is_fused):
        def product(x, w):
            a, c, fused, serial = self.prepared[id(w)]
            torch.from_numpy(a).copy_(x)
            (fused if is_fused else serial).run("fused" if is_fused else "serial")
            return torch.from_numpy(c)

        return self.stack(self.x, product)

    def pair_us(self, meet, is_fused_first):
        times = {}
        for is_fused in (is_fused_first, not is_fused_first):
            meet()
            start = time.perf_counter()
            self.run(is_fused)
            times[is_fused] = (time.perf_counter() - start) * 1e6
        return times[False], times[True]


def run_mpi_rank(options):
    """Runs one rank and writes its times to files beside the store. The launcher joins the times of both ranks."""
    torch.set_num_threads(1)
    world, rank = mc2.Communicator(ranks=RANKS, backend="mpi"), int(os.environ["OMPI_COMM_WORLD_RANK"])
    stack = Stack(rank)
    with mc2.Store(options.store, read_only=True) as store, torch.no_grad():
        a, w = np.ones((2, 8), np.float32), np.ones((8, 8), np.float32)
        op = op_of(2, 8, 8)
        barrier = world.prepare(_core.unpredicted(op, world.fingerprint, [op.n], world.variants(op)[0]), [a], [w])
        for m in (*TUNED, *OTHERS):
            step = MpiStep(world, store, stack, m)
            expected = step.run(False).clone()
            require_same(step.run(True), expected, m)
            pairs = [step.pair_us(barrier.run, i % 2 == 1) for i in range(options.rounds)]
            pathlib.Path(f"{options.store}.{rank}.{m}").write_text(json.dumps(pairs))


def mpi_pairs(options, folder, environment):
    """Tunes with the program, then runs the ranks. Pairs of times for each m, of the slowest rank."""
    import mpi_hosts_figures

    arguments = types.SimpleNamespace(mc2=pathlib.Path(os.environ["MC2_PROGRAM"]), ranks=1)
    jobs = mpi_hosts_figures.Figures(arguments, folder)
    store = folder / "store.db"
    for m in TUNED:
        for _, n, k in SITES:
            asked = f"tune --backend mpi --op matmul_all_reduce --m {m} --n {n} --k {k // RANKS} --ranks {RANKS}"
            done = jobs.mc2(*asked.split(), "--dtype", "f32", "--store", store, "--budget", 5)
            print(f"# m={m} n={n} k={k // RANKS}:", " ".join(done.stdout.split()), file=sys.stderr, flush=True)
            if done.returncode != 0:
                sys.exit(f"model_steps.py: mc2 tune failed: {done.stderr}")
    launch = [*jobs.command("PYTHONPATH", "OMP_NUM_THREADS", *MALLOC), sys.executable, __file__, options.rate]
    command = [*map(str, [*launch, "--over", "mpi", "--store", store, "--rounds", options.rounds])]
    if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=1200, check=False).returncode != 0:
        sys.exit("model_steps.py: a rank failed")
    by_rank = {
        m: [json.loads(pathlib.Path(f"{store}.{rank}.{m}").read_text()) for rank in range(RANKS)]
        for m in (*TUNED, *OTHERS)
    }
    return [{"m": m, "pairs": [tuple(map(max, *both)) for both in zip(*pairs)]} for m, pairs in by_rank.items()]


def gloo_pairs(options, folder, environment):
    """Runs the ranks over gloo. Pairs of times for each m, of the slowest rank."""
    import two_hosts

    ranks = [
        subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                place,
                sys.executable,
                __file__,
                options.rate,
                "--rank",
                str(rank),
                "--address",
                two_hosts.ADDRESSES[0],
                "--rounds",
                str(options.rounds),
            ],
            env=environment,
            stdout=subprocess.PIPE if rank == 0 else None,
            text=True,
        )
        for rank, place in enumerate(two_hosts.PLACES)
    ]
    lines = []
    for line in ranks[0].stdout:
        print(line, end="", file=sys.stderr, flush=True)
        lines.append(line)
    if any(rank.wait() for rank in ranks):
        sys.exit("model_steps.py: a rank failed")
    return [json.loads(line) for line in lines if line.startswith("{")]


def promised(store, folder):
    """For each m, the times in us that mc2 model predicts for the step's fused layers: serial, fused, low, high."""
    layers = folder / "layers.csv"
    layers.write_text(
        "model,layer,parallel,n,k,units,dtype,count\n"
        + "".join(f"stack,{name},row,{n},{k},,f32,{LAYERS}\n" for name, n, k in SITES)
    )
    documents = []
    with mc2.Store(store, read_only=True) as kept:
        fingerprint = kept.list_plans()[0].plan.fingerprint
        for _, n, k in SITES:
            for i, model in enumerate(kept_models(kept, op_of(TUNED[-1], n, k // RANKS), fingerprint)):
                path = folder / f"{k}-{i}.json"
                path.write_text(model.to_json())
                documents += ["--model", str(path)]
    found = {}
    for m in (*TUNED, *OTHERS):
        done = subprocess.run(
            [os.environ["MC2_PROGRAM"], "model", layers, "--ranks", str(RANKS), "--m", str(m), "--json", *documents],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode != 0:
            sys.exit(f"model_steps.py: mc2 model failed: {done.stderr}")
        step = next(step for step in json.loads(done.stdout)["steps"] if step["form"] == "all_reduce")
        found[m] = (step["serial_us"], step["fused"]["us"], step["fused"]["low_us"], step["fused"]["high_us"])
    return found


def launch(options):
    import two_hosts

    fault = two_hosts.make_places(options.rate)
    if fault:
        sys.exit(f"model_steps.py: {fault}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = {
            **os.environ,
            "MC2_STORE": str(folder / "store.db"),
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
            **MALLOC,
        }
        try:
            measured = (mpi_pairs if options.over == "mpi" else gloo_pairs)(options, folder, environment)
        finally:
            two_hosts.remove_places()
        model = promised(folder / "store.db", folder)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        [
            "link",
            "over",
            "m",
            "m was",
            "unfused ms",
            "with mc2 ms",
            "saved ms",
            "promised ms",
            "promised from ms",
            "to ms",
            "predicted step ms",
            "error",
            f"rounds slower of {options.rounds}",
        ]
    )
    for entry in measured:
        m, pairs = entry["m"], entry["pairs"]
        serial, fused, low, high = model[m]
        without, with_it = (statistics.median(times) for times in zip(*pairs))
        saved = statistics.median(a - b for a, b in pairs)
        predicted = without - (serial - fused)  # the rest of the step counts as measured in the unfused step
        times_us = (without, with_it, saved, serial - fused, serial - high, serial - low, predicted)
        writer.writerow(
            [
                options.rate,
                options.over,
                m,
                "tuned" if m in TUNED else "planned",
                *(f"{time_us / 1000:.0f}" for time_us in times_us),
                f"{100 * (predicted / with_it - 1):+.1f} %",
                sum(b > a for a, b in pairs),
            ]
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rate", help="of the link, each direction, as tc names it: 1gbit")
    parser.add_argument("--over", choices=("gloo", "mpi"), default="gloo", help="what joins the ranks (default: gloo)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--address")
    given = parser.parse_args()
    import mc2
    from mc2 import _core

    if given.rank is None and given.store is None:
        launch(given)
    elif given.store is not None:
        import numpy as np
        import torch

        run_mpi_rank(given)
    else:
        import torch
        import torch.distributed as dist

        import mc2.torch

        run_rank(given)
