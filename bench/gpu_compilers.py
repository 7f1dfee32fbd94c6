"""What real GPU compilers make of a kernel, on a machine without a GPU: registers, spills, the loop that matters.

NVIDIA: clang generates PTX, ptxas (CUDA) compiles it to machine code, nvdisasm disassembles that. AMD: clang does
everything. All come from PyPI, and need no driver: ziglang, whose program is also a clang, with the code generators of
all targets, nvidia-cuda-nvcc-cu12, nvidia-cuda-nvdisasm. `tox -e gpu` installs them. Without ziglang, a clang-16 to
clang-20 on the path is used.

The work-item functions of OpenCL are implemented for each target in a file that is included first; everything else in
generated code is plain C.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from refxla.device.gpu_models import GpuModel

# Newer ones compile a kernel to two functions, one of which calls the other, and only one of them would be counted.
_CLANGS = tuple(f"clang-{n}" for n in range(20, 15, -1))
OPENCL = ("-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header")
_COMMON = (*OPENCL, "-w", "-O3", "-S")
_NVIDIA_HEADER = """
#define get_local_id(d) ((size_t)__nvvm_read_ptx_sreg_tid_x())
#define get_group_id(d) ((size_t)__nvvm_read_ptx_sreg_ctaid_x())
#define get_global_id(d) (get_group_id(d) * __nvvm_read_ptx_sreg_ntid_x() + get_local_id(d))
#define barrier(flags) __syncthreads()
#define atomic_inc(p) __nvvm_atom_add_gen_i((volatile int*)(p), 1)
#define atomic_or(p, v) __nvvm_atom_or_gen_i((volatile int*)(p), v)
"""
_AMD_HEADER = """
#define get_local_id(d) ((size_t)__builtin_amdgcn_workitem_id_x())
#define get_group_id(d) ((size_t)__builtin_amdgcn_workgroup_id_x())
#define get_global_id(d) (get_group_id(d) * 64 + get_local_id(d))
#define atomic_inc(p) __atomic_fetch_add(p, 1, __ATOMIC_RELAXED)
#define atomic_or(p, v) __atomic_fetch_or(p, v, __ATOMIC_RELAXED)
#define barrier(flags) do { \\
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \\
    __builtin_amdgcn_s_barrier(); \\
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \\
} while (0)
"""


class Refused(Exception):
    """A compiler rejects a kernel; its message."""


@dataclass(frozen=True)
class MachineCode:
    """The compiler's result for a kernel: `registers` of 32 bits per item, `spilled` bytes that did not fit into them,
    total `scratch` bytes of private memory, `local` bytes per work-group. `loop` counts the instructions, by name, of
    an iteration of the loop with the most multiply-adds, otherwise of the longest loop; {} if there is none. Of the
    ways through an iteration, it is the shortest of those with the most multiply-adds, and then the most loads from
    global memory: that of an item whose terms are all present."""

    registers: int
    spilled: int
    scratch: int
    local: int
    loop: dict[str, int] = field(default_factory=dict)

    @property
    def multiply_adds(self) -> float:
        """The fraction of the loop's instructions that are fused multiply-adds of f32, including packed ones."""
        total = sum(self.loop.values())
        return sum(n for name, n in self.loop.items() if _is_multiply_add(name)) / total if total else 0.0


def _is_multiply_add(name: str) -> bool:
    return name.startswith(("FFMA", "v_fma_f32", "v_fmac_f32", "v_pk_fma_f32", "v_dual_fma", "v_dual_fmac"))


@cache
def find(names: tuple[str, ...]) -> str | None:
    """The first of these programs that is on the path, or in one of NVIDIA's packages."""
    places = [shutil.which(name) for name in names]
    places += [str(p) for name in names for folder in _package("nvidia") for p in sorted(folder.glob(f"*/bin/{name}"))]
    return next((p for p in places if p), None)


def _package(name: str) -> list[Path]:
    """The folders of an installed package; [] if there is none."""
    spec = importlib.util.find_spec(name)
    return [] if spec is None else list(map(Path, spec.submodule_search_locations or ()))


@cache
def _find_clang() -> tuple[str, ...] | None:
    """The first words of a clang command; None if there is none."""
    for zig, pocl in zip(_package("ziglang"), _package("pocl_binary_distribution"), strict=False):
        # ziglang does not include OpenCL's headers; those of PoCL, with which refxla is installed, are clang's.
        return str(zig / "zig"), "clang", "-isystem", str(pocl / ".libs/share/pocl/include")
    program = find(_CLANGS)
    return None if program is None else (program,)


PACKAGES = {
    "clang": "ziglang==0.15.2",
    "ptxas": "nvidia-cuda-nvcc-cu12==12.9.86",
    "nvdisasm": "nvidia-cuda-nvdisasm==13.5.37",
}


def missing(vendor: str) -> str:
    """What has to be installed to examine kernels for a vendor's GPUs ("nvidia", "amd"), as a sentence; or ""."""
    programs = {"clang": _find_clang() is not None}
    if vendor == "nvidia":
        programs |= {name: find((name,)) is not None for name in ("ptxas", "nvdisasm")}
    lacking = [name for name, here in programs.items() if not here]
    packages = " ".join(PACKAGES[name] for name in lacking)
    return f"{', '.join(lacking)} not found: pip install {packages}, or tox -e gpu for the tests" if lacking else ""


def clang() -> tuple[str, ...]:
    """The first words of a clang command. Raises Refused if there is none."""
    program = _find_clang()
    if program is None:
        raise Refused(missing("amd"))
    return program


def compiled(source: str, model: GpuModel) -> MachineCode:
    """Compiles a program of one __kernel to machine code of a GPU. Raises Refused with the compiler's message."""
    with tempfile.TemporaryDirectory(prefix="gpu-static-") as folder:
        return (_nvidia if model.name.startswith("gpu:nvidia") else _amd)(source, model.architecture, Path(folder))


def run(command: Sequence[str]) -> str:
    """The output of a program. Raises Refused with it if the program fails."""
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise Refused(f"{Path(command[0]).name}: {(process.stderr or process.stdout).strip()[-1500:]}")
    return process.stdout + process.stderr


def _clang(source: str, header: str, folder: Path, options: Sequence[str]) -> Path:
    (folder / "device.h").write_text(header)
    (folder / "kernel.cl").write_text(source)
    to = folder / "kernel.s"
    run([*clang(), *_COMMON, *options, "-include", f"{folder}/device.h", f"{folder}/kernel.cl", "-o", str(to)])
    return to


def _nvidia(source: str, architecture: str, folder: Path) -> MachineCode:
    target = ("-target", "nvptx64--nvidiacl")
    features = [x for word in ("-target-cpu", "sm_80", "-target-feature", "+ptx71") for x in ("-Xclang", word)]
    ptx = _clang(source, _NVIDIA_HEADER, folder, (*target, *features))
    ptxas, nvdisasm = find(("ptxas",)), find(("nvdisasm",))
    assert ptxas is not None and nvdisasm is not None, "look at missing() first"
    binary = folder / "kernel.cubin"
    log = run([ptxas, f"-arch={architecture}", "-v", str(ptx), "-o", str(binary)])
    stack, stores, loads = _numbers(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    (registers,) = _numbers(r"Used (\d+) registers", log)
    local = re.search(r"(\d+) bytes smem", log)
    loop = _loop(run([nvdisasm, "-c", str(binary)]), _SASS_LABEL, _SASS_BRANCH, _SASS)
    return MachineCode(registers, stores + loads, stack, int(local[1]) if local else 0, loop)


def _amd(source: str, architecture: str, folder: Path) -> MachineCode:
    options = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib")
    text = _clang(source, _AMD_HEADER, folder, options).read_text()
    (registers,) = _numbers(r"\.vgpr_count:\s+(\d+)", text)
    (spilled,) = _numbers(r"\.vgpr_spill_count:\s*(\d+)", text)
    (scratch,) = _numbers(r"; ScratchSize: (\d+)", text)
    (local,) = _numbers(r"LDSByteSize: (\d+)", text)
    loop = _loop(text, _GCN_LABEL, _GCN_BRANCH, _GCN)
    return MachineCode(registers, 4 * spilled, scratch, local, loop)


# In either disassembly: a label, a branch to one, and an instruction with its name and the rest.
_SASS_LABEL, _SASS_BRANCH = r"\s*(\.L_x_\d+):", r"BRA.*`\((\.L_x_\d+)\)"
_GCN_LABEL, _GCN_BRANCH = r"(\.LBB\d+_\d+):", r"s_c?branch\w*\s+(\.LBB\d+_\d+)"
_SASS = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z][A-Z0-9_]*)([^;]*);")
_GCN = re.compile(r"\t([a-z]+_\w+)(.*)")


def _numbers(pattern: str, text: str) -> tuple[int, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise Refused(f"no line of the compiler's says {pattern!r}")
    return tuple(map(int, match.groups()))


def _loop(text: str, label: str, branch: str, instruction: re.Pattern[str]) -> dict[str, int]:
    """The instructions of an iteration of a loop, from a label to a branch back to it, counted by name: of the smallest
    loop of those with the most multiply-adds; if there are none, of the innermost loop with the most instructions."""
    labels: dict[str, int] = {}
    names: list[str] = []
    branches: list[tuple[int, str, bool]] = []  # the number of an instruction, the label, whether there is a condition
    for line in text.splitlines():
        if match := re.match(label, line):
            labels[match[1]] = len(names)
        elif match := instruction.match(line):
            if to := re.search(branch, line):
                branches.append((len(names), to[1], "@" in line or match[1].startswith("s_cbranch")))
            names.append(match[1])
    targets = {n: (labels[to], conditional) for n, to, conditional in branches if to in labels}
    backward = [(to, n + 1) for n, (to, _) in targets.items() if to < n]
    dense = {(a, b): sum(map(_is_multiply_add, names[a:b])) for a, b in backward}
    inner = [(a, b) for a, b in backward if not any(a <= c and d <= b for c, d in backward if (c, d) != (a, b))]
    a, b = max(inner, key=lambda x: x[1] - x[0], default=(0, 0))
    if most := max(dense.values(), default=0):
        a, b = min((x for x in dense if dense[x] == most), key=lambda x: x[1] - x[0])
    return dict(Counter(names[n] for n in _iteration(names, targets, a, b)).most_common())


def _iteration(names: Sequence[str], targets: dict[int, tuple[int, bool]], first: int, end: int) -> list[int]:
    """The instructions of the shortest way from `first` to before `end`, of those with the most multiply-adds, and then
    the most loads; loops on it run once."""
    best: dict[int, tuple[int, int, int, int]] = {end: (0, 0, 0, end)}  # multiply-adds, loads, minus the length, next
    for n in range(end - 1, first - 1, -1):
        to, conditional = targets.get(n, (n + 1, False))
        ways = [to if first <= n < to else n + 1] if not conditional else [n + 1, to]
        adds, loads = _is_multiply_add(names[n]), names[n].startswith(("LDG", "global_load"))
        known = [(best[way][0] + adds, best[way][1] + loads, best[way][2] - 1, way) for way in ways if n < way <= end]
        best[n] = max(known, default=(-1, 0, 0, end))  # the loop is left here
    way = []
    while first < end:
        way.append(first)
        first = best[first][3]
    return way


def occupancy(code: MachineCode, model: GpuModel, group: int) -> float:
    """The fraction of a compute unit's maximum number of items that this kernel's registers, local memory and
    work-groups allow. (Registers are allocated in units of eight.)"""
    registers = -(-max(code.registers, 1) // 8) * 8
    groups = min(
        model.registers // (registers * group),
        model.items // group,
        model.groups,
        model.local_bytes // code.local if code.local else model.groups,
    )
    return groups * group / model.items
