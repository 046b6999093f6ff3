"""One invented bench gives one kept plan through every door, byte for byte: C++, a backend (as the program, C and
Python have one), C, Python and the ranks of a PyTorch process group.

    tuning_test.py PATH_OF_TUNING_DOOR
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import mc2

DOOR = sys.argv.pop(1)
# By variant, us of a block's matmul and collective: a fixed time and a time per row. tuning_door.cpp has the same.
COSTS = {"direct": ((20, 1), (15, 0.75)), "ring": ((20, 1), (30, 0.5))}
OP = mc2.OpSpec("matmul_all_reduce", m=1024, n=64, k=64, dtype="f32", ranks=2)
MACHINE = mc2.Fingerprint({"backend": "invented"})
VARIANTS = [mc2.Variant(name) for name in COSTS]
OPTIONS = {"alignment": 64, "min_block_rows": 64}


def block_us(variant, is_compute, rows):
    fixed, per_row = COSTS[str(variant)][0 if is_compute else 1]
    return fixed + per_row * rows


def part_us(plan, part):
    lanes = [sum(block_us(plan.variant, is_compute, rows) for rows in plan.blocks) for is_compute in (True, False)]
    if part == "fused":
        computed = communicated = 0.0
        for rows in plan.blocks:
            computed += block_us(plan.variant, True, rows)
            communicated = max(computed, communicated) + block_us(plan.variant, False, rows)
        return communicated
    return sum(lanes) if part == "serial" else lanes[part == "communication"]


def samples_of(target, rows, variant):
    context = "co_run" if target == "both" else "alone"
    return [
        mc2.Sample(
            component,
            rows,
            block_us(variant, component == "matmul", rows),
            context=context,
            variant=str(variant),
            message_bytes=rows * OP.bytes_per_unit if component == "collective" else 0,
        )
        for component in ("matmul", "collective")
        if target in (component, "both")
    ]


class InventedBench(mc2.Bench):
    def __init__(self):
        super().__init__(OP, MACHINE, VARIANTS)
        self.plans = []

    def prepare(self, plan):
        if plan not in self.plans:
            self.plans.append(plan)
        return self.plans.index(plan)

    def verify(self, plan):
        pass

    def time_us(self, number, part):
        return part_us(self.plans[number], part)

    def prepare_case(self, target, block_rows, variant):
        return lambda: samples_of(target, block_rows, variant)


class InventedSteps:
    """The invented bench as one of two ranks has it. Rank 1 takes the full time, rank 0 half of it."""

    op, fingerprint, variants = OP, MACHINE, VARIANTS

    def __init__(self, rank):
        self.share = 1.0 if rank == 1 else 0.5
        self.plans, self.cases = {}, {}

    def prepare(self, number, plan):
        self.plans[number] = plan

    def verify(self, number):
        pass

    def time_us(self, number, part):
        return self.share * part_us(self.plans[number], part)

    def prepare_case(self, number, target, block_rows, variant):
        self.cases[number] = (target, block_rows, variant)

    def measure(self, number):
        return [self.share * sample.time_us for sample in samples_of(*self.cases[number])]

    def samples(self, number, times_us):
        expected = samples_of(*self.cases[number])
        assert times_us == [sample.time_us for sample in expected], times_us
        return expected

    def rivals(self, model):
        return []


def tune_as_rank(rank, meeting):
    import torch
    import torch.distributed as dist
    from mc2.torch import _groups, _together

    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    text = _together.lead(
        _groups.resolve(None),
        torch.device("cpu"),
        [InventedSteps(rank)],
        lambda benches: mc2.tune_on(benches[0], **OPTIONS).plan.to_json(),
    )
    dist.destroy_process_group()
    sys.stdout.write(text)


def undated(plan):
    """The document without the day's date, which some doors' clocks tell."""
    return re.sub(r'"measured_at":"[^"]*",', "", plan)


class OneTuner(unittest.TestCase):
    def through(self, door):
        return undated(subprocess.run([DOOR, door], check=True, capture_output=True, text=True, timeout=60).stdout)

    def setUp(self):
        self.kept = self.through("cpp")
        self.assertIn('"validation"', self.kept)
        self.assertIn('"ring"', self.kept)

    def test_a_backend(self):
        self.assertEqual(self.through("workbench"), self.kept)

    def test_c(self):
        self.assertEqual(self.through("c"), self.kept)

    def test_python(self):
        tuned = mc2.tune_on(InventedBench(), **OPTIONS)
        self.assertEqual(undated(tuned.plan.to_json()), self.kept)
        with tempfile.TemporaryDirectory() as folder, mc2.Store(folder + "/store.db") as store:
            again = mc2.tune_on(InventedBench(), store=store, **OPTIONS)
            self.assertEqual(undated(again.plan.to_json()), self.kept)
            found = mc2.find_plan(OP, MACHINE, store=store, **OPTIONS)
            self.assertEqual((found.origin, undated(found.plan.to_json())), ("kept", self.kept))
            # A question without options does not get a plan that was tuned with options.
            self.assertEqual(mc2.find_plan(OP, MACHINE, store=store).origin, "model")
            kept = store.find_plan(OP, MACHINE, "tuned alignment=64, min_block_rows=64")
            self.assertEqual(kept.digest, found.digest)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is missing (python3-torch)")
    def test_the_ranks_of_a_process_group(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, DOOR, "rank"]
            ranks = [
                subprocess.Popen(
                    [*command, str(rank), folder + "/meeting"], stdout=subprocess.PIPE, text=True, env=environment
                )
                for rank in range(2)
            ]
            for rank in ranks:
                text, _ = rank.communicate(timeout=120)
                self.assertEqual(rank.returncode, 0)
                self.assertEqual(undated(text), self.kept)

    def test_what_a_bench_raises_arrives(self):
        class Failing(InventedBench):
            def verify(self, plan):
                raise mc2.Error("mismatch", "plan", "is wrong")

        with self.assertRaises(mc2.Error) as caught:
            mc2.tune_on(Failing(), **OPTIONS)
        self.assertEqual((caught.exception.code, str(caught.exception)), ("mismatch", "plan: is wrong"))

    def test_what_returns_something_else_is_named(self):
        for name, value in (
            ("prepare", None),
            ("time_us", "1"),
            ("prepare_case", None),
            ("prepare_case", lambda: None),
            ("rivals", 3),
        ):
            bench = type("Wrong", (InventedBench,), {name: lambda *_, value=value: value})()
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"^{name}.* returned a "):
                mc2.tune_on(bench, **OPTIONS)

    def test_counts_below_one_are_named(self):
        for name, call in (
            ("max_count", lambda: mc2.tune_on(InventedBench(), max_count=0)),
            ("race_rounds", lambda: mc2.tune_on(InventedBench(), race_rounds=0)),
            ("max_count", lambda: mc2.profile_on(InventedBench(), max_count=-1)),
            ("rounds", lambda: mc2.race_on(InventedBench(), [], rounds=0)),
        ):
            with self.assertRaises(mc2.Error) as caught:
                call()
            self.assertEqual((caught.exception.code, caught.exception.field), ("invalid_spec", name))

    def test_a_bench_without_functions_is_refused_by_name(self):
        with self.assertRaisesRegex(mc2.Error, "prepare"):
            mc2.tune_on(mc2.Bench(OP, MACHINE, VARIANTS), **OPTIONS)
        with self.assertRaisesRegex(mc2.Error, "variants"):
            mc2.Bench(OP, MACHINE, [])


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        tune_as_rank(int(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        unittest.main()
