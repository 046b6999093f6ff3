"""docs/tables.py fills tables from files, and says which page and which table differ."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "docs/tables.py"
FILE = """# command: mc2-bench peers
# machine: 4 GPUs
# date: 2026-11-22
# note: Medians.
kind,m,serial_us,plan
gather,8,12.5,2 x 4
sum,16,-,uncut
"""
PAGE = """# Title

<!-- table: data/peers.csv -->
<!-- end -->

Text.

<!-- table: data/peers.csv, kind = sum -->
<!-- end -->
"""
FILLED = """# Title

<!-- table: data/peers.csv -->

| kind | m | serial us | plan |
|---|--:|--:|---|
| gather | 8 | 12.5 | 2 x 4 |
| sum | 16 | - | uncut |

`mc2-bench peers`; 4 GPUs; 2026-11-22. Medians. Numbers: [data/peers.csv](../data/peers.csv).

<!-- end -->

Text.

<!-- table: data/peers.csv, kind = sum -->

| m | serial us | plan |
|--:|---|---|
| 16 | - | uncut |

<!-- end -->
"""


class TablesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("docs/page.md", PAGE)
        self.write("data/peers.csv", FILE)

    def write(self, path, text):
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def run_tables(self, *options):
        return subprocess.run(
            [sys.executable, PROGRAM, "--root", self.root, *options], capture_output=True, text=True, check=False
        )

    def refused(self, *options):
        done = self.run_tables(*options)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_fills_tables_and_then_changes_nothing(self):
        self.assertEqual(self.run_tables().returncode, 0)
        self.assertEqual((self.root / "docs/page.md").read_text(), FILLED)
        self.assertEqual(self.run_tables().stdout, "")
        self.assertEqual(self.run_tables("--check").returncode, 0)

    def test_check_names_page_and_table_and_changes_nothing(self):
        changed = FILLED.replace("12.5", "11.5")
        self.write("docs/page.md", changed)
        self.assertEqual(
            self.refused("--check"),
            "docs/page.md: the table of data/peers.csv differs from its file; run python3 docs/tables.py\n",
        )
        self.assertEqual((self.root / "docs/page.md").read_text(), changed)

    def test_a_file_that_hides_how_it_was_measured_is_refused(self):
        self.write("data/peers.csv", FILE.replace("# date: 2026-11-22\n", ""))
        self.assertIn("docs/page.md: data/peers.csv: has no comment `# date:`", self.refused("--check"))

    def test_wrong_files_rows_columns_and_markers_are_named(self):
        for page, said in (
            (PAGE.replace("peers", "pears"), "data/pears.csv: no such file"),
            (PAGE.replace("= sum", "= some"), "no row has kind = some"),
            (PAGE.replace("kind =", "kinds ="), "has no column kinds"),
            (PAGE.rstrip().removesuffix("<!-- end -->"), "has no <!-- end -->"),
        ):
            self.write("docs/page.md", page)
            self.assertIn(said, self.refused())
        self.write("docs/page.md", PAGE)
        self.write("data/peers.csv", FILE + "sum,16\n")
        self.assertIn("a row has 2 cells instead of 4", self.refused())


if __name__ == "__main__":
    unittest.main(verbosity=2)
