"""What is known of each kernel's text: the code that a GPU's compiler makes of it, and its transactions.

Equal kernels, as those of a network's equal layers, are compiled once for a GPU, and traced once for all GPUs with as
many items in a sub-group. The results can be kept in a file, a line each, as they arrive: the kernels of a large
network take many minutes, and a run that is stopped should not have to start again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from refxla.codegen.opencl_program import Program
from refxla.device.gpu_models import GpuModel

from .gpu_compilers import PACKAGES, MachineCode, compiled
from .gpu_transactions import Transactions, traced


class KernelResults:
    """The results so far; with a file, they are also written to it, and those that it has are taken over."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._codes: dict[str, MachineCode] = {}
        self._transactions: dict[str, Transactions] = {}
        lines = file.read_text("utf-8").splitlines(keepends=True) if file and file.exists() else []
        if lines and not lines[-1].endswith("\n"):
            assert file is not None
            file.write_text("".join(lines[:-1]), "utf-8")  # the run was stopped while it wrote the last line
            del lines[-1]
        for content in map(json.loads, lines):
            if "code" in content:
                self._codes[content["key"]] = MachineCode(**content["code"])
            else:
                self._transactions[content["key"]] = Transactions(**content["transactions"])

    def code(self, source: str, model: GpuModel) -> MachineCode:
        """The code of a program of one __kernel. Raises Refused with the compiler's message."""
        key = _key(source, model.architecture, *PACKAGES.values())
        if key not in self._codes:
            self._codes[key] = compiled(source, model)
            self._write(key, "code", self._codes[key])
        return self._codes[key]

    def transactions(self, opencl: Program, sizes: list[int], group: int, items: int) -> Transactions:
        """The transactions of `items` adjacent items of a work-group of a program of one __kernel, whose arrays have so
        many bytes. Raises Refused with the compiler's message."""
        key = _key(opencl.source, json.dumps([sizes, group, items]))
        if key not in self._transactions:
            self._transactions[key] = traced(opencl.source, opencl.entries[0][0], sizes, group, items)
            self._write(key, "transactions", self._transactions[key])
        return self._transactions[key]

    def _write(self, key: str, kind: str, result: MachineCode | Transactions) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"key": key, kind: asdict(result)}) + "\n")


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
