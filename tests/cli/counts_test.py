"""--counts: a plan for full pairs runs on unequal splits and is checked, and illegal counts are refused."""

import json

import program
from program import NO_ANSWER, QUICK, USAGE, ProgramTest

SHAPE = ["--n", 16, "--k", 16, "--ranks", 3]
# The lanes are so slow that three ranks on two cores do not spoil times of a few KiB.
MACHINE = ["--link", "100Mbit,20us", "--virtual-compute", "0.1Gflops,5us"]
FEW_PAIRS = ["--pairs", "6", "--budget", "1"]
LARGEST = 40
COUNTS = "# what each rank sends\n40, 0,7\n3,12,0\n\n0,1,30\n"


class CountsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.file = self.directory / "counts.csv"
        self.file.write_text(COUNTS)

    def test_a_tuned_plan_runs_on_them(self):
        for kind in ("matmul_all_to_all", "all_to_all_matmul"):
            asked = ["--op", kind, *SHAPE, "--store", self.store]
            with self.subTest(kind=kind):
                self.tuned(*asked, "--m", 3 * LARGEST, *MACHINE, *QUICK, "--align", 8)
                measured = len(json.loads(self.succeed("db", "export", "--store", self.store))["measurements"])
                ran = self.complete("run", *asked, *MACHINE, "--blocks", "10,30", "--counts", self.file, *FEW_PAIRS)
                self.assertIn("correct: ", ran.stdout)
                self.assertIn("93 of at most 360 rows", ran.stderr)
                after = len(json.loads(self.succeed("db", "export", "--store", self.store))["measurements"])
                self.assertEqual(after, measured)

    def refuse_counts(self, text, *texts, op="all_to_all_matmul", more=()):
        self.file.write_text(text)
        self.refuse(
            USAGE, ["run", "--op", op, *SHAPE, *more, *MACHINE, "--counts", self.file, "--store", self.store], *texts
        )

    def test_a_byte_order_mark_is_no_number(self):
        self.refuse_counts("\N{ZERO WIDTH NO-BREAK SPACE}1,2\n3,4\n", "--counts: are of 2 ranks; --ranks says 3")

    def test_files_that_are_no_counts(self):
        self.refuse_counts("1,2\n3,4\n", "--counts: are of 2 ranks; --ranks says 3")
        self.refuse_counts("1,2,3\n4,5\n6,7,8\n", "counts.csv:2", "has 2 numbers and the first line 3")
        self.refuse_counts("1,2,3\n4,5,6\n", "ends after 2 lines of 3 numbers")
        self.refuse_counts("1,2,3\n4,5,6\n7,8,9\n1,1,1\n", "counts.csv:4")
        self.refuse_counts("1,2,3\n4,x,6\n7,8,9\n", "counts.csv:2", "'x' is no number of rows")
        self.refuse_counts("1,-2,3\n4,5,6\n7,8,9\n", "'-2' is no number of rows")
        self.refuse_counts("1,,3\n4,5,6\n7,8,9\n", "'' is no number of rows")
        self.refuse_counts("1,2,9999999999999999999\n4,5,6\n7,8,9\n", "is no number of rows")
        self.refuse_counts("# to all\n0,0,0\n0,0,0\n0,0,0\n", "counts.csv: names no row at all")
        self.refuse_counts("1,2,3,4\n5,6,7,8\n9,1,2,3\n", "ends after 3 lines of 4 numbers", "R times E")
        self.refuse_counts("", "ends after 0 lines")
        self.refuse_counts("999999999,2,3\n4,5,6\n7,8,9\n", "m would exceed")

    def test_counts_that_a_plan_cannot_have(self):
        self.tuned("--op", "all_to_all_matmul", *SHAPE, "--m", 48, *MACHINE, *QUICK, "--store", self.store)
        self.refuse_counts(
            "17,1,1\n1,1,1\n1,1,1\n",
            "--m: is 48; a rank of --counts sends 17 rows to one of 3, so it must be at least 51",
            more=["--m", 48],
        )
        self.tuned("--op", "all_gather_matmul", *SHAPE, "--m", 48, *MACHINE, *QUICK, "--store", self.store)
        self.refuse_counts("1,1,1\n1,1,1\n1,1,1\n", "not all_gather_matmul", op="all_gather_matmul", more=["--m", 48])

    def test_ranks_without_rows_and_several_experts(self):
        # Rank 1 sends nothing, and only the last expert of rank 2 gets rows.
        self.file.write_text("0,0, 0,0, 0,8\n0,0, 0,0, 0,0\n0,0, 0,0, 0,3\n")
        for experts in ([], ["--experts-per-rank", 2]):
            ran = self.complete(
                "run",
                "--op",
                "all_to_all_matmul",
                *SHAPE,
                *MACHINE,
                *experts,
                "--blocks",
                "2,6",
                "--counts",
                self.file,
                *FEW_PAIRS,
            )
            self.assertIn("all_to_all_matmul m=24", ran.stdout)
            self.assertIn("experts=2/rank", ran.stdout)
            self.assertIn("correct: ", ran.stdout)
            self.assertIn("11 of at most 72 rows", ran.stderr)
        self.refuse_counts(
            "0,0,0,0,0,8\n0,0,0,0,0,0\n0,0,0,0,0,3\n",
            "--counts: are of 2 experts on a rank; --experts-per-rank says 3",
            more=["--experts-per-rank", 3],
        )

    def test_several_files_have_one_cut(self):
        asked = ["--op", "all_to_all_matmul", *SHAPE, "--store", self.store]
        self.tuned(*asked, "--m", 3 * LARGEST, *MACHINE, *QUICK, "--align", 8)
        other, third = self.directory / "other.csv", self.directory / "third.csv"
        other.write_text("20,20,20\n20,20,20\n20,20,20\n")
        third.write_text("1,1\n1,1\n")
        named = ["plan", *asked, *MACHINE, "--counts", self.file, other, "--blocks", "20,20"]
        self.refuse(USAGE, named, "--blocks: are predicted for one table")
        asked = ["plan", *asked, *MACHINE, "--align", 8, "--counts", self.file, other]
        page = program.unwrapped(self.succeed(*asked))
        self.assertIn("in the mean of 2 tables of counts it takes", page)
        self.assertNotIn("skew:", page)
        plan = json.loads(self.succeed(*asked, "--json", "--objective", 0.9))
        self.assertEqual(plan["op"]["m"], 3 * LARGEST)
        self.assertIn(plan["counts"], ([40, 0, 7, 3, 12, 0, 0, 1, 30], [20] * 9))
        self.assertIn("in the 0.9 quantile of 2 tables of counts it takes", plan["reason"])
        third.write_text("1,1,1,1,1,1\n" * 3)
        self.refuse(USAGE, [*asked, third], "--counts: are of 2 experts on a rank in ", "and of 1 in ")
        third.write_text("1,1\n1,1\n")
        self.refuse(USAGE, [*asked, third], "--counts: are of 2 ranks")

    def test_a_plan_for_counts_tells_what_they_cost(self):
        asked = ["--op", "all_to_all_matmul", *SHAPE, *MACHINE, "--store", self.store]
        self.tuned(*asked, "--m", 96, *QUICK, "--align", 8)
        page = self.succeed("plan", *asked, "--m", 96, "--imbalance", 2, "--align", 8)
        self.assertRegex(
            program.unwrapped(page),
            r"skew: as many rows, spread evenly over all pairs of ranks, take [\d.]+ .s; these counts, whose busiest "
            r"rank multiplies 2 times the mean, take [\d.]+ % (more|less)",
        )
        self.assertIn("counts of imbalance 2", page)
        self.assertIn("mc2 run --plan PLAN checks and times it with these counts", program.unwrapped(page))
        plan = json.loads(self.succeed("plan", *asked, "--m", 96, "--imbalance", 2, "--align", 8, "--json"))
        self.assertEqual(plan["op"]["m"], 192)
        self.assertEqual(plan["counts"], [64, 16, 16] * 3)
        file = self.directory / "plan.json"
        counted = json.loads(self.succeed("plan", *asked, "--counts", self.file, "--align", 8, "--json", "--out", file))
        self.assertEqual(counted["counts"], [40, 0, 7, 3, 12, 0, 0, 1, 30])
        self.assertEqual(json.loads(file.read_text()), counted)
        ran = self.complete("run", "--plan", file, "--counts", self.file, *MACHINE, "--store", self.store, *FEW_PAIRS)
        self.assertIn("correct: ", ran.stdout)
        self.assertNotIn("nothing is predicted", ran.stderr)
        own = self.complete("run", "--plan", file, *MACHINE, "--store", self.store, *FEW_PAIRS)  # the plan's own counts
        self.assertIn("93 of at most 360 rows were exchanged, as the plan says", own.stderr)
        full = self.directory / "full.json"
        self.succeed("plan", *asked, "--m", 120, "--align", 8, "--out", full)
        self.refuse(USAGE, ["compare", full, file], "B: is for other counts of rows than A")
        self.file.write_text("40,40,40\n40,40,40\n40,40,40\n")
        self.succeed("plan", *asked, "--counts", self.file, "--align", 8, "--out", self.directory / "all.json")
        self.succeed("compare", full, self.directory / "all.json")
        self.file.write_text(COUNTS)
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        exported["plans"] = [{**exported["plans"][0], "document": counted}]
        (self.directory / "export.json").write_text(json.dumps(exported))
        done = self.mc2("db", "import", self.directory / "export.json", "--store", self.store)
        self.assertIn("a tuned plan also answers questions with other counts", done.stderr + done.stdout)
        given = json.loads(self.succeed("plan", *asked, "--counts", self.file, "--blocks", "8,32", "--json"))
        self.assertEqual(given["counts"], counted["counts"])
        explained = self.succeed("explain", file, "--store", self.store)
        self.assertIn("equally many rows", program.unwrapped(explained))
        self.succeed("explain", file, *MACHINE, "--measure", "--store", self.store)
        self.file.write_text("8,0,0\n0,8,0\n0,0,8\n")  # every rank keeps its rows; no such run was measured
        local = self.succeed("plan", *asked, "--counts", self.file, "--align", 8, "--m", 96)
        self.assertNotIn("measured: ", program.unwrapped(local))
        self.assertIn("multiplies 1 times the mean", program.unwrapped(local))
        self.file.write_text("8,8,8\n8,8,8\n8,8,8\n")
        self.assertIn(
            "take 0.0 % more",
            program.unwrapped(self.succeed("plan", *asked, "--counts", self.file, "--align", 8, "--m", 96)),
        )

    def test_a_plan_for_counts_of_several_experts_runs_with_counts_alone(self):
        asked = ["--op", "all_to_all_matmul", *SHAPE, *MACHINE, "--store", self.store]
        self.tuned(*asked, "--m", 96, "--experts-per-rank", 2, *QUICK, "--align", 8)
        self.file.write_text("1,2,3,4,5,6\n0,0,0,1,1,1\n2,2,2,2,2,2\n")
        file = self.directory / "plan.json"
        page = self.succeed("plan", *asked, "--m", 96, "--counts", self.file, "--align", 8, "--out", file)
        self.assertIn("mc2 run --plan PLAN --counts FILE", program.unwrapped(page))
        self.refuse(
            USAGE,
            ["run", "--plan", file, *MACHINE, "--store", self.store],
            "--counts: are missing; ",
            "each of 2 experts",
        )
        ran = self.complete("run", "--plan", file, "--counts", self.file, *MACHINE, "--store", self.store, *FEW_PAIRS)
        self.assertIn("36 of at most 288 rows", ran.stderr)
        page = self.succeed("plan", *asked, "--m", 96, "--experts-per-rank", 2, "--imbalance", 2, "--align", 8)
        self.assertIn("running it takes a file of counts for each expert", program.unwrapped(page))

    def test_ranges_without_an_m_are_told_of_the_next(self):
        asked = ["plan", "--op", "all_to_all_matmul", *SHAPE, *MACHINE, "--store", self.store]
        self.refuse(USAGE, [*asked, "--m", "7:8"], "--m: none from 7 to 8 is a multiple of the 3 ranks; the next is 9")
        self.refuse(
            USAGE, [*asked, "--m", "13:17", "--experts-per-rank", 4], "a multiple of the 12 experts; the next is 24"
        )

    def test_a_plan_for_counts_refuses_what_cannot_be(self):
        asked = ["plan", *SHAPE, *MACHINE, "--store", self.store]
        self.refuse(USAGE, [*asked, "--m", 96, "--imbalance", 2], "--imbalance: is 2", "not matmul_all_reduce")
        asked += ["--op", "matmul_all_to_all"]
        self.refuse(USAGE, [*asked, "--m", 96, "--imbalance", 3.5], "--imbalance: is 3.5; legal: 1 to 3")
        self.refuse(USAGE, [*asked, "--m", 96, "--imbalance", 2, "--counts", self.file], "--imbalance", "one of them")
        self.refuse(USAGE, [*asked, "--m", "3:96", "--imbalance", 2], "--imbalance", "one m")
        request = self.directory / "request.json"
        request.write_text("{}")
        self.refuse(
            USAGE, ["plan", "--request", request, "--imbalance", 2, "--store", self.store], "--imbalance", "--request"
        )
        self.refuse(USAGE, [*asked, "--m", 96, "--imbalance", 2, "--strategy", "free"], "--strategy: is free")
        self.refuse(USAGE, [*asked, "--m", 96, "--counts", self.file], "--m: is 96; a rank of --counts sends 40")

    def test_advice_that_can_be_followed(self):
        asked = ["run", *SHAPE, *MACHINE, "--counts", self.file, "--store", self.store]
        self.refuse(
            USAGE, [*asked, "--op", "matmul_all_reduce"], "--counts: ", "all_to_all_matmul, not matmul_all_reduce"
        )
        for blocks in ([], ["--blocks", "10,30"]):  # 3 ranks, at most 40 rows for each
            self.refuse(
                NO_ANSWER, [*asked, *blocks, "--op", "all_to_all_matmul"], "mc2 tune", "--m 120 in place of --counts"
            )


if __name__ == "__main__":
    program.main()
