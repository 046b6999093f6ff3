"""Shared by the tests of mc2-bench: the helpers of tests/cli/program.py, with mc2-bench as the program.

Every test file is run as: python3 NAME_test.py PATH_OF_MC2_BENCH
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import *  # noqa: E402,F401,F403  (tests/cli is no package)
from program import ProgramTest  # noqa: E402


class BenchTest(ProgramTest):
    """A fresh directory for each test; succeed(), refuse() and bench() run mc2-bench."""

    def bench(self, *arguments, **options):
        return self.mc2(*arguments, **options)
