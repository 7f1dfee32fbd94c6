"""The groups in which the index shows HLO's operations; every opcode is in one."""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "Arithmetic": "add subtract multiply mulhi divide remainder negate abs sign maximum minimum clamp power "
    "sqrt rsqrt cbrt",
    "Elementary functions": "exponential exp2 exponential-minus-one log log2 log-plus-one logistic sine cosine tan "
    "asin acos atan2 sinh cosh tanh asinh acosh atanh erf",
    "Rounding and types": "floor ceil round-nearest-afz round-nearest-even reduce-precision convert stochastic-convert "
    "bitcast bitcast-convert is-finite",
    "Complex numbers": "complex real imag",
    "Comparison and choice": "compare select",
    "Logic and bits": "and or xor not shift-left shift-right-arithmetic shift-right-logical popcnt count-leading-zeros",
    "Arrays made and moved": "constant iota parameter broadcast reshape dynamic-reshape transpose reverse shuffle "
    "slice dynamic-slice dynamic-update-slice pad concatenate copy copy-start copy-done gather scatter",
    "Sums and windows": "reduce reduce-window select-and-scatter map scan sort topk",
    "Products": "dot ragged-dot scaled-dot convolution",
    "Linear algebra and transforms": "cholesky triangular-solve fft",
    "Normalisation": "batch-norm-training batch-norm-inference batch-norm-grad",
    "Random numbers": "rng rng-bit-generator rng-get-and-update-state",
    "Control flow": "call while conditional fusion custom-call async-start async-update async-done",
    "Tuples, tokens and order": "tuple get-tuple-element after-all add-dependency opt-barrier domain",
    "Dynamic sizes": "get-dimension-size set-dimension-size",
    "Many devices": "all-gather all-gather-start all-gather-done all-reduce all-reduce-start all-reduce-done "
    "all-to-all ragged-all-to-all collective-broadcast collective-permute collective-permute-start "
    "collective-permute-done collective-reduce reduce-scatter replica-id partition-id",
    "The world outside": "infeed outfeed send send-done recv recv-done",
}


def group_of(opcode: str) -> str:
    """The title of the group that the opcode is in. Raises LookupError if there is none."""
    for title, opcodes in GROUPS.items():
        if opcode in opcodes.split():
            return title
    raise LookupError(f"the operation {opcode} is in no group of the index; add it to one in {__file__}")
