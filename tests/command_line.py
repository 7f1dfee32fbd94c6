"""The command line, called in this process (fast) or as a child (what users see)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

SMALL = """\
HloModule small, entry_computation_layout={(f32[2,3]{1,0}, f32[3]{0})->(f32[2,3]{1,0}, s32[])}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
  y = f32[3]{0} parameter(1)
  spread = f32[2,3]{1,0} broadcast(y), dimensions={1}
  sum = f32[2,3]{1,0} add(x, spread)
  three = s32[] constant(3)
  ROOT out = (f32[2,3]{1,0}, s32[]) tuple(sum, three)
}
"""

NESTED = """\
HloModule nested

ENTRY main {
  p = (f32[2], (s32[], f32[])) parameter(0)
  q = f32[2] parameter(1)
  a = f32[2] get-tuple-element(p), index=0
  b = (s32[], f32[]) get-tuple-element(p), index=1
  c = f32[] get-tuple-element(b), index=1
  d = f32[2] broadcast(c), dimensions={}
  e = f32[2] multiply(a, d)
  f = f32[2] add(e, q)
  g = s32[] get-tuple-element(b), index=0
  inner = (f32[2], s32[]) tuple(f, g)
  ROOT out = (f32[2], (f32[2], s32[])) tuple(q, inner)
}
"""

BF16 = """\
HloModule half

ENTRY main {
  x = bf16[3] parameter(0)
  ROOT y = bf16[3] add(x, x)
}
"""


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("REFXLA_DEVICE", raising=False)


class Result:
    """What a command gave: its exit status, and the text on both streams."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def error(self) -> str:
        """The one error message; fails unless the command ended with exactly one, and without a traceback."""
        assert self.status == 2, (self.status, self.out, self.err)
        assert self.err.startswith("refxla: error: ") and self.err.count("refxla: ") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.removeprefix("refxla: error: ")


@pytest.fixture
def refxla(capsys):
    """refxla("run", path, ...) -> Result, in this process."""
    from refxla.cli.main import main

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        status = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return call


@pytest.fixture
def child():
    """The same in a child process: child("show", "-", input="...", env={...})."""

    def call(*arguments: object, input: str | bytes | None = None, env: dict[str, str] | None = None, **more) -> Result:
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [sys.executable, "-m", "refxla", *map(str, arguments)],
            input=data,
            env={**os.environ, **(env or {})},
            stdout=more.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            check=False,
            **more,
        )
        return Result(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())

    return call


@pytest.fixture
def program(tmp_path):
    """program(text) -> the path of a file with it."""

    def make(text: str = SMALL, name: str = "program.hlo") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return make
