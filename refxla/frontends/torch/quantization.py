"""Quantization as arithmetic: training with fake quantization, and the operations of quantized models that PyTorch
exports (`quantized_decomposed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _along(values: Any, x: Any, axis: int) -> Any:
    """One value for each index of a dimension, broadcast over the others."""
    return values.view([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])


# -- fake quantization: rounded to values that an integer can represent, and a mask of those that were not clamped


def _fake(x: Any, scale: Any, zero_point: Any, low: int, high: int) -> tuple[Any, Any]:
    steps = (x * (1 / scale)).round() + zero_point
    return ((steps.clamp(low, high) - zero_point) * scale).to(x.dtype), (steps >= low) & (steps <= high)


def _fake_by_tensors(x: Any, scale: Any, zero_point: Any, enabled: Any, low: int, high: int) -> tuple[Any, Any]:
    """With scalar parameters in tensors; `enabled` is 1 if anything is to be done."""
    value, mask = _fake(x, scale, zero_point, low, high)
    return torch.where(enabled == 1, value, x), mask | (enabled != 1)


def _fake_by_channels(x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int) -> tuple[Any, Any]:
    return _fake(x, _along(scale, x, axis), _along(zero_point, x, axis), low, high)


# -- integers


def _quantize(x: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any) -> Any:
    return ((x.float() * (1.0 / scale)).round() + zero_point).clamp(low, high).to(dtype)


def _quantize_channels(x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int, dtype: Any) -> Any:
    return _quantize(x, _along(scale, x, axis), _along(zero_point, x, axis), low, high, dtype)


def _dequantize(x: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any, *, out_dtype: Any = None) -> Any:
    return (x.to(out_dtype or torch.float32) - zero_point) * scale


def _dequantize_channels(
    x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int, dtype: Any, *, out_dtype: Any = None
) -> Any:
    zero_point = 0 if zero_point is None else _along(zero_point, x, axis)
    return ((x - zero_point) * _along(scale, x, axis)).to(out_dtype or torch.float32)


QUANTIZATION: dict[str, Callable[..., Any]] = {
    "fake_quantize_per_tensor_affine_cachemask": _fake,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _fake_by_tensors,
    "fake_quantize_per_channel_affine_cachemask": _fake_by_channels,
    "quantized_decomposed::quantize_per_tensor": _quantize,
    "quantized_decomposed::quantize_per_tensor.tensor": _quantize,
    "quantized_decomposed::quantize_per_tensor.tensor2": _quantize,
    "quantized_decomposed::quantize_per_channel": _quantize_channels,
    "quantized_decomposed::dequantize_per_tensor": _dequantize,
    "quantized_decomposed::dequantize_per_tensor.tensor": _dequantize,
    "quantized_decomposed::dequantize_per_tensor.tensor2": _dequantize,
    "quantized_decomposed::dequantize_per_channel": _dequantize_channels,
}
