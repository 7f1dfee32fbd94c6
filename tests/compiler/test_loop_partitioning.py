"""Loops over a batch: along which dimensions they can be partitioned, and that parts compute what the whole does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from refxla_conformance.cases import collect
from refxla_spec.errors import Error
from refxla_spec.interpreter import run
from refxla_spec.module import Computation, Instruction, Module, post_order
from refxla_spec.types import PRED, S32, Shape

from refxla._core.shapes import make
from refxla.analysis.batch_dimensions import BatchDimensions
from refxla.passes.dce import called_first
from refxla.passes.loop_partitioning import partitioned

OPERATIONS = (
    "broadcast concatenate convolution copy dot dynamic-slice dynamic-update-slice fft gather iota pad reduce "
    "reduce-window reshape reverse scatter select slice sort transpose add select clamp bitcast-convert"
).split()
RARE = ("dynamic-slice", "dynamic-update-slice", "reduce-window")


MOST = 500  # elements of a value: the reference computes one part after another


def module_of(computation: Computation) -> Module:
    module = Module("m", [computation], computation, {})
    module.computations = called_first(computation)
    return module


def loop_over(entry: Computation) -> Instruction:
    """A loop of one iteration, which computes an entry computation from the elements of its state."""
    root = entry.root
    roots = list(root.operands) if root.opcode == "tuple" else [root]
    b = "loop"
    count = make("constant", name="zero", shape=Shape(S32), literal=np.int32(0))
    initial = [count, *entry.parameters]
    for n, r in enumerate(roots):
        element = r.shape.element_type
        scalar = make("constant", name=f"{b}.{n}", shape=Shape(element), literal=np.zeros((), element.dtype))
        initial.append(make("broadcast", scalar, name=f"{b}.result.{n}", shape=r.shape.without_layout(), dimensions=()))
    init = make("tuple", *initial, name=f"{b}.init")
    state = Instruction("state", "parameter", init.shape, [], {"number": 0})
    elements = [make("get-tuple-element", state, name=f"state.{k}", index=k) for k in range(len(initial))]
    new = dict(zip(entry.parameters, elements[1:], strict=False))
    for i in entry.instructions:
        if i not in new and i is not (root if root.opcode == "tuple" else None):
            attributes = dict(i.attributes)
            new[i] = Instruction(i.name, i.opcode, i.shape, [new[o] for o in i.operands], attributes, i.metadata)
    one = make("constant", name="one", shape=Shape(S32), literal=np.int32(1))
    following = make("add", elements[0], one, name="following")
    body_root = make(
        "tuple", following, *elements[1 : 1 + len(entry.parameters)], *(new[r] for r in roots), name="root"
    )
    body = Computation("body", post_order(body_root, [state]), body_root)
    tested = Instruction("tested", "parameter", init.shape, [], {"number": 0})
    counted = make("get-tuple-element", tested, name="counted", index=0)
    test = make("compare", counted, one, name="test", shape=Shape(PRED), direction="LT")
    condition = Computation("condition", post_order(test, [tested]), test)
    return make("while", init, name=b, shape=init.shape, condition=condition, body=body)


def results_of(loop: Instruction, count: int) -> Computation:
    """An entry that runs a loop and returns the last `count` elements of its state."""
    first = len(loop.shape.elements) - count
    parts = [make("get-tuple-element", loop, name=f"result.{n}", index=first + n) for n in range(count)]
    root = make("tuple", *parts, name="results")
    parameters = [i for i in loop.operands[0].operands if i.opcode == "parameter"]
    return Computation("main", post_order(root, parameters), root)


def is_simple(module: Module) -> bool:
    """Whether a program's values are arrays that a loop can hold, and it does the same whenever it runs."""
    if module.entry.root.opcode == "tuple":
        values = [*module.entry.parameters, *module.entry.root.operands]
    else:
        values = [*module.entry.parameters, module.entry.root]
    return all(
        v.shape.is_array and v.shape.element_type.dtype is not None and not v.shape.is_dynamic and v.shape.size <= MOST
        for v in values
    ) and not any(
        i.opcode.startswith(
            ("rng", "infeed", "outfeed", "send", "recv", "custom", "after", "all-", "partition", "replica")
        )
        for i in module.instructions()
    )


def parts_agree(module: Module, inputs) -> Counter:
    """Partitions the program along each batch dimension, and compares the results with those of the whole; how many
    parts there were, by opcode."""
    loop = loop_over(module.entry)
    count = len(loop.shape.elements) - 1 - len(module.entry.parameters)
    dimensions = BatchDimensions(loop)
    if not dimensions.is_supported:
        return Counter()
    want = run(module_of(results_of(loop, count)), inputs)
    tried = Counter()
    size = len(loop.shape.elements)
    for batch in dimensions.candidates():
        whole = dimensions.size(batch)
        for n in [n for n in (2, 3, 5, 7, 11, 13) if whole % n == 0][:2]:
            wanted = list(range(size - count, size))
            parts = partitioned(loop, dimensions, batch, n, (), wanted)
            arguments = [run(module_of(_initial(loop, k)), inputs) for k in range(size)]
            got = run(module_of(parts), arguments)
            for a, b in zip(got, want, strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"{n} parts of {whole}: {a} instead of {b}"
            tried[n] += 1
    return tried


def _initial(loop: Instruction, k: int) -> Computation:
    """An entry that returns element k of a loop's initial state."""
    value = loop.operands[0].operands[k]
    parameters = [i for i in loop.operands[0].operands if i.opcode == "parameter"]
    return Computation("main", post_order(value, parameters), value)


@pytest.mark.whole
@pytest.mark.parametrize("opcode", sorted(set(OPERATIONS)))
def test_parts_of_an_operation_are_those_of_the_whole(opcode):
    """For each case of the conformance suite, along each dimension that the analysis takes for a batch dimension."""
    tried = Counter()
    cases = [c for c in collect([opcode]) if not c.is_negative and not c.before and c.infeed is None and c.devices == 1]
    for case in cases[:: max(1, len(cases) // 60)]:
        if not is_simple(case.module):
            continue
        try:
            tried += parts_agree(case.module, case.inputs)
        except (AssertionError, Error) as problem:
            raise AssertionError(f"{case.name}: {problem}\n{case.hlo}") from problem
    assert tried.total() >= (1 if opcode in RARE else 5), tried
