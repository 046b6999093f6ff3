"""Tests the package as pip installs it: the contents of the source archive and of the wheel. The extensions come from
the build tree."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
MISSING = [name for name in ("pip", "setuptools", "skbuild", "wheel") if importlib.util.find_spec(name) is None]
BUILD = os.environ["MC2_BUILD"]


@unittest.skipIf(
    MISSING, f"not installed: {', '.join(MISSING)} (python3-pip, python3-setuptools, python3-skbuild, python3-wheel)"
)
class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = pathlib.Path(cls.folder.name)
        cls.run_in(ROOT, "setup.py", "-q", "egg_info", "--egg-base", cls.place, "sdist", "-d", cls.place)
        cls.archive = next(cls.place.glob("mc2-*.tar.gz"))
        with tarfile.open(cls.archive) as archive:
            archive.extractall(cls.place)
        cls.source = cls.archive.with_name(cls.archive.name.removesuffix(".tar.gz"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_in(cls, folder, *arguments, **environment):
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MC2_BUILD_DIR")}
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=folder,
            env={**clean, **environment},
            capture_output=True,
            text=True,
            timeout=110,
        )
        if done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.stdout}\n{done.stderr}")
        return done.stdout

    def test_the_archive_has_what_the_build_reads(self):
        kept = {str(path.relative_to(self.source)) for path in self.source.rglob("*") if path.is_file()}
        tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
        if tracked.returncode != 0:
            self.skipTest("not in a git tree")
        needed = [
            name for name in tracked.stdout.split() if re.match(r"(planner|profiler|executor|schemas|server)/", name)
        ]
        self.assertEqual([name for name in needed if name not in kept], [])
        self.assertFalse([name for name in kept if name.endswith((".so", ".pyc"))])

    def test_the_wheel_installs_and_plans_where_the_source_is_not(self):
        self.run_in(
            self.source,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-build-isolation",
            "--no-deps",
            "--no-index",
            "-w",
            self.place,
            ".",
            MC2_BUILD_DIR=BUILD,
        )
        wheel = next(self.place.glob("mc2-*.whl"))
        self.assertIn("linux", wheel.name)  # the wheel is for one platform
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("mc2/__init__.py", "mc2/_core.pyi", "mc2/py.typed", "mc2/torch/layers.py", "mc2_vllm.py"):
            self.assertIn(name, names)
        self.assertEqual(sum(name.endswith(".so") for name in names), 4)
        self.assertFalse([name for name in names if not name.startswith("mc2")])
        site = self.place / "site"
        self.run_in(self.place, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel)
        tests = pathlib.Path(__file__).with_name("values_test.py")
        self.run_in(self.place, tests, "ValuesTest", "FitTest", "StoreTest", PYTHONPATH=str(site))
        where = self.run_in(self.place, "-c", "import mc2; print(mc2.__file__)", PYTHONPATH=str(site))
        self.assertTrue(where.startswith(str(site)), where)

    def test_versions_agree(self):
        version = re.search(r"project\(mc2 VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f'version = "{version}"', (ROOT / "pyproject.toml").read_text())
        self.assertEqual(self.archive.name, f"mc2-{version}.tar.gz")
        self.assertIn(f'__version__ = "{version}"', (ROOT / "executor/python/mc2/__init__.py").read_text())


if __name__ == "__main__":
    unittest.main()
