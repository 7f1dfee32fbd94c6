"""The committed examples: their text is sound, and what they compute is what XLA:CPU computes."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from agreement import assert_agree, flat
from refxla_spec import equality, interpreter, text, verify
from refxla_spec.releases import release_of

import refxla

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*/*.hlo"))
RUN = [path for path in FILES if path.stem != "predict"]  # predict.hlo has no inputs of its own; train.py runs it
LOOSE = {"resnet50": 512}  # fifty layers deep, its roundings add up


def inputs(path: Path) -> list[np.ndarray]:
    """What the program is run on, from the inputs.py beside it."""
    return runpy.run_path(str(path.with_name("inputs.py")))["inputs"]()


def eps(path: Path) -> float:
    return LOOSE.get(path.parent.name, 32)


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def test_all_examples_are_found():
    assert len(FILES) == 11


@pytest.mark.parametrize("path", FILES, ids=name)
def test_text_is_small_sound_and_printed_as_it_was_read(path):
    assert path.stat().st_size < 1_500_000
    module = text.parse(path.read_text())
    verify.verify(module)
    assert equality.difference(text.parse(text.print_module(module)), module) is None


@pytest.mark.parametrize("path", RUN, ids=name)
def test_reference_agrees_with_xla(path):
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    hlo, arguments = path.read_text(), inputs(path)
    assert_agree(interpreter.run(text.parse(hlo), arguments), oracle.xla_cpu(hlo, arguments), eps(path))


@pytest.mark.parametrize("path", RUN, ids=name)
def test_compiled_agrees_with_the_reference(path):
    hlo, arguments = path.read_text(), inputs(path)
    assert_agree(refxla.compile(hlo)(*arguments), flat(interpreter.run(text.parse(hlo), arguments)), eps(path))


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name != "cnn_tf"], ids=name)
def test_jax_still_lowers_to_the_committed_text(path, tmp_path):
    """make.py makes the file that is committed: nobody edited one without the other."""
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    if release_of(oracle.version()) != "0.10":
        pytest.skip("the text is what JAX 0.10 lowers to, and another release lowers otherwise")
    copy = shutil.copytree(path.parent, tmp_path / "example")
    made = copy / path.name
    made.unlink()
    subprocess.run([sys.executable, "make.py"], cwd=copy, check=True, capture_output=True)
    assert made.read_text() == path.read_text()


def test_the_classifier_learns():
    """Calling the compiled step in a loop trains it: above 95 % of the images that it has not seen."""
    pytest.importorskip("sklearn")
    command = [sys.executable, str(EXAMPLES / "mlp" / "train.py")]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(shown.rsplit(":", 1)[1].strip().rstrip("%")) > 95


def test_the_classifier_says_what_its_digits_need():
    program = """
import runpy, sys
sys.modules["sklearn"] = None
sys.path.insert(0, sys.argv[1])
sys.argv = ["train.py"]
runpy.run_path(sys.path[0] + "/train.py", run_name="__main__")
"""
    command = [sys.executable, "-c", program, str(EXAMPLES / "mlp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.rstrip().endswith(": pip install scikit-learn")
