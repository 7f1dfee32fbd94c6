"""Loops and branches of a compiled NumPy function that depend on values: cond, while_loop, fori_loop, scan.

They have the semantics of JAX's functions of these names. Each traces its function arguments into a region, and closes
it: values from outside become part of the state of the loop, or operands of the branch. Outside a compiled function,
they run as the equivalent Python loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy
from refxla_spec.errors import InputError, a_type
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import PRED, S64, Shape

from .array import Traced
from .number import Number
from .tracing import Region, Tracing, running
from .trees import from_leaves, leaves, structure
from .untyped import np
from .values import I, array_of, known_value, lift, weak

if TYPE_CHECKING:
    from ...typing import ArrayLike, Tree

Function = Callable[..., Any]
State = TypeVar("State")
Item = TypeVar("Item")
Chosen = TypeVar("Chosen")
Stacked = TypeVar("Stacked")
_NUMBERS = (bool, int, float, complex)


def _is_number(x: Any) -> bool:
    """Whether a value is a Python number (NumPy's scalars are not)."""
    return isinstance(x, Number) or type(x) in _NUMBERS


# -- regions


def free_values(b: Tracing, region: Region, results: Sequence[I]) -> tuple[list[I], list[I]]:
    """The instructions of a region that results need, each after its operands, and the values from outside that they
    use."""
    order: list[I] = []
    free: dict[I, None] = {}
    visited: set[I] = set()
    waiting: list[tuple[I, bool]] = [(r, False) for r in reversed(results)]
    while waiting:
        i, is_done = waiting.pop()
        if is_done:
            order.append(i)
            continue
        if i in visited:
            continue
        visited.add(i)
        home = b.home(i)
        if home is not region:
            if not region.is_within(home):
                raise InputError(f"{home.name} leaves a value behind, which {region.name} uses: return it instead")
            if not _is_cheap(i):
                free[i] = None
            continue
        waiting.append((i, True))
        waiting += [(o, False) for o in reversed(i.operands)]
    return order, list(free)


def _is_cheap(i: I) -> bool:
    """Whether a value is recreated in a region rather than passed in."""
    if i.opcode == "constant":
        return i.shape.size <= 64
    return i.opcode == "iota" or (i.opcode == "broadcast" and _is_cheap(i.operands[0]))


def closed(
    b: Tracing, region: Region, name: str, inputs: Sequence[I], free: Sequence[I], results: Sequence[I],
    is_tuple: bool = True,
) -> Computation:  # fmt: skip
    """A computation for the contents of a region: its parameter is a tuple of `inputs`, with which the region was
    traced, and `free`, the values from outside that it uses; its result is the tuple of `results`, or the only one."""
    with b.inside(region):
        parameter = b.stand_in(Shape.tuple_of(*(i.shape for i in (*inputs, *free))))
        order, _ = free_values(b, region, results)
        elements = [b.make("get-tuple-element", parameter, index=n) for n in range(len(inputs) + len(free))]
        replaced: dict[I, I] = dict(zip((*inputs, *free), elements, strict=True))
        own: list[I] = []

        def inner(i: I) -> I:
            copy = replaced.get(i)
            if copy is None and b.home(i) is not region:
                operands = [inner(o) for o in i.operands]
                b.count += 1
                copy = replaced[i] = Instruction(f"{b.name}.{b.count}", i.opcode, i.shape, operands, dict(i.attributes))
                own.append(copy)
            return i if copy is None else copy

        for i in order:
            if i not in replaced:
                i.operands = [inner(o) for o in i.operands]
                own.append(i)
        last = [inner(r) for r in results]
        root = last[0]
        if is_tuple:
            root = b.tuple(*last)
            own.append(root)
        b.count += 1
        return Computation(f"{b.name}.{name}.{b.count}", [parameter, *elements, *own], root)


# -- state


class _State:
    """A nesting of arrays and numbers that a loop carries: its structure and the types of its elements."""

    def __init__(self, name: str, tree: Any) -> None:
        self.name, self.tree, self.leaves = name, tree, leaves(tree)
        for leaf in self.leaves:
            if not isinstance(leaf, (Traced, numpy.ndarray, numpy.generic, Number, *_NUMBERS)):
                raise InputError(
                    f"the state of {name} holds {a_type(leaf)}: it may hold arrays and numbers, in tuples, "
                    "lists, dicts and dataclasses; other values are used as they are by the function itself"
                )

    def types(self, b: Tracing, iterate: Function) -> list[numpy.dtype]:
        """The types of the elements. A Python number takes the type that one iteration gives it, if that is of its
        kind, as in NumPy."""
        dtypes = [self._own(leaf) for leaf in self.leaves]
        numbers = [n for n, leaf in enumerate(self.leaves) if _is_number(leaf)]
        if not numbers:
            return dtypes
        try:
            with b.within(f"the body of {self.name}"):
                after = leaves(iterate(self.tree))
        except Exception:  # it needs arrays: the trace with them reports errors
            return dtypes
        if len(after) == len(dtypes):
            for n in numbers:
                kind = weak(after[n])
                if isinstance(kind, np.dtype) and np.result_type(kind, weak(self.leaves[n])(0)) == kind:
                    dtypes[n] = kind
        return dtypes

    @staticmethod
    def _own(leaf: Any) -> numpy.dtype:
        kind = weak(leaf)
        return np.dtype(kind) if isinstance(kind, type) else kind

    def rebuilt(self, b: Tracing, values: Sequence[I]) -> Any:
        return from_leaves(self.tree, [Traced(v, b) for v in values])

    def checked(self, after: Any, inputs: Sequence[I], b: Tracing) -> list[I]:
        """The instructions of a new state. Raises InputError if it is not like the old one."""
        if structure(after) != structure(self.tree):
            raise InputError(
                f"the body of {self.name} is given {shown(self.tree)} and returns {shown(after)}: return the new "
                "state, of the same structure"
            )
        instructions = []
        for n, (new, old) in enumerate(zip(leaves(after), inputs, strict=True)):
            dtype = old.shape.element_type.dtype
            if _is_number(new) and np.result_type(dtype, weak(new)(0)) == dtype:
                value = lift(b, new, dtype)
            else:
                value = lift(b, new)
            if value.shape != old.shape:
                where = f" (element {n} of the state, counted from 0)" if len(inputs) > 1 else ""
                raise InputError(
                    f"the body of {self.name} is given {described(old)} and returns {described(value)}{where}: type "
                    f"and shape must stay the same; begin with an array of the type that it becomes, or convert by "
                    f"x.astype(np.{dtype})"
                )
            instructions.append(value)
        return instructions


def shown(tree: Any) -> str:
    """A nesting with the types and shapes of its arrays, for messages."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {shown(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, (tuple, list)):
        text = ", ".join(map(shown, tree))
        return f"[{text}]" if isinstance(tree, list) else f"({text})"
    if isinstance(tree, (Traced, numpy.ndarray, numpy.generic)):
        return f"{tree.dtype}{list(tree.shape)}"
    return type(tree).__name__


def described(i: I) -> str:
    return f"{i.shape.element_type.dtype}{list(i.shape.dimensions)}"


def _predicate(b: Tracing, value: Any, what: str) -> I:
    array = array_of(b, value)
    if array.shape:
        raise InputError(
            f"{what} is an array of shape {array.shape}, and must be one boolean: np.any and np.all make one; np.where "
            "chooses element by element"
        )
    return array.instruction if array.dtype == bool else (array != 0).instruction


def _add_checks(b: Tracing, region: Region, inputs: list[I], results: list[I]) -> None:
    """Makes a loop carry whether the checks in its body hold in all iterations."""
    for condition, _ in region.checks:
        inputs.append(b.stand_in(Shape(PRED)))
        results.append(b.and_(inputs[-1], condition))


# -- public functions


def while_loop(cond_fun: Callable[[State], object], body_fun: Callable[[State], State], init_val: State) -> State:
    """The state after `state = body_fun(state)`, as often as `cond_fun(state)` holds, starting with `init_val`::

        state = init_val
        while cond_fun(state):
            state = body_fun(state)

    The state is a nesting (tuples, lists, dicts, dataclasses) of arrays and numbers; structure, shapes and types stay
    the same, otherwise InputError says where they differ.
    """
    b = running()
    if b is None:
        state = _copied(init_val)
        while bool(cond_fun(state)):
            state = body_fun(state)
        return state
    state = _State("refxla.while_loop", init_val)
    return _while(b, state, cond_fun, body_fun)


def _while(b: Tracing, state: _State, cond_fun: Function, body_fun: Function) -> Any:
    types = state.types(b, body_fun)
    first = [lift(b, leaf, t) for leaf, t in zip(state.leaves, types, strict=True)]
    with b.within(f"the condition of {state.name}") as test:
        test_inputs = [b.stand_in(i.shape) for i in first]
        goes_on = _predicate(b, cond_fun(state.rebuilt(b, test_inputs)), f"what the condition of {state.name} returns")
    with b.within(f"the body of {state.name}") as body:
        inputs = [b.stand_in(i.shape) for i in first]
        if test.checks:
            cond_fun(state.rebuilt(b, inputs))  # checks in the condition are evaluated here
        results = state.checked(body_fun(state.rebuilt(b, inputs)), inputs, b)
        _add_checks(b, body, inputs, results)
    after = _closed_while(b, state.name, first, (test, test_inputs, goes_on), (body, inputs, results))
    final = state.rebuilt(b, after[: len(first)])
    if test.checks:
        cond_fun(final)
    return final


def _closed_while(
    b: Tracing,
    name: str,
    first: Sequence[I],
    condition: tuple[Region, list[I], I],
    body: tuple[Region, list[I], list[I]],
) -> list[I]:
    """The values after a loop of regions. The checks of the body come after those of `first`."""
    test, test_inputs, goes_on = condition
    region, inputs, results = body
    with b.inside(test):  # a loop ends when a check fails: otherwise it might not end at all
        met = [b.stand_in(Shape(PRED)) for _ in region.checks]
        test_inputs = [*test_inputs[: len(first)], *met]
        for h in met:
            goes_on = b.and_(goes_on, h)
    free = list(dict.fromkeys((*free_values(b, test, [goes_on])[1], *free_values(b, region, results)[1])))
    start = [*first, *(lift(b, np.True_) for _ in region.checks)]
    initial = b.tuple(*start, *free)
    loop = b.make(
        "while", initial, condition=closed(b, test, "condition", test_inputs, free, [goes_on], is_tuple=False),
        body=closed(b, region, "body", inputs, free, [*results, *free]),
    )  # fmt: skip
    after = [b.make("get-tuple-element", loop, index=n) for n in range(len(start))]
    for value, (_, error) in zip(after[len(first) :], region.checks, strict=True):
        b.region.checks.append((value, error))
    return after


def fori_loop(
    lower: int | numpy.ndarray, upper: int | numpy.ndarray, body_fun: Callable[[int, State], State], init_val: State
) -> State:
    """The state after `state = body_fun(i, state)` for i from `lower` to below `upper`::

        state = init_val
        for i in range(lower, upper):
            state = body_fun(i, state)

    The bounds may be computed. The counter behaves like a Python int: `x * i` has the type of x. The state is as in
    while_loop.
    """
    b = running()
    if b is None:
        state = _copied(init_val)
        for i in range(int(lower), int(upper)):
            state = body_fun(i, state)
        return state
    name = "refxla.fori_loop"
    for bound in (lower, upper):
        if np.ndim(bound) or (array_of(b, bound).dtype.kind not in "iu"):
            raise InputError(f"the bounds of {name} are integers, and one is {shown(bound)}")
    state = _State(name, init_val)
    types = state.types(b, lambda s: body_fun(_counter(b, lift(b, np.int64(0))), s))
    low, high = (lift(b, v, np.int64) for v in (lower, upper))
    first = [low, *(lift(b, leaf, t) for leaf, t in zip(state.leaves, types, strict=True))]
    with b.within(f"the condition of {name}") as test:
        test_inputs = [b.stand_in(i.shape) for i in first]
        goes_on = b.compare(test_inputs[0], high, direction="LT")
    with b.within(f"the body of {name}") as body:
        inputs = [b.stand_in(i.shape) for i in first]
        _know_range(b, inputs[0], lower, upper)
        results = state.checked(body_fun(_counter(b, inputs[0]), state.rebuilt(b, inputs[1:])), inputs[1:], b)
        results = [b.add(inputs[0], b.scalar(1, S64)), *results]
        _add_checks(b, body, inputs, results)
    after = _closed_while(b, name, first, (test, test_inputs, goes_on), (body, inputs, results))
    return state.rebuilt(b, after[1 : len(first)])


def _counter(b: Tracing, i: I) -> Any:
    """An iteration's number, which is a Python int in a Python loop."""
    traced = Traced(i, b)
    traced.python = int
    return traced


def _know_range(b: Tracing, i: I, lower: Any, upper: Any) -> None:
    """Records that a counter is a valid index of every dimension as long as the loop."""
    low, high = known_value(lower), known_value(upper)
    if low is not None and high is not None and low >= 0:
        b.ranges[i] = int(high)


def scan(
    f: Callable[[State, Item], tuple[State, Stacked]],
    init: State,
    xs: Item | None = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[State, Stacked]:
    """The last carry, and all results stacked, of `carry, y = f(carry, x)` for the elements of `xs`::

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys)

    `xs` is a nesting of arrays of the same length, which is iterated over in their first dimension, from its end if
    `reverse`; or None, and then `length` is the number of iterations. `f` may return None for y.
    """
    name = "refxla.scan"
    sizes = {np.shape(x)[:1] for x in leaves(xs) if x is not None}
    if () in sizes or len(sizes) > 1:
        raise InputError(f"the arrays that {name} goes through have the lengths {sorted(map(str, sizes))}: give arrays "
                         "with one first dimension")  # fmt: skip
    counts = {n for (n,) in sizes} | ({int(length)} if length is not None else set())
    if len(counts) != 1:
        lengths = f"the lengths {sorted(counts)}" if counts else "no length"
        raise InputError(f"{name} is given {lengths}: give arrays, or length=n")
    (count,) = counts
    b = running()
    if b is None:
        return _scanned_eagerly(f, init, xs, count, reverse)
    state = _State(name, init)
    arrays = [None if x is None else array_of(b, x) for x in leaves(xs)]

    def element(i: Any) -> Any:
        return from_leaves(xs, [None if x is None else x[i] for x in arrays])

    example: Any = element(0) if count else None
    types = state.types(b, lambda s: f(s, example)[0])
    first = [lift(b, np.int64(0)), *(lift(b, leaf, t) for leaf, t in zip(state.leaves, types, strict=True))]
    with b.within(f"the body of {name}") as body:
        inputs = [b.stand_in(i.shape) for i in first]
        counter = b.subtract(b.scalar(count - 1, S64), inputs[0]) if reverse else inputs[0]
        b.ranges[inputs[0]] = b.ranges[counter] = count
        returned = f(state.rebuilt(b, inputs[1:]), element(Traced(counter, b)))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise InputError(
                f"the function of {name} returns {shown(returned)}: return the carry and a result (or None)"
            )
        carry, y = returned
        results = [b.add(inputs[0], b.scalar(1, S64)), *state.checked(carry, inputs[1:], b)]
        ys = [None if leaf is None else array_of(b, leaf) for leaf in leaves(y)]
        parts = [value.instruction for value in ys if value is not None]
        for part in parts:
            buffer = b.stand_in(Shape(part.shape.element_type, (count, *part.shape.dimensions)))
            at = [counter, *(b.scalar(0, S64) for _ in part.shape.dimensions)]
            row = b.reshape(part, (1, *part.shape.dimensions))
            inputs.append(buffer)
            results.append(b.make("dynamic-update-slice", buffer, row, *at) if buffer.shape.size else buffer)
        _add_checks(b, body, inputs, results)
    first += [lift(b, np.zeros((count, *p.shape.dimensions), p.shape.element_type.dtype)) for p in parts]
    with b.within(f"the condition of {name}") as test:
        test_inputs = [b.stand_in(i.shape) for i in first]
        goes_on = b.compare(test_inputs[0], b.scalar(count, S64), direction="LT")
    after = _closed_while(b, name, first, (test, test_inputs, goes_on), (body, inputs, results))
    stacked = iter(after[1 + len(state.leaves) :])
    outputs = from_leaves(y, [None if value is None else Traced(next(stacked), b) for value in ys])
    return state.rebuilt(b, after[1 : 1 + len(state.leaves)]), outputs


def _scanned_eagerly(f: Function, init: Any, xs: Any, count: int, reverse: bool) -> tuple[Any, Any]:
    carry, ys = _copied(init), []
    for n in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, from_leaves(xs, [None if x is None else x[n] for x in leaves(xs)]))
        ys.append(y)
    if not ys:
        raise InputError("refxla.scan of no elements has results only in a compiled function, which knows their types")
    ys = ys[::-1] if reverse else ys
    columns = zip(*(leaves(y) for y in ys), strict=True)
    return carry, from_leaves(ys[0], [None if c[0] is None else np.stack([np.asarray(v) for v in c]) for c in columns])


def cond(pred: ArrayLike, true_fun: Callable[..., Chosen], false_fun: Callable[..., Chosen], *operands: Tree) -> Chosen:
    """`true_fun(*operands) if pred else false_fun(*operands)`, for a computed `pred`.

    Both functions return the same structure with the same types and shapes; otherwise InputError says where they
    differ. Only one of them runs.
    """
    b = running()
    value = known_value(pred)
    if b is None or value is not None:
        if np.ndim(pred):
            raise InputError(f"the condition of refxla.cond is an array of shape {np.shape(pred)}: np.where chooses "
                             "element by element")  # fmt: skip
        return (true_fun if (pred if value is None else value) else false_fun)(*operands)
    index = _predicate(b, pred, "the condition of refxla.cond")
    regions, trees = [], []
    for which, function in (("first", true_fun), ("second", false_fun)):
        with b.within(f"the {which} function of refxla.cond") as region:
            own = from_leaves(operands, [_own(b, leaf) for leaf in leaves(operands)])
            trees.append(function(*own))
            regions.append(region)
    if structure(trees[0]) != structure(trees[1]):
        raise InputError(
            f"the functions of refxla.cond return {shown(trees[0])} and {shown(trees[1])}: they must return the same "
            "structure"
        )
    pairs = list(zip(leaves(trees[0]), leaves(trees[1]), strict=True))
    is_array = [not all(x is None or isinstance(x, str) for x in pair) for pair in pairs]
    types = [_common(b, *pair) if a else None for pair, a in zip(pairs, is_array, strict=True)]
    results: list[list[I]] = []
    for k, region in enumerate(regions):
        with b.inside(region):
            results.append([lift(b, pair[k], t) for pair, t in zip(pairs, types, strict=True) if t is not None])
            for n, other in enumerate(regions):
                results[k] += [c if n == k else lift(b, np.True_) for c, _ in other.checks]
    for n, (x, y) in enumerate(zip(*results, strict=True)):
        if x.shape != y.shape:
            raise InputError(
                f"the functions of refxla.cond return {described(x)} and {described(y)} (result {n}, counted from 0): "
                "type and shape must be the same"
            )
    free = [free_values(b, region, r)[1] for region, r in zip(regions, results, strict=True)]
    computations = [
        closed(b, region, name, [], own, r)
        for region, name, own, r in zip(regions, ("true", "false"), free, results, strict=True)
    ]
    conditional = b.make(
        "conditional", index, *(b.tuple(*own) for own in free), true_computation=computations[0],
        false_computation=computations[1],
    )  # fmt: skip
    parts = [b.make("get-tuple-element", conditional, index=n) for n in range(len(results[0]))]
    count = sum(is_array)
    for met, (_, error) in zip(parts[count:], [c for r in regions for c in r.checks], strict=True):
        b.region.checks.append((met, error))
    values = iter(parts)
    return from_leaves(trees[0], [Traced(next(values), b) if a else p[0] for p, a in zip(pairs, is_array, strict=True)])


def _own(b: Tracing, leaf: Any) -> Any:
    """An operand as the branch's own array, which it may assign to."""
    return Traced(leaf.instruction, b, is_scalar=leaf.is_scalar) if isinstance(leaf, Traced) else leaf


def _common(b: Tracing, x: Any, y: Any) -> numpy.dtype:
    """The type of a result of both branches: a Python number takes that of the other one."""
    numbers = [_is_number(v) for v in (x, y)]
    if any(numbers):
        kinds = [weak(v) for v in (x, y)]
        return np.result_type(*(k(0) if isinstance(k, type) else k for k in kinds))
    own = [array_of(b, v).dtype if not isinstance(v, Traced) else v.dtype for v in (x, y)]
    if own[0] != own[1]:
        raise InputError(
            f"the functions of refxla.cond return arrays of the types {own[0]} and {own[1]}: convert one by "
            f"x.astype(np.{own[0]})"
        )
    return own[0]


def _copied(tree: Any) -> Any:
    """A state that shares no memory."""
    return from_leaves(tree, [x.copy() if isinstance(x, numpy.ndarray) else x for x in leaves(tree)])
