"""Help and version."""

import program
from program import USAGE, ProgramTest

COMMANDS = (["tune"], ["profile"], ["fit"], ["plan"], ["run"], ["explain"], ["sweep"], ["doctor"], ["topology"],
            ["db"], ["db", "check"],
            ["db", "stats"], ["db", "list"], ["db", "export"], ["db", "import"], ["db", "merge"], ["db", "backup"],
            ["token"], ["token", "create"], ["token", "list"], ["token", "revoke"])


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

    def test_help_wins_over_missing_options(self):
        self.assertIn("Example", self.succeed("profile", "--help", "--m", "1"))

    def test_bench_names_the_program_that_has_the_benchmarks(self):
        for arguments in (["bench"], ["bench", "sweep", "--help"]):  # sweep is a command of mc2, too
            self.refuse(USAGE, arguments, "mc2-bench", "cmake --build --preset release --target mc2-bench")

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^mc2 \d+\.\d+\.\d+\n$")

    def test_doctor_says_what_the_machine_can_do(self):
        page = self.succeed("doctor")
        for text in ("backend host: available", "cores", "store", "healthy"):
            self.assertIn(text, page)

    def test_help_names_a_command_as_people_do(self):
        self.assertEqual(self.succeed("help", "db", "import"), self.succeed("db", "import", "--help"))
        self.assertEqual(self.succeed("help"), self.succeed("--help"))


if __name__ == "__main__":
    program.main()
