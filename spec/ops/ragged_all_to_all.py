"""Each device of a group gives every member some of its rows, as many as it says.

The group has N members; input_offsets, send_sizes, output_offsets and recv_sizes have N times U entries, U for each
member, as an array of one dimension, or of two (N by U) that is read row by row. This device is member k. For each
member m and each u < U, with n = m U + u,

    rows input_offsets[n], ..., input_offsets[n] + send_sizes[n] - 1 of operand

are written into the output of member m from its row output_offsets[n] on. The result is output with all that the
members send to this device written into it, member by member. recv_sizes[m U + u] says how many rows come from member
m, which is what its send_sizes say. Rows are the elements of the first dimension.
"""

from __future__ import annotations

from ..collectives import (
    ALL_NAMED_RULE,
    CHANNEL_ID,
    EQUAL_GROUPS_RULE,
    REPLICA_GROUPS,
    check_all_named,
    check_groups,
)
from ..devices import Device
from ..errors import EvaluationError
from ..groups import Count, meeting
from ..module import Instruction
from ..operation import Example, require
from ..types import S32, S64, Array, Shape

INPUTS = {
    "operand": "the rows to be sent",
    "output": "what is written into",
    "input_offsets": "from which row of operand on, for each member",
    "send_sizes": "how many rows, for each member",
    "output_offsets": "from which row of the member's output on, for each member",
    "recv_sizes": "how many rows come, from each member",
}
ATTRIBUTES = {"replica_groups": REPLICA_GROUPS, "channel_id": CHANNEL_ID}
CONSTRAINTS = {
    "C1": "operand and output are arrays of one element type, and all their dimensions but the first are the same",
    "C2": "offsets and sizes are arrays of s32 or s64, all four of one type and of the same one or two dimensions",
    "C3": EQUAL_GROUPS_RULE,
    "C4": "the number of members of a group divides that of offsets",
    "C5": "the result has the shape of output",
    "C6": ALL_NAMED_RULE,
}


def infer(instruction: Instruction, operand: Shape, output: Shape, *indices: Shape) -> Shape:
    fits = operand.is_array and operand.element_type is output.element_type and operand.rank >= 1
    fits = fits and output.rank == operand.rank and operand.dimensions[1:] == output.dimensions[1:]
    require(fits, "C1", f"operand is {operand}, output is {output}")
    first = indices[0]
    fits = first.element_type in (S32, S64) and first.rank in (1, 2) and all(i.compatible(first) for i in indices)
    require(fits, "C2", f"offsets and sizes are ({', '.join(map(str, indices))})")
    check_groups(instruction, "C3")
    _check_each(first, meeting(instruction))
    return output


def _check_each(offsets: Shape, size: int | None) -> None:
    fits = size is None or offsets.size % size == 0
    require(fits, "C4", f"there are {offsets.size} offsets for groups of {size}")


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_all_named(instruction, replicas, partitions, "C6")
    _check_each(instruction.operands[2].shape, meeting(instruction, replicas, partitions))


def evaluate(
    instruction: Instruction,
    operand: Array,
    output: Array,
    input_offsets: Array,
    send_sizes: Array,
    output_offsets: Array,
    recv_sizes: Array,
    device: Device,
) -> Array:
    input_offsets, send_sizes, output_offsets, recv_sizes = (
        x.reshape(-1) for x in (input_offsets, send_sizes, output_offsets, recv_sizes)
    )
    met = device.exchange(instruction, (operand, input_offsets, send_sizes, output_offsets))
    k, each = device.group(instruction).index(device.number), len(input_offsets) // len(met)
    result = output.copy()
    for m, (rows, from_, sizes, to) in enumerate(met):
        for u in range(each):
            n = k * each + u
            start, size, at = int(from_[n]), int(sizes[n]), int(to[n])
            if int(recv_sizes[m * each + u]) != size:
                raise EvaluationError(
                    f"{instruction.name}: member {m} sends {size} rows to member {k}, whose recv_sizes say "
                    f"{recv_sizes[m * each + u]}"
                )
            if min(start, size, at) < 0 or start + size > len(rows) or at + size > len(result):
                raise EvaluationError(
                    f"{instruction.name}: member {m} sends {size} rows from row {start} of {len(rows)} to row {at} of "
                    f"{len(result)} of member {k}: they lie outside"
                )
            result[at : at + size] = rows[start : start + size]
    return result


EXAMPLES = (
    Example(
        """HloModule rows_as_many_as_it_says, replica_count=2
        ENTRY main { x = f32[3] parameter(0)
                     y = f32[4] parameter(1)
                     from = s32[2] parameter(2)
                     send = s32[2] parameter(3)
                     to = s32[2] parameter(4)
                     recv = s32[2] parameter(5)
                     ROOT r = f32[4] ragged-all-to-all(x, y, from, send, to, recv), replica_groups={{0,1}} }""",
        (
            *("f32[3] {1,2,3}", "f32[4] {0,0,0,0}", "s32[2] {0,1}", "s32[2] {1,2}", "s32[2] {0,1}", "s32[2] {1,1}"),
            *("f32[3] {4,5,6}", "f32[4] {9,9,9,9}", "s32[2] {0,1}", "s32[2] {1,0}", "s32[2] {1,0}", "s32[2] {2,0}"),
        ),
        ("f32[4] {1,4,0,0}", "f32[4] {9,2,3,9}"),
        "device 0 keeps one row and sends two; device 1 sends one",
    ),
    Example(
        """HloModule two_parts_for_each, replica_count=2
        ENTRY main { x = s32[4] parameter(0)
                     y = s32[4] parameter(1)
                     from = s32[2,2] parameter(2)
                     send = s32[2,2] parameter(3)
                     to = s32[2,2] parameter(4)
                     recv = s32[2,2] parameter(5)
                     ROOT r = s32[4] ragged-all-to-all(x, y, from, send, to, recv), replica_groups={{0,1}} }""",
        (
            *("s32[4] {1,2,3,4}", "s32[4] {0,0,0,0}", "s32[2,2] {{0,1},{2,3}}", "s32[2,2] {{1,1},{1,1}}"),
            *("s32[2,2] {{0,2},{0,2}}", "s32[2,2] {{1,1},{1,1}}"),
            *("s32[4] {5,6,7,8}", "s32[4] {0,0,0,0}", "s32[2,2] {{0,1},{2,3}}", "s32[2,2] {{1,1},{1,1}}"),
            *("s32[2,2] {{1,3},{1,3}}", "s32[2,2] {{1,1},{1,1}}"),
        ),
        ("s32[4] {1,5,2,6}", "s32[4] {3,7,4,8}"),
    ),
)
_BROKEN = """x = f32[3,2] parameter(0)
             y = f32[3] parameter(1)
             i = s32[2] parameter(2)
             j = s32[3] parameter(3)
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "f32[3] ragged-all-to-all(x, y, i, i, i, i), replica_groups={{0,1}}",
    "C2": _BROKEN + "f32[3] ragged-all-to-all(y, y, i, i, i, j), replica_groups={{0,1}}",
    "C3": _BROKEN + "f32[3] ragged-all-to-all(y, y, i, i, i, i), replica_groups={{0,1},{1,2}}",
    "C4": _BROKEN + "f32[3] ragged-all-to-all(y, y, j, j, j, j), replica_groups={{0,1}}",
    "C5": _BROKEN + "f32[2] ragged-all-to-all(y, y, i, i, i, i), replica_groups={{0,1}}",
    "C6": f"HloModule broken, replica_count=4\nENTRY main {{ {_BROKEN}"
    "f32[3] ragged-all-to-all(y, y, i, i, i, i), replica_groups={{0,1}} }",
}
