"""The outputs of a product's fusion, computed from the elements of its hero."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.index_expression import Index, delinearize, linearize
from ...ir.plan import Fusion
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter


def store_outputs(fusion: Fusion, e: ElementalIrEmitter, indices: Sequence[Index], block: Block) -> None:
    """Stores the outputs, which are elementwise in the hero or reshapes of values that are, for the hero's element at
    these indices."""
    assert fusion.hero is not None
    dimensions = fusion.hero.shape.dimensions
    places = {}
    for output in fusion.outputs:
        own = indices
        if output.shape.dimensions != dimensions:
            own = delinearize(linearize(indices, dimensions), output.shape.dimensions)
        places[output] = own
    # All values before the first store: an output may be in the memory of an input that is read at the same index.
    for output, own in places.items():
        e.value(output, own, block)
    for output, own in places.items():
        e.store(output, own, block)
