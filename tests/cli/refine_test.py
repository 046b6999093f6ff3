"""Cuts that another program ran: mc2 import takes their times, mc2 refine learns from them, and mc2 plan then
answers with them."""

import json

import program
from program import EXAMPLE, EXAMPLE_MODEL, SOURCE_DIRECTORY, USAGE, ProgramTest

LOGS = SOURCE_DIRECTORY / "data" / "logs"
OPERATOR = ["--op", "matmul_all_reduce", *EXAMPLE]
DEVICE = ["--device", "ascend-910b"]
HEADING = "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes\n"
FUSED = 'x,MatmulAllReduce,{us},"""4096,3072;3072,8192""",FLOAT16;FLOAT16,"""4096,8192"""\n'


class RefineTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_empty_store()
        self.cuts = self.directory / "cuts.csv"

    def bring(self, text, *more):
        self.cuts.write_text(text)
        return self.succeed("import", self.cuts, *DEVICE, *OPERATOR, *more, "--store", self.store)

    def refine(self, *more):
        done = self.mc2("refine", *DEVICE, *OPERATOR, *more, "--store", self.store, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        program.validators()["mc2.refinement/1"].validate(document)
        program.keep_document(document)
        return document

    def test_from_the_first_cut_to_a_plan(self):
        begin = self.refine()
        self.assertEqual((begin["measured"], len(begin["next"])), ([], 3))
        said = self.bring("blocks,fused_us,compute_us,communication_us\n512+4x896,1262,803,1071\n")
        self.assertIn("next: mc2 refine", said)
        learnt = self.refine()
        self.assertEqual([cut["measured_us"] for cut in learnt["measured"]], [1262])
        self.assertAlmostEqual(learnt["serial_us"], 1874, delta=1)
        self.assertAlmostEqual(learnt["measured"][0]["expected_us"], 1262, delta=0.02 * 1262)
        plan = learnt["plan"]
        self.assertEqual(plan["cut"]["block_rows"], [512] + 4 * [896])
        self.assertAlmostEqual(plan["validation"]["benefit"], 0.327, delta=0.001)
        answer = json.loads(self.succeed("plan", *DEVICE, *OPERATOR, "--store", self.store, "--json"))
        self.assertEqual(answer, plan)
        page = self.succeed("refine", *DEVICE, *OPERATOR, "--store", self.store)
        self.assertIn("use: 512 + 4 x 896, the fastest that was measured", page)
        self.assertIn("where the cut's time goes", page)

    def test_a_faster_cut_replaces_the_first(self):
        self.bring("blocks,fused_us,serial_us\n512+4x896,1262,1874\n")
        self.bring("blocks,fused_us,serial_us\n640+3x1152,1228,1874\n")
        learnt = self.refine()
        self.assertEqual(learnt["plan"]["cut"]["block_rows"], [640] + 3 * [1152])
        self.assertEqual(len(learnt["measured"]), 2)

    def test_the_same_file_again_adds_nothing(self):
        table = "blocks,fused_us,serial_us\n512+4x896,1262,1874\n"
        self.bring(table)
        self.assertIn("all of it is kept already", self.bring(table))
        self.assertEqual(len(self.refine()["measured"]), 1)

    def test_other_m_are_planned_by_what_the_cuts_told(self):
        other = ["8192" if value == "4096" else value for value in OPERATOR]
        plan = ["plan", *DEVICE, *other, "--store", self.store]
        before = json.loads(self.succeed(*plan, "--json"))["makespan"]["us"]
        self.bring("blocks,fused_us,compute_us,communication_us\n512+4x896,1500,803,931\n")
        self.assertIn("recalibrated from 1 measured cut of m=4096", self.succeed(*plan))
        self.assertGreater(json.loads(self.succeed(*plan, "--json"))["makespan"]["us"], before)

    def test_fused_operators_of_a_log_are_runs_of_the_cut_that_is_named(self):
        log = HEADING + "".join(FUSED.format(us=us) for us in (1255, 1262, 1263, 1264, 1270))
        self.cuts.write_text(log)
        told = self.succeed("import", "--dry-run", self.cuts, *DEVICE, *OPERATOR, "--blocks", "512,4x896")
        self.assertIn("5 timings taken", told)
        refused = self.refuse(USAGE, ["import", self.cuts, *DEVICE, *OPERATOR, "--store", self.store])
        self.assertIn("--blocks", refused.stdout + refused.stderr)
        self.bring(log, "--blocks", "512,4x896")
        self.assertEqual(self.refine()["measured"][0]["measured_us"], 1263)

    def test_blocks_of_a_trace_tell_the_lanes_apart(self):
        trace = LOGS / "msprof_trace.json"
        named = [trace, *DEVICE, *OPERATOR, "--blocks", "512,4x896"]
        told = self.succeed("import", *named, "--store", self.store)
        self.assertRegex(told, r"512,4x896 +5 +1.263 ms +- +781.9 us +1.046 ms")
        compute, communication = self.refine()["cut_accounts"]
        self.assertTrue(compute["is_timed"] and communication["is_timed"])
        self.assertAlmostEqual(compute["blocks_us"], 781.9, delta=0.1)
        self.assertAlmostEqual(communication["blocks_us"], 1046.2, delta=0.1)
        page = self.succeed("refine", *DEVICE, *OPERATOR, "--store", self.store)
        self.assertRegex(page, r"all blocks / uncut +\S+, measured +\S+, measured")

    def test_a_table_may_have_the_times_of_blocks(self):
        self.bring("blocks,fused_us,serial_us,compute_blocks_us,communication_blocks_us\n512+4x896,1262,1874,,1046\n")
        compute, communication = self.refine()["cut_accounts"]
        self.assertFalse(compute["is_timed"])
        self.assertEqual(communication["blocks_us"], 1046)

    def test_what_was_measured_does_not_outweigh_what_is_asked(self):
        self.bring("blocks,fused_us,serial_us\n512+4x896,1262,1874\n640+3x1152,1250,1876\n")
        plan = ["plan", *DEVICE, *OPERATOR, "--store", self.store, "--json"]
        self.assertEqual(json.loads(self.succeed(*plan))["strategy"], "refined")
        few = json.loads(self.succeed(*plan, "--max-blocks", 2))
        self.assertLessEqual(len(few["cut"]["block_rows"]), 2)
        self.assertEqual(few["strategy"], "search")

    def test_serial_alone_is_no_cut(self):
        self.bring("blocks,fused_us\n4096,1874\n")
        plan = json.loads(self.succeed("plan", *DEVICE, *OPERATOR, "--store", self.store, "--json"))
        self.assertGreater(len(plan["cut"]["block_rows"]), 1)
        self.assertTrue(self.refine()["next"])

    def test_repeated_runs_tell_their_error(self):
        self.bring("blocks,fused_us\n" + "".join(f"512+4x896,{us}\n" for us in (1262, 1500, 1100, 1320, 1200)))
        self.assertGreater(self.refine()["noise"], 0.02)

    def test_headings_in_other_units_are_named(self):
        for heading, column in (("fused_us,serial (ms)", "serial (ms)"), ("fused (ms),serial (ms)", "fused (ms)")):
            cuts = self.write(f"blocks,{heading}\n512+4x896,1262,1.874\n")
            for command in (["refine", "--model", EXAMPLE_MODEL, "--cuts", cuts], ["import", "--dry-run", cuts]):
                self.refuse(USAGE, command, f"column '{column}' is in ms; legal: us")

    def test_a_digest_of_no_plan_is_named(self):
        self.refuse(
            3,
            ["import", self.write("blocks,fused_us\nabcdef0123,1262\n"), *DEVICE, *OPERATOR, "--store", self.store],
            "abcdef0123",
        )

    def test_times_in_another_unit_are_refused(self):
        ask = ["refine", "--model", EXAMPLE_MODEL, "--cuts", self.write("blocks,fused_us\n512+4x896,1.262\n")]
        # The collective alone takes 13.58491263 us / MiB x 64 MiB + 61.508333 us.
        alone = "its fused_us, 1.262 us, is far below what the collective alone takes, 930.9 us; are these ms?"
        self.refuse(USAGE, ask, "cut: 512 + 4 x 896: ", alone)
        self.refuse(USAGE, ["import", self.cuts, *DEVICE, *OPERATOR, "--store", self.store], "cuts.csv:2", alone)

    def test_a_time_that_no_cut_can_have_is_no_verdict(self):
        ask = ["refine", "--model", EXAMPLE_MODEL, "--cuts", self.write("blocks,fused_us\n512+4x896,500\n")]
        page = program.unwrapped(self.succeed(*ask))
        self.assertIn("nothing usable was measured: 500.0 us is below what the collective alone takes, 930.9 us", page)
        self.assertNotIn("faster than serial", page)
        self.assertIn("add their times to the file of --cuts, and run this again", page)
        self.assertNotIn("import", page)
        plan = json.loads(self.succeed(*ask, "--json"))["plan"]
        self.assertEqual(plan["reason"], "do not cut: nothing usable was measured yet")
        self.assertIn("run this again with --cuts FILE", program.unwrapped(self.succeed(*ask[:3])))
        # An imported time that was set aside decides nothing either.
        self.bring("blocks,fused_us\n512+4x896,100\n")
        answer = json.loads(self.succeed("plan", *DEVICE, *OPERATOR, "--store", self.store, "--json"))
        self.assertEqual(answer["strategy"], "search")

    def test_a_serial_time_in_another_unit_is_not_believed(self):
        rows = "blocks,fused_us,serial_us\n512+4x896,1262,1874\n640+3x1152,1250,1.876\n"
        for command in (
            ["import", self.write(rows), *DEVICE, *OPERATOR, "--store", self.store],
            ["import", "--dry-run", self.cuts, *OPERATOR],
            ["refine", "--model", EXAMPLE_MODEL, "--cuts", self.cuts],
        ):
            self.refuse(USAGE, command, "cuts.csv:3", "its fused_us, 1250 us, and its serial_us, 1.876 us")
        uncut = self.write("blocks,fused_us\n4096,1.874\n")
        for command in (
            ["import", uncut, *DEVICE, *OPERATOR, "--store", self.store],
            ["refine", "--model", EXAMPLE_MODEL, "--cuts", uncut],
        ):
            done = self.mc2(*command)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("its fused_us, 1.874 us, is far below what the collective alone takes", done.stderr)
            self.assertIn("are these ms?", done.stderr)

    def test_from_files_alone(self):
        self.cuts.write_text("blocks,fused_us,compute_us,communication_us\n512+4x896,1262,803,1071\n")
        plan = self.directory / "plan.json"
        page = self.succeed("refine", "--model", EXAMPLE_MODEL, "--cuts", self.cuts, "--out", plan)
        self.assertIn("run next", page)
        self.assertEqual(json.loads(plan.read_text())["cut"]["block_rows"], [512] + 4 * [896])

    def write(self, text):
        self.cuts.write_text(text)
        return self.cuts

    def test_bad_input_is_named(self):
        store = ["--store", self.store]
        bring = lambda text: ["import", self.write(text), *DEVICE, *OPERATOR, *store]
        self.refuse(USAGE, bring("blocks,fused_us\n512+4x896,-3\n"), "'-3' is no time above 0")
        self.refuse(USAGE, bring("blocks,fused_us\n512+x,1262\n"), "cannot read 'x'")
        self.refuse(USAGE, bring("blocks,fused_us\n512+4x800,1262\n"), "4096")
        self.refuse(USAGE, bring("blocks,fused_us\n512+4x896\n"), ":2: the row has 1 cells")
        self.refuse(
            USAGE,
            bring("blocks,fused_us,compute_blocks_us\n512+4x896,1262,1500\n"),
            ":2",
            "its compute blocks take 1.5 ms together, longer than the whole, 1.262 ms",
        )
        # An uncut run is the serial run itself.
        uncut = self.write("blocks,fused_us,serial_us\n4096,100,9000\n")
        for command in (
            ["import", uncut, *DEVICE, *OPERATOR, *store],
            ["import", "--dry-run", uncut, *OPERATOR],
            ["refine", "--model", EXAMPLE_MODEL, "--cuts", uncut],
        ):
            self.refuse(USAGE, command, "'4096': is not cut, so that its fused_us, 100.0 us, and its serial_us, 9 ms,")
        self.bring("blocks,fused_us,serial_us\n4096,1870,1874\n")
        self.refuse(USAGE, ["refine", *OPERATOR, *store], "--device: is missing")
        self.refuse(
            USAGE, ["refine", "--model", EXAMPLE_MODEL, *DEVICE, *store], "--model: cannot be combined with --device"
        )
        self.refuse(
            USAGE,
            ["refine", *DEVICE, *OPERATOR, "--cuts", self.cuts, *store],
            "--cuts: goes with --model",
            "mc2 import",
        )
        self.refuse(
            USAGE, ["refine", *DEVICE, *OPERATOR, "--allow-small-gain", *store], "--allow-small-gain: has no effect"
        )

    def test_contention_and_block_overhead_are_assumed_as_asked(self):
        ask = ["plan", "--model", EXAMPLE_MODEL, "--json"]
        plain = json.loads(self.succeed(*ask))
        slowed = json.loads(self.succeed(*ask, "--contention", "1.1,1.4", "--block-overhead", "20"))
        self.assertEqual(slowed["slowdown"], {"first": 1.1, "second": 1.4})
        self.assertEqual(slowed["block_overhead_us"], 20)
        self.assertIn("assumed as asked", slowed["reason"])
        told = ["plan", "--model", EXAMPLE_MODEL, "--contention", 1.4]
        for options in ([], ["--verbose"], ["--blocks", "512,4x896"], ["--blocks", "512,4x896", "--verbose"]):
            self.assertEqual(self.succeed(*told, *options).count("assumed as asked"), 1, options)
        self.assertGreater(slowed["makespan"]["us"], plain["makespan"]["us"])
        blocks = [*ask, "--blocks", "512,4x896"]
        given = json.loads(self.succeed(*blocks))["makespan"]["us"]
        self.assertGreater(json.loads(self.succeed(*blocks, "--contention", 1.4))["makespan"]["us"], given)
        self.assertAlmostEqual(
            json.loads(self.succeed(*blocks, "--block-overhead", 20))["makespan"]["us"], given + 6 * 20, delta=1
        )
        plan = self.write(json.dumps(slowed))
        explained = json.loads(
            self.succeed("explain", plan, "--model", EXAMPLE_MODEL, "--contention", "1.1,1.4", "--json")
        )
        self.assertEqual(explained["sensitivity"]["best_cut"], slowed["cut"])
        recipe = json.loads(self.succeed(*ask, "--strategy", "formula", "--contention", "1.15"))
        self.assertEqual(recipe["cut"]["block_rows"], [512] + 4 * [896])
        self.refuse(USAGE, [*ask, "--contention", "fast"], "--contention: 'fast'", "1.1,1.3")
        self.refuse(USAGE, [*ask, "--contention", "0.5"], "--contention: is 0.5; legal: 1 to 10")
        self.refuse(USAGE, [*ask, "--block-overhead", "-1"], "--block-overhead")


if __name__ == "__main__":
    program.main()
