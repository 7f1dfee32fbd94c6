"""The kinds of attributes: which Python value each holds, so that text, proto and operations agree.

An operation declares its attributes as {name: Attribute(kind, default, meaning)}. The grammar of each kind in text
stands in `text.py`, its fields in a proto in `refxla/ir/proto.py`; both are keyed by these kinds and by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REQUIRED: Any = object()  # the default of an attribute that has none

# kind          Python value                            in text
INT = "int"  # int                                      iota_dimension=0
INTS = "ints"  # tuple[int, ...]                        dimensions={0,1}
BOOL = "bool"  # bool                                   is_stable=true
FLOAT = "float"  # float                                epsilon=0.001
ENUM = "enum"  # str, as HLO spells it                  direction=LT
ENUMS = "enums"  # tuple[str, ...]                      operand_precision={highest,default}
STRING = "string"  # str                                custom_call_target="Qr"
VERBATIM = "verbatim"  # str, braces or quotes kept     domain={kind="sharding", ...}
INT_LISTS = "int_lists"  # tuple[tuple[int, ...], ...]  source_target_pairs={{0,1},{1,0}}
GROUPS = "groups"  # ReplicaGroups (groups.py)          replica_groups={{0,1},{2,3}}  replica_groups=[2,2]<=[4]
SHAPE = "shape"  # Shape                                (an outfeed's outfeed_shape=...)
SHAPES = "shapes"  # tuple[Shape, ...]                  operand_layout_constraints={f32[2]{0}}
COMPUTATION = "computation"  # Computation              to_apply=%add
COMPUTATIONS = "computations"  # tuple[Computation]     branch_computations={%a, %b}
WINDOW = "window"  # Window                             window={size=3x3 pad=1_1x1_1}
CONVOLUTION = "convolution"  # ConvolutionDimensions    dim_labels=b01f_01io->b01f
SLICES = "slices"  # tuple[SliceDimension, ...]         slice={[0:3], [1:7:2]}
PADDING = "padding"  # tuple[PaddingDimension, ...]     padding=0_1x2_0_1
LITERAL = "literal"  # Value                            the operand text of constant(...)
PARAMETER_NUMBER = "parameter_number"  # int            the operand text of parameter(...)


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operation: its kind (above), its default (REQUIRED if none), and what it means."""

    kind: str
    default: Any
    meaning: str
