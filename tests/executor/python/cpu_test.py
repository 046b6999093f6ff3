"""Tests mc2.torch's collectives of CPU tensors, and mc2.NodeCollectives, in the ranks of jobs of 1 to 3 processes."""

import ctypes
import os
import unittest
import uuid
import warnings

import numpy
from torch_test import RANK, RANKS, Jobs, TwoAndThreeRanks, everyones, run_ranks, starts_jobs, torch
from values_test import Refusals

import mc2

KEY = os.environ.get("MC2_TEST_KEY", "")

if RANK >= 0 and not KEY:
    import mc2.torch
    from mc2.torch import _settings, cpu


def drawn(dtype, shape, rank):
    """Returns random whole numbers, whose sums are exact."""
    return torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(rank)).to(dtype)


@unittest.skipIf(RANK < 0 or KEY, "runs in the ranks of a job")
class RanksTest(Refusals):
    SHAPES = ((1, 5), (6, 1), (600, 3, 41))

    def setUp(self):
        mc2.torch.forget()
        _settings.settings.is_disabled = False

    def each(self):
        """Yields pairs of a type and a shape whose rows are divisible by the ranks."""
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int64):
            for rows, *others in self.SHAPES:
                with self.subTest(dtype, rows=rows):
                    yield [drawn(dtype, (rows * RANKS, *others), rank) for rank in range(RANKS)]

    def test_sums_are_those_of_all_ranks(self):
        warnings.simplefilter("ignore")
        for of_ranks in self.each():
            total = sum(one.double() for one in of_ranks).to(of_ranks[0].dtype)
            if total.dtype in (torch.bfloat16, torch.float16) and torch.__version__ < "2":
                continue
            x = of_ranks[RANK].clone()
            self.assertIs(mc2.torch.cpu_all_reduce(x), x)
            self.assertTrue(torch.equal(x, total))
            share = mc2.torch.cpu_reduce_scatter(of_ranks[RANK])
            self.assertTrue(torch.equal(share, total.chunk(RANKS)[RANK]))
            with torch.inference_mode():
                self.assertTrue(torch.equal(mc2.torch.cpu_all_reduce(of_ranks[RANK].clone()), total))

    def test_short_floats_are_summed_by_memory_whatever_gloo_knows(self):
        for dtype in (torch.bfloat16, torch.float16):
            of_ranks = [drawn(dtype, (RANKS * 500, 7), rank) for rank in range(RANKS)]
            total = sum(one.float() for one in of_ranks).to(dtype)
            self.assertTrue(torch.equal(mc2.torch.cpu_all_reduce(of_ranks[RANK].clone()), total))

    def test_rows_come_from_all_ranks(self):
        for of_ranks in self.each():
            self.assertTrue(torch.equal(mc2.torch.cpu_all_gather(of_ranks[RANK]), torch.cat(of_ranks)))
            received = mc2.torch.cpu_all_to_all(of_ranks[RANK])
            self.assertTrue(torch.equal(received, torch.cat([one.chunk(RANKS)[RANK] for one in of_ranks])))

    def test_a_gradient_that_needs_the_old_values_is_refused(self):
        w = torch.ones(3, requires_grad=True)
        x = torch.ones(3) * 2
        y = (w * x).sum()
        mc2.torch.cpu_all_reduce(x)
        if RANKS > 1:
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.backward()

    def test_the_first_call_may_be_in_inference_mode(self):
        with torch.inference_mode():
            self.assertEqual(float(mc2.torch.cpu_all_reduce(torch.ones(3))[0]), RANKS)

    def test_types_without_a_sum_are_told_of(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mc2.torch.cpu_all_reduce(torch.ones(3, dtype=torch.int64))
        if RANKS > 1:
            self.assertIn("sums of torch.int64 on CPUs run by the process group", str(caught[0].message))

    def test_pending_negations_and_conjugations_are_seen(self):
        warnings.simplefilter("ignore")
        for dtype in (torch.float32, torch.int8, torch.float64, torch.complex64):
            view = torch.conj if dtype.is_complex else torch._neg_view
            of_ranks = [drawn(dtype, (2 * RANKS, 3), rank) * (1j if dtype.is_complex else 1) for rank in range(RANKS)]
            seen = [view(one).resolve_conj().resolve_neg() for one in of_ranks]
            mine, total = of_ranks[RANK], sum(seen)
            with self.subTest(dtype):
                self.assertTrue(torch.equal(mc2.torch.cpu_all_gather(view(mine)), torch.cat(seen)))
                self.assertTrue(torch.equal(mc2.torch.cpu_reduce_scatter(view(mine)), total.chunk(RANKS)[RANK]))
                received = mc2.torch.cpu_all_to_all(view(mine))
                self.assertTrue(torch.equal(received, torch.cat([one.chunk(RANKS)[RANK] for one in seen])))
                given = view(mine.clone())
                self.assertIs(mc2.torch.cpu_all_reduce(given), given)
                self.assertTrue(torch.equal(given, total), "in place")

    def test_rows_may_be_empty(self):
        warnings.simplefilter("ignore")
        for dtype in (torch.float32, torch.int32, torch.uint8, torch.complex64):
            for shape in ((RANKS, 0), (0, 3)):
                x = torch.ones(shape, dtype=dtype)
                for call in (mc2.torch.cpu_all_reduce, mc2.torch.cpu_all_to_all):
                    self.assertEqual(call(x).shape, shape)
                self.assertEqual(mc2.torch.cpu_reduce_scatter(x).shape, (shape[0] // RANKS, shape[1]))
                self.assertEqual(mc2.torch.cpu_all_gather(x).shape, (shape[0] * RANKS, shape[1]))

    def test_strides_may_be_any(self):
        whole = drawn(torch.float32, (12, 2 * RANKS), RANK).t()
        total = sum(everyones(whole))
        self.assertTrue(torch.equal(mc2.torch.cpu_all_gather(whole), torch.cat(everyones(whole))))
        self.assertTrue(torch.equal(mc2.torch.cpu_all_reduce(whole), total))
        self.assertTrue(torch.equal(whole, total), "in place")

    def test_without_shared_memory_they_are_the_groups(self):
        _settings.settings.is_disabled = RANK == 0
        x = torch.ones(3, 4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(float(mc2.torch.cpu_all_reduce(x)[0, 0]), RANKS)
        if RANKS > 1:
            expected = "run by the process group: rank 0: mc2.torch is disabled"
            self.assertEqual([expected in str(one.message) for one in caught], [True] * (RANK != 0))
            self.assertIsNone(cpu._of(mc2.torch._groups.resolve(None)))

    def test_what_cannot_be_is_named(self):
        for call in (mc2.torch.cpu_all_reduce, mc2.torch.cpu_all_gather):
            self.refused("invalid_spec", "tensor", call, [1])
            self.refused("invalid_spec", "tensor", call, torch.tensor(1.0))
            self.refused("invalid_spec", "tensor", call, torch.ones(2, requires_grad=True))
            self.refused("invalid_spec", "tensor", call, torch.ones(2).to("meta"))
        if RANKS > 1:
            self.refused("invalid_spec", "tensor", mc2.torch.cpu_reduce_scatter, torch.ones(RANKS + 1, 2))
            self.refused("invalid_spec", "tensor", mc2.torch.cpu_all_to_all, torch.ones(RANKS + 1, 2))


@unittest.skipUnless(KEY, "runs in processes without PyTorch")
class ArraysTest(Refusals):
    def test_collectives_of_arrays(self):
        self.refused("invalid_spec", "ranks", mc2.NodeCollectives, 0, 1, KEY)
        self.refused("invalid_spec", "key", mc2.NodeCollectives, 0, 2, "")
        for deadline in (0, float("inf"), float("nan")):
            self.refused("invalid_spec", "deadline_s", lambda: mc2.NodeCollectives(0, 2, KEY, deadline_s=deadline))
        collectives = mc2.NodeCollectives(RANK, RANKS, KEY, threads=2, deadline_s=20)
        self.assertEqual((collectives.rank, collectives.ranks, collectives.threads), (RANK, RANKS, 2))
        for dtype in (numpy.float32, numpy.float16, numpy.int8):
            data = numpy.arange(12, dtype=dtype).reshape(4, 3) + RANK
            collectives.all_reduce(data)
            self.assertEqual(data.tolist(), (2 * numpy.arange(12).reshape(4, 3) + 1).tolist())
        ones = numpy.full(10, 0x3F80, numpy.uint16)  # the bits of 1.0 in bf16
        collectives.all_reduce(ones, "bf16")
        self.assertEqual(ones.tolist(), [0x4000] * 10)
        own, everything = numpy.full(3, RANK), numpy.empty(6, numpy.int64)
        collectives.all_gather(own, everything)
        self.assertEqual(everything.tolist(), [0, 0, 0, 1, 1, 1])
        share = numpy.empty(2, numpy.float32)
        collectives.reduce_scatter(numpy.arange(4, dtype=numpy.float32), share)
        self.assertEqual(share.tolist(), [[0, 2], [4, 6]][RANK])
        received = numpy.empty(4, numpy.int64)
        collectives.all_to_all(numpy.arange(4) + 10 * RANK, received)
        self.assertEqual(received.tolist(), [[0, 1, 10, 11], [2, 3, 12, 13]][RANK])
        self.refused("invalid_spec", "dtype", collectives.all_reduce, numpy.arange(4))
        self.refused("unknown_name", "dtype", collectives.all_reduce, numpy.arange(4), "f12")
        for array, dtype in (
            (numpy.ones(4, numpy.float32), "f16"),
            (numpy.ones(4, numpy.float32), "i8"),
            (numpy.ones(4, numpy.float16), "bf16"),
            (numpy.ones(4, numpy.int8), "f32"),
            (numpy.ones(4, numpy.uint16), "f32"),
            (numpy.ones(4, ">f4"), "f32"),
        ):
            self.refused("invalid_spec", "data", collectives.all_reduce, array, dtype)
        self.refused("invalid_spec", "own", collectives.reduce_scatter, numpy.ones(4, numpy.float32), numpy.ones(1))
        raw = numpy.ones(4, numpy.float32)
        collectives.all_reduce(raw.view(numpy.uint8), "f32")
        collectives.all_reduce((ctypes.c_float * 4).from_buffer(raw), "f32")  # its format is '<f'
        self.assertEqual(raw.tolist(), [4] * 4)
        self.refused("invalid_spec", "data", collectives.all_reduce, numpy.zeros((4, 4), numpy.float32).T)
        self.refused("invalid_spec", "data", collectives.all_reduce, bytes(8), "f32")
        three = numpy.zeros(3, numpy.float32)  # 12 bytes are divisible by two ranks, three elements are not
        self.refused("invalid_spec", "data", collectives.all_to_all, three, three.copy())
        self.refused("invalid_spec", "received", collectives.all_to_all, raw, numpy.zeros(2, numpy.float32))
        self.refused("invalid_spec", "received", collectives.all_to_all, raw, numpy.zeros(2))
        self.refused("invalid_spec", "received", collectives.all_to_all, raw, numpy.zeros(4, numpy.int32))
        self.refused("invalid_spec", "all", collectives.all_gather, raw, numpy.zeros(4))
        self.refused("invalid_spec", "received", collectives.all_to_all, raw, bytearray(12))
        none = numpy.zeros(4, "V0")  # elements of no bytes
        collectives.all_to_all(none, none.copy())
        text = self.refused("invalid_spec", "all", collectives.all_gather, raw, numpy.zeros(9, numpy.float32))
        self.assertIn("has 9 elements; needs 2 ranks x 4 = 8", text)
        text = self.refused("invalid_spec", "data", collectives.reduce_scatter, raw, three)
        self.assertIn("has 4 elements; needs 2 ranks x 3 = 6", text)
        text = self.refused("invalid_spec", "own", collectives.reduce_scatter, three, bytearray(6), "f32")
        self.assertIn("has 6 bytes; needs whole elements of 4 bytes", text)
        text = self.refused("invalid_spec", "received", collectives.all_to_all, raw, bytearray(17))
        self.assertIn("has 17 bytes; needs 16, as data", text)
        masked = numpy.ma.masked_array(raw, mask=raw > 0)
        self.assertIn(".filled(", self.refused("invalid_spec", "data", collectives.all_reduce, masked))
        text = self.refused("unknown_name", "dtype", collectives.all_reduce, raw.view(numpy.uint8), "f8e4m3")
        self.assertIn("none of f32, bf16, f16, i8", text)


@unittest.skipIf(RANK >= 0, "this is a rank")
class ProcessesTest(Jobs):
    SCRIPT = __file__

    def test_two_processes_without_pytorch(self):
        self.run_job(2, "ArraysTest", MC2_TEST_KEY=uuid.uuid4().hex)


@starts_jobs
class JobsTest(TwoAndThreeRanks, Jobs):
    SCRIPT = __file__

    def test_one_rank(self):
        self.run_job(1)


if __name__ == "__main__":
    unittest.main() if KEY else run_ranks()
