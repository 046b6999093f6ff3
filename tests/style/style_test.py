"""Checks the habits of docs/contributing.md that a program can check: layout, line length, and which room may
include which.

    python3 tests/style/style_test.py
"""

import collections
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Other versions lay out the same code differently.
CLANG_FORMAT_VERSION = "14"
BLACK_VERSION = "23"
MAX_COLUMNS = 120
CODE = (".cpp", ".hpp", ".cu", ".cuh", ".h")

# For each room: its folder, and the rooms that it may include. A file belongs to the room with the longest folder that
# holds it. docs/architecture.md says why.
ROOMS = {
    "planner": ("planner", set()),
    "store": ("planner/store", {"planner"}),
    "render": ("planner/render", {"planner"}),
    "finder": ("planner/finder", {"planner", "store", "profiler"}),
    "client": ("planner/client", {"planner", "store", "finder"}),
    "profiler": ("profiler", {"planner"}),
    "executor": ("executor", {"planner"}),
    "embed": ("executor/embed", {"planner", "store", "finder", "client", "profiler", "executor"}),
    "nccl_tuner": ("executor/nccl_tuner", {"planner", "store"}),
    "server": ("server", {"planner", "render", "profiler", "store", "finder", "client"}),
    # The programs and the Python package wire the other rooms together; no room includes them.
    "python": ("executor/python", {"planner", "render", "profiler", "store", "finder", "client", "executor", "embed"}),
    "cli": (
        "planner/cli",
        {"planner", "render", "profiler", "store", "finder", "client", "executor", "embed", "server"},
    ),
}
PURE = {"planner"}  # may include the standard library alone
FOREIGN = re.compile(
    r"^(cuda|nccl|cublas|mpi|ceres/|Eigen/|sqlite3|SQLiteCpp/|cpprest/|boost/|nlohmann/|dnnl|omp\.h|"
    r"openssl/|sodium|spdlog/|CLI/|pybind11/|prometheus/|zlib|lzma|zstd)"
)


def listed_files(*ends):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    if listed == [""]:  # no git tree: a source archive
        listed = [
            str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if "build" not in path.relative_to(ROOT).parts
        ]
    return [path for path in listed if path.endswith(ends) and (ROOT / path).is_file()]


def code_files():
    return listed_files(*CODE)


def python_files():
    return listed_files(".py", ".pyi")


def room_of(path):
    inside = [(len(folder), room) for room, (folder, _) in ROOMS.items() if path.startswith(folder + "/")]
    return max(inside)[1] if inside else None


def includes(path):
    return re.findall(r'^#include ["<]([^">]+)[">]', (ROOT / path).read_text(), re.MULTILINE)


# What is defined at the start of a line: a constant, a type, or a free function with the types of its parameters.
CONSTANT = re.compile(r"(?:inline |static |thread_local )*(?:constexpr|const)\b[^({=;]*?\b(\w+)(?:\[[^\]]*\])*\s*[={;]")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)[^;]*\{")
FUNCTION = re.compile(r"[\w:<>,&*\s]+?[\s&*](\w+)(\(.*?\))\s*(?:noexcept\s*)?\{")


def private_names(path):
    """Returns (namespace, name) of the constants, types and functions in a source's anonymous namespaces."""
    open_namespaces, names, begun = [], [], ""
    for line in (ROOT / path).read_text().split("\n"):
        if match := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{$", line):
            open_namespaces.append(match[1])
        elif re.match(r"\} // namespace", line):
            open_namespaces.pop()
        elif "" in open_namespaces and (begun or re.match(r"[A-Za-z\[]", line)):
            begun += " " + line.strip() if begun else line
            if not re.search(r"[;{]", begun):
                continue
            space = "::".join(filter(None, open_namespaces))
            if match := CONSTANT.match(begun) or TYPE.match(begun):
                names.append((space, match[1]))
            elif match := FUNCTION.match(begun):
                names.append((space, match[1] + re.sub(r" ?\b\w+(?=[,)])", "", match[2])))
            begun = ""
    return names


def is_registered(test):
    """Whether a list of tests in the test's folder, or in a folder above it, names the test."""
    name = re.compile(r"\b" + re.escape(test.name.rsplit("_test.", 1)[0]) + r"(_test)?\b")
    folders = [folder for folder in test.parents if folder.is_relative_to(ROOT / "tests")]
    lists = [path for folder in folders for path in [*folder.glob("CMakeLists.txt"), *folder.glob("*.cmake")]]
    return any(name.search(path.read_text()) for path in lists)


def in_circles(edges):
    """The places on a circle of `edges`, and those from which one can be reached."""
    left = {place: set(others) for place, others in edges.items()}
    while True:  # a place that leads to none of those left is on no circle
        free = {place for place, others in left.items() if not others & left.keys()}
        if not free:
            return sorted(left)
        left = {place: others for place, others in left.items() if place not in free}


class StyleTest(unittest.TestCase):
    def test_every_test_is_in_a_list_of_tests(self):
        tests = [path for path in (ROOT / "tests").rglob("*_test.*") if path.suffix in (".cpp", ".py", ".mjs")]
        self.assertGreater(len(tests), 100)
        self.assertEqual([str(path.relative_to(ROOT)) for path in tests if not is_registered(path)], [])

    def check_layout(self, program, version, check, files):
        found = shutil.which(program)
        told = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.strip() if found else "none"
        if not re.search(rf"\b{version}\.", told):
            self.skipTest(f"not checked: wants {program} {version}, here is {told}")
        done = subprocess.run([found, *check, *files], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def test_layout_is_clang_formats(self):
        name = f"clang-format-{CLANG_FORMAT_VERSION}"
        program = name if shutil.which(name) else "clang-format"
        self.check_layout(program, CLANG_FORMAT_VERSION, ["--dry-run", "--Werror"], code_files())

    def test_layout_of_python_is_blacks(self):
        self.check_layout("black", BLACK_VERSION, ["--quiet", "--check", "--diff"], python_files())

    def test_no_line_is_longer_than_a_screen_shows(self):
        long = [
            f"{path}:{number}"
            for path in code_files() + python_files()
            for number, line in enumerate((ROOT / path).read_text().split("\n"), 1)
            if len(line) > MAX_COLUMNS
        ]
        self.assertEqual(long, [])

    def test_no_line_of_prose_is_longer_than_a_screen_shows(self):
        """Except tables, and code that is fenced or indented."""
        long = []
        for path in listed_files(".md"):
            is_code = False
            for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
                is_code ^= line.lstrip().startswith("```")
                if len(line) > MAX_COLUMNS and not is_code and not line.startswith(("|", "    ")):
                    long.append(f"{path}:{number}")
        self.assertEqual(long, [])

    def test_rooms_include_what_they_may(self):
        seen, wrong = set(), []
        for path in code_files():
            room = room_of(path)
            for header in includes(path) if room else []:
                named = re.match(r"mc2/([a-z_]+)/", header)
                if named and named[1] != room:
                    seen.add((room, named[1]))
                    if named[1] not in ROOMS[room][1]:
                        wrong.append(f"{path}: {header}")
                if header.startswith("../") or (room in PURE and FOREIGN.match(header)):
                    wrong.append(f"{path}: {header}")
                if "/include/" in path and FOREIGN.match(header):
                    wrong.append(f"{path}: {header} in a public header")
        self.assertEqual(wrong, [])
        allowed = {(room, other) for room, (_, others) in ROOMS.items() for other in others}
        self.assertEqual(allowed - seen, set(), "a room may include what it does not: take it out of the table")

    def test_no_folders_include_each_other_in_a_circle(self):
        """Except the program's folders, whose commands and pages share a context."""
        files = [path for path in code_files() if room_of(path) not in (None, "cli")]
        roots = {
            room: [f"{folder}/{part}".rstrip("/") for part in ("include", "src", "")]
            for room, (folder, _) in ROOMS.items()
        }
        known = {path: str(pathlib.PurePath(path).parent) for path in files}
        edges = {}
        for path in files:
            places = [root for room in {room_of(path), *ROOMS[room_of(path)][1]} for root in roots[room]]
            named = (
                next((f"{root}/{name}" for root in places if f"{root}/{name}" in known), None)
                for name in includes(path)
            )
            edges.setdefault(known[path], set()).update(
                known[name] for name in named if name and known[name] != known[path]
            )
        self.assertGreater(sum(map(len, edges.values())), 30)
        self.assertEqual(in_circles(edges), [])

    def test_no_modules_of_pytorch_import_each_other_in_a_circle(self):
        folder = ROOT / "executor/python/mc2/torch"
        names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        imported = re.compile(r"^ *from \.(\w*) import ([^#\n]*)", re.MULTILINE)
        edges = {}
        for name in names:
            found = imported.findall((folder / f"{name}.py").read_text())
            edges[name] = {module for own, others in found for module in [own, *re.split(r"[, ]+", others)]} & names
        self.assertGreater(sum(map(len, edges.values())), 50)
        self.assertEqual(in_circles(edges), [])

    def test_no_two_sources_of_a_room_have_a_private_name_in_common(self):
        """A unity build compiles several of them as one. Which ones depends on the backends that are built."""
        found = collections.defaultdict(set)
        for path in listed_files(".cpp"):
            if room := room_of(path):
                for name in private_names(path):
                    found[room, *name].add(path)
        self.assertGreater(len(found), 2000)
        self.assertEqual({name: paths for name, paths in found.items() if len(paths) > 1}, {})

    def test_positional_arguments_are_in_capitals(self):
        """CLI11 2.4 ends a program if one of its commands has an option and a positional argument of the same name."""
        named = re.compile(r'\badd_option\(\s*"([A-Za-z]\w*)"')
        found = [(path, name) for path in listed_files(".cpp") for name in named.findall((ROOT / path).read_text())]
        self.assertGreater(len(found), 5)
        self.assertEqual([(path, name) for path, name in found if not name.isupper()], [])

    def test_lanes_are_below_the_backends_that_share_them(self):
        self.assertNotEqual([path for path in code_files() if path.startswith("executor/src/lanes/")], [])
        refused = (("executor/src/lanes/", "backends/"), ("executor/src/backends/mpi/", "backends/host/"))
        wrong = [
            f"{path}: {header}"
            for path in code_files()
            for folder, others in refused
            if path.startswith(folder)
            for header in includes(path)
            if header.startswith(others)
        ]
        self.assertEqual(wrong, [])

    def test_the_wire_knows_nothing_of_plans(self):
        wire = [path for path in code_files() if path.startswith("server/src/http/")]
        self.assertNotEqual(wire, [])
        wrong = []
        # Public headers of the service obey the same rule: the wire may include them, and they must not lead on to
        # plans.
        for path in wire + [path for path in code_files() if path.startswith("server/include/")]:
            for header in includes(path):
                is_service = (ROOT / "server/src" / header).is_file() and not header.startswith("http/")
                is_mc2 = header.startswith("mc2/") and not header.startswith("mc2/server/")
                if is_service or (is_mc2 and header not in ("mc2/planner/error.hpp", "mc2/planner/text.hpp")):
                    wrong.append(f"{path}: {header}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
