"""Help, man pages, completions and version."""

import pathlib
import re
import subprocess

import program
from program import USAGE, ProgramTest

COMMANDS = (
    ["tune"],
    ["profile"],
    ["fit"],
    ["plan"],
    ["run"],
    ["explain"],
    ["sweep"],
    ["model"],
    ["doctor"],
    ["topology"],
    ["db"],
    ["db", "check"],
    ["db", "stats"],
    ["db", "list"],
    ["db", "export"],
    ["db", "import"],
    ["db", "merge"],
    ["db", "backup"],
    ["db", "watch"],
    ["db", "prune"],
    ["token"],
    ["token", "create"],
    ["token", "list"],
    ["token", "revoke"],
    ["import"],
    ["export"],
    ["compare"],
    ["serve"],
    ["push"],
)
MANUAL = pathlib.Path(program.MC2).parent / "manual"


class HelpTest(ProgramTest):
    def test_main_help_has_examples_and_exit_codes(self):
        for flag in ("--help", "-h"):
            page = self.succeed(flag)
            for text in ("mc2 tune --m", "Exit codes:", "130", "doctor"):
                self.assertIn(text, page)

    def test_every_command_has_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                page = self.succeed(*command, "--help")
                self.assertIn("Example", page)
                self.assertIn("\n  mc2 " + " ".join(command), page)

    def test_help_fits_a_screen_and_names_values(self):
        for command in [[], *COMMANDS]:
            for option, most_lines in (("--help", 40), ("--help-all", 200)):
                with self.subTest(command=command, option=option):
                    lines = self.succeed(*command, option).splitlines()
                    self.assertLessEqual(len(lines), most_lines)
                    self.assertEqual([line for line in lines if len(line) > 80], [])
                    for line in lines:
                        self.assertNotRegex(line, r"^ +--[a-z-]+ (TEXT|INT|UINT|FLOAT|BOOLEAN)\b")

    def test_every_option_has_a_group(self):
        for command in COMMANDS:
            page = self.succeed(*command, "--help-all")
            rest = page.partition("\nOptions:\n")[2].partition("\n\n")[0]
            known = {
                "--help",
                "--help-all",
                "--config",
                "--name",
                "--role",
                "--expires",
                "--ranks",
                "--since",
                "--samples",
                "--models",
                "--measurements",
            }
            self.assertLessEqual(set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", rest, re.M)), known, command)

    def test_man_pages_say_what_help_says(self):
        for command in [[], *COMMANDS]:
            page = (MANUAL / "man1" / ("-".join(["mc2", *command]) + ".1")).read_text().replace("\\-", "-")
            for option in re.findall(r"--[a-z][a-z0-9-]+", self.succeed(*command, "--help")):
                self.assertIn(option, page)
            self.assertRegex(page, r"^\.TH MC2")

    def test_bash_completes_commands_options_and_values(self):
        def completed(*words):
            script = (
                f"source {MANUAL}/completions/mc2.bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
                "_mc2 2>/dev/null; echo ${COMPREPLY[@]}"
            )
            return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

        self.assertEqual(completed("mc2", "tu"), ["tune"])
        self.assertEqual(completed("mc2", "db", "imp"), ["import"])
        self.assertIn("--budget", completed("mc2", "tune", "--bu"))
        self.assertEqual(completed("mc2", "plan", "--dtype", "bf"), ["bf16"])

    def test_help_wins_over_missing_options(self):
        self.assertIn("Example", self.succeed("profile", "--help", "--m", "1"))

    def test_a_request_is_named_by_its_kind_of_document(self):
        self.assertIn("mc2.request/1", self.succeed("plan", "--help-all"))

    def test_bench_names_the_program_that_has_the_benchmarks(self):
        for arguments in (["bench"], ["bench", "sweep", "--help"]):  # sweep is a command of mc2, too
            self.refuse(USAGE, arguments, "mc2-bench", "cmake --build --preset release --target mc2-bench")

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^mc2 \d+\.\d+\.\d+\n$")

    def test_doctor_says_what_the_machine_can_do(self):
        page = self.succeed("doctor")
        for text in ("backend host: available", "cores", "store", "healthy"):
            self.assertIn(text, page)
        self.assertRegex(page, r"\n {33}f32 +f16 +bf16 +i8 +f8e4m3\n  matmul_all_reduce +yes ")
        self.assertEqual(page.count("do not multiply f8e4m3"), 1, "a reason stands once")
        self.assertLessEqual(len(page.splitlines()), 40)
        self.assertEqual([line for line in page.splitlines() if len(line) > 80 and "store" not in line], [])

    def test_help_names_a_command_as_people_do(self):
        self.assertEqual(self.succeed("help", "db", "import"), self.succeed("db", "import", "--help"))
        self.assertEqual(self.succeed("help"), self.succeed("--help"))


if __name__ == "__main__":
    program.main()
