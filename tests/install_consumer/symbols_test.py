"""Checks which symbols the installed shared libraries export: symbols_test.py LIBRARY_FOLDER"""
import pathlib
import re
import subprocess
import sys

ROOMS = ("planner", "store", "client", "profiler", "finder", "executor", "embed")
# Namespaces and classes that no public header declares.
PRIVATE = (
    "mc2::executor::lanes::",
    "mc2::executor::host::",
    "mc2::executor::mpi::",
    "mc2::executor::cuda::",
    "mc2::store::Fields",
    "(anonymous namespace)",
)
# Functions that all rooms use, such as mc2::Error::text(), are in namespace mc2 and belong to the planner's library.
VOCABULARY = re.compile(r"mc2::(Error::)?[a-z_]+(\[abi:cxx11\])?\(")


def shown_by(library: pathlib.Path) -> list[tuple[str, str]]:
    """Returns (kind, name) of every symbol that other libraries can bind to."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", "-C", library], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    symbols = [(line.split()[1], line.split(maxsplit=2)[2]) for line in lines]
    return [symbol for symbol in symbols if not symbol[1].startswith("__odr_asan")]  # added by the address sanitizer


def wrong_in(room: str, symbols: list[tuple[str, str]]) -> list[str]:
    strong = [name for kind, name in symbols if kind in "TDBR"]
    wrong = [
        name
        for name in strong
        if not name.startswith((f"mc2::{room}::", f"vtable for mc2::{room}::", f"typeinfo for mc2::{room}::"))
    ]
    if room == "planner":
        wrong = [name for name in wrong if not VOCABULARY.match(name)]
    wrong += [name for _, name in symbols if any(private in name for private in PRIVATE)]
    if not any(name.startswith(f"mc2::{room}::") for name in strong):
        wrong.append(f"nothing of mc2::{room} is shown")
    return wrong


def main(folder: pathlib.Path) -> int:
    wrong = {f"libmc2_{room}.so": wrong_in(room, shown_by(folder / f"libmc2_{room}.so")) for room in ROOMS}
    c_symbols = shown_by(folder / "libmc2.so")
    wrong["libmc2.so"] = [name for _, name in c_symbols if not name.startswith(("mc2_", "MC2_0"))]
    for library, names in wrong.items():
        for name in names[:20]:
            print(f"{library} shows {name}")
    return 1 if any(wrong.values()) or not c_symbols else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
