"""mc2 plan and mc2 sweep make plans for another n and k."""

import csv
import io
import json

from program import MACHINE, NO_ANSWER, QUICK, SHAPE, ProgramTest, main


def shape(n, k):
    return ["--m", "96", "--n", str(n), "--k", str(k)]


class TransferTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profiled_and_fitted()
        self.n, self.k = (int(SHAPE[SHAPE.index(option) + 1]) for option in ("--n", "--k"))

    def plan(self, *arguments):
        return self.mc2("plan", *arguments, *MACHINE, "--align", 16, "--store", self.store)

    def test_another_shape_is_answered_and_marked(self):
        done = self.plan(*shape(2 * self.n, self.k), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("transferred from", done.stderr)
        makespan = json.loads(done.stdout)["makespan"]
        self.assertEqual(makespan["provenance"], "extrapolated")
        self.assertIn(f"n={self.n} k={self.k}", makespan["reason"])

    def test_its_interval_is_wider(self):
        def relative_width(done):
            makespan = json.loads(done.stdout)["makespan"]
            return (makespan["high_us"] - makespan["low_us"]) / makespan["us"]

        # The model must say that it is sure. A quick profile may be less sure of its own blocks than of longer ones.
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        for kept in exported["models"]:
            for variant in kept["document"]["variants"]:
                for lane in (variant["compute"], variant["communication"]):
                    lane["curve"]["relative_interval"] = 0.001
                    lane.pop("start_interval", None)
        file = self.directory / "sure.json"
        file.write_text(json.dumps(exported))
        self.store = self.directory / "sure.db"
        self.succeed("db", "import", file, "--store", self.store)
        own = self.plan(*shape(self.n, self.k), "--json")
        other = self.plan(*shape(2 * self.n, self.k), "--json")
        self.assertGreater(relative_width(other), relative_width(own))

    def test_it_can_be_refused(self):
        wide = ["--n", 2 * self.n, "--k", self.k]
        for question in (["--m", 96, "--align", 16], ["--m", 96, "--blocks", "48,48"], ["--m", "80:96", "--align", 16]):
            done = self.mc2("plan", *question, *wide, "--no-transfer", *MACHINE, "--store", self.store)
            self.assert_refused(done, NO_ANSWER, *self.no_model_of(2 * self.n))
            self.assertNotIn("own planner", done.stderr)
        run = ["run", "--m", 96, *wide, *MACHINE, "--no-transfer", "--store", self.store]
        self.refuse(NO_ANSWER, run, *self.no_model_of(2 * self.n))

    def test_a_plan_of_another_machine_is_told_with_what_differs(self):
        self.tuned(*shape(self.n, self.k), *MACHINE, *QUICK, "--store", self.store)
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        exported |= {"measurements": [], "models": [], "samples": []}
        for kept in exported["plans"]:
            kept["document"]["fingerprint"] |= {"cores": "1000", "cpu_model": "another"}
        file = self.directory / "elsewhere.json"
        file.write_text(json.dumps(exported))
        elsewhere = self.directory / "elsewhere.db"
        self.succeed("db", "import", file, "--store", elsewhere)
        done = self.mc2("plan", *shape(self.n, self.k), *MACHINE, "--store", elsewhere)
        self.assert_refused(done, NO_ANSWER)
        here = r"the machine \(cores: here '\d+', there '1000'; cpu_model: here '.*', there 'another'\)"
        self.assertRegex(done.stderr, f"different: {here}; its plan is (uncut|[0-9]).*, and was not tried here")

    def no_model_of(self, n):
        """What mc2 says where it has no model of this n, up to a command that makes one."""
        return (
            f"no plan and no model of matmul_all_reduce m=96 n={n} k={self.k}",
            f"nearest kept: matmul_all_reduce m=96 n={self.n} k={self.k} f32 x2; different: --n; ",
            "transfer is ruled out",
            f"make one: mc2 tune --m 96 --n {n} --k {self.k} --link",
        )

    def test_a_strategy_that_has_no_plan_says_so_alone(self):
        done = self.plan(*shape(self.n, self.k), "--strategy", "formula")
        self.assert_refused(
            done, NO_ANSWER, "mc2: strategy formula: the short block ", "too small to cut by this recipe"
        )

    def test_far_shapes_are_refused_with_the_reason(self):
        self.assert_refused(self.plan(*shape(64 * self.n, self.k)), NO_ANSWER, "16 times")

    def test_tuning_starts_from_it_when_asked(self):
        other = ["--m", "96", "--n", str(2 * self.n), "--k", str(self.k)]
        tune = ["tune", "--transfer", *MACHINE, "--align", 16, "--store", self.store, "--budget", 2]
        done = self.mc2(*tune, *other)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not profiled; planned from kept model", done.stderr)
        self.assertIn("kept as plan", done.stdout)
        # The plan raced with another shape's model, which is not kept as a model of this shape.
        self.assertIn("transferred from", self.plan(*other, "--max-blocks", 5).stderr)

    def test_tuning_learns_from_races_of_another_length(self):
        longer = ["--m", "192", "--n", str(self.n), "--k", str(self.k)]
        done = self.mc2("tune", "--transfer", *MACHINE, "--align", 16, "--store", self.store, "--budget", 2, *longer)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not profiled; planned from kept model of m=", done.stderr)

    def test_tuning_profiles_when_no_kept_model_is_near_enough(self):
        far = ["--m", "32", "--n", str(64 * self.n), "--k", "16"]
        done = self.mc2("tune", "--transfer", *MACHINE, "--align", 16, "--store", self.store, "--budget", 2, *far)
        self.assertIn("profiling, because no kept model answers", done.stderr)

    def test_sweep_plans_other_shapes_too(self):
        layers = self.directory / "layers.csv"
        layers.write_text(f"model,layer,parallel,n,k,dtype\ntiny,wide,row,{2 * self.n},{2 * self.k},f32\n")
        table = self.succeed(
            "sweep",
            "--csv",
            "--shapes",
            layers,
            "--ranks",
            2,
            "--m",
            96,
            "--kinds",
            "matmul_all_reduce",
            *[part for part in MACHINE if part not in ("--ranks", "2")],
            "--align",
            16,
            "--store",
            self.store,
        )
        rows = list(csv.DictReader(io.StringIO(table)))
        self.assertEqual([row["refusal"] for row in rows], [""], rows)
        self.assertEqual(rows[0]["provenance"], "extrapolated")
        self.assertIn("transferred from", rows[0]["source"])


if __name__ == "__main__":
    main()
