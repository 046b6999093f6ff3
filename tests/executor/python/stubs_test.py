"""Tests that the type stubs match the modules, that the classes give access to every key of their documents, and that
help() explains every public name."""

import importlib.util
import inspect
import json
import pathlib
import tempfile
import unittest

import mc2  # fails where the package is missing; stubtest would only skip it

try:
    from mypy import stubtest
except ImportError:  # python3-mypy
    stubtest = None

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "schemas"
# For each object of a document: its place in schemas/, its class, and the keys without a property of the same name.
# Each such key has the name of the property or method that gives it instead; to_dict() gives every key. None:
# no property gives the key.
DOCUMENTS = [
    (
        "plan",
        mc2.Plan,
        {
            "certificate": "to_dict",
            "recipe": "to_dict",
            "slowdown": "to_dict",
            "is_local_first": "schedule",
            "is_serial": "schedule",
        },
    ),
    ("plan#estimate", mc2.Estimate, {}),
    ("plan#validation", mc2.Validation, {"spread": "serial_interval_us"}),
    ("plan#runner_up", mc2.RunnerUp, {"cut": "blocks"}),
    ("plan_ranges", mc2.PlanRanges, {}),
    ("plan_ranges#range", mc2.PlanRange, {}),
    ("plan_ranges#rule", mc2.CutRule, {"is_local_first": "schedule", "is_serial": "schedule"}),
    ("cost_model", mc2.CostModel, {"anchored_interval": "to_dict", "serial": "to_dict"}),
    ("common#op", mc2.OpSpec, {"world_size": "ranks"}),
    ("common#variant", mc2.Variant, {}),
    ("profile", mc2.Profile, {}),
    (
        "profile#sample",
        mc2.Sample,
        {"block_columns": "block_rows", "slowest_rank": None, "start_ns": "start_us", "time_ns": "time_us"},
    ),
    ("fingerprint", mc2.Fingerprint, {}),
]


class DocumentsTest(unittest.TestCase):
    def test_every_key_of_a_document_is_reached(self):
        for place, made, others in DOCUMENTS:
            name, _, part = place.partition("#")
            schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
            keys = set((schema["$defs"][part] if part else schema)["properties"]) - {"schema"}
            for key in sorted(keys):
                given_by = others.get(key, key)
                with self.subTest(document=place, key=key):
                    self.assertTrue(given_by is None or hasattr(made, given_by), f"{made.__name__} has no {given_by}")
            self.assertLessEqual(set(others), keys, f"{place} has these keys no more")


def explains(thing):
    """Whether a docstring says more than the signature that pybind11 writes."""
    text = inspect.getdoc(thing) or ""
    if isinstance(thing, (property, type)) or inspect.isfunction(thing):
        return bool(text)
    return "\n\n" in text and not text.endswith("Overloaded function.")


class HelpTest(unittest.TestCase):
    def test_every_public_name_is_explained(self):
        asked = 0
        for name in mc2.__all__:
            thing = getattr(mc2, name)
            is_class = isinstance(thing, type)
            if name.startswith("_") or not callable(thing) or (is_class and issubclass(thing, Exception)):
                continue
            members = vars(thing).items() if is_class else []
            public = [(f"{name}.{of}", member) for of, member in members if not of.startswith("_")]
            for title, one in [(name, thing), *public]:
                if callable(one) or isinstance(one, property):
                    asked += 1
                    with self.subTest(name=title):
                        self.assertTrue(explains(one), f"help(mc2.{title}) explains nothing")
        self.assertGreater(asked, 200)


@unittest.skipUnless(stubtest, "python3-mypy is not installed")
class StubsTest(unittest.TestCase):
    def test_stubs_match_the_modules(self):
        # These differences are allowed: pybind11's classes have its metaclass, and constructors without a signature.
        with tempfile.NamedTemporaryFile("w+") as allowed, tempfile.NamedTemporaryFile("w+") as config:
            allowed.write(
                "mc2(\\.\\w+)*\\.[A-Z]\\w+\n.*\\.__init__\n"
                + ("" if importlib.util.find_spec("torch") else "mc2\\.torch.*\n")
            )
            allowed.flush()
            config.write("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")  # reading PyTorch takes a minute
            config.flush()
            options = [
                "mc2",
                "--allowlist",
                allowed.name,
                "--ignore-unused-allowlist",
                "--mypy-config-file",
                config.name,
            ]
            self.assertEqual(stubtest.test_stubs(stubtest.parse_options(options)), 0)


if __name__ == "__main__":
    unittest.main()
