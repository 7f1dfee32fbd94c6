"""What XLA knows and this specification leaves out on purpose, each with its reason.

Everything else that HLO has is here: each of its opcodes is a file of `ops/` or a row of this table, and so is each of
its element types (`types.py`). A program with what is left out is refused with an error that says so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeftOut:
    """One thing that is not specified: its name as HLO writes it, why it is not here, and a program that has it."""

    name: str
    kind: str  # "opcode", "element type", "text" or "proto"
    reason: str
    program: str = ""  # "" where a text cannot have it


LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut(
        "buffer",
        "element type",
        "a name for memory, which only programs that a compiler has scheduled contain",
        "x = b(f32[2]) parameter(0)",
    ),
    LeftOut(
        "custom calls of one library",
        "text",
        "HLO does not say what a target computes; those that JAX and TensorFlow use for what HLO has no opcode for are "
        "defined in `custom_calls`, and others can be registered there",
        'ROOT x = f32[2] custom-call(), custom_call_target="cublas_gemm"',
    ),
    LeftOut(
        "bitcast of tiled layouts",
        "text",
        "how a tiled array is padded belongs to one machine; layouts are kept and printed again, and nothing else "
        "depends on them",
        "x = f32[4,4]{1,0:T(2,2)} constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16})\nROOT y = f32[16]{0} bitcast(x)",
    ),
    LeftOut(
        "`sparsity_config` and `block_scaling_config` of dot and convolution",
        "text",
        "operands without their zeros, and with scales after them, as some libraries for GPUs take them; no front end "
        "writes them, XLA's CPU does not compute them, and `scaled-dot` says the second in the open",
        """x = f32[4,8] parameter(0)
           y = f32[8,4] parameter(1)
           ROOT z = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0},
             sparsity_config={lhs={dimension=1}}""",
    ),
    LeftOut(
        "shortened constants",
        "text",
        "the value is lost; print the program again with print_large_constants=True, or say with `elided` what to take "
        "for it",
        "ROOT x = f32[4] constant({...})",
    ),
    LeftOut(
        "`replica_count` and `num_partitions`",
        "proto",
        "an HloModuleProto has no place for them (they stand in XLA's HloModuleConfig); the text keeps them",
    ),
    LeftOut(
        "other notes in the header of a module",
        "proto",
        "`allow_spmd_sharding_propagation_to_parameters` and `..._to_output`, `alias_passthrough_params`, "
        "`origin_recovery_table`, `debug_attributes` and the module's `backend_config` are notes for XLA's own "
        "compiler (the first three have no place in an HloModuleProto either); the text keeps them",
    ),
    LeftOut(
        "`origin` and `statistics` of instructions",
        "proto",
        "they say from which instruction of another program one was made (`original_value` in protos), and what a "
        "profile measured; the text keeps them",
    ),
)


def reason(name: str) -> str:
    """Why the thing of that name is left out."""
    return next(thing.reason for thing in LEFT_OUT if thing.name == name)
