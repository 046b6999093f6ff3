"""Help, man pages, completions and version."""

import pathlib
import re
import shlex
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
# Values that some of the options offer.
VALUES = {
    "export --format": ["ascendc", "m-table", "csv", "html", "trace"],
    "import --format": ["msprof", "nccl_tests", "cuts"],
    "model --settings": ["vllm", "transformer-engine"],
    "sweep --models": ["Llama-3-8B", "Mixtral-8x7B"],
    "sweep --kinds": ["matmul_all_reduce", "all_to_all_matmul"],
    "plan --device": ["ascend-910b"],
    "plan --topology": ["dgx_h100", "aws_p3dn_efa"],
    "plan --strategy": ["search", "formula"],
    "plan --short-block": ["largest", "smallest"],
    "token create --role": ["read", "write", "admin"],
    "topology --collective": ["all_reduce", "all_to_all"],
}
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
                f"source {MANUAL}/completions/mc2.bash; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
                "_mc2 2>/dev/null; echo ${COMPREPLY[@]}"
            )
            return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

        self.assertEqual(completed("mc2", "tu"), ["tune"])
        self.assertEqual(completed("mc2", "db", "imp"), ["import"])
        self.assertIn("--budget", completed("mc2", "tune", "--bu"))
        self.assertEqual(completed("mc2", "token", "create", "--role", "w"), ["write"])
        self.assertEqual(completed("mc2", "plan", "--dtype", "bf"), ["bf16"])
        for command, listed in VALUES.items():
            self.assertLessEqual(set(listed), set(completed("mc2", *command.split(), "")), command)
        self.assertNotIn("ascendc", completed("mc2", "import", "--format", ""), "another command's")
        self.assertEqual(completed("mc2", "plan", "--m", ""), [], "a number, not the options")
        here = str(pathlib.Path(program.MC2).parent)
        for option in ("--topology", "--out"):
            self.assertIn(f"{here}/manual", completed("mc2", "plan", option, f"{here}/"))
        self.assertIn("Llama-3-8B", completed("mc2", "model", ""))
        self.assertEqual(completed("mc2", "topology", "dgx_h1"), ["dgx_h100"])

    def test_zsh_and_fish_complete_the_same_values(self):
        zsh, fish = ((MANUAL / "completions" / f"mc2.{shell}").read_text() for shell in ("zsh", "fish"))
        for command, listed in VALUES.items():
            *_, option = command.split()
            told = [line for line in zsh.splitlines() if f"'{option}[" in line]
            self.assertTrue(any(set(listed) <= set(re.split(r"[ (){}]", line)) for line in told), command)
            told = [line for line in fish.splitlines() if f" -l {option[2:]} " in line]
            self.assertTrue(any(set(listed) <= set(re.split("[ ']", line)) for line in told), command)
        for text in (zsh, fish):
            self.assertRegex(text, r"\bLlama-3-8B\b")
        self.assertIn("{_files; compadd ", zsh)
        self.assertRegex(fish, r"(?m)-l topology -r -F -a '.*dgx_h100")

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

    def test_help_of_a_command_that_is_none(self):
        for asked in (["help", "pln"], ["pln", "--help"], ["pln", "-h"], ["pln", "--help-all"]):
            self.refuse(USAGE, asked, "no command 'pln'; did you mean plan?", "legal: tune, ")
        for asked in (["help", "db", "bogus"], ["db", "bogus", "--help"]):
            self.refuse(USAGE, asked, "no command 'bogus'", "legal: check, stats, ", "see mc2 db --help")

    def test_help_names_a_command_as_people_do(self):
        self.assertEqual(self.succeed("help", "db", "import"), self.succeed("db", "import", "--help"))
        self.assertEqual(self.succeed("help"), self.succeed("--help"))


if __name__ == "__main__":
    program.main()
