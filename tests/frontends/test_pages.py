"""The pages of JAX and PyTorch run as they are printed. (TensorFlow's does in test_tensorflow_keras.py.)"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jax_programs import environment
from pages import ROOT, run_as_printed


def test_the_page_of_jax(tmp_path):
    pytest.importorskip("jax")
    losses = [float(x) for x in re.findall(r"^\d+\.\d+$", run_as_printed("jax.md", tmp_path), re.M)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)


def test_the_command_of_the_page_of_jax():
    pytest.importorskip("jax")
    page = (ROOT / "docs/jax.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^    JAX_PLATFORMS=refxla (python -c .*)$", page, re.M)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, env=environment(PATH=path), timeout=280)
    assert done.stdout == "[refxla:0] [ 0  1  3  6 10]\n", done.stderr


def test_the_page_of_pytorch(tmp_path):
    pytest.importorskip("torch")
    printed = run_as_printed("torch.md", tmp_path)
    losses = [float(x) for x in re.findall(r"^\d+\.\d+$", printed, re.M)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)
    shown = (ROOT / "docs/torch.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    report = printed[printed.index("operation") :].replace(f"{tmp_path}{os.sep}", "")
    assert report.split() == shown.split()
