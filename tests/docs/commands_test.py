"""Runs the ```sh blocks of the pages that people copy from, as they are written and in order, in one scratch folder
for each page.

    python3 tests/docs/commands_test.py PATH_OF_MC2 PATH_OF_MC2_BENCH [CommandsTest | LongStepsTest]

A block that needs what a test does not have is marked in the page: <!-- not run: REASON --> on the line before it. A
block that ends with `&` runs until the page ends.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_STEPS = tuple(sorted(f"docs/start/{page.name}" for page in (ROOT / "docs" / "start").glob("*.md")))
LONG_STEPS = ("megatron", "mpi", "pytorch", "vllm")  # with processes of their own, most of the time of all pages
PAGES = ("README.md", "docs/common_tasks.md", *FIRST_STEPS)
PROGRAMS = dict(zip(("mc2", "mc2-bench"), map(pathlib.Path, sys.argv[1:3])))
DEFAULT_PORT = "8471"  # of mc2 serve
MOST_NOT_RUN = 8  # in the longer pages
MOST_COMMANDS = 10  # in a page of first steps
BLOCK_SECONDS = 300
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
# Fitting says BUSY_HOST about times that another program's burst of work spoilt. Without a model, later questions then
# end with "no answer", and the page starts again.
MOST_TRIES = 4
BUSY_HOST = "measure again on a quieter machine"
NO_ANSWER = 3
# Keeps the line and the command that failed. An error ends the block.
TRAP = """set -eE -o pipefail
trap 'echo "$LINENO: $BASH_COMMAND" >> "$MC2_TEST_FAILURE"' ERR
"""


class Block:
    def __init__(self, page, line, text, reason):
        self.page, self.line, self.text, self.reason = page, line, text, reason

    @property
    def stays(self):
        return self.text.rstrip().endswith("&")


def blocks_of(page):
    """The page's ```sh blocks, each with the number of its first line and, where it is marked, why it is not run."""
    found, reason, lines = [], None, (ROOT / page).read_text().split("\n")
    inside = None
    for number, line in enumerate(lines, 1):
        if inside is not None:
            if line.startswith("```"):
                found.append(Block(page, inside, "\n".join(lines[inside - 1 : number - 1]), reason))
                inside = reason = None
        elif line == "```sh":
            inside = number + 1
        elif line.strip():
            marked = NOT_RUN.fullmatch(line.strip())
            reason = marked[1] if marked else None
    return found


class PageTest(unittest.TestCase):
    def setUp(self):
        self.staying = []
        self.start_again()
        self.addCleanup(self.end_what_stays)

    def start_again(self):
        """Gives the page a new scratch folder, in which no block has run yet."""
        self.end_what_stays()
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="mc2-docs-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.folder = self.scratch / "tree"  # the part of the source tree that commands see
        for name in ("home", "bin", "tree"):
            (self.scratch / name).mkdir()
        for name in ("data", "docs", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        for name, program in {**PROGRAMS, "python3": pathlib.Path(sys.executable)}.items():
            (self.scratch / "bin" / name).symlink_to(program.resolve())
        (self.folder / "build").mkdir()
        (self.folder / "build" / "release").symlink_to(PROGRAMS["mc2"].resolve().parents[2])
        (self.scratch / "trap.sh").write_text(TRAP)

    def environment(self):
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MC2_", "XDG_"))}
        return {
            **own,
            "HOME": str(self.scratch / "home"),
            "PATH": f"{self.scratch}/bin:{os.environ['PATH']}",
            "BASH_ENV": str(self.scratch / "trap.sh"),
            "MC2_TEST_FAILURE": str(self.scratch / "failure"),
            # A user with few cores, or root, gives mpirun these as options.
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def end_what_stays(self):
        for process in self.staying:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass  # it has ended
        self.staying.clear()

    def run_block(self, block):
        """Runs the block. Returns what is wrong with it, or None."""
        script, output, failure = (self.scratch / name for name in ("block.sh", f"output-{block.line}", "failure"))
        # Blank lines first, so that the shell counts lines as the page does.
        script.write_text("\n" * (block.line - 1) + block.text + "\n")
        failure.unlink(missing_ok=True)
        with output.open("w") as sink:
            process = subprocess.Popen(
                ["bash", script],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if block.stays:
            self.staying.append(process)
        try:
            code = process.wait(timeout=BLOCK_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = f"{BLOCK_SECONDS} s without an end"
        if code == 0:
            return self.wait_for_first_output(output) if block.stays else None
        where = (
            failure.read_text().split("\n")[0] if failure.exists() else f"{block.line}: {block.text.split(chr(10))[0]}"
        )
        return f"{block.page}:{where}\nended with {code} and printed\n{output.read_text()}"

    def wait_for_first_output(self, output):
        """Waits until a server says that it listens. Returns what is wrong, or None."""
        for _ in range(100):
            if output.stat().st_size:
                return None
            time.sleep(0.1)
        return "nothing was printed within 10 s by what goes on in the background"

    def is_spoilt(self, wrong):
        return f"\nended with {NO_ANSWER} " in wrong and any(
            BUSY_HOST in output.read_text() for output in self.scratch.glob("output-*")
        )

    def check_page(self, page):
        for _ in range(MOST_TRIES):
            wrong = self.wrong_on(page)
            if not wrong or not self.is_spoilt(wrong):
                break
            self.start_again()
        self.assertIsNone(wrong, wrong)

    def wrong_on(self, page):
        """Runs the page's blocks. Returns what is wrong with the first one that fails, or None."""
        blocks = [block for block in blocks_of(page) if not block.reason]
        self.assertNotEqual(blocks, [])
        for block in blocks:
            for port in re.findall(r"mc2 serve\b.*--port (\d+)", block.text) or ([DEFAULT_PORT] if block.stays else []):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                        self.skipTest(f"port {port} is taken, by somebody's own service perhaps")
            wrong = self.run_block(block)
            if wrong:
                return wrong
        return None

    def missing_for(self, page):
        """What this build or host lacks to run the page; "" if it lacks nothing."""
        build, name = PROGRAMS["mc2"].resolve().parents[2], pathlib.Path(page).stem
        cache = (build / "CMakeCache.txt").read_text() if (build / "CMakeCache.txt").exists() else ""
        if name == "pytorch" and not list((build / "executor" / "python" / "mc2").glob("_core.*.so")):
            return "this build has no Python package"
        if name == "pytorch" and importlib.util.find_spec("torch") is None:
            return "python3-torch is not installed"
        if name == "mpi":
            backends = subprocess.run(
                [PROGRAMS["mc2"], "doctor"], capture_output=True, text=True, timeout=60, check=False
            ).stdout
            return (
                "" if shutil.which("mpirun") and "start it with mpirun" in backends else "this build or host has no MPI"
            )
        if name == "cpp" and "-fsanitize" in cache:
            return "programs outside are not linked against sanitized libraries"
        return ""

    def check_steps(self, pages):
        for page in pages:
            with self.subTest(page):
                missing = self.missing_for(page)
                if missing:
                    self.skipTest(f"{page}: {missing}")
                self.start_again()
                self.check_page(page)


class CommandsTest(PageTest):
    def test_readme(self):
        self.check_page("README.md")

    def test_common_tasks(self):
        self.check_page("docs/common_tasks.md")

    def test_first_steps(self):
        self.check_steps(page for page in FIRST_STEPS if pathlib.Path(page).stem not in LONG_STEPS)

    def test_first_steps_are_few(self):
        for page in FIRST_STEPS:
            lines = [line for block in blocks_of(page) for line in re.sub(r"\\\n|'[^']*'", "", block.text).split("\n")]
            commands = [line for line in lines if line.strip() and not line.startswith("export ")]
            self.assertLessEqual(len(commands), MOST_COMMANDS, commands)

    def test_few_blocks_are_not_run(self):
        left_out = [block for page in PAGES for block in blocks_of(page) if block.reason]
        for block in left_out:
            print(f"not run: {block.page}:{block.line}: {block.reason}")
        self.assertLessEqual(sum(block.page not in FIRST_STEPS for block in left_out), MOST_NOT_RUN)

    def test_every_mark_has_a_block(self):
        for page in PAGES:
            marks = NOT_RUN.findall((ROOT / page).read_text())
            self.assertEqual(len(marks), sum(block.reason is not None for block in blocks_of(page)), page)

    def test_commands_stand_in_blocks_that_are_run(self):
        """Commands are neither in indented code nor in blocks of another language."""
        for page in PAGES:
            text = (ROOT / page).read_text()
            self.assertEqual(re.findall(r"^    .*\bmc2\b.*", text, re.MULTILINE), [], page)
            self.assertEqual(re.findall(r"^```(?:bash|shell|console)", text, re.MULTILINE), [], page)


class LongStepsTest(PageTest):
    def test_long_first_steps(self):
        self.check_steps(page for page in FIRST_STEPS if pathlib.Path(page).stem in LONG_STEPS)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
