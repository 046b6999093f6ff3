"""Shared by the tests of the mc2 program: running it, the schemas of its documents, a place for files.

Every test file is run as: python3 NAME_test.py PATH_OF_MC2
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE_DIRECTORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE_DIRECTORY / "tests" / "schemas"))
from validate_documents import load_validators  # noqa: E402  (tests/schemas is no package)

MC2 = sys.argv[1] if len(sys.argv) > 1 else "mc2"

SUCCESS, NEGATIVE, USAGE, NO_ANSWER, UNSUPPORTED, STORE, SYSTEM, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


def operator(m, n, k, dtype, ranks):
    """The options that name this operator."""
    return f"--m {m} --n {n} --k {k} --dtype {dtype} --ranks {ranks}".split()


EXAMPLE_MODEL = SOURCE_DIRECTORY / "data" / "worked_example_model.json"
EXAMPLE = operator(4096, 8192, 3072, "f16", 8)  # the operator of EXAMPLE_MODEL
SHAPE = ["--m", "96", "--n", "64", "--k", "64"]
# Sleeping lanes take the same time on a busy host, so its noise never spoils a fit.
MACHINE = ["--link", "1Gbit,20us", "--virtual-compute", "1Gflops,5us"]
QUICK = ["--budget", "2", "--max-samples", "5"]
# Fitting says this about times that another program's burst of work spoilt, where lanes are real.
BUSY_HOST = "measure again on a quieter machine"
MOST_TRIES = 6


def measured(run):
    """Calls run() again while its times were spoilt. Returns what the last call returned."""
    for attempt in range(MOST_TRIES):
        time.sleep(attempt)  # so that another program's burst of work passes
        done = run()
        if done.returncode == SUCCESS or BUSY_HOST not in done.stderr:
            break
    return done


def unwrapped(page):
    """The page's words with one blank between them."""
    return " ".join(page.split())


def environment(directory):
    """An environment in which no user's own store is read or written."""
    return {**os.environ, "XDG_DATA_HOME": str(directory), "HOME": str(directory), "MC2_STORE": ""}


class ProgramTest(unittest.TestCase):
    """Gives each test a fresh directory, and a store's path in it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mc2-cli-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.store = self.directory / "store.db"

    def mc2(self, *arguments, **options):
        """Runs the program to its end. Its own store is named unless the arguments name one."""
        command = [MC2, *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment(self.directory), **options}
        return subprocess.run(command, stdin=subprocess.DEVNULL, text=True, timeout=120, check=False, **options)

    def complete(self, *arguments, **options):
        """Runs the program, which must succeed."""
        done = self.mc2(*arguments, **options)
        self.assertEqual(done.returncode, SUCCESS, f"{arguments}: {done.stderr}")
        return done

    def succeed(self, *arguments, **options):
        """Runs the program, which must succeed. Returns what it printed."""
        return self.complete(*arguments, **options).stdout

    def assert_refused(self, done, code, *texts):
        """Checks the exit code, and that there is one line for people, or three where no plan is found. These lines
        must hold each text; lines of progress may come before."""
        lines = [line for line in done.stderr.splitlines() if not is_progress(line)]
        self.assertEqual(done.returncode, code, f"{done.args}: {done.stderr}")
        expected = (
            ["mc2: ", "  nearest kept: ", "  make one: "] if "mc2: no plan and no model" in done.stderr else ["mc2: "]
        )
        self.assertEqual(len(lines), len(expected), f"{done.args}: {done.stderr}")
        for line, start in zip(lines, expected):
            self.assertTrue(line.startswith(start), line)
        for text in texts:
            self.assertIn(text, "\n".join(lines))

    def refuse(self, code, arguments, *texts, **options):
        done = self.mc2(*arguments, **options)
        self.assert_refused(done, code, *texts)
        return done

    def make_empty_store(self):
        empty = self.directory / "empty.json"
        empty.write_text(
            json.dumps(
                {"damages": [], "measurements": [], "models": [], "plans": [], "samples": [], "schema": "mc2.store/1"}
            )
        )
        self.succeed("db", "import", empty, "--store", self.store)

    def profile_and_fit(self, *asked):
        """Makes a store with samples that a model fits. Returns the page of the profile."""

        def run():
            self.store.unlink(missing_ok=True)
            self.page = self.succeed("profile", *asked, *QUICK, "--align", 16, "--store", self.store)
            return self.mc2("fit", *asked, "--store", self.store)

        fitted = measured(run)
        self.assertEqual(fitted.returncode, SUCCESS, fitted.stderr)
        return self.page

    def tuned(self, *arguments):
        """Tunes with a model. Where spoilt times led to a plan without a model, it measures again."""
        done = self.complete("tune", *arguments)
        for attempt in range(MOST_TRIES):
            if "no model: " not in done.stderr:
                break
            time.sleep(attempt + 1)  # so that another program's burst of work passes
            done = self.complete("tune", *arguments, "--fresh")
        return done

    def profiled_and_fitted(self):
        """Makes a store with samples and a model of SHAPE on MACHINE."""
        self.profile_and_fit(*SHAPE, *MACHINE)

    def kept_plans(self):
        """The plans that `mc2 db list` lists, as documents."""
        return json.loads(self.succeed("db", "list", "--json", "--store", self.store))["items"]

    def sample_count(self):
        exported = json.loads(self.succeed("db", "export", "--store", self.store))
        return sum(len(batch["document"]["samples"]) for batch in exported["samples"])

    def assert_healthy(self):
        self.assertIn("healthy", self.succeed("db", "check", "--store", self.store))


def is_progress(line):
    return line.startswith(("profile ", "race ", "run ", "mc2: note: load of other programs"))


def keep_document(document, what=""):
    """Keeps a document for store/schemas.ValidateDocuments, which also tries changed documents that are not valid.
    Only does so where the test's environment asks for it."""
    if place := os.environ.get("MC2_SCHEMA_DOCUMENTS"):
        name = document["schema"].replace("mc2.", "cli_").replace("/1", f"_{what}.json" if what else ".json")
        pathlib.Path(place, name).write_text(json.dumps(document), encoding="utf-8")


def validators():
    """One validator for each kind of document, e.g. "mc2.plan/1"."""
    return load_validators(SOURCE_DIRECTORY / "schemas")


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
