"""Compares the binary interface of libmc2.so with the dump in schemas/abi/, using libabigail.

    abi_test.py LIBRARY DUMP           the test: fails on an incompatible change, and on additions that the dump lacks
    abi_test.py LIBRARY DUMP --write   writes a new dump, after an addition
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77  # CTest's SKIP_RETURN_CODE for this test

# Bits of abidiff's exit code.
FAILED, CHANGED, INCOMPATIBLE = 1 | 2, 4, 8


def dump(library: pathlib.Path, to: pathlib.Path) -> None:
    """Writes the parts of the interface that programs depend on, and nothing about the machine of the build."""
    subprocess.run(
        [
            "abidw",
            "--exported-interfaces-only",
            "--no-architecture",
            "--no-corpus-path",
            "--no-comp-dir-path",
            "--no-show-locs",
            "--no-elf-needed",
            "--type-id-style",
            "hash",
            "--out-file",
            to,
            library,
        ],
        check=True,
        timeout=60,
    )


def differences(old: pathlib.Path, new: pathlib.Path) -> tuple[int, str]:
    done = subprocess.run(["abidiff", "--harmless", old, new], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


class TheInterface(unittest.TestCase):
    library: pathlib.Path
    kept: pathlib.Path

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.now = pathlib.Path(self.directory.name, "now.abi")
        dump(self.library, self.now)

    def test_is_the_one_that_was_kept(self):
        code, text = differences(self.kept, self.now)
        self.assertEqual(code & FAILED, 0, text)
        self.assertEqual(code & INCOMPATIBLE, 0, "mc2.h breaks programs that were built before:\n" + text)
        self.assertEqual(code, 0, f"mc2.h has grown; write the dump anew with --write:\n{text}")

    def test_a_removed_function_and_a_changed_struct_would_be_noticed(self):
        text = self.kept.read_text()
        struct = re.search(r"<class-decl name='mc2_op_spec' size-in-bits='(\d+)'", text).group()
        for part, other in (
            ("mc2_version", "mc2_older"),
            (struct, re.sub(r"\d+'$", "64'", struct)),
            ("name='world_size'", "name='rank_count'"),
        ):
            self.assertIn(part, text)
            changed = pathlib.Path(self.directory.name, "changed.abi")
            changed.write_text(text.replace(part, other))
            code, told = differences(changed, self.now)
            self.assertNotEqual(code & CHANGED, 0, f"{part} -> {other}: {told}")


def main(arguments: list[str]) -> int:
    if shutil.which("abidw") is None or shutil.which("abidiff") is None:
        print("skipped: abidw and abidiff are missing (Debian: abigail-tools)")
        return SKIPPED
    library, kept = (pathlib.Path(argument) for argument in arguments[:2])
    if arguments[2:] == ["--write"]:
        dump(library, kept)
        return 0
    TheInterface.library, TheInterface.kept = library, kept
    return 0 if unittest.main(argv=["abi_test.py"], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
