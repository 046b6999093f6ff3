"""Tests mc2's values in Python: operators, plans, models, samples, fits, the store and the service."""

import concurrent.futures
import copy
import decimal
import fractions
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import mc2

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests" / "server"), str(ROOT / "tests" / "cli")]
OP = mc2.OpSpec("matmul_all_reduce", m=4096, n=8192, k=3072, dtype="f16", ranks=8)
EXAMPLE = (ROOT / "data" / "worked_example_model.json").read_text()


class Refusals(unittest.TestCase):
    def refused(self, code, field, call, *arguments, **keywords):
        with self.assertRaises(mc2.Error) as caught:
            call(*arguments, **keywords)
        self.assertEqual((caught.exception.code, caught.exception.field), (code, field), str(caught.exception))
        return str(caught.exception)

    def directory(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)


class ValuesTest(Refusals):
    def test_plans_from_published_costs_as_the_program_does(self):
        model = mc2.device_model("ascend-910b", OP)
        self.assertEqual(mc2.plan(OP, model, strategy="formula").blocks, [512] + 4 * [896])
        self.assertIn("ascend-950-8p", self.refused("unknown_name", "device", mc2.device_model, "tpu", OP))
        topology = (ROOT / "data/topologies/dgx_h100.json").read_text()
        self.assertTrue(mc2.plan(OP, mc2.topology_model(topology, OP)).is_cut)
        self.assertEqual(mc2.topology_model("dgx_h100", OP), mc2.topology_model(topology, OP))
        self.refused("malformed", "line 1, column 2", mc2.topology_model, "{", OP)

    def test_planning_takes_the_defaults_of_the_models_machine(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        usual = mc2.default_options(model.fingerprint)
        self.assertEqual(mc2.plan(OP, model), mc2.plan(OP, model, **usual))
        self.assertEqual(
            mc2.plan(OP, model, alignment=32), mc2.plan(OP, model, **{**usual, "alignment": 32, "min_block_rows": 32})
        )

    def test_texts_are_alike_in_every_locale(self):
        folder = self.directory()
        # Both files are written here: a machine need not have the sources of any locale.
        (folder / "characters").write_text("<escape_char> /\nCHARMAP\n<U0000>..<U007F> /x00 <ASCII>\nEND CHARMAP\n")
        (folder / "definition").write_text(
            'escape_char /\nLC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3\nEND LC_NUMERIC\n'
        )
        localedef = ["localedef", "--force", "-f", folder / "characters", "-i", folder / "definition", folder / "xx_YY"]
        subprocess.run(localedef, capture_output=True, timeout=60)  # warns of the categories that are left out
        program = """
import locale, sys, mc2
locale.setlocale(locale.LC_NUMERIC, sys.argv[1])
op = mc2.OpSpec('matmul_all_reduce', m=4096, n=8192, k=3072, dtype='f16', ranks=8)
plan = mc2.plan(op, mc2.device_model("ascend-910b", op))
print(locale.format_string("%.1f", 0.5), plan.reason, mc2.default_options(plan.fingerprint), plan.to_json())
"""
        texts = [
            subprocess.run(
                [sys.executable, "-c", program, name],
                env={**os.environ, "LOCPATH": str(folder)},
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            for name in ("C", "xx_YY")
        ]
        self.assertEqual((texts[0][:3], texts[1][:3]), ("0.5", "0,5"))
        self.assertEqual(texts[0][3:], texts[1][3:])

    def test_planning_loads_no_executor(self):
        program = "import mc2; mc2.OpSpec('matmul_all_reduce', m=64, n=64, k=64); print(open('/proc/self/maps').read())"
        maps = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        self.assertIn("_core.", maps)
        for library in ("libdnnl", "libmpi", "libnccl", "libcudart", "libcpprest", "_executor.", "_client."):
            self.assertNotIn(library, maps)

    def test_an_operator_says_what_it_is(self):
        self.assertEqual(
            (OP.kind, OP.m, OP.n, OP.k, OP.dtype, OP.ranks), ("matmul_all_reduce", 4096, 8192, 3072, "f16", 8)
        )
        self.assertEqual((OP.cut_axis, OP.cut_axis_length, OP.first_lane), ("rows", 4096, "compute"))
        self.assertEqual(OP.bytes_per_unit, 8192 * 2)  # one row of 8192 f16
        self.assertEqual(
            OP.replace(m=128), mc2.OpSpec("matmul_all_reduce", m=128, n=8192, k=3072, dtype="f16", ranks=8)
        )
        self.assertEqual(len({OP, OP.replace(), OP.replace(m=1)}), 2)

    def test_values_are_copied_and_pickled(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        experts, tables = mc2.ChosenExperts(8, 2), mc2.EmbeddingTables(3, 100, "mean")
        grouped = {"m": 64, "n": 64, "k": 64, "experts": experts}
        for value in (
            OP,
            mc2.OpSpec("grouped_matmul_all_reduce", **grouped),
            mc2.OpSpec("embedding_all_to_all", m=64, n=12, k=2, tables=tables),
            experts,
            tables,
            mc2.Variant("nccl(ctas=8,sm_count=116)"),
            model.fingerprint,
            model,
            mc2.plan(OP, model),
            mc2.Profile(OP, model.fingerprint, [mc2.Sample("matmul", 1, 1.0)]),
            mc2.Sample("collective", 4, 2.5, context="co_run", message_bytes=64, block_count=2, round=3),
        ):
            with self.subTest(value):
                for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
                    self.assertEqual(other, value)
                    self.assertIsNot(other, value)
        self.assertEqual(len({experts, mc2.ChosenExperts(8, 2), mc2.ChosenExperts(8, 3)}), 2)
        self.assertEqual(len({tables, mc2.EmbeddingTables(3, 100, "mean"), mc2.EmbeddingTables(3, 100)}), 2)

    def test_what_is_wrong_with_an_operator_is_named(self):
        words = {"m": 64, "n": 64, "k": 64}
        for code, field, change in [
            ("unknown_name", "op", {"kind": "matmul"}),
            ("invalid_spec", "m", {"m": 0}),
            ("invalid_spec", "n", {"n": -1}),
            ("invalid_spec", "k", {"k": 10**12}),
            ("unknown_name", "dtype", {"dtype": "f8"}),
            ("invalid_spec", "ranks", {"ranks": 1}),
            ("unknown_name", "epilogue", {"epilogue": "relu"}),
        ]:
            with self.subTest(change):
                self.refused(code, field, mc2.OpSpec, **{"kind": "matmul_all_reduce", **words, **change})
        whole = type("Whole", (), {"__index__": lambda _: 64})()
        self.assertEqual(mc2.OpSpec("matmul_all_reduce", **{**words, "m": whole}).m, 64)
        uncounted = [  # as numpy.bool_ and a masked number
            type("Flag", (), {"dtype": dtype, "__index__": lambda _: 1})() for dtype in ("bool", "torch.bool")
        ] + [type("Masked", (), {"mask": True, "__index__": lambda _: 64})()]
        for m in (64.0, 2**70, "64", None, True, *uncounted, decimal.Decimal(64), fractions.Fraction(129, 2)):
            change = {"m": m}
            with self.subTest(change), self.assertRaises(TypeError):
                mc2.OpSpec("matmul_all_reduce", **{**words, **change})

    def test_experts_and_tables_are_some(self):
        for field, make, counts in (
            ("experts", mc2.ChosenExperts, (0, 0)),
            ("top_k", mc2.ChosenExperts, (8, 9)),
            ("tables", mc2.EmbeddingTables, (0, 1)),
            ("table_rows", mc2.EmbeddingTables, (1, -1)),
        ):
            with self.subTest(field):
                self.refused("invalid_spec", field, make, *counts)

    def test_what_was_measured_is_possible(self):
        nan = float("nan")
        for field, fused_us, serial_us, benefit, pairs in (
            ("fused_us", nan, 2, (0.5, 0.4, 0.6), 3),
            ("fused_us", -1, 2, (0.5, 0.4, 0.6), 3),
            ("serial_us", 1, float("inf"), (0.5, 0.4, 0.6), 3),
            ("benefit", 1, 2, (nan, 0.4, 0.6), 3),
            ("benefit", 1, 2, (7, 6, 8), 3),
            ("benefit_low", 1, 2, (0.5, 0.6, 0.4), 3),
            ("pair_count", 1, 2, (0.5, 0.4, 0.6), 0),
        ):
            with self.subTest(field=field, fused_us=fused_us, benefit=benefit):
                self.refused("invalid_spec", field, mc2.Validation, fused_us, serial_us, benefit, pairs)

    def test_a_reason_is_one_that_a_document_holds(self):
        plan = mc2.plan(OP, mc2.CostModel.from_json(EXAMPLE))
        self.assertEqual(mc2.Plan.from_json(plan.because("aé b").to_json()).reason, "aé b")
        measured = mc2.Validation(1, 2, (0.5, 0.4, 0.6), 3)
        for text in ("a\nb", "\x1b[31mred"):
            self.refused("invalid_spec", "reason", plan.because, text)
            self.refused("invalid_spec", "reason", plan.with_validation, measured, text)

    def test_a_plan_carries_its_story(self):
        plan = mc2.plan(OP, mc2.CostModel.from_json(EXAMPLE))
        self.assertEqual(sum(plan.blocks), 4096)
        self.assertAlmostEqual(plan.benefit, 1 - plan.makespan.us / plan.serial_us)
        self.assertEqual(len(plan.timeline.first), len(plan.blocks))
        self.assertEqual(plan.timeline.second[-1][1], plan.timeline.makespan_us)
        self.assertEqual(mc2.Plan.from_json(plan.to_json()), plan)
        self.assertEqual(plan.to_dict()["cut"]["block_rows"], plan.blocks)
        self.assertIn(plan.cut, plan.page())
        for svg in (
            plan._repr_html_(),
            plan.svg().partition("?>")[2],
            plan.svg(measured=plan.timeline).partition("?>")[2],
        ):
            self.assertTrue(xml.etree.ElementTree.fromstring(svg).tag.endswith("svg"))

    def test_the_published_recipe_gives_the_published_blocks(self):
        plan = mc2.plan(OP, mc2.CostModel.from_json(EXAMPLE), strategy="formula")
        self.assertEqual(plan.blocks, [512, 896, 896, 896, 896])  # docs/cost_model.md §3

    def test_planning_refuses_what_it_cannot_answer(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        self.assertIn("alignment", self.refused("unknown_name", "aligment", mc2.plan, OP, model, aligment=64))
        self.refused("invalid_spec", "alignment", mc2.plan, OP, model, alignment=0)
        self.refused("invalid_spec", "alignment", mc2.plan, OP, model, alignment="x")
        self.refused("out_of_range", "model", mc2.plan, OP.replace(k=3073), model)
        self.refused("invalid_spec", "blocks", mc2.predict, OP, model, [1, 2])
        self.refused("malformed", "line 1, column 2", mc2.Plan.from_json, "{")

    def test_what_is_drawn_in_a_notebook_is_escaped(self):
        document = json.loads(EXAMPLE)
        document["fingerprint"]["device"] = "<script>alert(1)</script>"
        plan = mc2.plan(OP, mc2.CostModel.from_json(json.dumps(document)))
        self.assertNotIn("<script>", plan._repr_html_())
        profile = mc2.Profile(OP, plan.fingerprint, [mc2.Sample("matmul", 1, 1.0, variant="<script>")])
        model = mc2.CostModel.from_json(json.dumps({**document, "source": "<script>"}))
        with mc2.Store(self.directory() / "<script>.db") as store:
            store.put_plan(plan)
            for value in (plan.timeline, profile, model, store, store.list_plans()[0]):
                html = value._repr_html_()
                self.assertNotIn("<script>", html)
                xml.etree.ElementTree.fromstring(html)

    def test_a_timeline_that_contradicts_itself_is_refused(self):
        self.assertEqual(mc2.Timeline([(0, 2), (2, 4)], [(2, 3), (4, 5)]).overlap_us, 1.0)
        with self.assertRaises(mc2.Error):
            mc2.Timeline([(0, 2), (1, 4)], [(2, 3), (4, 5)])
        plan = mc2.plan(OP, mc2.CostModel.from_json(EXAMPLE))
        self.refused("invalid_spec", "measured", plan.svg, mc2.Timeline([(0, 1)], [(1, 2)]))
        self.refused("invalid_spec", "width", plan.page, 10**6)

    def test_threads_plan_side_by_side(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda m: mc2.plan(OP.replace(m=4096), model), range(64)))
        self.assertEqual(set(plan.digest for plan in plans), {plans[0].digest})

    def test_importing_loads_neither_executor_nor_client_and_lists_their_names(self):
        code = (
            "import mc2, sys; print({*mc2.__all__} - {*dir(mc2)}, "
            "sorted(m for m in sys.modules if m.startswith('mc2.')))"
        )
        loaded = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        self.assertEqual(loaded.strip(), "set() ['mc2._core', 'mc2.errors']")
        with self.assertRaises(AttributeError):
            mc2.nothing


def samples_of(op, lengths=(64, 128, 256, 512, 1024, 2048, 4096)):
    """Returns samples of three rounds: the matmul takes 10 + 0.2 x us, the collective 5 + 0.1 x us."""
    return [
        sample
        for turn in range(3)
        for x in lengths
        for sample in (
            mc2.Sample("matmul", x, 10 + 0.2 * x, round=turn),
            mc2.Sample("collective", x, 5 + 0.1 * x, message_bytes=x * op.bytes_per_unit, round=turn),
        )
    ]


class FitTest(Refusals):
    def test_a_fit_finds_the_line_that_the_samples_lie_on(self):
        machine = mc2.Fingerprint({"backend": "test", "device": "none"})
        self.assertEqual(machine.to_dict(), json.loads(machine.to_json()))
        summary = mc2.fit(mc2.Profile(OP, machine, samples_of(OP)))
        cost = summary.model.variants[0]
        self.assertAlmostEqual(cost.compute.time_us(1000), 210, delta=0.5)
        self.assertAlmostEqual(cost.communication.time_us(1000 * OP.bytes_per_unit), 105, delta=0.5)
        self.assertTrue(summary.model.answers_for(OP.replace(m=77)))
        self.assertFalse(summary.model.answers_for(OP.replace(n=77)))

    def test_samples_that_cannot_be_fitted_are_refused(self):
        machine = mc2.Fingerprint({"backend": "test"})
        self.assertEqual(self.refused("cannot_fit", "samples", mc2.fit, mc2.Profile(OP, machine, []))[:7], "samples")
        for us in (float("nan"), float("inf"), 0.0, -1.0, 1e300, 1e-300):
            with self.subTest(us):
                self.refused("invalid_spec", "time_us", mc2.Sample, "matmul", 1, us)
        for field, rows, words in (
            ("block_rows", -5, {}),
            ("block_count", 1, {"block_count": -3}),
            ("message_bytes", 1, {"message_bytes": 4}),  # a matmul has no message
            ("round", 1, {"round": -1}),
            ("variant", 1, {"variant": ""}),
        ):
            with self.subTest(field):
                self.refused("invalid_spec", field, mc2.Sample, "matmul", rows, 1.0, **words)
        half = mc2.Sample("collective", 64, 1.0, message_bytes=32 * OP.bytes_per_unit)
        self.refused("invalid_spec", "samples[0].message_bytes", mc2.Profile, OP, machine, [half])
        other = mc2.Fingerprint({"backend": "test", "ranks": "2"})
        self.refused("invalid_spec", "fingerprint.ranks", mc2.Profile, OP, other, [])
        self.refused("unknown_name", "component", mc2.Sample, "gemm", 1, 1.0)

    def test_measured_cuts_say_what_to_run_next(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        op, variant = model.op, model.variants[0].variant
        begin = mc2.refine(op, model, [])
        self.assertEqual((len(begin.next), begin.measured), (3, []))
        cut = mc2.MeasuredCut(variant, [512] + 4 * [896], 1262, compute_us=803, communication_us=1071)
        learnt = mc2.refine(op, model, [cut], next_count=1)
        self.assertEqual(learnt.plan.blocks, [512] + 4 * [896])
        self.assertAlmostEqual(learnt.serial_us, 1874, delta=1)
        self.assertAlmostEqual(learnt.measured[0].us, 1262, delta=25)
        self.assertEqual(
            [factor.name for factor in learnt.factors],
            ["compute_slowdown", "communication_slowdown", "block_overhead_us"],
        )
        self.assertLessEqual(learnt.next[0].low_us, learnt.next[0].high_us)
        self.refused(
            "invalid_spec", "compute_blocks_us", mc2.MeasuredCut, variant, [2048, 2048], 400, compute_blocks_us=800
        )
        self.refused("invalid_spec", "fused_us", mc2.MeasuredCut, variant, [op.m], 0)
        for bad in (-1, float("nan")):
            self.refused("invalid_spec", "fused_us", mc2.MeasuredCut, variant, [op.m], bad)
            self.refused("invalid_spec", "compute_us", mc2.RaceObservation, variant, [op.m], 9, bad, 9)
            self.refused("invalid_spec", "relative_error", mc2.MeasuredCut, variant, [op.m], 9, relative_error=bad)
            self.refused("invalid_spec", "x", model.variants[0].compute.time_us, bad)
        for text in ("", "direct\n"):
            self.refused("invalid_spec", "text", mc2.Variant, text)
        self.assertEqual(
            [(account.lane, account.is_timed) for account in learnt.accounts],
            [("compute", False), ("communication", False)],
        )
        timed = mc2.MeasuredCut(
            variant, [512] + 4 * [896], 1262, serial_us=1874, compute_blocks_us=830, communication_blocks_us=1100
        )
        compute, communication = mc2.refine(op, model, [timed]).accounts
        self.assertEqual((compute.blocks_us, communication.blocks_us), (830, 1100))
        self.assertAlmostEqual(communication.expansion, 1100 / communication.uncut_us)

    def test_contention_may_be_of_one_lane_or_both(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        both = mc2.plan(model.op, model, contention=1.3, block_overhead_us=5.0)
        self.assertEqual(both, mc2.plan(model.op, model, contention=(1.3, 1.3), block_overhead_us=5.0))
        self.refused("invalid_spec", "contention", mc2.plan, model.op, model, contention=0.5)

    def test_a_sweep_interleaves_and_hears_what_a_case_raises(self):
        order = []

        def case(name):
            return name, lambda: order.append(name) or [mc2.Sample("matmul", 1, 1.0)]

        samples = mc2.sweep([case("x"), case("y")], budget_s=1, max_count=3)
        self.assertEqual(len(samples), 6)
        self.assertEqual(sorted(order[:2]), ["x", "y"])

        def broken():
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            mc2.sweep([("z", broken)], budget_s=1)
        self.refused("invalid_spec", "cases", mc2.sweep, [("empty", list)], budget_s=1)
        self.refused("invalid_spec", "budget_s", mc2.sweep, [], budget_s=float("nan"))
        self.refused("invalid_spec", "max_count", mc2.sweep, [case("x")], budget_s=1, max_count=0)
        for measure in (None, lambda: None, lambda: "samples", lambda: [1]):
            with self.assertRaisesRegex(TypeError, "cases: 'mine'"):
                mc2.sweep([("mine", measure)], budget_s=1)

    def test_a_paired_ratio_is_a_median_of_ratios(self):
        self.assertEqual(mc2.paired_ratio([1, 2, 3], [2, 2, 2])[0], 1.0)
        self.refused("invalid_spec", "denominators", mc2.paired_ratio, [1], [])
        for wrong in (0, -1, float("nan"), float("inf")):
            self.refused("invalid_spec", "denominators", mc2.paired_ratio, [1], [wrong])
        for wrong in (-1, float("nan"), float("inf")):
            self.refused("invalid_spec", "numerators", mc2.paired_ratio, [1, wrong, 3], [1, 1, 1])


class StoreTest(Refusals):
    def test_what_is_kept_is_found(self):
        path = self.directory() / "store.db"
        model = mc2.CostModel.from_json(EXAMPLE)
        plan = mc2.plan(OP, model)
        with mc2.Store(path) as store:
            before = store.revision()
            digest = store.put_plan(plan)
            store.put_model(model)
            self.assertGreater(store.revision(), before)
            raced = plan.with_validation(mc2.Validation(90, 100, (0.1, 0.05, 0.15), 5), "raced")
            self.refused("invalid_spec", "compute_us", store.add_measurement, raced, float("nan"), 1.0)
            self.refused("invalid_spec", "communication_us", store.add_measurement, raced, 1.0, 1e300)
        with mc2.Store(str(path), read_only=True) as store:
            found = store.find_plan(OP, model.fingerprint)
            self.assertEqual((found.plan, found.digest, found.document), (plan, digest, plan.to_json()))
            self.assertEqual(store.find_plan_by_digest(digest[:8]).plan, plan)
            self.assertEqual(store.find_model(OP.replace(m=256), model.fingerprint), model)
            self.assertEqual(store.stats()["plans"], 1)
            self.refused("not_found", str(path), store.find_plan, OP.replace(m=1), model.fingerprint)
            self.refused("read_only", str(path), store.put_plan, plan)
        self.refused("invalid_spec", "store", store.stats)  # the store is closed

    def test_a_forked_child_is_refused_and_ends(self):
        path = self.directory() / "store.db"
        with mc2.Store(path) as store:
            plan = mc2.plan(OP, mc2.CostModel.from_json(EXAMPLE))
            child = os.fork()
            if child == 0:
                try:
                    store.put_plan(plan)
                except mc2.Error as error:
                    store.close()
                    del store
                    with mc2.Store(path) as own:
                        own.put_plan(plan)
                    os._exit(0 if error.field == "store" and "forked" in str(error) else 1)
                os._exit(2)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(store.stats()["plans"], 1)  # the parent's store still works

    def test_threads_share_a_store(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        with mc2.Store(self.directory() / "store.db") as store, concurrent.futures.ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda m: store.put_plan(mc2.plan(OP.replace(m=m), model)), range(1024, 1032)))
            self.assertEqual(store.stats()["plans"], len(set(plans)))

    def test_what_is_no_store_is_refused(self):
        folder = self.directory()
        (folder / "text.db").write_text("no database at all, but longer than a header of SQLite is" * 10)
        self.refused("corrupt", str(folder / "text.db"), mc2.Store, folder / "text.db")
        with self.assertRaises(mc2.Error) as caught:
            mc2.Store(folder / "missing.db", read_only=True)
        self.assertEqual(caught.exception.code, "not_found")

    def test_a_store_of_a_newer_version_is_named(self):
        import sqlite3

        path = self.directory() / "store.db"
        mc2.Store(path).close()
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 999")
        database.close()
        with self.assertRaises(mc2.Error) as caught:
            mc2.Store(path)
        self.assertEqual(caught.exception.code, "newer_version")


class FinderTest(Refusals):
    def test_places_are_asked_in_order_and_misses_are_told(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        folder = self.directory()
        plan = mc2.predict(OP, model, [2048, 2048])
        (folder / "plan.json").write_text(plan.to_json())
        finder = mc2.PlanFinder(plan_files=[folder / "plan.json"], store=folder / "store.db", models=[model])
        found = finder.find(OP, model.fingerprint)
        self.assertEqual((found.plan, found.digest, found.misses), (plan, plan.digest, []))
        other = finder.find(OP.replace(m=2048), model.fingerprint)
        self.assertEqual(other.plan.op.m, 2048)
        self.assertEqual(len(other.misses), 2)  # one for the file, one for the store

    def test_a_service_answers_what_it_was_asked(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        plan, machine = mc2.predict(OP, model, [2048, 2048]), model.fingerprint
        ask = lambda answer, op=OP, machine=machine: mc2.find_plan(op, machine, service=lambda *_: answer)
        self.assertEqual(ask(plan).plan, plan)
        other = mc2.OpSpec("matmul_reduce_scatter", m=4096, n=8192, k=3072, dtype="f16", ranks=8)
        for op in (OP.replace(m=192), other):
            self.assertIn("service: is for", self.refused("not_found", "", ask, plan, op))
        text = self.refused("not_found", "", ask, plan, OP, mc2.Fingerprint({"backend": "none"}))
        self.assertIn("service: is for another machine", text)
        for answer in (3, None):
            with self.assertRaisesRegex(TypeError, "service returned"):
                ask(answer)

    def test_a_service_may_end_the_search_but_not_by_failing(self):
        model = mc2.CostModel.from_json(EXAMPLE)

        def ask(error):
            def service(*_):
                raise error

            return mc2.find_plan(OP, model.fingerprint, service=service, models=[model])

        self.assertIn("is away", ask(OSError("is away")).misses[0])
        with self.assertRaisesRegex(TypeError, "positional argument"):
            mc2.find_plan(OP, model.fingerprint, service=lambda op: None, models=[model])
        for error in (KeyboardInterrupt(), SystemExit(3)):
            with self.assertRaises(type(error)):
                ask(error)

    def test_without_a_plan_every_place_says_why(self):
        finder = mc2.PlanFinder(store=self.directory() / "store.db")
        with self.assertRaises(mc2.Error) as caught:
            finder.find(OP, mc2.Fingerprint({"backend": "host"}))
        self.assertEqual(caught.exception.code, "not_found")
        self.refused("not_found", "/nowhere/plan.json", mc2.PlanFinder, plan_files=["/nowhere/plan.json"])
        self.refused("invalid_spec", "/tmp", mc2.PlanFinder, plan_files=["/tmp"])

    def test_disabled_every_plan_is_uncut(self):
        with mc2.Communicator(2, pin_threads=False) as world:
            op = mc2.OpSpec("matmul_all_reduce", m=512, n=64, k=64, ranks=2)
            self.assertEqual(mc2.PlanFinder(is_disabled=True).find(op, world.fingerprint).plan.blocks, [512])
            self.assertEqual(mc2.uncut_plan(op, world.fingerprint).blocks, [512])


class PlanRangesTest(Refusals):
    def test_each_m_has_a_plan_nearly_as_good_as_its_own(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        ranges = mc2.find_plan_ranges(OP, model.fingerprint, 1, models=[model])
        self.assertEqual((ranges.first_m, ranges.op.m, ranges.planned_count), (1, 4096, 4032))
        self.assertEqual([(gap.first_m, gap.last_m) for gap in ranges.gaps], [(1, 64)])
        self.assertLessEqual(ranges.loss, 0.01)
        for m in (65, 200, 777, 4096):
            plan = ranges.plan_at(m)
            one = ranges.find(m)
            self.assertEqual((plan.blocks, plan.schedule), (one.rule.blocks(m), one.rule.schedule))
            own = mc2.plan(OP.replace(m=m), model)
            predicted = mc2.predict(OP.replace(m=m), model, plan.blocks)
            self.assertLessEqual(predicted.makespan_us, own.makespan_us * 1.01 * (1 + 1e-9))
            self.assertLessEqual(one.least_benefit, predicted.benefit + 1e-9)
            self.assertEqual(plan.is_serial, not one.rule.block_length)
        self.assertIsNone(ranges.find(64))
        self.assertEqual(mc2.PlanRanges.from_json(ranges.to_json()), ranges)
        self.assertIn("<table", ranges._repr_html_())
        finder = mc2.PlanFinder(models=[model])
        self.assertEqual(finder.find_ranges(OP, model.fingerprint, 1), ranges)

    def test_what_cannot_be_asked(self):
        model = mc2.CostModel.from_json(EXAMPLE)
        self.refused("invalid_spec", "m", mc2.find_plan_ranges, OP, model.fingerprint, 0, models=[model])
        self.refused("not_found", "", mc2.find_plan_ranges, OP, model.fingerprint, 100)
        ranges = mc2.find_plan_ranges(OP, model.fingerprint, 4000, models=[model])
        self.refused("not_found", "m", ranges.plan_at, 3999)
        for length in (0, -1):
            self.refused("invalid_spec", "axis_length", ranges.ranges[0].rule.blocks, length)


class ClientTest(Refusals):
    def test_a_service_that_is_away_is_named(self):
        client = mc2.Client("http://127.0.0.1:1", deadline_s=2)
        with self.assertRaises(mc2.Error) as caught:
            client.find_plan(OP, mc2.Fingerprint({"backend": "host"}))
        self.assertEqual(caught.exception.code, "unsupported")
        self.assertIn("127.0.0.1:1", str(caught.exception))
        self.refused("invalid_spec", "server", mc2.Client, "ftp://x")
        self.refused("invalid_spec", "deadline_s", mc2.Client, "http://x", deadline_s=0)

    @unittest.skipUnless(os.environ.get("MC2_PROGRAM"), "no program mc2 in this build")
    def test_a_service_gives_the_plan_of_the_model_that_it_was_given(self):
        import program
        import serving

        program.MC2 = os.environ["MC2_PROGRAM"]
        folder = self.directory()
        service = serving.Service(folder / "store.db", folder)
        self.addCleanup(service.stop)
        client = mc2.Client(f"http://127.0.0.1:{service.port}", deadline_s=30)
        model = mc2.CostModel.from_json(EXAMPLE)
        self.assertEqual(client.put_model(model), model.digest)
        answer = client.find_plan(OP, model.fingerprint)
        self.assertEqual((answer.source, answer.plan.op, answer.plan.digest), ("model", OP, answer.digest))
        self.assertEqual(client.find_model(OP, model.fingerprint), model)
        kept = mc2.predict(OP, model, [OP.m // 2] * 2)
        client.put_plan(kept)
        run = {
            "schema": "mc2.measurement/1",
            "pair_count": 9,
            "benefit": 0,
            "benefit_low": 0,
            "benefit_high": 0,
            **{key: kept.to_dict()[key] for key in ("op", "fingerprint", "cut", "variant")},
        }
        predicted = {part: getattr(kept, part) for part in ("compute_us", "communication_us", "serial_us")}
        slow = {**predicted, "compute_us": 30 * predicted["compute_us"]}
        for turn in range(4):
            service.json(
                "POST",
                "/v1/measurements",
                {
                    **run,
                    **slow,
                    **{f"predicted_{part}": us for part, us in predicted.items()},
                    "fused_us": slow["compute_us"] + turn,  # the same race sent again would be kept once
                    "predicted_us": kept.makespan.us,
                },
                status=201,
            )
        served = client.find_plan(OP, model.fingerprint)
        self.assertEqual((served.source, served.digest), ("stored", kept.digest))
        self.assertGreater(served.staleness.loss, 0.02)
        self.assertTrue(served.staleness.best_blocks)
        self.assertTrue(served.staleness.why.startswith("by its last 4 runs: "), served.staleness.why)
        by_finder = mc2.PlanFinder(server=f"http://127.0.0.1:{service.port}").find(OP, model.fingerprint)
        self.assertEqual(by_finder.staleness.loss, served.staleness.loss)
        for reply, loss in ((served, served.staleness.loss), (served.plan, None)):
            found = mc2.find_plan(OP, model.fingerprint, service=lambda *_, reply=reply: reply)
            self.assertEqual((found.origin, found.digest), ("service", kept.digest))
            self.assertEqual(found.staleness and found.staleness.loss, loss)


if __name__ == "__main__":
    unittest.main()
