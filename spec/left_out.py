"""What XLA knows and this specification leaves out on purpose, each with its reason.

Everything else that HLO has is here: each of its opcodes is a file of `ops/` or a row of this table, and so is each of
its element types (`types.py`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeftOut:
    """One thing that is not specified: its name as HLO writes it, what kind of thing it is, and why it is not here."""

    name: str
    kind: str  # "opcode", "element type", "text" or "proto"
    reason: str


LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut("buffer", "element type", "a name for memory, which only programs that a compiler has scheduled contain"),
    LeftOut(
        "custom calls of one implementation",
        "text",
        "a target such as lapack_sgeqrf_ffi names a library's function, and HLO says nothing of what it computes; "
        "those that JAX and TensorFlow emit on every platform are defined in custom_calls.py, others can be registered",
    ),
    LeftOut(
        "tiled and padded layouts",
        "text",
        "a layout is kept and printed again, and only bitcast depends on it; a bitcast of a tiled one is refused",
    ),
    LeftOut(
        "results without shapes",
        "text",
        "text printed with print_ids=False or without shapes of results says too little; XLA cannot read it",
    ),
    LeftOut(
        "shortened constants",
        "text",
        "constant({...}) has lost its value; print the program again with print_large_constants=True",
    ),
    LeftOut(
        "replica_count and num_partitions",
        "proto",
        "an HloModuleProto has no place for them (they stand in XLA's HloModuleConfig); the text keeps them",
    ),
    LeftOut(
        "fusion kinds' meaning",
        "text",
        "kLoop, kInput, kOutput and kCustom tell a compiler how the fusion came about; the value is the computation's",
    ),
)
