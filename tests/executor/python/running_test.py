"""Runs plans on numpy arrays, without copies, and profiles and races on the host backend."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no numpy (python3-numpy)")
    sys.exit(0)

import mc2
from values_test import Refusals

KINDS = ("matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul")
RANKS = 2
CPU_FEATURES = set(pathlib.Path("/proc/cpuinfo").read_text().split())
VIRTUAL = {"link": "1Gbit,20us", "virtual_compute": "1Gflops,5us"}  # lanes sleep, so times are the same on a busy host


def given_plan(op, blocks, fingerprint=None):
    """Returns a plan of the caller's blocks, predicted by a model of two made-up lines."""
    machine = fingerprint or mc2.Fingerprint({"backend": "none"})
    unit, rows = op.bytes_per_unit, [x for x in (1, 2, 4, 8, 16, 32, 64, 128)]
    samples = [mc2.Sample("matmul", x, 10.0 + x) for x in rows]
    samples += [mc2.Sample("collective", x, 10.0 + x, message_bytes=x * unit) for x in rows]
    return mc2.predict(op, mc2.fit(mc2.Profile(op, machine, samples)).model, blocks)


def bits_of(values):
    """Rounds to bf16, to nearest even; returns the bit patterns."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def values_of(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def operands(op, seed=0):
    """Returns A and B of every rank in f32, in the shapes of docs/operators.md."""
    rng = np.random.default_rng(seed)
    rows = op.m // op.ranks if op.kind == "all_gather_matmul" else op.m
    a = [rng.uniform(-1, 1, (rows, op.k)).astype(np.float32) for _ in range(op.ranks)]
    b = [rng.uniform(-1, 1, (op.k, op.n)).astype(np.float32) for _ in range(op.ranks)]
    return a, b


def oracle(op, a, b):
    """Returns every rank's C, computed in double precision."""
    a, b = [x.astype(np.float64) for x in a], [x.astype(np.float64) for x in b]
    shard = op.m // op.ranks
    part = [slice(r * shard, (r + 1) * shard) for r in range(op.ranks)]
    ranks = range(op.ranks)
    if op.kind == "all_gather_matmul":
        return [np.concatenate(a) @ b[r] for r in ranks]
    if op.kind == "all_to_all_matmul":
        return [np.concatenate([a[q][part[r]] for q in ranks]) @ b[r] for r in ranks]
    products = [x @ y for x, y in zip(a, b)]
    if op.kind == "matmul_all_to_all":
        return [np.concatenate([products[q][part[r]] for q in ranks]) for r in ranks]
    total = sum(products)
    return [total[part[r]] if op.kind == "matmul_reduce_scatter" else total for r in ranks]


class NumpyTest(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.world = mc2.Communicator(RANKS, pin_threads=False)

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def prepare(self, op, blocks, a, b, **options):
        return self.world.prepare(given_plan(op, blocks), a, b, accept_other_fingerprint=True, **options)

    def test_every_kind_gives_the_oracles_result(self):
        for kind in KINDS:
            with self.subTest(kind):
                op = mc2.OpSpec(kind, m=140, n=36, k=24, ranks=RANKS)
                half = op.cut_axis_length // 2
                a, b = operands(op)
                prepared = self.prepare(op, [half, op.cut_axis_length - half], a, b)
                for seed in (1, 2):  # every run must read A again
                    for array, fresh in zip(a, operands(op, seed)[0]):
                        array[:] = fresh
                    prepared.run()
                    for c, expected in zip(prepared.c, oracle(op, a, b)):
                        np.testing.assert_allclose(c, expected, atol=1e-4)

    def test_what_is_no_plain_array_or_whole_number_is_refused(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        a, b = operands(op)
        masked = [np.ma.masked_array(x, mask=x > 0) for x in a]
        self.assertIn(".filled(", self.refused("invalid_spec", "a[0]", self.prepare, op, [140], masked, b))
        for m in (np.float64(140.5), np.float32(140), np.array([140.0]), np.array(140.0)):
            with self.subTest(m), self.assertRaises(TypeError):
                op.replace(m=m)
        for m in (np.int64(140), np.uint8(140), np.array(140)):
            self.assertEqual(op.replace(m=m), op)
        with self.assertRaises(TypeError):
            mc2.run(op, a, b)

    def test_ctrl_c_in_a_failing_call_is_a_keyboard_interrupt(self):
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            mc2.NodeCollectives(0, 2, f"alone{os.getpid()}", deadline_s=1)

    def refused_without(self, feature, *arguments, **options):
        """Returns whether this CPU lacks the feature; if it does, checks that preparing is refused for the type."""
        if feature in CPU_FEATURES:
            return False
        self.refused("unsupported", "dtype", self.prepare, *arguments, **options)
        return True

    def test_f16_is_refused(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, dtype="f16", ranks=RANKS)
        a, b = ([x.astype(np.float16) for x in side] for side in operands(op))
        self.refused("unsupported", "dtype", self.prepare, op, [140], a, b)  # the host backend does not multiply f16

    def test_bf16_gives_the_oracles_result(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, dtype="bf16", ranks=RANKS)
        a, b = ([bits_of(x) for x in side] for side in operands(op))
        if self.refused_without("avx512_bf16", op, [140], a, b):
            return
        prepared = self.prepare(op, [140], a, b)
        prepared.run()
        for c, expected in zip(prepared.c, oracle(op, [values_of(x) for x in a], [values_of(x) for x in b])):
            # The two products and their sum are each rounded to 8 bits.
            np.testing.assert_allclose(values_of(c), expected, atol=3 * 2.0**-8 * np.abs(expected).max())

    def test_bytes_are_multiplied_with_their_scales(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, dtype="i8", ranks=RANKS)
        rng = np.random.default_rng(3)
        a, b = ([rng.integers(-9, 9, shape).astype(np.int8) for _ in range(RANKS)] for shape in ((140, 24), (24, 36)))
        a_scales = [np.full((1, 1), 0.5, np.float32) for _ in range(RANKS)]
        b_scales = [rng.uniform(0.5, 1, 36).astype(np.float32) for _ in range(RANKS)]
        if self.refused_without("avx512_vnni", op, [140], a, b, a_scales=a_scales, b_scales=b_scales):
            return
        prepared = self.prepare(op, [140], a, b, a_scales=a_scales, b_scales=b_scales)
        prepared.run()
        expected = sum((x.astype(np.float64) @ y) * 0.5 * s for x, y, s in zip(a, b, b_scales))
        # Each product and the sum are rounded to bf16's 8 bits.
        np.testing.assert_allclose(values_of(prepared.c[0]), expected, atol=2.0**-7 * np.abs(expected).max())

    def test_results_go_into_the_callers_arrays_and_nothing_is_copied(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS, epilogue="bias+residual")
        a, b = operands(op)
        c = [np.full((140, 36), np.nan, np.float32) for _ in range(RANKS)]
        bias, residual = [np.ones(36, np.float32)] * RANKS, [np.full((140, 36), 2, np.float32)] * RANKS
        addresses = [x.ctypes.data for x in c]
        prepared = self.prepare(op, [140], a, b, c=c, bias=bias, residual=residual)
        prepared.run()
        self.assertEqual([x.ctypes.data for x in prepared.c], addresses)
        np.testing.assert_allclose(c[1], oracle(op, a, b)[1] + 3, atol=1e-4)

    def test_rows_of_the_sum_are_normalised(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS, epilogue="residual+rms_norm")
        a, b = operands(op)
        residual, weight = [np.ones((140, 36), np.float32)] * RANKS, [np.linspace(1, 2, 36, dtype=np.float32)] * RANKS
        prepared = self.prepare(op, [40, 100], a, b, residual=residual, norm_weight=weight, norm_epsilon=0.25)
        prepared.run()
        c = oracle(op, a, b)[0] + 1
        expected = c / np.sqrt(np.mean(c**2, axis=1, keepdims=True) + 0.25) * weight[0]
        for rank in range(RANKS):
            np.testing.assert_allclose(prepared.c[rank], c, atol=1e-4)
            np.testing.assert_allclose(prepared.normed[rank], expected, atol=1e-4)
        for wrong in (0, -1, float("nan"), float("inf")):
            self.refused(
                "invalid_spec",
                "norm_epsilon",
                self.prepare,
                op,
                [140],
                a,
                b,
                residual=residual,
                norm_weight=weight,
                norm_epsilon=wrong,
            )
        self.refused("invalid_spec", "norm_weight", self.prepare, op, [140], a, b, residual=residual)
        plain = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        self.refused("invalid_spec", "normed", self.prepare, plain, [140], a, b, normed=residual)
        self.refused("invalid_spec", "norm_epsilon", self.prepare, plain, [140], a, b, norm_epsilon=1e-5)
        self.refused("unsupported", "normed", lambda: self.prepare(plain, [140], a, b).normed)

    def test_experts_get_as_many_rows_as_counted(self):
        # 3 ranks with 2 experts each. Rank 1 sends nothing, and rank 2's first expert gets nothing.
        counts = [[2, 0, 1, 4, 0, 3], [0] * 6, [0, 5, 1, 0, 0, 2]]
        op = mc2.OpSpec("all_to_all_matmul", m=3 * 6, n=7, k=5, ranks=3, experts_per_rank=2)
        self.assertEqual(op.experts_per_rank, 2)
        rng = np.random.default_rng(1)
        a = [rng.standard_normal((sum(row), 5), np.float32) for row in counts]
        b = [rng.standard_normal((2, 5, 7), np.float32) for _ in range(3)]
        self.world = mc2.Communicator(3, pin_threads=False)
        self.addCleanup(self.world.close)
        prepared = self.prepare(op, [2, 4], a, b, counts=counts)
        prepared.run()
        for rank in range(3):
            expected = []
            for expert in range(2):
                number = rank * 2 + expert
                for sender in range(3):
                    first = sum(counts[sender][:number])
                    expected.append(a[sender][first : first + counts[sender][number]] @ b[rank][expert])
            np.testing.assert_allclose(prepared.c[rank], np.concatenate(expected), atol=1e-4)
        back = mc2.OpSpec("matmul_all_to_all", m=3 * 6, n=5, k=7, ranks=3, experts_per_rank=2)
        returned = [[row[2 * rank + expert] for row in counts for expert in range(2)] for rank in range(3)]
        identity = [np.stack([np.linalg.pinv(expert) for expert in rank]) for rank in b]  # 7 columns back to 5
        prepared = self.prepare(back, [6], list(prepared.c), identity, counts=returned)
        prepared.run()
        for rank in range(3):
            np.testing.assert_allclose(prepared.c[rank], a[rank], atol=1e-3)
        self.refused("invalid_spec", "counts", self.prepare, op, [6], a, b, counts=counts[:2])
        too_many = [np.zeros((7, 5), np.float32)] * 3
        self.refused("invalid_spec", "counts", self.prepare, op, [6], too_many, b, counts=[[7, 0, 0, 0, 0, 0]] * 3)
        self.refused("invalid_spec", "counts", self.prepare, op, [6], a, b, counts=[[-7, 0, 0, 0, 0, 0]] * 3)
        self.refused("invalid_spec", "a[0]", self.prepare, op, [6], a, b, counts=[[1] * 6] * 3)
        self.refused("invalid_spec", "b[0]", self.prepare, op, [6], a, [x[0] for x in b], counts=counts)
        self.refused("invalid_spec", "a[0]", self.prepare, op, [6], [x[None] for x in a], b, counts=counts)

    def test_rows_are_multiplied_by_the_experts_that_they_chose(self):
        m, top_k, experts, k, n = 24, 3, 5, 6, 8
        rng = np.random.default_rng(4)
        chosen = np.stack([rng.permutation(experts)[:top_k] for _ in range(m)])
        weights = rng.random((m, top_k), np.float32)
        tokens = [rng.standard_normal((m // RANKS, k), np.float32) for _ in range(RANKS)]
        up, down = (
            [rng.standard_normal((experts, *shape), np.float32) for _ in range(RANKS)] for shape in ((k, n), (n, k))
        )
        first = mc2.OpSpec(
            "all_gather_grouped_matmul", m=m, n=n, k=k, ranks=RANKS, experts=mc2.ChosenExperts(experts, top_k)
        )
        self.assertEqual((first.experts.count, first.experts.top_k), (experts, top_k))
        prepared = self.prepare(first, [5, 7], tokens, up, choices=[chosen] * RANKS)
        prepared.run()
        rows = np.concatenate(tokens)
        for rank in range(RANKS):
            expected = np.einsum("mk,mjkn->mjn", rows, up[rank][chosen]).reshape(m * top_k, n)
            np.testing.assert_allclose(prepared.c[rank], expected, atol=1e-4)
        second = mc2.OpSpec(
            "grouped_matmul_reduce_scatter", m=m, n=k, k=n, ranks=RANKS, experts=mc2.ChosenExperts(experts, top_k)
        )
        hidden = list(prepared.c)
        prepared = self.prepare(second, [5, 7], hidden, down, choices=[(chosen.astype(np.int32), weights)] * RANKS)
        prepared.run()
        expected = sum(
            np.einsum("mj,mjn,mjnk->mk", weights, hidden[rank].reshape(m, top_k, n), down[rank][chosen])
            for rank in range(RANKS)
        )
        np.testing.assert_allclose(np.concatenate(prepared.c), expected, atol=1e-3)
        for field, given in [
            ("choices", None),
            ("choices[1]", [(chosen, weights), chosen]),
            ("choices[0].experts", [(chosen[:-1], weights)] * RANKS),
            ("choices[0].experts", [(chosen.astype(np.float32), weights)] * RANKS),
            ("choices[0].weights", [(chosen, weights.astype(np.float64))] * RANKS),
            ("choices", [(chosen + 1, weights)] * RANKS),
            ("choices", [(chosen, weights), (chosen, weights * 2)]),
        ]:
            self.refused("invalid_spec", field, self.prepare, second, [12], hidden, down, choices=given)

    def test_tables_may_be_one_array_of_three_dimensions(self):
        tables, rows, columns, m = 3, 5, 4, 8
        rng = np.random.default_rng(5)
        own = [rng.standard_normal((tables, rows, columns), np.float32) for _ in range(RANKS)]
        op = mc2.OpSpec(
            "embedding_all_to_all", m=m, n=tables * columns, k=2, ranks=RANKS, tables=mc2.EmbeddingTables(tables, rows)
        )
        bags = []
        for _ in range(RANKS):
            offsets = np.arange(tables * m + 1) * 2
            bags.append((offsets, rng.integers(0, rows, offsets[-1])))
        features = [
            np.concatenate([table[one.reshape(m, 2)].sum(1) for table, one in zip(w, indices.reshape(tables, -1))], 1)
            for w, (_, indices) in zip(own, bags)
        ]
        for b in (own, [w.reshape(-1, columns) for w in own]):
            prepared = self.prepare(op, [1, 3], None, b, bags=bags)
            prepared.run()
            for rank in range(RANKS):
                share = slice(rank * m // RANKS, (rank + 1) * m // RANKS)
                np.testing.assert_allclose(
                    prepared.c[rank], np.concatenate([one[share] for one in features], 1), atol=1e-5
                )
        flat = [w.transpose(1, 0, 2).copy() for w in own]
        text = self.refused("invalid_spec", "b[0]", self.prepare, op, [1, 3], None, flat, bags=bags)
        self.assertIn("needs (3, 5, 4)", text)
        for wrong in (None, 3, bags[1][:1], bags[1] * 2, bags[1][0], np.zeros((2, 4), np.int64)):
            text = self.refused("invalid_spec", "bags[1]", self.prepare, op, [4], None, own, bags=[bags[0], wrong])
            self.assertIn("must be a pair of offsets and indices", text)
        swapped = [(offsets, indices.astype(">i8")) for offsets, indices in bags]
        text = self.refused("invalid_spec", "bags[0].indices", self.prepare, op, [1, 3], None, own, bags=swapped)
        self.assertIn(">i8", text)

    def test_a_is_gathered_for_the_ranks_that_want_it(self):
        op = mc2.OpSpec("all_gather_matmul", m=140, n=36, k=24, ranks=RANKS)
        a, b = operands(op)
        gathered = [None] * (RANKS - 1) + [np.full((140, 24), np.nan, np.float32)]
        prepared = self.prepare(op, [30, 40], a, b, gathered_a=gathered)
        for seed in (1, 2):
            for array, fresh in zip(a, operands(op, seed)[0]):
                array[:] = fresh
            prepared.run()
            np.testing.assert_array_equal(gathered[-1], np.concatenate(a))
            np.testing.assert_allclose(prepared.c[1], oracle(op, a, b)[1], atol=1e-4)
        self.refused("invalid_spec", "gathered_a[1]", self.prepare, op, [30, 40], a, b, gathered_a=[None, a[1]])
        reduced = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        self.refused(
            "invalid_spec", "gathered_a", self.prepare, reduced, [140], *operands(reduced), gathered_a=gathered
        )

    def test_arrays_live_as_long_as_what_runs_on_them(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        prepared = self.prepare(op, [140], *operands(op))
        expected = oracle(op, *operands(op))[0]  # by now only `prepared` keeps its operands alive
        prepared.run()
        np.testing.assert_allclose(prepared.c[0], expected, atol=1e-4)

    def test_what_does_not_fit_is_refused_by_name(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        a, b = operands(op)
        read_only = [np.zeros((140, 36), np.float32) for _ in a]
        read_only[1].flags.writeable = False
        strided = np.zeros((140, 48), np.float32)[:, ::2]
        for field, change in [
            ("a[1]", {"a": [a[0], a[1].astype(np.float64)]}),
            ("a[1]", {"a": [a[0], a[1].astype(">f4")]}),  # big-endian
            ("b[0]", {"b": [b[0][None], b[1]]}),
            ("a[0]", {"a": [a[0].T.copy(), a[1]]}),
            ("a[0]", {"a": [strided, a[1]]}),
            ("a[0]", {"a": [np.asfortranarray(a[0]), a[1]]}),
            ("a[1]", {"a": [a[0], a[1].tolist()]}),
            ("a", {"a": a[:1]}),
            ("a", {"a": None}),
            ("a", {"a": a[0]}),
            ("b[0]", {"b": [b[0][:-1], b[1]]}),
            ("c[1]", {"c": read_only}),
            ("bias", {"bias": [np.ones(36, np.float32)] * 2}),
            ("bags", {"bags": [None, None]}),
            ("choices", {"choices": [None, None]}),
        ]:
            with self.subTest(change=list(change), field=field):
                self.refused("invalid_spec", field, self.prepare, op, [140], **{"a": a, "b": b, **change})

    def test_a_plan_for_another_machine_or_world_is_refused(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        with self.assertRaises(mc2.Error) as caught:
            self.world.prepare(given_plan(op, [140]), *operands(op))
        self.assertEqual(caught.exception.code, "stale")
        three = mc2.OpSpec("matmul_all_to_all", m=150, n=36, k=24, ranks=3)
        for of_ranks in (op, three):
            self.refused("invalid_spec", "ranks", self.prepare, three, [50], *operands(of_ranks))
        counts = [[50] * 3] * 3
        self.refused("invalid_spec", "ranks", self.prepare, three, [50], *operands(three), counts=counts)

    def test_a_closed_communicator_and_unknown_modes_are_refused(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        with mc2.Communicator(RANKS, pin_threads=False) as world:
            prepared = world.prepare(given_plan(op, [140]), *operands(op), accept_other_fingerprint=True)
            self.refused("unknown_name", "mode", prepared.run, "fast")
            self.refused("invalid_spec", "mode", prepared.run, "independent")
        self.refused("invalid_spec", "communicator", prepared.run)
        self.refused("unknown_name", "backend", mc2.Communicator, backend="tpu")
        self.refused("invalid_spec", "link", mc2.Communicator, link="fast")
        self.refused("invalid_spec", "deadline_s", mc2.Communicator, deadline_s=float("nan"))
        self.refused("invalid_spec", "rank_zero", mc2.Communicator, RANKS, rank_zero="127.0.0.1:1")

    def test_a_second_thread_is_refused_while_one_runs(self):
        op = mc2.OpSpec("matmul_all_reduce", m=128, n=64, k=64, ranks=RANKS)
        with mc2.Communicator(RANKS, pin_threads=False, link="1Mbit,200ms") as world:  # a run takes half a second
            prepared = world.random_problem(op).prepare([128])
            start, outcomes = threading.Barrier(2), []

            def run():
                start.wait()
                try:
                    outcomes.append(prepared.run())
                except mc2.Error as error:
                    outcomes.append(error)

            threads = [threading.Thread(target=run) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        refusals = [outcome for outcome in outcomes if isinstance(outcome, mc2.Error)]
        self.assertEqual([error.field for error in refusals], ["communicator"])

    def test_a_forked_child_is_refused_and_ends(self):
        op = mc2.OpSpec("matmul_all_reduce", m=140, n=36, k=24, ranks=RANKS)
        prepared = self.prepare(op, [140], *operands(op))
        child = os.fork()
        if child == 0:
            try:
                prepared.run()
            except mc2.Error as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        prepared.run()  # the parent can still run

    def test_a_record_draws_beside_its_plan(self):
        for kind in KINDS:
            op = mc2.OpSpec(kind, m=140, n=36, k=24, ranks=RANKS)
            plan = given_plan(op, [op.cut_axis_length // 2, op.cut_axis_length - op.cut_axis_length // 2])
            record = self.world.prepare(plan, *operands(op), accept_other_fingerprint=True).run()
            self.assertGreater(record.wall_us, 0)
            with self.subTest(kind):
                self.assertIn("<table>", record._repr_html_())
                self.assertIn("measured", plan.svg(measured=mc2.timeline_of(plan, record)))

    def test_a_plan_without_a_model_draws_what_was_measured(self):
        for kind in KINDS:
            op = mc2.OpSpec(kind, m=140, n=36, k=24, ranks=RANKS)
            plan = mc2.uncut_plan(op, self.world.fingerprint)
            record = self.world.prepare(plan, *operands(op)).run()
            with self.subTest(kind):
                drawn = plan.svg(measured=mc2.timeline_of(plan, record))
                self.assertIn("measured, slowest rank", drawn)
                self.assertNotIn("predicted", drawn)
                self.assertIn("uncut", plan._repr_html_())
                self.refused("invalid_spec", "measured", plan.svg)

    def test_running_once_needs_no_communicator(self):
        op = mc2.OpSpec("all_gather_matmul", m=140, n=36, k=24, ranks=RANKS)
        a, b = operands(op)
        c = mc2.run(given_plan(op, [30, 40]), a, b)
        np.testing.assert_allclose(c[1], oracle(op, a, b)[1], atol=1e-4)

    def test_the_host_backend_is_listed(self):
        self.assertIn("host", [name for name, is_available, _ in mc2.backends() if is_available])


class MeasuringTest(Refusals):
    OP = mc2.OpSpec("matmul_all_reduce", m=96, n=64, k=64, ranks=RANKS)

    def test_a_profile_of_modelled_lanes_fits_the_model(self):
        with mc2.Communicator(RANKS, **VIRTUAL) as world:
            self.refused("invalid_spec", "alignment", mc2.profile, self.OP, world, alignment=0)
            measured = mc2.profile(self.OP, world, budget_s=2, max_count=5, alignment=16)
        model = mc2.fit(measured).model
        # A block of b rows takes 2 b 64 64 flops at 1 Gflop/s, and 5 us.
        self.assertAlmostEqual(model.variants[0].compute.time_us(48), 2 * 48 * 64 * 64 / 1e3 + 5, delta=20)

    def test_tuning_keeps_the_winner(self):
        with tempfile.TemporaryDirectory() as folder, mc2.Store(folder + "/store.db") as store:
            with mc2.Communicator(RANKS, **VIRTUAL) as world:
                tuned = mc2.tune(
                    self.OP, world, store=store, budget_s=2, max_count=5, race_rounds=7, alignment=16, min_block_rows=16
                )
                kept = mc2.find_plan(self.OP, world.fingerprint, store=store, alignment=16, min_block_rows=16)
            self.assertEqual((kept.origin, kept.plan), ("kept", tuned.plan))
            self.assertEqual(store.stats()["measurements"], len(tuned.contenders))
            self.assertGreater(store.stats()["samples"], 0)
        if tuned.plan.is_cut:  # on a busy machine perhaps no cut wins
            self.assertGreater(tuned.plan.validation.benefit_low, 0)

    def test_a_plan_may_be_of_what_the_machine_takes_now(self):
        with mc2.Communicator(RANKS, pin_threads=False) as world:
            document = json.loads(
                (pathlib.Path(__file__).resolve().parents[2] / "install_consumer" / "model.json").read_text()
            )
            document["fingerprint"] = dict(world.fingerprint.fields)
            model = mc2.CostModel.from_json(json.dumps(document))
            op = mc2.OpSpec("matmul_all_reduce", m=512, n=256, k=128, ranks=RANKS)
            plain, anchored = (
                mc2.find_plan(op, world.fingerprint, models=[model], anchor=anchor).plan
                for anchor in (None, world.bench(op))
            )
            self.assertAlmostEqual(plain.compute_us, 276)  # the model's times are invented
            self.assertNotAlmostEqual(anchored.compute_us, 276)
            self.assertIn("at the speed that the lanes have now", anchored.makespan.reason)
            low, high = anchored.benefit_interval
            self.assertLessEqual(low, anchored.benefit)
            self.assertGreaterEqual(high, anchored.benefit)
            bench = world.bench(op.replace(m=1024))
            find = lambda machine: mc2.find_plan(op, machine, models=[model], anchor=bench)
            self.assertIn("m=1024", self.refused("invalid_spec", "anchor", find, world.fingerprint))
            bench = world.bench(op)
            text = self.refused("invalid_spec", "anchor", find, mc2.Fingerprint({"backend": "none"}))
            self.assertIn("another machine", text)

    def test_a_problem_is_checked_against_its_oracle(self):
        with mc2.Communicator(RANKS, pin_threads=False) as world:
            problem = world.random_problem(self.OP)
            self.assertIn("96", problem.verify(problem.prepare([32, 64]), [32, 64]))
            plan = mc2._core.unpredicted(self.OP, world.fingerprint, [32, 64], world.variants(self.OP)[0])
            self.assertIn("96", problem.verify(problem.prepare(plan), [32, 64]))
            self.refused("invalid_spec", "variant", problem.prepare, plan, plan.variant)
            other = world.random_problem(self.OP).prepare([96])
            of_arrays = world.prepare(plan, *operands(self.OP))
            for wrong in (other, of_arrays):
                self.refused("invalid_spec", "prepared", problem.verify, wrong, [96])
            self.refused(
                "invalid_spec", "ranks", world.random_problem, mc2.OpSpec("matmul_all_reduce", m=8, n=8, k=8, ranks=4)
            )
        with mc2.Communicator(RANKS, **VIRTUAL) as world:
            problem = world.random_problem(self.OP)
            self.assertIn("sum of the partial products", problem.verify(problem.prepare([96]), [96]))


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is missing (openmpi-bin)")
class MpiTest(unittest.TestCase):
    """Runs one process per rank."""

    SCRIPT = """
import sys
import mc2, numpy as np
world = mc2.Communicator(ranks=2, backend="mpi")
op = mc2.OpSpec("matmul_all_reduce", m=96, n=32, k=16, ranks=2)
for measure in (lambda: world.random_problem(op), lambda: world.bench(op), lambda: mc2.tune(op, world, budget_s=1)):
    try:
        measure()
    except mc2.Error as error:
        assert error.code == "unsupported" and "mpirun mc2 tune" in str(error), error
    else:
        sys.exit("measured")
from mc2 import _core
plan = _core.unpredicted(op, world.fingerprint, [64, 32], world.variants(op)[0])
a, b = np.full((96, 16), 2, np.float32), np.ones((16, 32), np.float32)
prepared = world.prepare(plan, [a], [b])
prepared.run()
assert (prepared.c[0] == 2 * 16 * 2).all(), prepared.c[0]
rank = int(__import__("os").environ["OMPI_COMM_WORLD_RANK"])
for wrong in (np.ones((95, 16), np.float32), np.ones((96, 16)), None):  # one rank's fault is every rank's error
    try:
        world.prepare(plan, [wrong if rank == 1 else a], [b])
    except (mc2.Error, TypeError) as error:
        assert rank == 1 or "rank 1" in str(error), error
    else:
        sys.exit("prepared")
again = world.prepare(plan, [a], [b])
again.run()
assert (again.c[0] == 2 * 16 * 2).all(), again.c[0]
"""

    def test_plans_run_and_measuring_is_refused(self):
        command = [
            "mpirun",
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-np",
            "2",
            sys.executable,
            "-c",
            self.SCRIPT,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
