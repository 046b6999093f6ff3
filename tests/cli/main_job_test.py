"""The main job: profile, fit, plan, run and tune, and what the store then holds."""

import json
import re

import program
from program import MACHINE, NEGATIVE, NO_ANSWER, QUICK, SHAPE, ProgramTest

FEW_PAIRS = ["--pairs", "6", "--budget", "1"]
EMULATED = "EMULATED: link 1Gbit,20us, virtual compute 1Gflops,5us"


class MainJobTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.validators = program.validators()

    def assert_valid(self, document, kind):
        self.assertEqual(document["schema"], kind)
        problems = [f"{error.json_path}: {error.message}" for error in self.validators[kind].iter_errors(document)]
        self.assertEqual(problems, [])

    def assert_emulated(self, page):
        """The page says that the machine is emulated, on lines that a screen can show."""
        self.assertIn(EMULATED, program.unwrapped(page))
        self.assertLessEqual(max(map(len, page.split("\n")[:3])), 80)

    def at_store(self, command, *arguments):
        return self.succeed(command, *SHAPE, *MACHINE, *arguments, "--store", self.store)

    def test_profile_fit_plan_and_run(self):
        profile_file, model_file, plan_file, trace_file = (
            self.directory / f"{name}.json" for name in ("profile", "model", "plan", "trace")
        )
        page = self.at_store("profile", *QUICK, "--align", 16, "--out", profile_file)
        self.assert_emulated(page)
        self.assert_valid(json.loads(profile_file.read_text()), "mc2.profile/1")

        self.assert_emulated(self.at_store("fit", "--out", model_file))
        model = json.loads(self.at_store("fit", "--json"))
        self.assert_valid(model, "mc2.cost_model/1")
        self.assertEqual(model, json.loads(model_file.read_text()))
        self.assertEqual(
            model,
            json.loads(
                self.succeed("fit", "--profile", profile_file, "--json", "--store", self.directory / "other.db")
            ),
        )

        self.assert_emulated(self.at_store("plan", "--align", 16))
        plan_text = self.at_store("plan", "--align", 16, "--json", "--out", plan_file)
        self.assertEqual(plan_text, self.at_store("plan", "--align", 16, "--json"))
        self.assertEqual(plan_text, plan_file.read_text())
        plan = json.loads(plan_text)
        self.assert_valid(plan, "mc2.plan/1")
        self.assertIn("emulation", plan["fingerprint"])
        self.assertEqual(sum(plan["cut"]["block_rows"]), 96)

        page = self.succeed(
            "run", "--plan", plan_file, *MACHINE, *FEW_PAIRS, "--store", self.store, "--trace", trace_file
        )
        self.assert_emulated(page)
        self.assertIn("correct: ", page)
        self.assert_trace(json.loads(trace_file.read_text()), len(plan["cut"]["block_rows"]))
        self.check_timelines(
            plan, ["run", *MACHINE, *FEW_PAIRS, "--store", self.store, "--trace", trace_file, "--plan"]
        )
        self.assertNotIn("predicted", trace_file.read_text())

    def check_timelines(self, plan, run):
        """Checks that a plan's timeline must fit its cut, and that a plan without predictions must have none."""
        edited = self.directory / "edited.json"
        blocks = len(plan["cut"]["block_rows"])
        edited.write_text(
            json.dumps(
                {
                    **plan,
                    "timeline": {**plan["timeline"], "first": [*plan["timeline"]["first"], *plan["timeline"]["first"]]},
                }
            )
        )
        self.refuse(
            program.USAGE,
            [*run, edited],
            f"edited.json: timeline.first: has {2 * blocks} spans; the plan has {blocks} blocks",
        )
        no_timeline = {"first": [], "second": [], "makespan_us": 0, "overlap_us": 0}
        edited.write_text(json.dumps({**plan, "timeline": no_timeline}))
        self.refuse(program.USAGE, [*run, edited], "edited.json: timeline: is empty beside a makespan of ")
        blind = {
            **plan,
            **dict.fromkeys(("serial_us", "compute_us", "communication_us", "ideal_us"), 0),
            "makespan": {**plan["makespan"], "us": 0, "low_us": 0, "high_us": 0},
            "timeline": no_timeline,
        }
        edited.write_text(json.dumps(blind))
        self.succeed(*run, edited)

    def assert_trace(self, trace, block_count):
        processes = {
            event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"
        }
        self.assertEqual(sorted(processes.values()), ["measured rank 0", "measured rank 1", "predicted"])
        self.assertIn("EMULATED", trace["otherData"]["machine"])
        for process in processes:
            blocks = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == process]
            self.assertEqual(len(blocks), 2 * block_count)
            self.assertTrue(all(event["dur"] >= 0 for event in blocks))

    def test_tuned_plan_is_found_again_to_the_byte(self):
        aligned = ["--align", 16]
        first = self.at_store("tune", *QUICK, *aligned, "--json")
        self.assert_valid(json.loads(first), "mc2.plan/1")
        self.assertEqual(first, self.at_store("tune", *QUICK, *aligned, "--json"))
        done = self.tuned(*SHAPE, *MACHINE, *aligned, "--store", self.store)
        self.assertIn("already tuned", done.stderr)
        self.assert_emulated(done.stdout)

        document = json.loads(self.at_store("run", *FEW_PAIRS, *aligned, "--json"))
        self.assertEqual(document["plan"], json.loads(first))
        self.assertIn("EMULATED", document["measured"]["machine"])
        listed = self.succeed("db", "list", "--store", self.store)
        self.assertIn("EMULATED", listed)
        for blocks, named in (("2 x 32 + 32", "2x32+32"), ("96", "96")):
            page = program.unwrapped(self.at_store("plan", "--blocks", blocks))
            run = f"mc2 run --blocks {named}, with operator and machine as here, checks and times it"
            self.assertRegex(page, f"{re.escape(run)}|not cutting is predicted faster: --blocks 96 plans that")
        digest = self.kept_plans()[0]["digest"][:12]
        by_digest = json.loads(
            self.succeed("run", "--plan", digest, *MACHINE, *FEW_PAIRS, "--json", "--store", self.store)
        )
        self.assertEqual(by_digest["plan"], json.loads(first))

    def test_plans_tuned_with_other_options_stand_beside_the_best_of_all(self):
        asked = ["--m", 512, "--n", 64, "--k", 64, *MACHINE, "--store", self.store]
        best = self.tuned(*asked, *QUICK, "--json").stdout
        few = ["--max-blocks", 2]
        self.assertIn("mc2 tune with the same options", self.succeed("plan", *asked, *few))
        done = self.tuned(*asked, *few, *QUICK, "--json")
        self.assertNotIn("already tuned", done.stderr)
        restricted = json.loads(done.stdout)
        self.assertLessEqual(len(restricted["cut"]["block_rows"]), 2)
        self.assertEqual({item["purpose"] for item in self.exported_plans()}, {"tuned", "tuned max_block_count=2"})
        self.assertIn("max_block_count=2", self.succeed("db", "list", "--store", self.store))
        # Each question finds its own plan again. Tuning anew with options leaves the best plan of all as it is.
        self.assertIn("already tuned", self.complete("tune", *asked, *few).stderr)
        self.assertIn("already tuned", self.complete("tune", *asked, "--max-blocks", 64).stderr)
        again = json.loads(self.tuned(*asked, *few, *QUICK, "--fresh", "--json").stdout)
        for command, extra in (("plan", []), ("run", FEW_PAIRS), ("explain", [])):
            for options, expected in (([], json.loads(best)), (few, again)):
                with self.subTest(command=command, options=options):
                    found = json.loads(self.succeed(command, *asked, *options, *extra, "--json"))
                    self.assertEqual(found if command == "plan" else found["plan"], expected)
        self.refuse(
            program.USAGE, ["run", "--plan", "x.json", *few], "--plan: names the options; leave out --max-blocks"
        )
        self.refuse(program.USAGE, ["run", *asked, "--blocks", "512", "--strategy", "free"], "--blocks", "--strategy")

    def test_how_many_runners_up_are_shown_is_no_other_question(self):
        asked = ["--m", 512, "--n", 64, "--k", 64, *MACHINE, "--store", self.store]
        kept = self.tuned(*asked, *QUICK, "--json").stdout
        for count in (0, 5, 6, 100):
            with self.subTest(count=count):
                found = self.succeed("plan", *asked, "--runners-up", count, "--json")
                self.assertEqual(json.loads(found), json.loads(kept))
                self.assertIn("raced on this machine", self.succeed("plan", *asked, "--runners-up", count))
        self.assertNotIn("measured benefit", self.succeed("plan", *asked, "--runners-up", 0, "--verbose"))

    def exported_plans(self):
        return json.loads(self.succeed("db", "export", "--store", self.store))["plans"]

    def test_kinds_with_sharded_rows_are_tuned_and_run(self):
        # 2 ranks share 96 rows of the product: each rank's shard has 48 rows, and blocks are cut from these.
        for kind, checked in (
            ("matmul_reduce_scatter", "sum of the partial products"),
            ("all_gather_matmul", "received rows of A equal"),
            ("matmul_all_to_all", "received rows of product equal"),
            ("all_to_all_matmul", "received rows of A equal"),
        ):
            plan = json.loads(self.at_store("tune", "--op", kind, *QUICK, "--align", 16, "--json"))
            self.assert_valid(plan, "mc2.plan/1")
            self.assertEqual(plan["op"]["kind"], kind)
            self.assertEqual(sum(plan["cut"]["block_rows"]), 48)
            page = self.at_store("run", "--op", kind, "--blocks", "16,32", *FEW_PAIRS)
            self.assertIn(checked, program.unwrapped(page))
            real = ["--link", "1Gbit,20us", "--store", self.store]
            page = self.succeed("run", "--op", kind, *SHAPE, *real, "--blocks", "16,32", *FEW_PAIRS)
            self.assertIn("compared element by element", program.unwrapped(page))

    def test_what_cannot_be_cut_is_kept_as_serial(self):
        self.at_store("tune", *QUICK, "--align", 96)
        document = json.loads(self.at_store("run", *FEW_PAIRS, "--align", 96, "--json"))
        self.assertTrue(document["plan"]["is_serial"])
        self.assertEqual(document["plan"]["makespan"]["us"], document["plan"]["serial_us"])
        self.assertIn("do not cut", document["plan"]["reason"])
        self.assertIn(" 0.0 % measured", program.unwrapped(self.succeed("db", "list", "--store", self.store)))
        # The page does not advise tuning.
        self.assertIn("mc2 run with the same options", self.at_store("plan", "--align", 96))

    def test_blocks_run_without_a_model_and_without_a_store(self):
        asked = [
            "run",
            "--op",
            "all_gather_matmul",
            *SHAPE,
            *MACHINE,
            *FEW_PAIRS,
            "--trace",
            self.directory / "trace.json",
        ]
        page = self.succeed(*asked, "--blocks", "16,32")
        self.assertIn("nothing is predicted: ", page)
        self.assertNotIn(", predicted", page)
        plan = json.loads(self.succeed(*asked, "--blocks", "16,32", "--json"))["plan"]
        for printed in ("16 + 32", "16+ 1 x 32 "):
            self.assertEqual(
                json.loads(self.succeed(*asked, "--blocks", printed, "--json"))["plan"]["cut"], plan["cut"]
            )
        self.assert_valid(plan, "mc2.plan/1")
        self.assertEqual(plan["cut"]["block_rows"], [16, 32])
        self.assertEqual(plan["timeline"]["first"], [])
        of_shard = "48 rows of each rank's m / ranks"
        self.refuse(program.USAGE, [*asked, "--blocks", "16,33"], "--blocks: ", f"sum to more than {of_shard}")
        self.refuse(program.USAGE, [*asked, "--blocks", "48,48"], "--blocks: ", f"sum to more than {of_shard}")
        self.refuse(
            program.USAGE, [*asked, "--blocks", "49"], "--blocks: ", f"holds 49; every block is 1 to {of_shard}"
        )
        self.refuse(program.USAGE, [*asked, "--blocks", ""], "--blocks: is empty")
        self.refuse(NO_ANSWER, [*asked, "--blocks", "16,32", "--store", self.directory / "none.db"], "no such store")
        done = self.mc2(*asked, "--blocks", "16,32", "--server", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, program.SUCCESS, done.stderr)
        self.assertIn("mc2: note: ", done.stderr)
        nowhere = {
            name: value
            for name, value in program.environment(self.directory).items()
            if name not in ("HOME", "XDG_DATA_HOME", "MC2_STORE")
        }
        self.assertEqual(self.mc2(*asked, "--blocks", "16,32", env=nowhere).returncode, program.SUCCESS)
        missing = "none of MC2_STORE, XDG_DATA_HOME and HOME is set; name a store with --store PATH"
        for command in ("plan", "run", "explain"):
            self.refuse(NO_ANSWER, [command, *SHAPE, *MACHINE], f"{missing}, for mc2 tune as well", env=nowhere)
        self.refuse(NO_ANSWER, ["fit", *SHAPE, *MACHINE], missing, env=nowhere)
        for command in (["tune", *SHAPE, *MACHINE], ["profile", *SHAPE, *MACHINE], ["db", "list"]):
            self.refuse(program.USAGE, command, f"--store: {missing}", env=nowhere)

        file = self.directory / "given.json"
        file.write_text(json.dumps(plan))
        for command in (["explain", file], ["export", "--format", "csv", file]):
            self.refuse(program.USAGE, command, "given.json predicts nothing")
        self.refuse(NO_ANSWER, ["compare", file, file], "predicts nothing")

    def test_rows_that_the_ranks_cannot_share_are_refused(self):
        odd = ["--m", 97, "--n", 64, "--k", 64, *MACHINE, "--store", self.store]
        for kind in ("matmul_reduce_scatter", "all_gather_matmul", "matmul_all_to_all", "all_to_all_matmul"):
            self.refuse(program.USAGE, ["tune", "--op", kind, *odd], "multiple of the 2 ranks")

    def test_doctor_lists_the_types_of_every_kind(self):
        common = json.loads((program.SOURCE_DIRECTORY / "schemas/common.schema.json").read_text())
        kinds = common["$defs"]["op"]["properties"]["kind"]["enum"]
        doctor = json.loads(self.succeed("doctor", "--json", "--store", self.store))
        for backend in doctor["backends"]:
            if backend["available"]:
                self.assertEqual(list(backend["dtypes"]), kinds)
        host = next(backend for backend in doctor["backends"] if backend["name"] == "host")
        for kind in kinds:
            self.assertEqual(host["dtypes"][kind]["f32"], "yes")

    def test_the_environment_names_the_store(self):
        named = self.directory / "named.db"
        seen = self.mc2("doctor", env={**program.environment(self.directory), "MC2_STORE": str(named)})
        self.assertEqual(seen.returncode, program.SUCCESS, seen.stderr)
        self.assertIn(str(named), seen.stdout)

    def test_tune_shows_every_step(self):
        page = self.at_store("tune", "--verbose", *QUICK, "--align", 16)
        self.assert_emulated(page)
        for text in ("CostMM", "CostComm", "raced on this machine", "kept as plan"):
            self.assertIn(text, page)

    def test_fresh_tunes_again(self):
        self.at_store("tune", *QUICK, "--align", 16)
        done = self.tuned(*SHAPE, *MACHINE, *QUICK, "--align", 16, "--fresh", "--store", self.store)
        self.assertNotIn("already tuned", done.stderr)

    def test_shapes_are_tuned_in_order(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text("# two\r\nm,n,k\r\n\r\n96,64,64\r\n48,64,64\r\n")
        done = self.tuned("--shapes", shapes, *MACHINE, *QUICK, "--align", 16, "--store", self.store)
        self.assertIn("shape 2 of 2: matmul_all_reduce m=48 n=64 k=64 f32 x2", done.stderr)
        self.assertEqual(len(self.kept_plans()), 2)

    def test_export_import_and_merge_lose_nothing(self):
        self.at_store("tune", *QUICK, "--align", 16)
        exported = self.directory / "export.json"
        self.succeed("db", "export", exported, "--store", self.store)
        text = exported.read_text()
        self.assert_valid(json.loads(text), "mc2.store/1")
        self.assertEqual(text, self.succeed("db", "export", "--store", self.store))

        imported, merged = self.directory / "imported.db", self.directory / "merged.db"
        self.succeed("db", "import", exported, "--store", imported)
        self.succeed("db", "merge", self.store, "--store", merged)
        for other in (imported, merged):
            self.assertEqual(text, self.succeed("db", "export", "--store", other))
            self.assertIn("healthy", self.succeed("db", "check", "--store", other))
        self.assertIn("0 added", self.succeed("db", "merge", imported, "--store", merged))
        self.assertIn("plans", self.succeed("db", "stats", "--store", merged))
        doctor = json.loads(self.succeed("doctor", "--json", "--store", merged))
        self.assertEqual(doctor["store"]["plans"], 1)

    def test_plan_of_another_machine_is_refused_unless_accepted(self):
        self.profiled_and_fitted()
        plan_file = self.directory / "plan.json"
        self.at_store("plan", "--out", plan_file)
        elsewhere = ["--plan", plan_file, "--link", "2Gbit,20us", *FEW_PAIRS, "--store", self.store]
        link = json.loads(plan_file.read_text())["fingerprint"]["link"]
        self.refuse(NO_ANSWER, ["run", *elsewhere], "another machine", f"add --link {link}", "--accept-other-machine")
        accepted = self.complete("run", *elsewhere, "--accept-other-machine")
        page = accepted.stdout
        self.assertIn("not kept: the plan's predictions are for another machine", accepted.stderr)
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        self.assertEqual(exported["measurements"], [])
        # The page names where the plan was measured, then where it comes from.
        self.assertIn("EMULATED: link 2Gbit,20us]", program.unwrapped(page))
        self.assertIn("plan made on", page)

    def test_order_of_peers_is_a_setting_of_the_variant(self):
        self.profiled_and_fitted()
        plan_file = self.directory / "plan.json"
        plan = json.loads(self.at_store("plan", "--json"))
        running = ["run", "--plan", plan_file, *MACHINE, *FEW_PAIRS, "--store", self.store]
        plan["variant"]["fields"] = {"order": "rank"}
        plan_file.write_text(json.dumps(plan))
        self.assertIn("sum of the partial products", program.unwrapped(self.succeed(*running)))
        plan["variant"]["fields"] = {"order": "random"}
        plan_file.write_text(json.dumps(plan))
        self.refuse(program.USAGE, running, 'order is "random"', "staggered, rank")

    def test_worked_example_gives_the_published_blocks(self):
        asked = ["plan", "--model", program.EXAMPLE_MODEL, "--strategy", "formula", *program.EXAMPLE]
        plan = json.loads(self.succeed(*asked, "--json"))
        self.assertEqual(plan["cut"]["block_rows"], [512, 896, 896, 896, 896])  # docs/cost_model.md

    def test_a_cut_that_is_slower_than_serial_offers_the_whole(self):
        model = json.loads(program.EXAMPLE_MODEL.read_text())
        model["variants"][0]["communication"]["fixed_us"] = 10_000
        file = self.directory / "slow.json"
        file.write_text(json.dumps(model))
        page = self.succeed("plan", "--model", file, "--m", 4096, "--blocks", "4x1024")
        self.assertIn("MORE time than serial", page)
        self.assertIn("--blocks 4096 plans that", program.unwrapped(page))

    def test_doctor_reports_a_damaged_store(self):
        self.store.write_bytes(b"no database, but long enough to look like a file\n" * 100)
        done = self.mc2("doctor", "--store", self.store)
        self.assertEqual(done.returncode, NEGATIVE)
        self.assertIn("NOT healthy", done.stdout)


if __name__ == "__main__":
    program.main()
