"""The pages of a kernel's library, all of which are mapped once it is opened."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
import pytest

import refxla
from refxla.runtime.pocl import kernel_library

# A choice that no element of the argument makes: the number that it would choose lies among the library's constants.
RARE = """HloModule rare
ENTRY rare {
  x = f32[8192] parameter(0)
  isnan = pred[8192] compare(x, x), direction=NE
  number = f32[] constant(-777.25)
  numbers = f32[8192] broadcast(number), dimensions={}
  ROOT y = f32[8192] select(isnan, numbers, x)
}
"""


def missing_pages(files: list[Path]) -> list[str]:
    """The mappings of these files in this process of which a page is not mapped, by /proc/self/pagemap."""
    missing = []
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses = line.split()[0]
            if any(str(file) in line for file in files):
                begin, end = (int(text, 16) // mmap.PAGESIZE for text in addresses.split("-"))
                pages.seek(8 * begin)
                entries = struct.iter_unpack("<Q", pages.read(8 * (end - begin)))
                if not all(entry >> 63 for (entry,) in entries):
                    missing.append(line)
    return missing


def test_each_page_is_mapped_before_a_kernel_runs(monkeypatch, device):
    if not kernel_library.applies(device):
        pytest.skip(f"kernels of {device.name} are launched by OpenCL")
    opened: list[Path] = []
    real = kernel_library.KernelLibrary.__init__

    def noted(self, device, part, files):
        opened.extend(files)
        real(self, device, part, files)

    monkeypatch.setattr(kernel_library.KernelLibrary, "__init__", noted)
    executable = refxla.compile(RARE)
    assert opened
    try:
        missing = missing_pages(opened)
    except OSError as problem:
        pytest.skip(f"this process may not see which of its pages are mapped: {problem}")
    assert missing == []
    x = np.arange(8192, dtype=np.float32)
    assert np.array_equal(executable(x), x)
