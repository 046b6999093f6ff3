#!/usr/bin/env python3
"""Fills the tables of the pages in docs/ from the measurements in data/.

    python3 docs/tables.py              # rewrite the tables of every page
    python3 docs/tables.py --check      # change nothing; exit 1 and name each page and table that differs from its file

A page marks where a table goes, and may ask for the rows where a column has a value:

    <!-- table: data/gpu/peers_x4.csv -->
    <!-- end -->
    <!-- table: data/gpu/peers_x4.csv, kind = matmul_all_reduce -->
    <!-- end -->

A file is a CSV. Its comments say how it was measured: `# command:`, `# machine:` and `# date:`, each once, and `#
note:` as often as needed. A command that is more than one call brings its own backticks. Cells are printed as they are.
An underscore in a column's name becomes a space. The first table of a file on a page is followed by how the file was
measured.
"""

import argparse
import csv
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKED = re.compile(
    r"^<!-- table: (?P<file>[^,\n]+?)(?:, (?P<column>[^=\n]+?) = (?P<value>[^\n]+?))? -->\n"
    r"(?P<body>.*?)^<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)
START = re.compile(r"^<!-- table:", re.MULTILINE)
NUMBER = re.compile(r"-?[\d.,]*\d( ?%|x)?")
NO_VALUE = ("", "-")
MAX_COLUMNS = 120


class TableError(Exception):
    """What is wrong with a page or a file, in one line."""


class Measurements:
    """One CSV: how it was measured, the names of its columns and its rows."""

    def __init__(self, root, name):
        path = root / name
        if not path.is_file():
            raise TableError(f"{name}: no such file")
        lines = path.read_text(encoding="utf-8").splitlines()
        self.name = name
        self.about = self._read_about([line for line in lines if line.startswith("#")])
        rows = list(csv.reader(line for line in lines if line and not line.startswith("#")))
        if len(rows) < 2:
            raise TableError(f"{name}: has no rows")
        self.columns, self.rows = rows[0], rows[1:]
        for row in self.rows:
            if len(row) != len(self.columns):
                raise TableError(f"{name}: a row has {len(row)} cells instead of {len(self.columns)}: {','.join(row)}")

    def _read_about(self, comments):
        about = {"note": []}
        for comment in comments:
            found = re.fullmatch(r"# (command|machine|date|note): (.+)", comment)
            if not found:
                raise TableError(f"{self.name}: a comment is none of command, machine, date and note: {comment}")
            if found[1] == "note":
                about["note"].append(found[2])
            elif found[1] in about:
                raise TableError(f"{self.name}: says its {found[1]} twice")
            else:
                about[found[1]] = found[2]
        for key in ("command", "machine", "date"):
            if key not in about:
                raise TableError(f"{self.name}: has no comment `# {key}:`")
        return about

    def where(self, column, value):
        """Columns and rows of those rows; the column itself, which says the same in all of them, is left out."""
        if column is None:
            return self.columns, self.rows
        if column not in self.columns:
            raise TableError(f"{self.name}: has no column {column}; it has {', '.join(self.columns)}")
        at = self.columns.index(column)
        rows = [row[:at] + row[at + 1 :] for row in self.rows if row[at] == value]
        if not rows:
            raise TableError(f"{self.name}: no row has {column} = {value}")
        return self.columns[:at] + self.columns[at + 1 :], rows


def table_lines(columns, rows):
    def is_numeric(at):
        cells = [row[at] for row in rows if row[at] not in NO_VALUE]
        return bool(cells) and all(NUMBER.fullmatch(cell) for cell in cells)

    def line(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("--:" if is_numeric(at) else "---" for at in range(len(columns))) + "|"
    return [line([column.replace("_", " ") for column in columns]), rule, *map(line, rows)]


def origin_lines(measurements, folder_of_page):
    about = measurements.about
    up = "/".join(".." for _ in pathlib.PurePath(folder_of_page).parts)
    command = about["command"] if "`" in about["command"] else f"`{about['command']}`"
    text = " ".join(
        [
            f"{command}; {about['machine']}; {about['date']}.",
            *about["note"],
            f"Numbers: [{measurements.name}]({up}/{measurements.name}).",
        ]
    )
    return textwrap.wrap(text, MAX_COLUMNS, break_long_words=False, break_on_hyphens=False)


def filled(root, page, text):
    """The page with its tables made anew, and the names of the tables that were different."""
    if len(START.findall(text)) != len(MARKED.findall(text)):
        raise TableError("a table's marker is not understood, or has no <!-- end -->")
    seen, different = {}, []

    def make(found):
        name = found["file"]
        is_first = name not in seen
        if is_first:
            seen[name] = Measurements(root, name)
        measurements = seen[name]
        lines = table_lines(*measurements.where(found["column"], found["value"]))
        if is_first:
            lines += ["", *origin_lines(measurements, pathlib.PurePath(page).parent)]
        body = "\n" + "\n".join(lines) + "\n\n"
        if body != found["body"]:
            different.append(name if found["column"] is None else f"{name}, {found['column']} = {found['value']}")
        return found[0][: found.start("body") - found.start()] + body + "<!-- end -->"

    return MARKED.sub(make, text), different


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a page and its file differ")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="folder that holds docs/ and data/")
    args = parser.parse_args()
    failed = False
    for path in sorted((args.root / "docs").glob("*.md")):
        page = str(path.relative_to(args.root))
        text = path.read_text(encoding="utf-8")
        try:
            made, different = filled(args.root, page, text)
        except TableError as error:
            print(f"{page}: {error}", file=sys.stderr)
            failed = True
            continue
        if made == text:
            continue
        if args.check:
            for name in different:
                print(f"{page}: the table of {name} differs from its file; run python3 docs/tables.py", file=sys.stderr)
            failed = True
        else:
            path.write_text(made, encoding="utf-8")
            print(f"{page}: {len(different)} tables made anew")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
