"""Makes calls of host functions ordinary instructions: their order becomes a value, which replaces the tokens.

A custom call with the target HOST_CALL returns a tuple. If it has side effects, it takes and returns a state, s32[],
which is threaded through the program (state_threading.py), so that all such calls are made, once each, in program
order. The final state is one more result of the module, marked by its attribute STATE_RESULT; the planner computes it
and returns it to nobody. Tokens express nothing but that order, in which the instructions of a computation are anyway:
calls lose theirs, and others become scalars that nobody reads.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.custom_calls import options
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import PRED, S32, Shape

from ..ir.builder import Build
from .state_threading import State, thread

HOST_CALL = "refxla_host_call"  # its option `key` names the function (runtime/host_calls.py)
STATE_RESULT = "refxla_state_result"  # of a module: "single" or "tuple", what its result was


def key_of(i: Instruction) -> int:
    """The key of a host call's function. Raises UnsupportedError for a call without one."""
    key = options(i).get("key")
    if key is None:
        raise UnsupportedError(f"{i.name}: {HOST_CALL} has no key, which says what it calls")
    return int(key)


def run(module: Module) -> int:
    """Threads the state through the program. Returns the number of host calls and tokens that were changed.

    Raises UnsupportedError for a call with side effects in a computation that is applied to elements.
    """
    calls = [i for i in module.instructions() if _is_call(i)]
    if not calls:
        return 0
    count = replace_tokens(module) + len(calls)
    root = module.entry.root
    _, state = thread(module, _ORDER)
    for computation in module.computations:
        pure = {i: _as_tuple(i) for i in computation.instructions if _is_call(i) and not i.shape.is_tuple}
        if pure:
            computation.replace(pure)
            for i, element in pure.items():
                element.operands = [i]
                i.shape = Shape.tuple_of(i.shape)
                computation.instructions.insert(computation.instructions.index(i) + 1, element)
    if state is not None:
        b = Build("result")
        entry = module.entry
        single = not root.shape.is_tuple
        results = [entry.root] if single else [_element(b, entry.root, n) for n in range(len(root.shape.elements))]
        whole = b.make("tuple", *results, state)
        entry.instructions += [r for r in results if r not in entry.instructions] + [whole]
        entry.root = whole
        module.entry_layout = None
        module.attributes[STATE_RESULT] = "single" if single else "tuple"
    return count


def _drop_tokens(computation: Computation, i: Instruction) -> None:
    """Makes a call one that neither takes nor returns tokens. What reads its result gets one that is put together
    of its results and new tokens."""
    i.operands = [o for o in i.operands if not _is_token(o.shape)]
    shapes = i.shape.elements if i.shape.is_tuple else (i.shape,)
    if not any(map(_is_token, shapes)):
        return
    b = Build(f"{i.name}.result")
    whole, added = i.shape, []
    kept = [shape for shape in shapes if not _is_token(shape)]
    i.shape = Shape.tuple_of(*kept)
    indices = iter(range(len(kept)))
    for shape in shapes:
        token = _is_token(shape)
        added.append(b.make("after-all") if token else b.make("get-tuple-element", i, index=next(indices)))
    if whole.is_tuple:
        added.append(b.tuple(*added))
    computation.replace({i: added[-1]})
    at = computation.instructions.index(i) + 1
    computation.instructions[at:at] = added


def _is_token(shape: Shape) -> bool:
    return not shape.is_tuple and shape.element_type.kind == "token"


def _is_call(i: Instruction) -> bool:
    return i.opcode == "custom-call" and i.custom_call_target == HOST_CALL


def _element(b: Build, i: Instruction, n: int) -> Instruction:
    return i.operands[n] if i.opcode == "tuple" else b.make("get-tuple-element", i, index=n)


def _as_tuple(i: Instruction) -> Instruction:
    """The replacement of a call with one result, which becomes a tuple."""
    return Instruction(f"{i.name}.0", "get-tuple-element", i.shape, [], {"index": 0})


def _replaced(i: Instruction, state: Instruction) -> tuple[Instruction, Instruction]:
    """A call with side effects that takes the state as its last operand and returns it as its last result."""
    b = Build(i.name)
    shapes = i.shape.elements if i.shape.is_tuple else (i.shape,)
    attributes = {k: v for k, v in i.attributes.items() if k not in ("operand_layout_constraints",)}
    whole = Instruction(
        i.name, "custom-call", Shape.tuple_of(*shapes, state.shape), [*i.operands, state], attributes,
        backend_config=i.backend_config, metadata=i.metadata,
    )  # fmt: skip
    results = [b.make("get-tuple-element", whole, index=n) for n in range(len(shapes))]
    after = b.make("get-tuple-element", whole, index=len(shapes))
    return (b.tuple(*results) if i.shape.is_tuple else results[0]), after


_ORDER = State(
    shape=Shape(S32),
    initial=np.zeros((), np.int32),
    word="host",
    description="a function of the host",
    applied="call it before, with an array",
    is_user=lambda i: _is_call(i) and bool(i.attributes.get("custom_call_has_side_effect")),
    replace=_replaced,
)


def replace_tokens(module: Module) -> int:
    """Replaces tokens by scalars, and leaves them out of calls. Returns the number of instructions that produced or
    passed them on."""
    for computation in module.computations:
        for i in [i for i in computation.instructions if _is_call(i)]:
            _drop_tokens(computation, i)
    count = 0
    for i in module.instructions():
        if i.opcode == "after-all":
            i.opcode, i.operands, i.attributes = "constant", [], {"literal": np.zeros((), np.bool_)}
        elif i.opcode == "add-dependency":
            i.operands = i.operands[:1]
            i.opcode, i.attributes = "copy", {}
        shape = _token_free(i.shape)
        if shape is not i.shape:
            i.shape, count = shape, count + 1
    return count


def _token_free(shape: Shape) -> Shape:
    if shape.is_tuple:
        elements = [_token_free(e) for e in shape.elements]
        same = all(a is b for a, b in zip(elements, shape.elements, strict=True))
        return shape if same else Shape.tuple_of(*elements)
    return Shape(PRED) if shape.element_type.kind == "token" else shape
