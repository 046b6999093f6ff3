"""The type stubs say what the modules have."""

import importlib.util
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
        with tempfile.NamedTemporaryFile("w+") as allowed, tempfile.NamedTemporaryFile("w+") as config:
            allowed.write("mc2(\\.\\w+)*\\.[A-Z]\\w+\n.*\\.__init__\n" + ("" if importlib.util.find_spec("torch") else "mc2\\.torch.*\n"))
            allowed.flush()
            config.write("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")  # reading PyTorch takes a minute
            config.flush()
            options = ["mc2", "--allowlist", allowed.name, "--ignore-unused-allowlist", "--mypy-config-file", config.name]
            self.assertEqual(stubtest.test_stubs(stubtest.parse_options(options)), 0)


if __name__ == "__main__":
    unittest.main()
