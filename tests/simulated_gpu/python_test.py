"""Runs plans on memory addresses, as mc2.torch does: rows that choose experts, in two processes on simulated GPUs."""

import ctypes
import os
import subprocess
import sys
import unittest
import uuid

import numpy

RANK, RANKS = int(os.environ.get("MC2_TEST_RANK", -1)), 2
GATHER, SCATTER, SUM = "all_gather_grouped_matmul", "grouped_matmul_reduce_scatter", "grouped_matmul_all_reduce"
TOKENS, COUNT, TOP_K, N, K = 16, 4, 2, 16, 24


class DeviceMemory:
    """An array in memory of this rank's GPU."""

    runtime = ctypes.CDLL(None)
    TO_DEVICE, TO_HOST = 1, 2

    def __init__(self, array):
        self.array, self._pointer = numpy.ascontiguousarray(array), ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(self._pointer), ctypes.c_size_t(self.array.nbytes))
        self.write(self.array)

    def _call(self, name, *arguments):
        if getattr(self.runtime, name)(*arguments) != 0:
            raise RuntimeError(name)

    @property
    def address(self):
        return self._pointer.value

    def write(self, array):
        self.array[...] = array
        self._copy(self._pointer, self.array.ctypes.data_as(ctypes.c_void_p), self.TO_DEVICE)

    def read(self):
        self._copy(self.array.ctypes.data_as(ctypes.c_void_p), self._pointer, self.TO_HOST)
        return self.array

    def _copy(self, target, source, direction):
        self._call("cudaMemcpy", target, source, ctypes.c_size_t(self.array.nbytes), ctypes.c_int(direction))


def definition(kind, xs, ws, experts, weights):
    """Computes this rank's expected result in double precision from all ranks' operands."""
    chosen = experts.ravel()
    if kind == GATHER:
        rows = numpy.concatenate(xs).astype(float).repeat(TOP_K, 0)
        return numpy.einsum("pk,pkn->pn", rows, ws[RANK].astype(float)[chosen])
    products = [numpy.einsum("pk,pkn->pn", x.astype(float), w.astype(float)[chosen]) for x, w in zip(xs, ws)]
    total = sum((product.reshape(TOKENS, TOP_K, N) * weights[:, :, None]).sum(1) for product in products)
    return total if kind == SUM else total.reshape(RANKS, -1, N)[RANK]


@unittest.skipIf(RANK < 0, "runs in the ranks of a job")
class RankTest(unittest.TestCase):
    def test_choices_are_read_where_they_lie(self):
        import mc2
        from mc2 import _executor

        DeviceMemory.runtime.cudaSetDevice(RANK)
        world = _executor.Communicator(RANKS, backend="cuda", process=(RANK, os.environ["MC2_TEST_KEY"]))
        for kind in (GATHER, SCATTER, SUM):
            for index_type in (numpy.int64, numpy.int32):
                with self.subTest(kind, index_type=index_type):
                    drawn = numpy.random.default_rng(3)
                    share = TOKENS // RANKS
                    rows = share if kind == GATHER else TOKENS * TOP_K
                    y_rows = {GATHER: TOKENS * TOP_K, SCATTER: share, SUM: TOKENS}[kind]
                    xs = [drawn.uniform(-1, 1, (rows, K)).astype(numpy.float16) for _ in range(RANKS)]
                    ws = [drawn.uniform(-1, 1, (COUNT, K, N)).astype(numpy.float16) for _ in range(RANKS)]
                    choices = [drawn.integers(0, COUNT, (TOKENS, TOP_K)).astype(index_type) for _ in range(2)]
                    weights = drawn.uniform(0, 1, (TOKENS, TOP_K)).astype(numpy.float32)
                    x, w, y = (
                        DeviceMemory(one) for one in (xs[RANK], ws[RANK], numpy.zeros((y_rows, N), numpy.float16))
                    )
                    experts, shares = DeviceMemory(choices[0].copy()), DeviceMemory(weights)
                    op = mc2.OpSpec(
                        kind, m=TOKENS, n=N, k=K, dtype="f16", ranks=RANKS, experts=mc2.ChosenExperts(COUNT, TOP_K)
                    )
                    has_weights = kind != GATHER
                    addresses = (
                        x.address,
                        w.address,
                        y.address,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                        experts.address,
                        shares.address if has_weights else 0,
                        index_type().itemsize,
                    )
                    axis = TOKENS if kind == SUM else share
                    prepared = world.prepare_at(
                        op, [axis // 2, axis - axis // 2], None, addresses, (x, w, y, experts, shares)
                    )
                    for chosen in choices:  # every run must read the experts again
                        experts.write(chosen)
                        prepared.enqueue(0, False)
                        DeviceMemory.runtime.cudaDeviceSynchronize()
                        expected = definition(kind, xs, ws, chosen, weights)
                        self.assertLess(float(abs(y.read() - expected).max()), 2e-2)
                    with self.assertRaises(mc2.Error) as caught:
                        world.prepare_at(op, [axis], None, addresses[:9], (x, w, y))
                    self.assertIn("needs 12", str(caught.exception))
        world.close()


@unittest.skipIf(RANK >= 0, "this is a rank")
class JobTest(unittest.TestCase):
    def test_two_processes(self):
        environment = {**os.environ, "MC2_TEST_KEY": uuid.uuid4().hex}
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__],
                env={**environment, "MC2_TEST_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(RANKS)
        ]
        outputs = [rank.communicate(timeout=100)[0] for rank in ranks]
        for rank, output in zip(ranks, outputs):
            self.assertEqual(rank.returncode, 0, output)
            self.assertRegex(output, r"Ran [1-9]\d* test")


if __name__ == "__main__":
    unittest.main()
