"""The order of the passes, from the module that was read to the one that the scheduler takes.

The passes of NORMALIZATION always run, except loop-rerolling, as does the last one, which removes dead code. The others
(OPTIONAL) make the program faster without changing a bit of any result, and can be left out one at a time, which is how
a faulty pass is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from refxla_spec.errors import Error, InputError
from refxla_spec.lexer import suggestion
from refxla_spec.module import Module
from refxla_spec.names import make_unique

from .._core import shapes
from . import (
    algebraic_simplifier,
    call_graph_flattening,
    call_inliner,
    concatenate_decomposer,
    constant_folding,
    copy_insertion,
    cse,
    dce,
    dot_strength_reduction,
    dynamic_padder,
    expanders,
    host_call_threading,
    init_value_isolation,
    layout_normalization,
    loop_rerolling,
    ordered_reductions,
    partial_sort,
    real_transforms,
    rng_state_threading,
    scatter_simplifier,
    single_device_lowering,
    slice_propagation,
    transpose_folding,
    transpose_sinking,
    tuple_simplifier,
    while_loop_induction_variables,
    while_loop_invariant_code_motion,
    while_loop_simplifier,
    while_loop_unroller,
)

Pass = Callable[[Module], int]
# A normal form: calls inlined, tuples flat, operations without an emitter expanded.
NORMALIZATION: tuple[tuple[str, Pass], ...] = (
    ("single-device-lowering", single_device_lowering.run),
    ("rng-state-threading", rng_state_threading.run),
    ("host-call-threading", host_call_threading.run),
    ("layout-normalization", layout_normalization.run),
    ("loop-rerolling", loop_rerolling.run),
    ("call-inliner", call_inliner.run),
    ("call-graph-flattening", call_graph_flattening.run),
    ("init-value-isolation", init_value_isolation.run),
    ("dynamic-padder", dynamic_padder.run),
    ("transpose-sinking", transpose_sinking.run),
    ("ordered-reductions", ordered_reductions.run),
    ("real-transforms", real_transforms.run),
    ("expanders", expanders.run),
    ("dot-strength-reduction", dot_strength_reduction.run),
    ("tuple-simplifier", tuple_simplifier.run),
)
# These make the program faster, and change no bit of any result.
OPTIMIZATION: tuple[tuple[str, Pass], ...] = (
    ("while-loop-simplifier", while_loop_simplifier.run),
    ("while-loop-unroller", while_loop_unroller.run),
    ("scatter-simplifier", scatter_simplifier.run),
    ("algebraic-simplifier", algebraic_simplifier.run),
    ("slice-propagation", slice_propagation.run),
    ("constant-folding", constant_folding.run),
    ("algebraic-simplifier-after-folding", algebraic_simplifier.run),
    ("transpose-folding", transpose_folding.run),
    ("while-loop-induction-variables", while_loop_induction_variables.run),
    ("while-loop-invariant-code-motion", while_loop_invariant_code_motion.run),
    ("cse", cse.run),
    ("partial-sort", partial_sort.run),
    ("concatenate-decomposer", concatenate_decomposer.run),
    ("copy-insertion", copy_insertion.run),
)
PASSES = (*NORMALIZATION, *OPTIMIZATION, ("dce", dce.run))
# Decisions of the scheduler: they are not passes over HLO, but can be left out in the same way. Without launch merging
# there is no tiled fusion either.
SCHEDULING = ("fusion", "tiled-fusion", "parallel-loops", "launch-merging", "predication")
FUSION, TILED_FUSION, PARALLEL_LOOPS, LAUNCH_MERGING, PREDICATION = SCHEDULING
OPTIONAL = ("loop-rerolling", *(name for name, _ in OPTIMIZATION), *SCHEDULING)


def optimize(
    module: Module, without: Collection[str] = (), after: str | None = None, library_calls: bool = False
) -> Module:
    """A new module, with the passes applied; the given one is not changed.

    `without` names passes of OPTIONAL to leave out; `after` names the last pass to apply. With `library_calls`, what a
    library computes is not expanded. Raises InputError for a name that is not such a pass, Error for a pass that
    produced a wrong shape, UnsupportedError for an operation that has neither emitter nor expansion.
    """
    without = (without,) if isinstance(without, str) else without
    names = [name for name, _ in PASSES]
    if after in SCHEDULING:
        raise InputError(
            f"{after!r} is no pass over HLO, but comes after all of them, when kernels are planned: refxla show --plan "
            "and refxla explain show what it did"
        )
    for name, passes in (*((name, [*names, *SCHEDULING]) for name in without), *([(after, names)] if after else [])):
        if name not in passes:
            raise InputError(f"there is no pass {name!r}; the passes are {', '.join(passes)}{suggestion(name, passes)}")
    wrong = [name for name in without if name not in OPTIONAL]
    if wrong:
        raise InputError(f"pass {wrong[0]!r} cannot be left out; those that can are {', '.join(OPTIONAL)}")
    result = _apply(module, without, after, library_calls, each=False)
    try:
        shapes.check(result)
    except Error:
        _apply(module, without, after, library_calls, each=True)  # again, to find the pass that was wrong
        raise
    return result


def _apply(module: Module, without: Collection[str], after: str | None, library_calls: bool, each: bool) -> Module:
    """A new module with the passes applied; with `each`, shapes are checked after each of them."""
    module = module.clone()
    for name, run in PASSES:
        if name not in without:
            run(module) if run is not expanders.run else run(module, library_calls=library_calls)
            if each:
                _check_behind(name, module)
        if name == after:
            break
    make_unique(module)  # passes name new instructions after their purpose, so that names can clash
    return module


def _check_behind(name: str, module: Module) -> None:
    try:
        shapes.check(module)
    except Error as problem:
        advice = f"leave it out with without=({name!r},) and " if name in OPTIONAL else ""
        raise Error(f"pass {name!r} is at fault, {advice}report this: {problem}") from problem
