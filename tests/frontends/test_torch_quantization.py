"""Quantization, true and fake, as PyTorch's own kernels do it."""

import pytest

torch = pytest.importorskip("torch")

from torch_agreement import begin_anew, check  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


def test_fake_quantization():
    scales, zeros = torch.rand(5) * 0.1 + 0.01, torch.arange(5, dtype=torch.int32)

    def f(x):
        return (
            torch.fake_quantize_per_tensor_affine(x, 0.02, 3, -128, 127),
            torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 15),
            torch.fake_quantize_per_tensor_affine(x, scales[:1], zeros[:1], 0, 255),
        )

    check(f, (torch.randn(40, 5) * 2).requires_grad_())


@pytest.mark.parametrize("enabled", [0, 1])
def test_fake_quantization_that_a_tensor_turns_off(enabled):
    switch, scale, zero = (torch.tensor([n]) for n in (enabled, 0.05, 2))
    quantize = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    check(lambda x: tuple(quantize(x, scale, zero.int(), switch, 0, 7)), torch.randn(4, 5))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_the_operations_of_quantized_programs(dtype):
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    ops, info = torch.ops.quantized_decomposed, torch.iinfo(dtype)
    low, high = info.min, info.max
    scales, zeros, scale, zero = torch.rand(5) * 0.1 + 0.01, torch.arange(5), torch.tensor(0.03), torch.tensor(2)

    def f(x):
        q = ops.quantize_per_tensor(x, 0.05, 2, low, high, dtype)
        by_tensors = ops.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
        channels = ops.quantize_per_channel(x, scales, zeros, 1, low, high, dtype)
        return (
            q, ops.dequantize_per_tensor(q, 0.05, 2, low, high, dtype), by_tensors, channels,
            ops.dequantize_per_tensor.tensor(by_tensors, scale, zero, low, high, dtype, out_dtype=torch.float64),
            ops.dequantize_per_channel(channels, scales, zeros, 1, low, high, dtype),
            ops.dequantize_per_channel(channels, scales, None, 1, low, high, dtype),
        )  # fmt: skip

    check(f, torch.randn(30, 5) * 4)
