"""The suite: one row for each model or kernel, with the sizes that are measured and small ones for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..frameworks.base import Function
from . import convolutional, dense, kernels, science, sequences

Sizes = dict[str, int]
Arguments = Callable[..., list[Any]]  # of sizes


@dataclass(frozen=True)
class Entry:
    """`function(xp, *arguments)`, with `arguments(**sizes)` to measure it and `arguments(**small)` to test it.

    `bound`: the allowed difference of two frameworks' results, relative to the largest number of each result. `x64`:
    JAX's 64-bit types are enabled.
    """

    name: str
    group: str  # "kernels", "models" or "science"
    function: Function
    arguments: Arguments
    sizes: Sizes
    small: Sizes
    trains: bool = False
    bound: float = field(default=2e-3)
    x64: bool = False


def _kernel(
    name: str, function: Function, arguments: Arguments, sizes: Sizes, small: Sizes, bound: float = 1e-4
) -> Entry:
    return Entry(name, "kernels", function, arguments, sizes, small, False, bound)


def _science(name: str, function: Function, arguments: Arguments, sizes: Sizes, small: Sizes) -> Entry:
    return Entry(name, "science", function, arguments, sizes, small)


def _forward(name: str, function: Function, arguments: Arguments, sizes: Sizes, small: Sizes) -> Entry:
    return Entry(name, "models", function, arguments, sizes, small)


def _step(
    name: str, function: Function, arguments: Arguments, sizes: Sizes, small: Sizes, bound: float = 5e-3
) -> Entry:
    return Entry(name + " step", "models", function, arguments, sizes, small, True, bound)


_K, _C, _D, _S, _N = kernels, convolutional, dense, sequences, science
_M = 1 << 20

ENTRIES = [
    _kernel("x + 1 dispatch", _K.increment, _K.one, {"n": 64}, {"n": 64}),
    _kernel("sum(x + y*z) 16M", _K.sum_of_products, _K.three, {"n": 16 * _M}, {"n": 1000}, 1e-3),
    _kernel("tanh chain 16M", _K.tanh_chain, _K.three, {"n": 16 * _M}, {"n": 1000}),
    _kernel("GEMM 256", _K.matmul, _K.matrices, {"n": 256}, {"n": 33}),
    _kernel("GEMM 1024", _K.matmul, _K.matrices, {"n": 1024}, {"n": 40}),
    _kernel("transpose", _K.transpose, _K.matrix, {"rows": 2048, "columns": 3072}, {"rows": 33, "columns": 40}),
    _kernel("column mean", _K.column_mean, _K.matrix, {"rows": 4096, "columns": 1000}, {"rows": 33, "columns": 40}),
    _kernel("softmax", _K.softmax, _K.matrix, {"rows": 4096, "columns": 1000}, {"rows": 9, "columns": 40}),
    _kernel(
        "layer-norm", _K.layer_norm, _K.rows_and_features, {"rows": 8192, "columns": 768}, {"rows": 9, "columns": 40}
    ),
    _kernel(
        "batch-norm",
        _C.batch_norm,
        _C.batch_norm_arguments,
        {"batch": 16, "side": 56, "features": 64},
        {"batch": 2, "side": 5, "features": 8},
    ),
    _kernel("sort", _K.sort, _K.matrix, {"rows": 16, "columns": 65536}, {"rows": 2, "columns": 99}),
    _kernel(
        "scatter-add",
        _K.scatter_add,
        _K.table_and_updates,
        {"rows": 16384, "columns": 64, "updates": 65536},
        {"rows": 9, "columns": 5, "updates": 30},
    ),
    _kernel(
        "cumulative sum",
        _K.cumulative_sum,
        _K.matrix,
        {"rows": 1024, "columns": 4096},
        {"rows": 3, "columns": 99},
        1e-3,
    ),
    _science(
        "k-means",
        _N.kmeans,
        _N.kmeans_arguments,
        {"points": 20000, "features": 16, "clusters": 32},
        {"points": 99, "features": 4, "clusters": 5},
    ),
    _science("n-body", _N.nbody, _N.nbody_arguments, {"bodies": 1024}, {"bodies": 20}),
    _science("heat equation", _N.heat, _N.heat_arguments, {"side": 512}, {"side": 16}),
    _step("MLP", _D.mlp_step, _D.mlp_arguments, {"batch": 128, "width": 512}, {"batch": 4, "width": 16}),
    _step("CNN 64x64", _C.cnn_step, _C.cnn_arguments, {"batch": 64, "side": 64}, {"batch": 2, "side": 16}),
    _step("CNN 128x128", _C.cnn_step, _C.cnn_arguments, {"batch": 64, "side": 128}, {"batch": 2, "side": 16}),
    _forward("ResNet-50 forward b1", _C.resnet, _C.resnet_arguments, {"batch": 1}, {"batch": 1, "side": 32}),
    _forward("ResNet-50 forward b8", _C.resnet, _C.resnet_arguments, {"batch": 8}, {"batch": 2, "side": 32}),
    _step("ResNet-50 b8", _C.resnet_step, _C.resnet_step_arguments, {"batch": 8}, {"batch": 2, "side": 64}, 5e-2),
    _forward("MobileNet forward b8", _C.mobilenet, _C.mobilenet_arguments, {"batch": 8}, {"batch": 1, "side": 32}),
    _step(
        "U-Net",
        _C.unet_step,
        _C.unet_arguments,
        {"batch": 4, "side": 64, "width": 32},
        {"batch": 1, "side": 8, "width": 4},
    ),
    _forward(
        "LSTM forward",
        _S.lstm,
        _S.lstm_arguments,
        {"time": 64, "batch": 16, "features": 128, "hidden": 256},
        {"time": 4, "batch": 2, "features": 5, "hidden": 8},
    ),
    _step(
        "LSTM",
        _S.lstm_step,
        _S.lstm_step_arguments,
        {"time": 64, "batch": 16, "features": 128, "hidden": 256},
        {"time": 4, "batch": 2, "features": 5, "hidden": 8},
    ),
    _step(
        "GPT",
        _S.gpt_step,
        _S.gpt_arguments,
        {"batch": 8, "vocabulary": 4096, "time": 128, "width": 256, "blocks": 4},
        {"batch": 2, "vocabulary": 20, "time": 6, "width": 16, "blocks": 2},
    ),
    _forward(
        "GPT decode",
        _S.gpt_decode,
        _S.gpt_decode_arguments,
        {"batch": 1, "vocabulary": 4096, "time": 128, "width": 256, "blocks": 4},
        {"batch": 2, "vocabulary": 20, "time": 6, "width": 16, "blocks": 2},
    ),
    _forward(
        "ViT forward b4",
        _S.vit,
        _S.vit_arguments,
        {"batch": 4, "patches": 196, "width": 192, "blocks": 12},
        {"batch": 2, "patches": 5, "width": 16, "blocks": 2},
    ),
    _step(
        "MLP-mixer",
        _D.mixer_step,
        _D.mixer_arguments,
        {"batch": 16, "patches": 64, "width": 256, "blocks": 6},
        {"batch": 2, "patches": 5, "width": 8, "blocks": 2},
    ),
    _step(
        "VAE",
        _D.vae_step,
        _D.vae_arguments,
        {"batch": 128, "width": 400, "code": 20},
        {"batch": 3, "width": 16, "code": 2},
    ),
    _step(
        "DLRM",
        _D.dlrm_step,
        _D.dlrm_arguments,
        {"batch": 512, "tables": 8, "rows": 20000, "width": 32},
        {"batch": 4, "tables": 2, "rows": 9, "width": 4},
    ),
]


def chosen(names: list[str], entries: list[Entry] | None = None) -> list[Entry]:
    """Entries (None: of the suite) of these groups, or whose names contain one of these texts (in any case); all if
    there are none.

    Raises ValueError for a text that matches nothing.
    """
    entries = ENTRIES if entries is None else entries
    groups = list(dict.fromkeys(e.group for e in entries))
    if not names:
        return entries
    for name in names:
        if name not in groups and not any(name.lower() in e.name.lower() for e in entries):
            raise ValueError(
                f"no entry's name holds {name!r}; there are the groups {', '.join(groups)}, and: "
                + ", ".join(e.name for e in entries)
            )
    return [e for e in entries if any(n == e.group or n.lower() in e.name.lower() for n in names)]
