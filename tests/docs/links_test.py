"""Checks that every relative link of a page leads to a file, every anchor to a heading, and that every section that
a source names exists.

    python3 tests/docs/links_test.py
"""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (
    ".c",
    ".cpp",
    ".hpp",
    ".h",
    ".cu",
    ".cuh",
    ".py",
    ".sh",
    ".ts",
    ".tsx",
    ".cmake",
    ".txt",
    ".yaml",
    ".json",
    ".csv",
)
LINK = re.compile(r"(?<!`)\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
# Sources and pages also name pages without a link: docs/page.md, then a number ("§4", "section 4") or a title in quotes
# or asterisks.
ELSEWHERE = {"docs/legacy.md"}  # a page of DeepEP, a source of data/
NAMED_PAGE = re.compile(r"docs/(?:adr/|deploy/)?[\w-]+\.md")
NAMED_NUMBER = re.compile(r"(?:docs/)?(\w+\.md)[\]`]?(?:\(\w+\.md\))?,?\s(?:§|section )(\d+)")
NAMED_TITLE = re.compile(r"(docs/\w+\.md)`?, (?:\*([^*\n]+)\*|[\"']([^\"'\n]+)[\"'])")


def tracked(endings):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")
    if listed == [""]:  # no git tree: a source archive
        listed = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if not {"build", "node_modules"} & set(path.relative_to(ROOT).parts)
        ]
    return sorted(path for path in listed if path.endswith(endings) and (ROOT / path).is_file())


def read(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def without_code(text):
    return re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)


def titles(page):
    found = re.findall(r"^#{1,6} +(.+?)\s*#*$", without_code(read(page)), re.MULTILINE)
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in found]


def anchors(page):
    """The anchors that GitHub gives to a page's headings."""
    made, seen = set(), {}
    for title in titles(page):
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen[name] = seen.get(name, -1) + 1
        made.add(f"{name}-{count}" if count else name)
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', read(page)))


class LinksTest(unittest.TestCase):
    def test_links_and_anchors_resolve(self):
        wrong, count = [], 0
        for page in tracked((".md",)):
            for link in LINK.findall(without_code(read(page))):
                if re.match(r"[a-z]+:", link):  # another site
                    continue
                count += 1
                target, _, anchor = link.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
                if not (ROOT / path).exists():
                    wrong.append(f"{page}: {link} is no file")
                elif anchor and path.endswith(".md") and anchor not in anchors(path):
                    wrong.append(f"{page}: {link} is no heading of {path}")
        self.assertGreater(count, 0)
        self.assertEqual(wrong, [])

    def test_pages_and_sections_that_are_named_exist(self):
        wrong = []
        for path in tracked(SOURCES + (".md",)):
            if path.startswith("tests/docs/"):
                continue
            text = re.sub(r"\n\s*(///|//|#|\*)? ?", " ", read(path))  # a name may go on in the next line
            wrong += [
                f"{path}: {page} is no file"
                for page in set(NAMED_PAGE.findall(text)) - ELSEWHERE
                if not (ROOT / page).is_file()
            ]
            for page, number in NAMED_NUMBER.findall(text):
                if not any(title.startswith(f"{number}. ") for title in self.titles_of(f"docs/{page}")):
                    wrong.append(f"{path}: docs/{page} has no section {number}")
            for page, starred, quoted in NAMED_TITLE.findall(text):
                title = starred or quoted
                if page not in ELSEWHERE and not any(
                    re.sub(r"^\d+\. ", "", known) == re.sub(r"^\d+\. ", "", title) for known in self.titles_of(page)
                ):
                    wrong.append(f"{path}: {page} has no section {title}")
        self.assertEqual(wrong, [])

    @staticmethod
    def titles_of(page):
        """The page's headings, and the bold words that begin its paragraphs."""
        return (
            titles(page) + re.findall(r"^\*\*([^*]+?)\.?\*\*", read(page), re.MULTILINE)
            if (ROOT / page).is_file()
            else []
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
