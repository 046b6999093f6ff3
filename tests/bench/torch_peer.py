"""Times PyTorch's operators on the operands of `mc2-bench peers`, on request. Part of that program.

usage: python3 torch_peer.py RANKS

Requests and answers are JSON, one line each, on standard input and output:
  (start)                                            {"torch": VERSION, "cuda": ..., "nccl": ..., "device": ...}
  {"do": "open", "op": ..., "dtype": ..., "m": ..., "n": ..., "k": ..., "directory": ...}
                                                     {"forms": {NAME: {"error_ratio": R} or {"failure": TEXT}}}
  {"do": "time", "repetitions": COUNT}               {"times_us": {NAME: [COUNT numbers]}}
  {"do": "close"}                                    {}
The answer to any of them may be {"error": TEXT}. `directory` holds a.R, b.R and c.R of every rank R: raw elements,
row-major. c is the result with which each form is compared. Where elements have scales, there are also a_scales.R and
b_scales.R. End of input ends the program.

The first process starts one worker per GPU, passes every request to all of them and passes on the answer of rank 0. It
does no work with torch itself, so that it can report a failed worker.
"""

import ctypes
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

RANK_VARIABLE = "MC2_TORCH_PEER_RANK"
WARMUP_COUNT = 3
# A kernel of this length covers the launch of what follows, so that a graph's time excludes its launch, as mc2's does.
LAUNCH_COVER_CYCLES = 400_000
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}


def say(answer):
    """Writes one line to the original standard output. Libraries print to the one that replaced it."""
    ANSWERS.write(json.dumps(answer) + "\n")
    ANSWERS.flush()


def last_words(error):
    return "".join(traceback.format_exception_only(type(error), error)).strip()


# ---- worker: one rank ----


class Worker:
    def __init__(self, rank, rank_count):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.rank, self.rank_count = torch, dist, rank, rank_count
        self.device = torch.device("cuda", rank)
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", rank=rank, world_size=rank_count, device_id=self.device)
        self.group_name = dist.group.WORLD.group_name
        self.flag = torch.zeros(1, device=self.device)
        self.meet()
        torch.cuda.synchronize()
        self.has_fused = self.enable_fused()
        self.side_stream = torch.cuda.Stream()
        self.forms = {}

    def enable_fused(self):
        try:
            import warnings

            import torch.distributed._symmetric_memory as symmetric_memory

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # newer versions enable every group and say so
                symmetric_memory.enable_symm_mem_for_group(self.group_name)
            return True
        except Exception as error:  # noqa: BLE001  the unfused forms still run
            print(f"rank {self.rank}: no fused operators: {last_words(error)}", file=sys.stderr)
            return False

    def software(self):
        torch = self.torch
        kept = ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "CUDA_VISIBLE_DEVICES")
        return {
            "torch": torch.__version__,
            "cuda": str(torch.version.cuda),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "device": torch.cuda.get_device_name(self.device),
            "environment": {name: os.environ[name] for name in kept if name in os.environ},
        }

    def meet(self):
        """Synchronises the ranks on the device."""
        self.dist.all_reduce(self.flag)

    def largest(self, values):
        """The largest values of all ranks, element by element."""
        gathered = self.torch.tensor(values, dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(gathered, op=self.dist.ReduceOp.MAX)
        return gathered.tolist()

    def load(self, name, rows, columns, dtype):
        path = os.path.join(self.directory, f"{name}.{self.rank}")
        is_f8 = dtype == getattr(self.torch, "float8_e4m3fn", None)
        # from_file() reads only types that have arithmetic, so f8 is read as bytes.
        matrix = self.torch.from_file(
            path, shared=False, size=rows * columns, dtype=self.torch.uint8 if is_f8 else dtype
        )
        return (matrix.view(dtype) if is_f8 else matrix).view(rows, columns).to(self.device)

    def open(self, request):
        torch = self.torch
        self.directory = request["directory"]
        self.operand = getattr(torch, DTYPES[request["dtype"]])
        self.has_scales = request["dtype"] == "f8e4m3"
        self.dtype = torch.bfloat16 if self.has_scales else self.operand
        m, n, k, op = request["m"], request["n"], request["k"], request["op"]
        gathers, scatters = op == "all_gather_matmul", op == "matmul_reduce_scatter"
        self.a = self.load("a", m // self.rank_count if gathers else m, k, self.operand)
        self.b = self.load("b", k, n, self.operand)
        if self.has_scales:
            self.b = self.b.t().contiguous().t()  # the only layout that scaled matmuls take
            self.scales = [self.load(name, 1, 1, torch.float32).view(()) for name in ("a_scales", "b_scales")]
        expected = self.load("c", m // self.rank_count if scatters else m, n, self.dtype)
        self.tolerance = 4 * {"f16": 2**-11, "f32": 2**-22 * k**0.5}.get(request["dtype"], 2**-8)
        calls = {"unfused": getattr(self, op)(m, n, k)}
        fused = getattr(self, "fused_" + ("scaled_" if self.has_scales else "") + op, None)
        if fused and self.has_fused:
            calls = {"fused": fused(), **calls}
        self.forms, answers = {}, {}
        for name, call in calls.items():
            for form, make in ((f"{name}_eager", self.eager), (f"{name}_graph", self.graph)):
                answers[form] = self.make_form(form, lambda make=make, call=call: make(call), expected)
        return {"forms": answers}

    # The calls of a program without mc2. Each method returns a callable that returns the result.

    def multiply(self, a, out):
        if not self.has_scales:
            return self.torch.matmul(a, self.b, out=out)
        return self.torch._scaled_mm(a, self.b, *self.scales, out_dtype=self.dtype, out=out)

    def matmul_all_reduce(self, m, n, k):
        product = self.torch.empty(m, n, dtype=self.dtype, device=self.device)

        def call():
            self.multiply(self.a, product)
            self.dist.all_reduce(product)
            return product

        return call

    def matmul_reduce_scatter(self, m, n, k):
        product = self.torch.empty(m, n, dtype=self.dtype, device=self.device)
        result = self.torch.empty(m // self.rank_count, n, dtype=self.dtype, device=self.device)

        def call():
            self.multiply(self.a, product)
            self.dist.reduce_scatter_tensor(result, product)
            return result

        return call

    def all_gather_matmul(self, m, n, k):
        gathered = self.torch.empty(m, k, dtype=self.operand, device=self.device)
        result = self.torch.empty(m, n, dtype=self.dtype, device=self.device)

        def call():
            self.dist.all_gather_into_tensor(gathered, self.a)
            self.multiply(gathered, result)
            return result

        return call

    # PyTorch's fused operators.

    def fused_matmul_reduce_scatter(self):
        operator = self.torch.ops.symm_mem.fused_matmul_reduce_scatter
        return lambda: operator(self.a, self.b, "sum", 0, self.group_name)

    def fused_all_gather_matmul(self):
        operator = self.torch.ops.symm_mem.fused_all_gather_matmul
        # Neither this operator nor mc2 is asked for the gathered A.
        return lambda: operator(self.a, [self.b], 0, self.group_name, return_A=False)[1][0]

    def fused_scaled_matmul_reduce_scatter(self):
        operator = self.torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter
        shape = [self.a.shape[0], self.b.shape[1]]
        return lambda: operator(self.a, self.b, *self.scales, "sum", 0, 0, self.group_name, shape, out_dtype=self.dtype)

    def fused_scaled_all_gather_matmul(self):
        operator = self.torch.ops.symm_mem.fused_all_gather_scaled_matmul
        a_scale, b_scale = self.scales
        return lambda: operator(
            self.a, [self.b], a_scale, [b_scale], 0, self.group_name, [None], [None], [self.dtype], [False]
        )[1][0]

    # A form is a callable that enqueues the work and returns the tensor it will write.

    def eager(self, call):
        return call

    def graph(self, call):
        torch = self.torch
        self.side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side_stream):  # workspaces and connections must exist before the capture
            for _ in range(WARMUP_COUNT):
                call()
        torch.cuda.current_stream().wait_stream(self.side_stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # NCCL's watchdog thread queries events during the capture, which the strictest mode refuses.
        with torch.cuda.graph(graph, stream=self.side_stream, capture_error_mode="thread_local"):
            result = call()
        result.fill_(float("nan"))

        def replay():
            graph.replay()
            return result

        return replay

    def make_form(self, name, make, expected):
        """Keeps the form if it works on every rank. Returns its error ratio or the failure."""
        failure, ratio = "", 0.0
        try:
            form = make()
            form()
            self.torch.cuda.synchronize()
            ratio = self.error_ratio(form(), expected)
        except Exception as error:  # noqa: BLE001  a form that this version lacks must not end the others
            traceback.print_exc()
            failure = f"rank {self.rank}: {last_words(error)}"
        any_failed, ratio = self.largest([float(bool(failure)), ratio])
        if any_failed:
            return {"failure": failure or "another rank failed; its reason is on standard error"}
        if not ratio <= 1:
            return {"failure": f"another result than mc2's: {ratio:.3g} times the allowed error"}
        self.forms[name] = form
        return {"error_ratio": ratio}

    def error_ratio(self, result, expected):
        """The larger of two ratios; at most 1 is allowed. They are the relative Frobenius error over the tolerance, and
        the worst element's error over twice the tolerance."""
        difference = (result.float() - expected.float()).flatten()
        reference = expected.float().flatten()
        whole = (difference.norm() / reference.norm()).item() / self.tolerance
        worst = (difference.abs().max() / reference.abs().max()).item() / (2 * self.tolerance)
        ratio = max(whole, worst)
        return ratio if ratio == ratio else 1e30  # NaN

    def time(self, request):
        """Times the forms, which take turns in alternating order after one untimed turn. The slowest rank counts."""
        names = list(self.forms)
        times = {name: [] for name in names}
        for turn in range(-1, request["repetitions"]):
            for name in names if turn % 2 == 0 else reversed(names):
                us = self.time_once(name)
                if turn >= 0:
                    times[name].append(us)
        for name in names:
            times[name] = self.largest(times[name])
        return {"times_us": times}

    def time_once(self, name):
        torch = self.torch
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if name.endswith("graph"):
            torch.cuda._sleep(LAUNCH_COVER_CYCLES)
        self.meet()
        start.record()
        self.forms[name]()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1000

    def close(self, request):
        self.forms, self.a, self.b = {}, None, None
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        return {}

    def serve(self):
        if self.rank == 0:
            say(self.software())
        for line in sys.stdin:
            request = json.loads(line)
            answer = {"open": self.open, "time": self.time, "close": self.close}[request["do"]](request)
            if self.rank == 0:
                say(answer)
        # The ranks do not synchronise at the end: they could wait for a rank that is gone.
        os._exit(0)


# ---- launcher ----


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launcher:
    def __init__(self, rank_count):
        environment = {
            **os.environ,
            "WORLD_SIZE": str(rank_count),
            "LOCAL_WORLD_SIZE": str(rank_count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        self.workers = []
        for rank in range(rank_count):
            own = {RANK_VARIABLE: str(rank), "RANK": str(rank), "LOCAL_RANK": str(rank)}
            self.workers.append(
                subprocess.Popen(
                    [sys.executable, os.path.abspath(__file__), str(rank_count)],
                    env={**environment, **own},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if rank == 0 else sys.stderr,
                    text=True,
                    bufsize=1,
                    preexec_fn=die_with_parent,
                )
            )
        self.answers = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.workers[0].stdout:
            self.answers.put(line)

    def dead(self):
        return [
            f"rank {rank} ended with code {worker.poll()}"
            for rank, worker in enumerate(self.workers)
            if worker.poll() is not None
        ]

    def answer(self):
        while True:
            try:
                return self.answers.get(timeout=0.2)
            except queue.Empty:
                if self.dead():
                    time.sleep(0.5)  # lets the other workers end and write their messages
                    raise RuntimeError("; ".join(self.dead()))

    def serve(self):
        ANSWERS.write(self.answer())
        ANSWERS.flush()
        for line in sys.stdin:
            for worker in self.workers:
                worker.stdin.write(line)
                worker.stdin.flush()
            ANSWERS.write(self.answer())
            ANSWERS.flush()

    def stop(self):
        for worker in self.workers:
            try:
                worker.stdin.close()
            except OSError:
                pass
        for worker in self.workers:
            try:
                worker.wait(timeout=2)
            except subprocess.TimeoutExpired:
                worker.kill()


def launch(rank_count):
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        say({"error": f"{sys.executable} has no module torch"})
        return 1
    launcher = Launcher(rank_count)
    try:
        launcher.serve()
        return 0
    except (RuntimeError, OSError) as error:
        say({"error": str(error)})
        return 1
    finally:
        launcher.stop()


def main():
    rank_count = int(sys.argv[1])
    rank = os.environ.get(RANK_VARIABLE)
    if rank is None:
        return launch(rank_count)
    Worker(int(rank), rank_count).serve()
    return 0


if __name__ == "__main__":
    ANSWERS = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.exit(main())
