"""Builds the Python package: pip install --no-build-isolation . (docs/python.md).

The extension modules come from CMake through scikit-build; with MC2_BUILD_DIR from a build tree of this source that has
them.
"""

import os
import pathlib
import subprocess

PACKAGES = {
    "packages": ["mc2", "mc2.torch"],
    "py_modules": ["mc2_vllm"],
    "package_data": {"mc2": ["py.typed", "*.pyi", "*.so"]},
}


def setup_from_build_tree(build_dir):
    from setuptools import Distribution, setup

    class WithExtensions(Distribution):
        def has_ext_modules(self):
            return True  # a wheel for this Python and this kind of machine

    stage = pathlib.Path("_skbuild") / "installed"
    subprocess.run(["cmake", "--install", build_dir, "--component", "python", "--prefix", stage], check=True)
    package = next(stage.glob("**/mc2/__init__.py")).parent
    setup(package_dir={"": str(package.parent)}, distclass=WithExtensions, zip_safe=False, **PACKAGES)


def setup_with_cmake():
    from skbuild import setup

    setup(
        package_dir={"": "executor/python"},
        cmake_args=[
            "-DMC2_WITH_PYTHON=ON",
            "-DMC2_BUILD_TESTS=OFF",
            "-DMC2_DASHBOARD=OFF",
            "-DCMAKE_BUILD_TYPE=Release",
        ],
        cmake_install_target="mc2_python_install",
        zip_safe=False,
        **PACKAGES,
    )


if os.environ.get("MC2_BUILD_DIR"):
    setup_from_build_tree(os.environ["MC2_BUILD_DIR"])
else:
    setup_with_cmake()
