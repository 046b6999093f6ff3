"""Ctrl-C at any moment ends with exit code 130 and leaves a healthy store. The same command then goes on from there."""

import contextlib
import json
import signal
import sqlite3
import subprocess
import time

import program
from program import INTERRUPTED, MACHINE, QUICK, SHAPE, ProgramTest

ENDLESS = ["--budget", "600", "--max-samples", "10000", "--precision", "0.0001"]
SLOW_MACHINE = ["--link", "10Mbit,20us", "--virtual-compute", "0.05Gflops,5us"]
PATIENCE_S = 60  # only an upper bound for something that never comes


class InterruptTest(ProgramTest):
    def start(self, *arguments):
        process = subprocess.Popen(
            [program.MC2, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=program.environment(self.directory),
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_line(self, process, text):
        for line in process.stderr:
            if text in line:
                return
        self.fail(f"never printed '{text}'")

    def wait_for_samples(self, earlier=0):
        """Waits until the store has acknowledged more batches of samples than `earlier`."""
        last = time.monotonic() + PATIENCE_S
        while time.monotonic() < last:
            with contextlib.suppress(sqlite3.Error), contextlib.closing(
                sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)
            ) as database:
                if database.execute("SELECT count(*) FROM sample_batch").fetchone()[0] > earlier:
                    return
            time.sleep(0.01)
        self.fail("no sample was ever kept")

    def interrupt(self, process, number=signal.SIGINT):
        """Sends the signal. Returns what the program still says."""
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, INTERRUPTED, said)
        self.assertIn("stopping at the next safe point", said)
        self.assert_healthy()
        return said

    def test_profile_keeps_its_samples_and_resumes(self):
        process = self.start("profile", *SHAPE, *MACHINE, *ENDLESS, "--store", self.store)
        self.wait_for_samples()
        self.assertIn("interrupted", self.interrupt(process))
        kept = self.sample_count()
        self.assertGreater(kept, 0)
        self.succeed("profile", *SHAPE, *MACHINE, *QUICK, "--store", self.store)
        self.assertGreaterEqual(self.sample_count(), kept)

    def test_what_is_measured_afresh_replaces_nothing_until_it_is_whole(self):
        asked = ["tune", *SHAPE, *MACHINE, "--store", self.store]
        self.succeed(*asked, *QUICK)
        kept = json.loads(self.succeed("db", "export", "--store", self.store))
        process = self.start(*asked, *ENDLESS, "--fresh")
        self.wait_for_line(process, "profile ")
        self.interrupt(process)
        self.assertEqual(json.loads(self.succeed("db", "export", "--store", self.store)), kept)
        self.succeed(*asked, *QUICK, "--fresh")
        again = json.loads(self.succeed("db", "export", "--store", self.store))
        self.assertEqual([len(store["samples"]) for store in (kept, again)], [1, 1])  # one profile of one operator each
        self.assertNotEqual(kept["samples"], again["samples"])

    def test_tune_in_its_sweep_terminated(self):
        process = self.start("tune", *SHAPE, *MACHINE, *ENDLESS, "--store", self.store)
        self.wait_for_samples()
        self.assertNotIn("Ctrl-C", self.interrupt(process, signal.SIGTERM))
        kept = self.sample_count()
        self.assertGreater(kept, 0)
        self.tuned(*SHAPE, *MACHINE, *QUICK, "--store", self.store)
        self.assertGreaterEqual(self.sample_count(), kept)

    def test_tune_in_its_race_keeps_the_samples(self):
        asked = ["tune", *SHAPE, *SLOW_MACHINE, *QUICK, "--align", "16", "--store", self.store]
        process = self.start(*asked)
        self.wait_for_line(process, "race 1: ")
        said = self.interrupt(process)
        self.assertIn("nothing of this race was kept", said)
        kept = self.sample_count()
        self.assertGreater(kept, 0)
        plan = json.loads(self.succeed(*asked, "--json"))
        self.assertEqual(sum(plan["cut"]["block_rows"]), 96)
        self.assertGreaterEqual(self.sample_count(), kept)

    def test_finished_shapes_of_a_list_stay(self):
        shapes = self.directory / "shapes.csv"
        shapes.write_text("m,n,k\n16,64,64\n96,64,64\n")
        asked = ["tune", "--shapes", shapes, *SLOW_MACHINE, *QUICK, "--align", "16", "--store", self.store]
        process = self.start(*asked)
        self.wait_for_line(process, "shape 2 of 2")
        self.wait_for_line(process, "profile ")
        self.interrupt(process)
        self.assertEqual(len(self.kept_plans()), 1)
        done = self.complete(*asked)
        self.assertIn("already tuned", done.stderr)
        self.assertEqual(len(self.kept_plans()), 2)

    def test_second_interrupt_ends_at_once(self):
        # One collective of this size takes minutes on this link.
        process = self.start(
            "profile", *SHAPE, "--link", "1kbit", *ENDLESS, "--deadline", "3600", "--store", self.store
        )
        self.wait_for_samples(earlier=-1)  # waits for the store only, as no sample is ever taken
        process.send_signal(signal.SIGINT)
        self.wait_for_line(process, "press Ctrl-C again")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=PATIENCE_S), INTERRUPTED)
        process.stdout.close()
        process.stderr.close()
        self.assert_healthy()

    def test_killed_without_warning(self):
        process = self.start("profile", *SHAPE, *MACHINE, *ENDLESS, "--store", self.store)
        self.wait_for_samples()
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        self.assert_healthy()
        self.assertGreater(self.sample_count(), 0)


if __name__ == "__main__":
    program.main()
