#!/usr/bin/env python3
"""Writes src/types.ts, what the dashboard knows of the service, from schemas/: the types of its answers, and the usual
and legal values of its parameters.

usage: write_types.py [--check]

--check writes nothing, and fails if types.ts differs from what the schemas give.
"""

import json
import pathlib
import re
import sys
import textwrap

import yaml

HERE = pathlib.Path(__file__).resolve().parent
SCHEMAS = HERE.parents[1] / "schemas"
TARGET = HERE / "src" / "types.ts"

# Names of types, and the place of each one's schema. Schemas that these refer to get names from their references.
ROOTS = {
    "Plan": "plan.schema.json",
    "Explanation": "explanation.schema.json",
    "Answer": "openapi.yaml#/components/schemas/Answer",
    "List": "openapi.yaml#/components/schemas/List",
    "Problem": "openapi.yaml#/components/schemas/Problem",
    "Curves": "openapi.yaml#/paths/~1v1~1models~1{id}~1curves",
    "Exploration": "openapi.yaml#/paths/~1v1~1models~1{id}~1exploration",
    "PlanRanges": "plan_ranges.schema.json",
    "LlmPlan": "llm_plan.schema.json",
    "LlmList": "openapi.yaml#/paths/~1v1~1llms",
    "MachineList": "openapi.yaml#/paths/~1v1~1fingerprints",
    "Races": "openapi.yaml#/paths/~1v1~1plans~1{id}~1races",
    "Model": "cost_model.schema.json",
    "History": "history.schema.json",
}
# Names of types for schemas that stand inside others: type and key.
PARTS = {
    "Listed": "List.items",
    "Llm": "LlmList.items",
    "Machine": "MachineList.items",
    "Race": "Races.items",
    "CurvePoint": "Curve.points",
    "CurveSample": "Curve.samples",
    "LengthEntry": "Exploration.lengths",
    "HistoryPoint": "History.points",
}
# Parameters in openapi.yaml.
PARAMETERS = ["Limit", "LlmFirst", "LlmLast", "LlmRanks"]
BASIC = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def load(name):
    text = (SCHEMAS / name).read_text()
    return yaml.safe_load(text) if name.endswith(".yaml") else json.loads(text)


class Types:
    """TypeScript declarations by name, made for all schemas that ROOTS reach."""

    def __init__(self):
        self.files, self.texts, self.names = {}, {}, {}
        for name, reference in ROOTS.items():
            self.names[reference] = name
        for name, reference in ROOTS.items():
            self.define(name, reference)

    def resolve(self, reference):
        """The schema at an absolute reference; for a path of the service, the schema of the answer to GET."""
        name, _, pointer = reference.partition("#")
        schema = self.files.setdefault(name, load(name))
        for key in pointer.split("/")[1:]:
            schema = schema[key.replace("~1", "/")]
        return schema["get"]["responses"]["200"]["content"]["application/json"]["schema"] if "get" in schema else schema

    def define(self, name, reference):
        if name not in self.texts:
            self.texts[name] = None  # a type may refer to itself
            self.texts[name] = self.declaration(name, self.resolve(reference), reference.partition("#")[0])

    def declaration(self, name, schema, file):
        text = self.text(schema, file, name, "")
        return f"export interface {name} {text}" if "properties" in schema else f"export type {name} = {text};"

    def named(self, reference, file):
        reference = reference if not reference.startswith("#") else file + reference
        name = self.names.get(reference)
        if name is None:
            name = "".join(part.capitalize() for part in re.split("_|(?=[A-Z])", reference.rpartition("/")[2]))
            if name in self.names.values():  # another file uses the name for another schema
                name = self.names[reference.partition("#")[0]] + name
            self.names[reference] = name
        self.define(name, reference)
        return name

    def text(self, schema, file, place, indent):
        """TypeScript of a schema; `place` is the type and key at which the schema stands, e.g. "List.items"."""
        if "$ref" in schema:
            return self.named(schema["$ref"], file)
        for name, part in PARTS.items():
            if part == place and schema.get("type") != "array":
                if name not in self.texts:
                    self.texts[name] = None
                    self.texts[name] = self.declaration(name, schema, file)
                return name
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            return " | ".join(json.dumps(value) for value in schema["enum"])
        if "oneOf" in schema and "properties" not in schema:
            return " | ".join(self.text(each, file, place, indent) for each in schema["oneOf"])
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return " | ".join(self.of_kind(kind, schema, file, place, indent) for kind in kinds)

    def of_kind(self, kind, schema, file, place, indent):
        if kind == "array" and "prefixItems" in schema:
            return "[" + ", ".join(self.text(each, file, place, indent) for each in schema["prefixItems"]) + "]"
        if kind == "array":
            item = self.text(schema["items"], file, place, indent)
            return f"({item})[]" if " | " in item and not item.startswith("{") else f"{item}[]"
        if kind != "object":
            return BASIC[kind]
        if "properties" not in schema:
            return f"Record<string, {self.text(schema['additionalProperties'], file, place, indent)}>"
        lines = []
        for key, value in schema["properties"].items():
            mark = "" if key in schema.get("required", []) else "?"
            line = f"{indent}  {key}{mark}: {self.text(value, file, place + '.' + key, indent + '  ')};"
            lines += textwrap.wrap(line, 120, subsequent_indent=indent + "    ") if "\n" not in line else [line]
        return "{\n" + "\n".join(lines) + f"\n{indent}}}"


def parameter_text(name):
    schema = load("openapi.yaml")["components"]["parameters"][name]["schema"]
    return f"  {name}: {{" + ", ".join(f"{key}: {schema[key]}" for key in ("default", "minimum", "maximum")) + "},\n"


def main():
    types = Types()
    text = "// Written by write_types.py from schemas/; change those.\n\n"
    text += "export const parameters = {\n" + "".join(map(parameter_text, PARAMETERS)) + "};\n\n"
    text += "\n\n".join(types.texts[name] for name in sorted(types.texts)) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        sys.exit(f"{TARGET.relative_to(HERE.parents[1])} is not what schemas/ give; run server/web/write_types.py")


if __name__ == "__main__":
    main()
