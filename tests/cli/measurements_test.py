"""mc2 profile --measurements and mc2 tune --measurements as users run them."""

import json

import program
from program import MACHINE, SHAPE, USAGE, ProgramTest, main


class MeasurementsTest(ProgramTest):
    def profile(self, *arguments):
        return self.complete("profile", *SHAPE, *MACHINE, "--align", 16, "--store", self.store, *arguments)

    def test_stays_within_its_measurements_and_says_so(self):
        done = self.profile("--measurements", 9, "--verbose")
        # A busy host may spoil so few samples. The page then says that no curve fits them.
        page = program.unwrapped(done.stdout)
        self.assertIn(program.BUSY_HOST if program.BUSY_HOST in page else "CostMM", page)
        # There are 9 visits, and a visit of both lanes gives two samples.
        self.assertGreaterEqual(self.sample_count(), 9)
        self.assertLessEqual(self.sample_count(), 11)

    def test_resumes_and_measures_nothing_twice(self):
        self.profile("--measurements", 7)
        count = self.sample_count()
        self.profile("--measurements", 7)
        self.assertEqual(self.sample_count(), count)

    def test_tunes(self):
        plan = json.loads(
            self.tuned(
                *SHAPE, *MACHINE, "--align", 16, "--measurements", 9, "--budget", 1, "--json", "--store", self.store
            ).stdout
        )
        self.assertEqual(sum(plan["cut"]["block_rows"]), 96)

    def test_refuses_too_few(self):
        self.refuse(USAGE, ["profile", *SHAPE, "--measurements", 6], "legal: 7 to")


if __name__ == "__main__":
    main()
