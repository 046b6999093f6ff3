"""mc2 plan --anchor: predictions for the speed that the machine has now."""

import json
import os
import subprocess
import sys

from program import MACHINE, NO_ANSWER, SHAPE, USAGE, ProgramTest, main


class AnchorTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profiled_and_fitted()

    def plan(self, *arguments):
        return self.mc2("plan", *SHAPE, *MACHINE, "--align", 16, "--store", self.store, *arguments)

    def planned(self, *arguments):
        done = self.plan("--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_says_so(self):
        anchored, other = self.planned("--anchor"), self.planned()
        self.assertIn("at the speed that the lanes have now", anchored["makespan"]["reason"])
        self.assertNotIn("at the speed", other["makespan"]["reason"])
        self.assertGreater(anchored["serial_us"], 0)

    def test_named_blocks_and_given_models_are_anchored_too(self):
        rows = SHAPE[SHAPE.index("--m") + 1]
        named = self.succeed("plan", *SHAPE, *MACHINE, "--store", self.store, "--json", "--anchor", "--blocks", rows)
        self.assertIn("at the speed", json.loads(named)["makespan"]["reason"])
        model = self.directory / "model.json"
        model.write_text(self.succeed("fit", *SHAPE, *MACHINE, "--store", self.store, "--json"))
        self.assertIn("at the speed", self.planned("--anchor", "--model", model)["makespan"]["reason"])

    def test_another_machines_model_is_refused(self):
        model = json.loads(self.succeed("fit", *SHAPE, *MACHINE, "--store", self.store, "--json"))
        model["fingerprint"]["cpu_model"] = "another"
        file = self.directory / "model.json"
        file.write_text(json.dumps(model))
        self.assert_refused(
            self.plan("--anchor", "--model", file), NO_ANSWER, "--anchor: times this machine", "cpu_model"
        )

    def test_other_programs_that_run_are_noted(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            page = self.plan().stdout
        finally:
            for process in busy:
                process.kill()
                process.wait()
        self.assertIn("load of other programs:", page)
        self.assertIn("--anchor", page)

    def test_a_service_does_not_measure(self):
        self.assert_refused(self.plan("--anchor", "--server", "http://127.0.0.1:1"), USAGE, "--anchor")


if __name__ == "__main__":
    main()
