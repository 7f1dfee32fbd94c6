"""Every example of every operation, through the parser and the interpreter."""

import numpy as np
import pytest
from refxla_spec.compare import bits_equal
from refxla_spec.devices import Host, device_counts, run_devices
from refxla_spec.operation import operation, operations
from refxla_spec.text import format_literal, parse, parse_literal

EXAMPLES = [
    pytest.param(example, id=f"{operation.opcode}-{number}")
    for operation in operations().values()
    for number, example in enumerate(operation.examples)
]


def leaves(value):
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example):
    module, inputs = parse(example.hlo), [parse_literal(i) for i in example.inputs]
    replicas, partitions = device_counts(module)
    count, each = replicas * partitions, len(module.entry.parameters)
    per_device = [inputs[n * each : (n + 1) * each] for n in range(count)]
    assert len(inputs) == count * each
    host = Host(infeed=[parse_literal(i) for i in example.infeed])
    with np.errstate(all="raise"):  # no NumPy warning may escape, and nothing depend on the caller's settings
        result = run_devices(module, per_device, hosts=[host] * count)
    got = leaves((*result, *host.outfed))
    expected = leaves(tuple(parse_literal(e) for e in (*example.expected, *example.outfed)))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert bits_equal(g, e), f"{format_literal(g)} instead of {format_literal(e)}"


def test_every_operation_has_examples():
    without = [o.opcode for o in operations().values() if not o.examples]
    assert not without, f"these have none: {without}"


def test_arity():
    assert operation("add").arity == operation("add").fixed_arity == 2
    assert operation("tuple").arity is None
    with pytest.raises(TypeError, match="tuple takes any number of operands"):
        operation("tuple").fixed_arity  # noqa: B018


def test_every_operation_says_what_it_means():
    for o in operations().values():
        assert o.summary.endswith((".", ":")), f"{o.opcode}: the summary is {o.summary!r}"
        assert o.constraints, f"{o.opcode} states no constraint"
        assert list(o.constraints) == [f"C{n + 1}" for n in range(len(o.constraints))], o.opcode
