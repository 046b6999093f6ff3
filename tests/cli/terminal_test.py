"""What the program shows on terminals of several kinds, and what it does when its reader leaves."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import program
from program import MACHINE, MC2, QUICK, SHAPE


class TerminalTest(program.ProgramTest):
    def on_terminal(self, *arguments, columns=80, **variables):
        """Runs the program on a terminal of `columns` columns. Returns what the terminal was sent."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**program.environment(self.directory), "TERM": "xterm", **variables}
        process = subprocess.Popen(
            [MC2, *map(str, arguments), "--store", str(self.store)],
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=follower,
            env=environment,
        )
        os.close(follower)
        sent = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the last writer is gone
                break
            if not part:
                break
            sent += part
        os.close(leader)
        self.assertEqual(process.wait(timeout=60), program.SUCCESS, sent)
        return sent.decode()

    def plan(self, **variables):
        asked = ["plan", "--model", program.EXAMPLE_MODEL, *program.EXAMPLE, "--verbose"]
        return self.on_terminal(*asked, **variables)

    def test_colours_are_for_terminals_that_have_them(self):
        self.assertIn("\x1b[", self.plan())
        self.assertNotIn("\x1b[", self.plan(NO_COLOR="1"))
        self.assertIn("\x1b[", self.plan(NO_COLOR=""), "an empty NO_COLOR asks for nothing: no-color.org")
        self.assertNotIn("\x1b[", self.plan(TERM="dumb"))

    def test_progress_never_wraps(self):
        for columns in (80, 40, 20):
            sent = self.on_terminal("tune", *SHAPE, *MACHINE, *QUICK, "--align", 16, "--fresh", columns=columns)
            drawn = [
                line for line in re.findall(r"\r\x1b\[K([^\r\n]*)", sent) if line.startswith(("profile ", "race "))
            ]
            self.assertTrue(drawn, sent)
            for line in drawn:
                self.assertLess(len(line), columns, line)

    def test_the_answer_of_a_tuning_is_short(self):
        sent = self.on_terminal("tune", *SHAPE, *MACHINE, *QUICK, "--align", 16)
        answer = re.sub(r"\r\x1b\[K[^\r\n]*", "", sent).splitlines()
        self.assertLessEqual(len(answer), 12, answer)  # an undecided race has more to say
        self.assertTrue(all(len(line) <= 80 for line in answer[1:8]), answer)

    def test_a_reader_that_has_read_enough_is_no_error(self):
        model = program.EXAMPLE_MODEL
        lengths = "64,128,256,512,1024,2048,4096"
        script = f"{MC2} sweep --csv --models Llama-3-70B --ranks 8 --m {lengths} --model {model}"
        done = subprocess.run(
            ["bash", "-c", f"{script} | head -1"],
            capture_output=True,
            text=True,
            timeout=60,
            env=program.environment(self.directory),
        )
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("standard output", done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)


if __name__ == "__main__":
    program.main()
