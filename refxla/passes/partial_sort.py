"""Records on each `sort` how many of a row's first elements are read, if not all of them are.

    slice(sort(x, ...), [0:k])  ->  the same, and the kernel of the sort (codegen/sort.py) need only select

This is how the k largest or smallest elements of a row are expressed (topk_expander.py, jnp.sort(x)[:k]).
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, Module

from ..ir.partial_sorts import first_of, note_first


def run(module: Module) -> int:
    """Annotates all sorts. Returns the number of new annotations."""
    return sum(_note_all(c) for c in module.computations)


def _note_all(computation: Computation) -> int:
    sorts = [i for i in computation.instructions if i.opcode == "sort"]
    if not sorts:
        return 0
    users: dict[Instruction, list[Instruction]] = {}
    for i in computation.instructions:
        for o in i.operands:
            users.setdefault(o, []).append(i)
    count = 0
    for sort in sorts:
        first = _first_read(sort, users, computation.root)
        if first is not None and first != first_of(sort):
            note_first(sort, first)
            count += 1
    return count


def _first_read(sort: Instruction, users: dict[Instruction, list[Instruction]], root: Instruction) -> int | None:
    """How many of a row's first elements its users read; None if a user reads others."""
    parts = users.get(sort, []) if sort.shape.is_tuple else [sort]
    if sort is root or any(p is root or p.opcode not in ("get-tuple-element", "sort") for p in parts):
        return None
    (dimension,), most = sort.dimensions, 0
    for reader in (r for p in parts for r in users.get(p, [])):
        if reader.opcode != "slice" or reader.slice[dimension].start != 0 or reader.slice[dimension].stride != 1:
            return None
        most = max(most, reader.slice[dimension].limit)
    return most or None
