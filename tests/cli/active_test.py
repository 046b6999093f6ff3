"""Active profiles: mc2 profile --active and mc2 tune --active as users run them."""

import json

import program
from program import MACHINE, SHAPE, USAGE, ProgramTest, main


class ActiveTest(ProgramTest):
    def profile(self, *arguments):
        return self.complete("profile", *SHAPE, *MACHINE, "--align", 16, "--store", self.store, "--active", *arguments)

    def test_stays_within_its_measurements_and_says_why_it_stopped(self):
        done = self.profile("--measurements", 9, "--regret", 0, "--verbose")
        self.assertIn("round 0: ", done.stderr)
        self.assertIn("stopped: ", done.stderr)
        # A host that is busy with other things may spoil so few samples; the page then says that nothing fits them.
        page = program.unwrapped(done.stdout)
        self.assertIn(program.BUSY_HOST if program.BUSY_HOST in page else "CostMM", page)
        # 9 visits; the pair of lanes gives two samples.
        self.assertLessEqual(self.sample_count(), 11)

    def test_resumes_and_measures_nothing_twice(self):
        self.profile("--measurements", 7, "--regret", 0)
        count = self.sample_count()
        self.profile("--measurements", 7, "--regret", 0)
        self.assertEqual(self.sample_count(), count)

    def test_tunes(self):
        plan = json.loads(self.tuned(*SHAPE, *MACHINE, "--align", 16, "--active", "--measurements", 9,
                                       "--budget", 1, "--json", "--store", self.store).stdout)
        self.assertEqual(sum(plan["cut"]["block_rows"]), 96)

    def test_refuses_options_that_do_not_fit(self):
        self.refuse(USAGE, ["profile", *SHAPE, "--measurements", 9], "--active")
        self.refuse(USAGE, ["profile", *SHAPE, "--active", "--measurements", 6], "legal: 7 to")
        self.refuse(USAGE, ["profile", *SHAPE, "--active", "--regret", "nan"], "--regret")


if __name__ == "__main__":
    main()
