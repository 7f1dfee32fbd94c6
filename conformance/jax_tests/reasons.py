"""Why tests of JAX that pass on its CPU do not pass on refxla: each class of failures with its explanation.

A failure belongs to the first class one of whose patterns occurs in its name or its reason. One that belongs to none is
an error of the documents' build and of a test, so that no failure is published without an explanation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Reason(NamedTuple):
    """A class of failures: its name, what explains them, and the patterns by which they are found."""

    name: str
    why: str
    patterns: tuple[str, ...]

    def explains(self, failure: Mapping[str, Any]) -> bool:
        """Is this failure one of the class?"""
        text = f"{failure['test']}: {failure['reason']}"
        return failure["outcome"] == "failed" and any(re.search(pattern, text) for pattern in self.patterns)


ALSO_ON_THE_CPU = Reason(
    "Also fails on JAX's CPU",
    "The test itself does not fit the installed JAX, NumPy or SciPy.",
    (),
)
REASONS = (
    Reason(
        "The summands of unreduced values",
        "An unreduced value is computed as the sum that it stands for, which one device has, while the others have "
        "zeros. These tests read the summand of each device.",
        (r"::test_\w*unreduced\w*: AssertionError: Arrays are not equal",),
    ),
    Reason(
        "Values that are declared equal on all devices, and are not",
        "A whole value is computed once, and is that of the first device: with `out_axes=None`, this test returns a "
        "different one from each device.",
        ("test_pmap_array_in_axes_out_axes: AssertionError",),
    ),
    Reason(
        "The text of the partitioned program",
        "Virtual devices compute whole values, so the program after the passes has global shapes and no collectives.",
        ("test_random_bits_is_pure_map", "'(all-gather|all-reduce|reduce-scatter|all-to-all)' not found in 'HloModule"),
    ),
    Reason(
        "Shardings of values within a program",
        "`jax.debug.inspect_array_sharding` is rejected: virtual devices do not divide the values within a program.",
        ("NotImplementedError: jax.debug.inspect_array_sharding",),
    ),
    Reason(
        "Programs exported for other platforms",
        "JAX runs an exported program only on the platforms for which it was exported, and these tests do not name "
        "refxla among them.",
        ("was exported for platforms",),
    ),
    Reason(
        "Functions chosen by the platform's name",
        "Where `lax.platform_dependent` has a default, refxla takes it, and not the function for a CPU.",
        ("::test_platform_dependent_with_non_existent_custom_call: AssertionError",),
    ),
    Reason(
        "Calls of LAPACK that would fail",
        "This test compiles a call of LAPACK's function without its operand, and does not run it. refxla checks the "
        "operands of the library's functions when it compiles.",
        ("::test_effects_hlo: .*lapack_sgetrf_ffi takes",),
    ),
    Reason(
        "Values that count as used",
        "`lax.dce_sink` has no effect on refxla: what is computed for it alone is not computed. This test reads the "
        "text of the program after the passes.",
        ("::test_dce_sink_prevents_xla_dce: AssertionError: 'custom_call' not found",),
    ),
    Reason(
        "Complex tangents of infinite real numbers",
        "The tangent of inf + 0i is NaN + 0i, as in C and NumPy; this test compares with XLA's, both of whose parts "
        "are NaN.",
        ("::testSuccessOnComplexPlane_tan_complex",),
    ),
    Reason(
        "Calls that JAX's CPU keeps",
        "The passes inline all calls, so that the program after them has none.",
        (r"'call\(' not found in 'HloModule",),
    ),
    Reason(
        "Programs that call functions of the process",
        "They cannot be serialized, and so are not kept in JAX's compilation cache.",
        ("a program that calls functions of this process cannot be serialized",),
    ),
    Reason(
        "Values of XLA's options",
        "XLA's compile options are accepted and change nothing, so their values are not checked.",
        ("_compiler_options_invalid: AssertionError: JaxRuntimeError not raised",),
    ),
    Reason(
        "XLA's dumps",
        "refxla does not write the files that XLA's flags request.",
        ("::test_dump_on_cache_hit: AssertionError",),
    ),
)


def reason(failure: Mapping[str, Any]) -> Reason | None:
    """The class of a failure (an entry of "wrong" in outcomes.json); None, if nothing explains it."""
    if not failure["cpu"]:
        return ALSO_ON_THE_CPU
    return next((reason for reason in REASONS if reason.explains(failure)), None)
