"""Operators at the edges of what is legal, tuned and run to the end."""

import json

import program
from program import MACHINE, QUICK, SHAPE, SUCCESS, UNSUPPORTED, ProgramTest

MOST_ROWS_CUT_ALONG_N = 64
FEW_PAIRS = ["--pairs", "6", "--budget", "1"]


class OddShapesTest(ProgramTest):
    def tune_and_run(self, m, n, k, *options, tune_with=()):
        asked = ["--m", m, "--n", n, "--k", k, *options, "--store", self.store]
        plan = json.loads(self.tuned(*asked, *QUICK, *tune_with, "--json").stdout)
        lengths = plan["cut"]["block_rows"] if m > MOST_ROWS_CUT_ALONG_N else plan["cut"]["block_columns"]
        self.assertEqual(sum(lengths), m if m > MOST_ROWS_CUT_ALONG_N else n)
        self.assertIn("correct: ", self.succeed("run", *asked, *tune_with, *FEW_PAIRS))
        return plan

    def test_few_rows_and_no_more_columns_than_the_alignment(self):
        for m in (1, 2, 3, 7, 64):
            with self.subTest(m=m):
                self.assertEqual(self.tune_and_run(m, 64, 64, *MACHINE)["cut"], {"block_columns": [64]})

    def test_rows_that_are_no_multiple(self):
        for m in (65, 97, 127):
            with self.subTest(m=m):
                self.tune_and_run(m, 64, 64, *MACHINE, tune_with=["--align", 32])

    def test_single_columns_and_products(self):
        for n, k in ((1, 64), (64, 1), (1, 1)):
            with self.subTest(n=n, k=k):
                self.tune_and_run(96, n, k, *MACHINE)

    def test_more_ranks(self):
        for ranks in (3, 4, 8):
            with self.subTest(ranks=ranks):
                self.tune_and_run(96, 64, 64, *MACHINE, "--ranks", ranks)

    def test_tiny_budget(self):
        self.tuned(*SHAPE, *MACHINE, "--budget", "0.001", "--store", self.store)

    def test_real_lanes(self):
        """Where the times fit no curve, a plan is kept without a model."""
        for options in (
            ["--link", "shm"],
            ["--link", "1Gbit,20us"],
            ["--link", "tcp:1Gbit"],
            ["--link", "tcp:1Gbit", "--ranks", 3],
            ["--dtype", "bf16"],
            ["--no-pin"],
        ):
            asked = ["--m", 96, "--n", 64, "--k", 64, *options, "--store", self.store]
            with self.subTest(options=options):
                tuned = self.mc2("tune", *asked, *QUICK)
                if tuned.returncode == UNSUPPORTED:
                    self.assert_refused(tuned, UNSUPPORTED, "--dtype: ", "bf16")
                else:
                    self.assertEqual(tuned.returncode, SUCCESS, tuned.stderr)
                    self.assertIn("correct: ", self.succeed("run", *asked, *FEW_PAIRS))

    def test_emulation_is_marked_for_paced_loopback(self):
        page = self.succeed(
            "profile", "--m", 48, "--n", 64, "--k", 64, "--link", "tcp:1Gbit", *QUICK, "--store", self.store
        )
        self.assertIn("EMULATED: link tcp:1Gbit", program.unwrapped(page))


if __name__ == "__main__":
    program.main()
