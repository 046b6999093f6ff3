"""The part of PyTorch's interface that torch_peer.py uses, for one rank, in f32, on the CPU. Shapes are checked; times
are real.

STUB_TORCH says what goes wrong: "no_device", "no_graphs" (captures fail) or "wrong" (fused operators add 1).
A graph replays the calls of its capture.
"""

import array
import math
import os
import time

FAULT = os.environ.get("STUB_TORCH", "")

__version__ = "0.0-stub"
bfloat16, float16, float32, float64 = "bf16", "f16", "f32", "f64"


class Tensor:
    def __init__(self, elements, shape=None):
        self.elements = list(elements)
        self.shape = shape or (len(self.elements),)

    def view(self, *shape):
        assert math.prod(shape) == len(self.elements), (shape, len(self.elements))
        return Tensor(self.elements, shape)

    def to(self, device):
        assert device == ("cuda", 0)
        return Tensor(self.elements, self.shape)

    def float(self):
        return self

    def flatten(self):
        return Tensor(self.elements)

    def __sub__(self, other):
        assert self.shape == other.shape, (self.shape, other.shape)
        return Tensor([a - b for a, b in zip(self.elements, other.elements)], self.shape)

    def __truediv__(self, other):
        return Tensor([self.item() / other.item()])

    def norm(self):
        return Tensor([math.sqrt(sum(x * x for x in self.elements))])

    def abs(self):
        return Tensor([abs(x) for x in self.elements], self.shape)

    def max(self):
        return Tensor([max(self.elements)])

    def item(self):
        return self.elements[0]

    def tolist(self):
        return self.elements

    def fill_(self, value):
        self.elements[:] = [value] * len(self.elements)


def device(*name):
    return name


def zeros(*shape, device=None, dtype=None):
    return Tensor([0.0] * math.prod(shape), shape)


empty = zeros


def tensor(values, dtype=None, device=None):
    return Tensor(values)


def from_file(path, shared, size, dtype):
    elements = array.array("f")
    with open(path, "rb") as file:
        elements.frombytes(file.read())
    assert len(elements) == size and dtype == float32
    return Tensor(elements)


def product(a, b, added=0.0):
    (m, k), (b_rows, n) = a.shape, b.shape
    assert k == b_rows
    x, y = a.elements, b.elements
    return Tensor(
        [sum(x[i * k + t] * y[t * n + j] for t in range(k)) + added for i in range(m) for j in range(n)], (m, n)
    )


def recorded(work):
    """Runs the work now, and again with every replay of a graph that is being captured."""
    work()
    if cuda.capturing is not None:
        cuda.capturing.calls.append(work)


def copy(to, source):
    assert to.shape == source().shape, (to.shape, source().shape)

    def work():
        to.elements[:] = source().elements

    recorded(work)


def matmul(a, b, out):
    copy(out, lambda: product(a, b))


class Stream:
    def wait_stream(self, other):
        assert isinstance(other, Stream)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False


class version:
    cuda = "0.0"


class cuda:
    capturing = None
    Stream = Stream

    class nccl:
        @staticmethod
        def version():
            return (2, 28, 9)

    @staticmethod
    def set_device(chosen):
        if FAULT == "no_device":
            raise RuntimeError("CUDA error: invalid device ordinal")

    @staticmethod
    def synchronize():
        pass

    @staticmethod
    def empty_cache():
        pass

    @staticmethod
    def get_device_name(chosen):
        return "stub GPU"

    @staticmethod
    def current_stream():
        return Stream()

    @staticmethod
    def stream(chosen):
        return chosen

    @staticmethod
    def _sleep(cycles):
        assert cycles > 0

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.seconds = time.perf_counter()

        def elapsed_time(self, end):
            return (end.seconds - self.seconds) * 1000

    class CUDAGraph:
        def __init__(self):
            self.calls = []

        def replay(self):
            for call in self.calls:
                call()

    class graph:
        def __init__(self, captured, stream, capture_error_mode):
            self.captured = captured

        def __enter__(self):
            if FAULT == "no_graphs":
                raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
            cuda.capturing = self.captured

        def __exit__(self, *failure):
            cuda.capturing = None
            return False


class ops:
    class symm_mem:
        @staticmethod
        def fused_all_gather_matmul(a, bs, gather_dim, group_name, *, return_A=True):
            assert gather_dim == 0 and group_name == "stub" and not return_A
            return None, [ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group_name) for b in bs]

        @staticmethod
        def fused_matmul_reduce_scatter(a, b, reduce_op, scatter_dim, group_name):
            assert reduce_op == "sum" and scatter_dim == 0 and group_name == "stub"
            result = zeros(a.shape[0], b.shape[1])
            copy(result, lambda: product(a, b, 1.0 if FAULT == "wrong" else 0.0))
            return result
