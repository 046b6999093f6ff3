"""The type stubs say what the modules have."""

import tempfile
import unittest

import mc2  # noqa: F401  (stubtest passes over a package that it does not find)

try:
    from mypy import stubtest
except ImportError:  # python3-mypy
    stubtest = None


@unittest.skipUnless(stubtest, "python3-mypy is not installed")
class StubsTest(unittest.TestCase):
    def test_stubs_match_the_modules(self):
        # pybind11's classes have a metaclass of its own, and constructors without a signature.
        with tempfile.NamedTemporaryFile("w+") as allowed:
            allowed.write("mc2(\\.\\w+)?\\.[A-Z]\\w+\n.*\\.__init__\n")
            allowed.flush()
            options = ["mc2", "--allowlist", allowed.name, "--ignore-unused-allowlist"]
            self.assertEqual(stubtest.test_stubs(stubtest.parse_options(options)), 0)


if __name__ == "__main__":
    unittest.main()
