"""Checks that every list of operator kinds in another language says what the table says (planner/src/kinds.cpp).

    kinds_lists_test.py PRINT_KINDS            checks the lists
    kinds_lists_test.py PRINT_KINDS --write    rewrites the lists of mc2.h and of the schema
"""

import ast
import json
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PRINT_KINDS = sys.argv[1]
C_HEADER = "executor/embed/include/mc2.h"
SCHEMA = "schemas/common.schema.json"
TORCH = SOURCE / "executor/python/mc2/torch"


def read(path):
    return (SOURCE / path).read_text()


def table():
    """(name, stored value, most rows whose blocks are columns, work) of each kind, in the table's order."""
    printed = subprocess.run([PRINT_KINDS], check=True, capture_output=True, text=True).stdout
    rows = (line.split(maxsplit=3) for line in printed.splitlines())
    return [(name, int(value), int(few_rows), work) for name, value, few_rows, work in rows]


def write(path, pattern, body):
    """Replaces what the file has between the pattern's two groups by `body`. Exits if it has no such place."""
    text, count = re.subn(pattern, lambda found: found[1] + body + found[2], read(path), count=1)
    if count != 1:
        sys.exit(f"{path}: has no place like {pattern}")
    (SOURCE / path).write_text(text)


def write_lists():
    enumerators = [f"  MC2_{name.upper()} = {value}" for name, value, _, _ in table()]
    write(C_HEADER, r"(enum \{\n)  MC2_MATMUL_ALL_REDUCE = [^}]*(\n\};)", ",\n".join(enumerators))
    grouped = ", ".join(f'"{name}"' for name, _, _, work in table() if work == "grouped matmul")
    write(SCHEMA, r'(\{"kind": \{"enum": \[)[^]]*(\]\}\}\},\s*"then": \{"required": \["experts"\]\})', grouped)
    write(
        SCHEMA,
        r'("kind": \{"enum": \[)"[^]]*(\], "description": "Operator kind\.")',
        ", ".join(f'"{name}"' for name, *_ in table()),
    )


def enumerators(text, start):
    """{name: value} of the first enum behind `start`."""
    body = text[text.index(start) :]
    return {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", body[: body.index("}")])}


def keys_of(path, name):
    """The keys of the dictionary `name` of a Python source."""
    for node in ast.walk(ast.parse(path.read_text())):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(node.value, ast.Dict):
            return [key.value for key in node.value.keys]
    raise AssertionError(f"{path}: no dictionary {name}")


class KindsLists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rows = table()
        cls.names = [name for name, *_ in rows]
        cls.values = {name: value for name, value, *_ in rows}
        cls.few_rows = {name: few_rows for name, _, few_rows, _ in rows if few_rows > 0}
        cls.pooling = [name for name, *_, work in rows if work == "pooling"]
        cls.grouped = [name for name, *_, work in rows if work == "grouped matmul"]
        cls.op_schema = json.loads(read(SCHEMA))["$defs"]["op"]

    def test_stored_values_are_one_to_the_number_of_kinds(self):
        self.assertEqual(sorted(self.values.values()), list(range(1, len(self.names) + 1)))

    def test_cpp_enumerators(self):
        found = enumerators(read("planner/include/mc2/planner/op_spec.hpp"), "enum class OpKind")
        self.assertEqual(found, {name.title().replace("_", ""): value for name, value in self.values.items()})

    def test_c_enumerators(self):
        found = enumerators(read(C_HEADER), "enum {\n  MC2_" + self.names[0].upper())
        self.assertEqual(found, {f"MC2_{name.upper()}": value for name, value in self.values.items()})

    def test_schema(self):
        self.assertEqual(self.op_schema["properties"]["kind"]["enum"], self.names)

    def test_schema_asks_for_tables_where_bags_are_pooled(self):
        self.assertEqual([self.op_schema["if"]["properties"]["kind"]["const"]], self.pooling)

    def test_schema_asks_for_experts_where_rows_choose_them(self):
        conditions = [one for one in self.op_schema["allOf"] if one.get("then") == {"required": ["experts"]}]
        self.assertEqual([one["if"]["properties"]["kind"]["enum"] for one in conditions], [self.grouped])

    def test_schema_tells_the_rows_whose_blocks_are_columns(self):
        self.assertEqual(self.op_schema["x-columnCutRows"], self.few_rows)

    def test_operators_page(self):
        rows = read("docs/operators.md").split("| kind | A of a rank |")[1].split("\n\n")[0]
        self.assertEqual(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE), self.names)

    def test_dashboard_reads_the_schema(self):
        for source in sorted((SOURCE / "server/web/src").rglob("*.ts*")):
            if source.name == "types.ts":  # written from the schema
                continue
            for name in self.names:
                self.assertNotIn(name, source.read_text(), source)

    def test_torch_runs_the_same_kinds_of_the_table_everywhere(self):
        self.assertEqual(keys_of(TORCH / "_passes.py", "PASSES"), self.names)
        matmuls = [name for name in self.names if name not in self.pooling + self.grouped]
        self.assertEqual(keys_of(TORCH / "_ops.py", "gradients"), matmuls)
        functions = re.findall(r'return _call\("(\w+)"', (TORCH / "functional.py").read_text())
        self.assertEqual([name for name in functions if name != "replicated_matmul"], matmuls)
        self.assertEqual(
            re.findall(r'^_KIND = "(\w+)"', (TORCH / "embeddings.py").read_text(), re.MULTILINE), self.pooling
        )


if __name__ == "__main__":
    if sys.argv[2:] == ["--write"]:
        write_lists()
    else:
        unittest.main(argv=sys.argv[:1])
