"""Tensors of PyTorch as arrays and back, without a copy, and their types in HLO.

NumPy has no bfloat16 and no 8-bit floats: such tensors are viewed as integers of the same width, and those as
ml_dtypes' types. An array of HLO is dense and row-major. A tensor whose dimensions are in another order without gaps (a
transposed matrix, channels last) is the transpose of such an array: `memory_order` finds the permutation, the program
transposes its parameter, and no element is moved on the way in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from refxla_spec.errors import InputError
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

_NAMES = {
    "bool": "pred", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "s8", "int16": "s16",
    "int32": "s32", "int64": "s64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu",
}  # fmt: skip
TYPES: dict[Any, ElementType] = {getattr(torch, t): ELEMENT_TYPES[h] for t, h in _NAMES.items() if hasattr(torch, t)}
_BY_NUMPY = {t.dtype: (torch_type, t.bytes) for torch_type, t in TYPES.items()}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_REINTERPRETED = {  # types that NumPy does not have, by the integers with their bits
    t: torch.int16 if t.itemsize == 2 else torch.uint8
    for t, h in TYPES.items()
    if h.is_float and h.name not in ("f16", "f32", "f64")
}


def element_type(dtype: Any) -> ElementType:
    """HLO's element type for a tensor's; raises InputError if there is none (quantized types)."""
    if dtype not in TYPES:
        raise InputError(f"a tensor of the type {dtype} has no form in HLO: convert it first")
    return TYPES[dtype]


def shape_of(tensor: Any) -> Shape:
    """The shape of a tensor, or of a fake tensor in a trace; raises InputError for sizes that depend on data."""
    if any(type(n) is not int for n in tensor.shape):
        raise InputError(f"the sizes {tuple(tensor.shape)} are known at run time only, and HLO has static shapes")
    return Shape(element_type(tensor.dtype), tuple(tensor.shape))


def memory_order(tensor: Any) -> tuple[int, ...] | None:
    """The permutation of its dimensions in which a tensor is dense and row-major; None if there is none."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    if tensor.is_contiguous():
        return tuple(range(len(sizes)))
    order = tuple(sorted(range(len(sizes)), key=lambda d: (-strides[d], -sizes[d], d)))
    expected = 1
    for d in reversed(order):
        if sizes[d] != 1 and strides[d] != expected:
            return None
        expected *= sizes[d]
    return order


def to_array(tensor: Any, order: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    """The array in a tensor's memory, with its dimensions in the given order (None: unchanged); a copy if the tensor is
    not dense in this order. Raises InputError for a tensor on another device, and for a fake one."""
    if tensor._is_zerotensor():  # it has no memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    if order is not None:
        tensor = tensor.permute(order)
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    integers = _REINTERPRETED.get(tensor.dtype)
    try:
        if integers is None:
            array: np.ndarray[Any, Any] = tensor.numpy()
            return array
        array = tensor.view(integers).numpy()
        return array.view(TYPES[tensor.dtype].dtype)
    except (TypeError, RuntimeError):
        if tensor.device.type != "cpu":
            raise InputError(f"a tensor on {tensor.device} was given: move it to the CPU with tensor.cpu()") from None
        name = type(tensor).__name__
        raise InputError(f"a {name} was given, whose elements NumPy cannot read: give a torch.Tensor") from None


def plain(value: Any) -> Any:
    """A tensor of a subclass as a plain torch.Tensor, in the same memory; anything else unchanged.

    A subclass may override its operations, and PyTorch rejects it in functions that run under another mode. This
    conversion calls no operation.
    """
    if type(value) in _PLAIN or not isinstance(value, torch.Tensor):
        return value
    return torch.Tensor._make_subclass(torch.Tensor, value)


def to_tensor(array: np.ndarray[Any, Any], order: tuple[int, ...] | None) -> Any:
    """The tensor in an array's memory; `order` is that of the array's dimensions (None: the tensor's)."""
    dtype, _ = _BY_NUMPY[array.dtype]
    integers = _REINTERPRETED.get(dtype)
    if integers is None:
        tensor = torch.from_numpy(array)
    else:
        tensor = torch.from_numpy(array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)).view(dtype)
    return tensor if order is None else tensor.permute(inverse(order))


def with_strides(tensor: Any, strides: tuple[int, ...]) -> Any:
    """The same elements in separate memory with these strides: not a view of another tensor. Elements at the same
    address, in an expanded dimension, are equal."""
    if tensor.stride() == strides:
        return tensor
    sizes = [1 if not s else n for n, s in zip(tensor.shape, strides, strict=True)]
    distinct = torch.empty_strided(sizes, strides, dtype=tensor.dtype)
    distinct.copy_(tensor[tuple(slice(n) for n in sizes)])
    if distinct.shape == tensor.shape:
        return distinct
    return torch.empty(0, dtype=tensor.dtype).set_(distinct.untyped_storage(), 0, tensor.shape, strides)


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
