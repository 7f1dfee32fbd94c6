"""The vocabulary of HLO text: its opcodes, and the kind of each attribute by its name.

An operation's own declaration (`ops/<op>.py`) says which attributes it takes. This table is wider: it knows every name
that XLA prints, so that a program with operations that the specification does not define yet can still be read, printed
and reported on. Kinds that are VERBATIM are kept as text.
"""

from __future__ import annotations

import re

from . import attributes as a

OPCODES = frozenset(
    """
    abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce
    all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2 atanh
    batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil
    cholesky clamp collective-broadcast collective-permute collective-permute-done collective-permute-start
    collective-reduce compare complex concatenate conditional constant convert convolution copy copy-done copy-start
    cosine cosh count-leading-zeros custom-call divide domain dot dynamic-reshape dynamic-slice dynamic-update-slice erf
    exp2 exponential exponential-minus-one fft floor fusion gather get-dimension-size get-tuple-element imag infeed iota
    is-finite log log2 log-plus-one logistic map maximum minimum mulhi multiply negate not opt-barrier or outfeed pad
    parameter partition-id popcnt power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision
    reduce-scatter reduce-window remainder replica-id reshape reverse rng rng-bit-generator rng-get-and-update-state
    round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter select select-and-scatter send send-done
    set-dimension-size shift-left shift-right-arithmetic shift-right-logical shuffle sign sine sinh slice sort sqrt
    stochastic-convert subtract tan tanh topk transpose triangular-solve tuple while xor
    """.split()
)

# Those whose result does not follow from their operands, attributes and computations: its shape is always written.
STATED = frozenset(
    """
    all-gather-start bitcast bitcast-convert constant convert custom-call dynamic-reshape infeed iota parameter recv
    reshape rng rng-bit-generator stochastic-convert
    """.split()
)

# What may be taken for the value of a constant that was shortened to {...}.
ELISIONS = ("zeros", "random")

# An asynchronous form of any operation is written as its opcode with one of these after it.
ASYNC_SUFFIXES = ("-start", "-update", "-done")

# In the order in which XLA prints them.
ATTRIBUTE_KINDS: dict[str, str] = {
    "dimensions": a.INTS,
    "window": a.WINDOW,
    "padding": a.PADDING,
    "slice": a.SLICES,
    "dynamic_slice_sizes": a.INTS,
    "feature_index": a.INT,
    "epsilon": a.FLOAT,
    "exponent_bits": a.INT,
    "mantissa_bits": a.INT,
    "iota_dimension": a.INT,
    "inferred_dimension": a.INT,
    "index": a.INT,
    "dim_labels": a.CONVOLUTION,
    "feature_group_count": a.INT,
    "batch_group_count": a.INT,
    "padding_type": a.ENUM,
    "convolution_kind": a.ENUM,
    "lhs_batch_dims": a.INTS,
    "lhs_contracting_dims": a.INTS,
    "rhs_batch_dims": a.INTS,
    "rhs_contracting_dims": a.INTS,
    "lhs_ragged_dims": a.INTS,
    "rhs_group_dims": a.INTS,
    "sparsity": a.VERBATIM,
    "offset_dims": a.INTS,
    "collapsed_slice_dims": a.INTS,
    "start_index_map": a.INTS,
    "operand_batching_dims": a.INTS,
    "start_indices_batching_dims": a.INTS,
    "index_vector_dim": a.INT,
    "slice_sizes": a.INTS,
    "update_window_dims": a.INTS,
    "inserted_window_dims": a.INTS,
    "scatter_dims_to_operand_dims": a.INTS,
    "input_batching_dims": a.INTS,
    "scatter_indices_batching_dims": a.INTS,
    "indices_are_sorted": a.BOOL,
    "unique_indices": a.BOOL,
    "direction": a.ENUM,
    "order": a.ENUM,
    "type": a.ENUM,
    "distribution": a.ENUM,
    "fft_type": a.ENUM,
    "fft_length": a.INTS,
    "left_side": a.BOOL,
    "lower": a.BOOL,
    "unit_diagonal": a.BOOL,
    "transpose_a": a.ENUM,
    "k": a.INT,
    "largest": a.BOOL,
    "is_stable": a.BOOL,
    "delta": a.INT,
    "channel_id": a.INT,
    "all_reduce_id": a.INT,
    "replica_groups": a.GROUPS,
    "use_global_device_ids": a.BOOL,
    "constrain_layout": a.BOOL,
    "has_dynamic_root": a.BOOL,
    "split_dimension": a.INT,
    "source_target_pairs": a.INT_LISTS,
    "is_host_transfer": a.BOOL,
    "infeed_config": a.STRING,
    "outfeed_shape": a.SHAPE,
    "outfeed_config": a.STRING,
    "domain": a.VERBATIM,
    "parameter_replication": a.VERBATIM,
    "kind": a.ENUM,
    "mode": a.ENUM,
    "shifts": a.INTS,
    "num_carries": a.INT,
    "is_reverse": a.BOOL,
    "is_associative": a.BOOL,
    "calls": a.COMPUTATION,
    "condition": a.COMPUTATION,
    "body": a.COMPUTATION,
    "to_apply": a.COMPUTATION,
    "select": a.COMPUTATION,
    "scatter": a.COMPUTATION,
    "true_computation": a.COMPUTATION,
    "false_computation": a.COMPUTATION,
    "branch_computations": a.COMPUTATIONS,
    "called_computations": a.COMPUTATIONS,
    "custom_call_target": a.STRING,
    "operand_layout_constraints": a.SHAPES,
    "custom_call_has_side_effect": a.BOOL,
    "output_to_operand_aliasing": a.VERBATIM,
    "schedule": a.ENUM,
    "api_version": a.ENUM,
    "literal": a.LITERAL,
    "operand_precision": a.ENUMS,
    "algorithm": a.ENUM,
    "result_accuracy": a.VERBATIM,
    "is_composite": a.BOOL,
    "is_cross_program_prefetch": a.BOOL,
    "cross_program_prefetch_index": a.INT,
    "async_execution_thread": a.STRING,
    "async_group_id": a.INT,
    "original_value": a.VERBATIM,
    "origin": a.VERBATIM,
    "statistics": a.VERBATIM,
}

# Attributes whose words may be written in capital letters, too.
ANY_CASE = ("distribution", "operand_precision", "algorithm")

# Attributes that change what the operands are, and are not implemented.
LEFT_OUT = {
    "sparsity_config": "operands without their zeros are not implemented; write the arrays in full",
    "block_scaling_config": "operands with scales for blocks are not implemented; use scaled-dot",
}

# Attributes of a module's header; the first two have fields of their own in Module.
HEADER_ATTRIBUTES = (
    "input_output_alias", "entry_computation_layout", "is_scheduled", "replica_count", "num_partitions",
    "buffer_donor", "alias_passthrough_params", "frontend_attributes", "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output", "origin_recovery_table", "debug_attributes", "backend_config",
)  # fmt: skip

HEADER_FLAGS = ("is_scheduled", "alias_passthrough_params")  # those that are true or false
HEADER_COUNTS = ("replica_count", "num_partitions")  # those that are a COUNT
COUNT = re.compile(r"0*[1-9]\d{0,8}")

# Attributes that XLA's parser wants to see even where they are empty.
ALWAYS_WRITTEN = {
    "broadcast": ("dimensions",),
    "collective-permute": ("source_target_pairs",),
    "collective-permute-start": ("source_target_pairs",),
    "gather": ("offset_dims", "collapsed_slice_dims", "start_index_map"),
    "scatter": ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"),
}

# Attributes of every instruction; each has a field of its own in Instruction.
COMMON = ("sharding", "frontend_attributes", "control-predecessors", "metadata", "backend_config")

# Notes of the compiler that wrote the program, which every instruction may carry among its attributes.
ANNOTATIONS = ("original_value", "origin", "statistics", "async_execution_thread", "parameter_replication")


def is_opcode(word: str) -> bool:
    """Whether HLO has this opcode, asynchronous forms included."""
    return word in OPCODES or any(word.endswith(s) and word[: -len(s)] in OPCODES for s in ASYNC_SUFFIXES)
