"""Summarises a run of CTest: how many tests passed and failed, which cases were skipped, each reason once, and how the
output of each failed test ends.

    python3 tests/summary.py BUILD_DIRECTORY     # of the last run
"""

import collections
import pathlib
import re
import sys

LINES_OF_A_FAILURE = 20
COLUMNS = 160


def skipped_cases(output):
    """The reasons for skipping in one test's output: GoogleTest's, unittest's, and those of tests that end with
    "skipped"."""
    reasons = re.findall(r"^[^\n]*: Skipped\n([^\n]*)\n", output, re.MULTILINE)
    reasons += re.findall(r"\.\.\. skipped ['\"]([^\n]*)['\"]$", output, re.MULTILINE)
    return [in_short(reason) for reason in reasons]


def in_short(reason):
    """The parts of a reason, each once, without what a program printed after it."""
    parts = re.split(r": (?:mc2|profile|[a-z]+\()", reason.split("\\n")[0])[0].split("; ")
    return "; ".join(dict.fromkeys(part.strip() for part in parts if part.strip()))


def end_of_output(test):
    """The last lines of what a test printed."""
    output = test.split("\nOutput:\n")[-1].split("\n<end of output>")[0]
    lines = [line for line in output.split("\n") if line.strip()]
    return [line[:COLUMNS] for line in lines[-LINES_OF_A_FAILURE:]]


def main():
    log = pathlib.Path(sys.argv[1]) / "Testing" / "Temporary" / "LastTest.log"
    passed, failed, reasons = 0, [], collections.Counter()
    for test in re.split(r"^\d+/\d+ Testing: ", log.read_text(errors="replace"), flags=re.MULTILINE)[1:]:
        skipped = skipped_cases(test)
        reasons.update(skipped or (["its reason is in its output"] if "Test Pass Reason:\nSkip" in test else []))
        if "\nTest Failed." in test or "\nTest Fail Reason:" in test:
            failed.append(test)
        elif "\nTest Passed." in test:
            passed += 1
    skips = sum(reasons.values())
    print(f"{passed} tests passed, {len(failed)} failed; {skips} cases skipped" + (":" if reasons else ""))
    for reason, count in reasons.most_common():
        print(f"  {count:4} x {reason[:110]}")
    for test in failed:
        print(f"failed: {test.splitlines()[0]}, which ended with")
        print(*(f"  {line}" for line in end_of_output(test)), sep="\n")


if __name__ == "__main__":
    main()
