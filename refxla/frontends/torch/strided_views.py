"""`as_strided` of a view, as of the tensor whose memory it is.

Its strides are those of the memory, not of the tensor that it is given. A compiled graph has views as values of their
own, without the memory around them.
"""

from __future__ import annotations

from typing import Any

import torch

from .graph import is_view
from .lowering import overload_of

_STRIDED = {overload_of("as_strided"), overload_of("as_strided_copy")}


def stride_memory_of_bases(graph_module: Any) -> None:
    """Makes the operand of each `as_strided` the tensor that its operand is a view of."""
    changed = False
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or node.target not in _STRIDED:
            continue
        view, size, stride, *offset = node.args
        base = view
        while is_view(base) and _memory_of(base.args[0]) in (None, _memory_of(view)):
            base = base.args[0]
        if base is not view and isinstance(base.meta.get("val"), torch.Tensor):
            start = offset[0] if offset and offset[0] is not None else view.meta["val"].storage_offset()
            node.args, changed = (base, size, stride, start), True
    if changed:
        graph_module.graph.eliminate_dead_code()
        graph_module.recompile()


def _memory_of(node: Any) -> Any:
    """What identifies the memory of a node's tensor; None for a list of tensors."""
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None
