"""torch.compile(model, backend="refxla"): values, gradients and state as eager PyTorch's, and what runs in eager."""

import copy
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_agreement import as_tuple, begin_anew, check, close, compiled  # noqa: E402

import refxla  # noqa: E402
from refxla.frontends import torch as frontend  # noqa: E402
from refxla.frontends.torch import openmp  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    begin_anew()


def steps(model, f, batches, optimizer=None, loss=F.cross_entropy):
    """Losses, gradients of the last step, and the state of a model that is trained by f."""
    losses = []
    for x, y in batches:
        model.zero_grad()
        value = loss(f(x), y)
        value.backward()
        losses.append(value.detach())
        if optimizer:
            optimizer.step()
    return losses, [p.grad for p in model.parameters()], list(model.state_dict().values())


def check_training(model, batches, tolerance=1e-4, optimizer=None, **options):
    plain = copy.deepcopy(model)
    expected = steps(plain, plain, batches, optimizer and optimizer(plain.parameters()), **options)
    actual = steps(model, compiled(model), batches, optimizer and optimizer(model.parameters()), **options)
    close(actual, expected, tolerance)
    assert not frontend.report()
    return actual


class Block(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Conv2d(features, features, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(features)
        self.second = nn.Conv2d(features, features, 3, padding=1, bias=False)
        self.other_norm = nn.BatchNorm2d(features)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)), inplace=True)
        return F.relu(self.other_norm(self.second(y)) + x)


def test_the_backend_is_found_without_an_import():
    program = (
        "import torch; f = torch.compile(lambda x: x + 1, backend='refxla'); "
        "print(f(torch.ones(2)).tolist(), 'refxla.frontends.torch.backend' in __import__('sys').modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", program], capture_output=True, text=True)
    assert done.stdout == "[2.0, 2.0] True\n", done.stderr


def test_mlp_trains_with_sgd_and_with_adam():
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
    x = torch.randn(20, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    for optimizer in (lambda p: torch.optim.SGD(p, 0.3, momentum=0.9), lambda p: torch.optim.Adam(p, 0.03)):
        losses, _, _ = check_training(copy.deepcopy(model), [(x, y)] * 15, optimizer=optimizer)
        assert losses[-1] < 0.6 * losses[0]


def test_cnn_with_batch_norm_trains_and_predicts():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Block(8), nn.AvgPool2d(2, padding=1, count_include_pad=False), nn.Conv2d(8, 16, 1, groups=2),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 4),
    )  # fmt: skip
    plain = copy.deepcopy(model)
    batches = [(torch.randn(4, 3, 20, 20), torch.randint(0, 4, (4,))) for _ in range(3)]
    check_training(model, batches, optimizer=lambda p: torch.optim.SGD(p, 0.05))
    assert int(model[1].num_batches_tracked) == 3 and not torch.equal(model[1].running_mean, plain[1].running_mean)
    model.eval()
    with torch.no_grad():
        close(compiled(model)(batches[0][0]), model(batches[0][0]), 1e-4)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_encoder_layer(norm_first):
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=norm_first)
    x, target = torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    check_training(layer, [(x, target)], loss=F.mse_loss)
    layer.eval()
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    hidden[1, 3:] = True
    with torch.no_grad():
        close(compiled(layer)(x), layer(x), 1e-4)
        close(compiled(layer)(x, src_key_padding_mask=hidden), layer(x, src_key_padding_mask=hidden), 1e-4)
    assert not frontend.report()


def test_attention_is_causal_or_masked():
    q, k, v = (torch.randn(2, 3, 6, 4, requires_grad=True) for _ in range(3))
    attention = F.scaled_dot_product_attention
    check(lambda q, k, v: attention(q, k, v, is_causal=True), q, k, v)
    mask = torch.rand(2, 1, 6, 6) > 0.3
    mask |= torch.eye(6, dtype=torch.bool)
    check(lambda q, k, v: attention(q, k, v, attn_mask=mask, scale=0.3), q, k, v)


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_heads_of_keys_may_be_shared_by_groups_of_queries(heads):
    q = torch.randn(2, 6, 5, 4, requires_grad=True)
    k, v = (torch.randn(2, heads, 7, 4, requires_grad=True) for _ in range(2))
    attention = F.scaled_dot_product_attention
    check(lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True), q, k, v)
    mask = (torch.rand(2, 1, 5, 7) > 0.3) | (torch.arange(7) == 0)
    check(lambda q, k, v: attention(q, k, v, attn_mask=mask, enable_gqa=True), q, k, v)


@pytest.mark.parametrize(
    "queries, keys", [(256, 256), (515, 515), (640, 640), (512, 300), (300, 512), (520, 1), (1100, 900)]
)
def test_long_causal_attention_is_done_in_segments(queries, keys):
    """Queries see keys up to their own number; those that see all keys, and those past the last key, too."""
    q = torch.randn(1, 4, queries, 8, requires_grad=True)
    k, v = (torch.randn(1, 2, keys, 8, requires_grad=True) for _ in range(2))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), q, k, v)


@pytest.mark.parametrize("dims", [(520, 540), (1, 540), (520, 1), (2, 1, 520, 540), (1, 4, 1, 540)])
def test_long_causal_attention_with_a_mask(dims):
    """The operation on a CPU takes both, though F.scaled_dot_product_attention refuses them."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k, v = (torch.randn(2, 4, n, 8, requires_grad=True) for n in (520, 540, 540))
    mask = torch.where(torch.rand(dims) > 0.3, torch.randn(dims), -float("inf"))
    mask[..., 0] = 0  # no row without a key
    check(lambda q, k, v: attention(q, k, v, is_causal=True, attn_mask=mask)[0], q, k, v)


def test_products_of_groups():
    """As in mixtures of experts: PyTorch's own operation, which takes bf16."""

    def integers(*shape):
        return torch.randint(-2, 3, shape).to(torch.bfloat16).requires_grad_()

    ends = torch.tensor([0, 10, 24, 24, 40], dtype=torch.int32)
    product = torch._grouped_mm
    check(lambda x, y: product(x, y, offs=ends), integers(40, 16), integers(5, 16, 24))
    check(lambda x, y: product(x, y, offs=ends), integers(24, 40), integers(40, 16))
    check(lambda x, y: product(x, y, offs=ends), integers(5, 24, 16), integers(16, 40))
    check(lambda x, y: product(x, y), integers(5, 24, 16), integers(5, 16, 8))


@pytest.fixture
def grouped_mm_fallback():
    """The operation of transformers, or what has its name and signature."""
    if importlib.util.find_spec("transformers"):
        importlib.import_module("transformers.integrations.moe")
        return torch.ops.transformers.grouped_mm_fallback

    def groups(ends):
        return itertools.pairwise([0, *ends.tolist()])

    @torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
    def product(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        result = input.new_zeros(len(input), weight.shape[2])
        for w, (start, end) in zip(weight, groups(offs), strict=True):
            result[start:end] = input[start:end] @ w
        return result

    @torch.library.custom_op("transformers::grouped_mm_fallback_backward", mutates_args=())
    def gradient(
        input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor, grad_output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        of_input, of_weight = torch.zeros_like(input), torch.zeros_like(weight)
        for n, (start, end) in enumerate(groups(offs)):
            of_input[start:end] = grad_output[start:end] @ weight[n].T
            of_weight[n] = input[start:end].T @ grad_output[start:end]
        return of_input, of_weight

    product.register_fake(lambda x, w, offs: x.new_empty(len(x), w.shape[2]))
    gradient.register_fake(lambda x, w, offs, g: (torch.empty_like(x), torch.empty_like(w)))
    product.register_autograd(
        lambda ctx, g: (*gradient(*ctx.saved_tensors, g), None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return product


def test_products_of_groups_as_transformers_has_them(grouped_mm_fallback):
    ends = torch.tensor([0, 10, 24, 24, 38])
    x, w = torch.randn(40, 17, requires_grad=True), torch.randn(5, 17, 21, requires_grad=True)
    check(lambda x, w: grouped_mm_fallback(x, w, ends), x, w)


def test_an_operation_that_may_draw_is_reported_with_the_reason_it_has():
    """Attention is tagged as drawing random numbers; without dropout it draws none."""
    q = torch.randn(1, 2, 3, 4)
    frontend_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with pytest.MonkeyPatch.context() as patch:
        rules = sys.modules["refxla.frontends.torch.lowering"].LOWERINGS

        def refuse(*_, **__):
            raise sys.modules["refxla.frontends.torch.lowering"].NotLowered("not this case")

        patch.setitem(rules, frontend_attention.default, refuse)
        with pytest.warns(frontend.EagerWarning, match="not this case"):
            compiled(lambda q: F.scaled_dot_product_attention(q, q, q) + 1)(q)
    assert [e.reason for e in frontend.report()] == ["not this case"]


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
def test_recurrent_cell_in_a_loop(cell):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = cell(5, 7), nn.Linear(7, 3)

        def forward(self, x):
            state = None
            for t in range(x.shape[1]):
                state = self.cell(x[:, t], state)
            return self.out(state[0] if isinstance(state, tuple) else state)

    check_training(Reader(), [(torch.randn(4, 6, 5), torch.randint(0, 3, (4,)))])


def test_embedding_and_cross_entropy():
    model = nn.Sequential(nn.Embedding(11, 8, padding_idx=0), nn.LayerNorm(8), nn.Linear(8, 11), nn.Flatten(0, 1))
    words = torch.randint(0, 11, (4, 6))
    target = torch.where(torch.rand(24) < 0.2, -100, torch.randint(0, 11, (24,)))
    check_training(model, [(words, target)] * 2, optimizer=lambda p: torch.optim.Adam(p, 0.01))


def test_changing_batch_sizes():
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))
    check_training(model, [(torch.randn(n, 5), torch.randint(0, 3, (n,))) for n in (4, 7, 9, 4)])


def test_dynamic_shapes_are_compiled_for_the_sizes_that_come():
    f = compiled(lambda x: (x.reshape(-1, 2) * x.shape[0]).cumsum(0).sum(1), dynamic=True)
    for shape in ((3, 4), (5, 4), (2, 6), (3, 4)):
        x = torch.randn(shape)
        close(f(x), (x.reshape(-1, 2) * x.shape[0]).cumsum(0).sum(1))


def test_dropout_draws_eagers_numbers_and_the_rest_stays_whole():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 4))
    plain, x, y = copy.deepcopy(model), torch.randn(5, 6), torch.randint(0, 4, (5,))
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", frontend.EagerWarning)  # random numbers are PyTorch's by design
        for m, f in ((plain, plain), (model, compiled(model))):
            torch.manual_seed(7)
            results.append(steps(m, f, [(x, y)] * 2))
    close(results[1], results[0])
    assert [(e.operation, e.calls) for e in frontend.report()] == [("aten.bernoulli.p", 2)] * 2


DRAWS = [
    lambda x: F.dropout(x.transpose(0, 1), 0.5),
    lambda x: F.dropout(x[:, ::2].transpose(0, 2).expand(2, 5, 3, 4), 0.5),
    lambda x: torch.rand_like((x * 2).transpose(0, 1)) + x.mean(),
    lambda x: torch.randn_like(x.transpose(0, 2)[::2]) + x.mean(),
    lambda x: (torch.poisson(x.abs()), torch.rand(3), torch.bernoulli(x.sigmoid()), torch.randn_like(x * 2)),
    lambda x: (torch.bernoulli((x * 2).sigmoid() * torch.rand_like(x)), torch.rand(3) * x.sum(), F.dropout(x, 0.3)),
    lambda x: (F.rrelu(x.transpose(1, 2), training=True), torch.poisson(x.abs()), F.gumbel_softmax(x), torch.rand(2)),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_numbers_are_drawn_in_eagers_order(draw):
    """That of the operations, also where some depend on values, and within one that in which elements lie in memory."""
    x = torch.randn(4, 6, 5)
    torch.manual_seed(1)
    expected = draw(x)
    torch.manual_seed(1)
    close(compiled(draw)(x), expected)


def test_encoder_layers_in_training_drop_what_eager_drops():
    model = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
    plain, x = copy.deepcopy(model), torch.randn(3, 5, 16)
    results = []
    for m, f in ((plain, plain), (model, compiled(model))):
        torch.manual_seed(7)
        results.append(steps(m, f, [(x, x * 2)] * 2, loss=F.mse_loss))
    close(results[1], results[0], 1e-4)


def test_the_numbers_of_a_checkpoint_are_expected():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", frontend.EagerWarning)
        f = compiled(lambda x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False))
        f(x).sum().backward()


# -- operations


OPTIMIZERS = [
    lambda p: torch.optim.AdamW(p, 0.01, foreach=True), lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9, centered=True), lambda p: torch.optim.Adagrad(p, 0.01),
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True),
]  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_step_of_an_optimizer_runs_compiled(optimizer):
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    states = []
    for m, compile in ((copy.deepcopy(model), False), (model, True)):
        trained = optimizer(m.parameters())

        def step(m=m, trained=trained):
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5, foreach=True)
            trained.step()

        run = torch.compile(step, backend="refxla") if compile else step
        for n in range(3):
            trained.zero_grad()
            m(torch.linspace(-1, n, 24).view(4, 6)).square().mean().backward()
            run()
        states.append(list(m.parameters()))
    close(states[1], states[0], 1e-4)
    assert not frontend.report()


def test_operations_on_lists():
    x, y, z = ([torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5] for _ in range(3))
    cases = [
        (torch._foreach_add, x, y), (torch._foreach_add, x, 2), (torch._foreach_sub, x, [1.0, 2.0]),
        (torch._foreach_mul, x, torch.tensor(3.0)), (torch._foreach_div, x, y), (torch._foreach_pow, 2.0, x),
        (torch._foreach_pow, x, y), (torch._foreach_maximum, x, 0.8), (torch._foreach_minimum, x, y),
        (torch._foreach_clamp_min, x, 0.7), (torch._foreach_addcdiv, x, y, z, 0.5),
        (torch._foreach_addcmul, x, y, z, [1.0, 2.0]),
        (torch._foreach_lerp, x, y, 0.3), (torch._foreach_lerp, x, y, z), (torch._foreach_norm, x, 1),
        (torch._foreach_norm, x), (torch._foreach_sqrt, x), (torch._foreach_frac, x),
    ]  # fmt: skip

    def f():
        return [list(function(*args)) for function, *args in cases]

    close(compiled(f)(), f())
    assert not frontend.report()


def test_exponents_of_powers_are_whole():
    n = torch.arange(-30, 30)
    tens, twos = torch.tensor([float(f"1e{k}") for k in n]), torch.ldexp(torch.ones(60), n)
    results = compiled(lambda x, y, n: (torch.log10(x), torch.log2(y), torch.exp2(n)))(tens, twos, n.float())
    assert all(torch.equal(r, e) for r, e in zip(results, (n.float(), n.float(), twos), strict=True))


def test_parts_of_memory():
    x = torch.randn(4, 6, requires_grad=True)
    check(lambda x: torch.as_strided(x * 2, (6, 4), (1, 6)), x)
    check(lambda x: torch.as_strided(x * 2, (2, 3), (6, 2), 1) + 0, x)
    check(lambda x: torch.as_strided((x * 2).t().clone(), (4, 3), (1, 4), 8), x)
    check(lambda x: torch.as_strided_scatter(x * 2, x[:2, :3] * 3, (2, 3), (6, 2), 1), x)
    check(lambda x: torch.as_strided_scatter(x * 2, x.t().contiguous(), (6, 4), (1, 6)), x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * 2)[1:, 2:].as_strided((3, 3), (1, 2)).sin(),
        lambda x: (x * 2).view(-1)[5:].as_strided((3, 3, 2), (1, 2, 5), 7).sin(),
        lambda x: (x * 2).split([1, 3])[1].as_strided((3, 2), (1, 2)).sin(),
        lambda x: (x * 2).t()[1:].unfold(0, 2, 1).as_strided((2, 2), (3, 1), 0).sin(),
    ],
)
def test_parts_of_memory_of_a_view_are_those_of_the_whole(f):
    check(f, torch.randn(4, 6, requires_grad=True))


def test_windows():
    x = torch.randn(2, 3, 8, 9, requires_grad=True)
    check(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect").unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2).sin(), x)
    check(lambda x: x.unfold(1, 2, 1).unfold(-2, 5, 3) * 2, x)
    check(lambda x: x.sum().unfold(0, 1, 1) * 2, x)
    check(lambda x: ((x * 2).unfold(-1, 4, 2), x.unfold(0, 1, 1)), x.detach())


def test_what_is_taken_apart_into_sorts_and_sums():
    x = torch.randn(6, 9)
    x[1, 2] = x[4, 0] = float("nan")
    check(lambda x: (x.median().isnan(), x.nanmedian(), x.median(1)[1], x.median(1)[0].nan_to_num(5)), x)
    check(lambda x: (*x.nanmedian(0, True), (x.nan_to_num(0) * 9).int().median()), x)
    y = torch.randn(6, 9, requires_grad=True)
    check(
        lambda y: (
            y.median(),
            *y.kthvalue(3, 0),
            *y.kthvalue(2, 1),
            y.nanmedian(1)[0],
            y[0].kthvalue(2, keepdim=True)[0],
        ),
        y,
    )
    check(lambda y: (torch.histc(y, 5, -1, 2), torch.histc(y, 7), torch.histc(y * 0 + 3, 4)), y.detach())


def test_gradients_of_distances_and_of_normalized_weights():
    x, y = (torch.randn(2, n, 3, requires_grad=True) for n in (5, 4))
    for p in (1, 2, float("inf")):
        check(lambda x, y, p=p: torch.cdist(x, y, p), x, y)
    v, g = torch.randn(4, 3, 2, requires_grad=True), torch.rand(4, 1, 1, requires_grad=True)
    check(lambda v, g: torch._weight_norm(v, g, 0) * 2, v, g)


def test_pairs_of_rows_and_sums_of_three_factors():
    x = torch.randn(5, 3, requires_grad=True)
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        check(lambda x, p=p: F.pdist(x, p), x)
    factors = [torch.randn(*s, requires_grad=True) for s in ((2, 3, 4), (2, 3, 5), (6, 4, 5), (6,))]
    check(F.bilinear, *factors)


def test_pseudoinverses():
    x = torch.randn(3, 5, 4, requires_grad=True)
    check(torch.linalg.pinv, x, tolerance=1e-3)
    x = x.detach()
    x[0, :, 1] = x[0, :, 0]  # of rank 3
    check(lambda x: (torch.linalg.pinv(x), torch.linalg.pinv(x @ x.mT, atol=0.1, hermitian=True)), x, tolerance=1e-3)
    check(lambda x: torch.linalg.pinv(x, rtol=torch.tensor([0.1, 0.5, 0.9])), x, tolerance=1e-4)
    check(lambda x: torch.linalg.pinv(x[:0, 0]), x)


@pytest.mark.parametrize("padding", [(1, 2), (1, 2, 3, 0), (1, -2, -1, 2), (1, 2, 0, 0, 2, 1)])
def test_the_gradient_of_repeated_borders(padding):
    x = torch.randn((1, 2, 4, 3, 5)[-2 - len(padding) // 2 :], requires_grad=True)
    check(lambda x: F.pad(x, padding, mode="replicate"), x)
    check(lambda x: F.pad(x, (2, 1), mode="replicate"), torch.randn(3, 1, requires_grad=True))


def test_places_in_rows_in_order():
    row = torch.randn(9).sort()[0]
    x = torch.cat([torch.randn(6), row[:3], torch.tensor([float(v) for v in ("nan", "inf", "-inf")])])

    def f(row, x):
        return [
            torch.searchsorted(row[:n], x.view(6, 2).t(), right=right, out_int32=right)
            for n in (0, 1, 2, 7, 8, 9)
            for right in (False, True)
        ]

    check(f, row, x)
    check(lambda row, x: (torch.bucketize(x, row, right=True), torch.searchsorted(row, 0.3)), row, x)
    rows = torch.randn(2, 3, 6)
    check(lambda rows: torch.searchsorted(rows, rows + 1, side="right", sorter=rows.argsort(-1)), rows)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode):
    table, indices = torch.randn(6, 4, requires_grad=True), torch.randint(0, 6, (12,))
    ends = torch.tensor([0, 1, 5, 5, 9, 12])
    check(lambda t, i, o: F.embedding_bag(i, t, o, mode=mode), table, indices, ends[:-1])
    check(
        lambda t, i, o: F.embedding_bag(i, t, o, mode=mode, include_last_offset=True, padding_idx=3),
        table, indices, ends,
    )  # fmt: skip
    check(lambda t, i: F.embedding_bag(i.view(3, 4), t, mode=mode), table.detach(), indices.int())
    check(lambda t, i: F.embedding_bag(i[:0], t, torch.zeros(2).long(), mode=mode), table, indices)
    if mode == "sum":
        weights = torch.rand(3, 4, requires_grad=True)
        check(
            lambda t, w, i: F.embedding_bag(i, t, mode=mode, per_sample_weights=w), table, weights, indices.view(3, 4)
        )
    for bad in (torch.tensor([1, 5]), torch.tensor([0, 13])):
        with pytest.raises(RuntimeError, match="offsets"):
            compiled(lambda t, i, o: F.embedding_bag(i, t, o, mode=mode))(table, indices, bad)


def test_products_of_narrow_integers():
    x, y = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((17, 24), (24, 32)))
    check(torch._int_mm, x, y)


@pytest.mark.parametrize("f", [torch.cummax, torch.cummin])
@pytest.mark.parametrize("dim", [0, -1])
def test_extremes_so_far_and_where_they_stand(f, dim):
    """The last of equal ones, and a NaN from there on."""
    x = torch.randint(0, 5, (9, 40)).float()
    check(lambda x: f(x, dim), x.requires_grad_())
    check(lambda x: f(x, dim), torch.randint(-5, 5, (3, 7), dtype=torch.int8))
    check(lambda x: f(x > 2, dim), x.detach())
    check(lambda x: (*f(x, 1), *f(x.sum(), 0)), torch.randn(0, 3) if dim else torch.randn(3, 3).half())
    special = torch.tensor([[1.0, -0.0, 0.0, torch.inf, -torch.inf, torch.nan, 3.0, torch.nan, 2.0]])
    given = special if dim else special.T.contiguous()
    for actual, expected in zip(compiled(lambda x: f(x, dim))(given), f(given, dim), strict=True):
        torch.testing.assert_close(actual, expected, equal_nan=True)
    assert not frontend.report()


def test_writing_to_places_of_all_elements():
    x, places = torch.randn(3, 4, requires_grad=True), torch.tensor([[0, -1], [5, 2]])
    y = torch.randn(2, 2, requires_grad=True)
    check(lambda x, y: (x.put(places, y), x.mT.put(places, y, accumulate=True)), x, y)
    with pytest.raises(IndexError, match="put: "):
        compiled(lambda x: x.put(torch.tensor([12]), torch.ones(1)))(x)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_by_places_of_rows(reduce, include_self):
    places = torch.tensor([0, 2, 0])

    def f(x, y, z):
        rows = x.index_reduce(0, places, y, reduce, include_self=include_self)
        return rows, z.index_reduce(-1, places, z[..., :3], reduce, include_self=include_self)

    check(f, torch.randn(4, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True), torch.rand(2, 3, 4))


def test_sums_of_products_of_matrices():
    x, y, z = torch.randn(3, 5), torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 4, 5, requires_grad=True)
    check(lambda x, y, z: (torch.addbmm(x, y, z), torch.addbmm(x * torch.nan, y, z, beta=0, alpha=3)), x, y, z)


def test_hypotenuses_and_variances_of_complex_numbers():
    x, y = torch.randn(4, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    check(torch.hypot, x, y)
    large = torch.tensor([3e30, torch.inf, torch.nan]), torch.tensor([4e30, torch.nan, 1.0])
    torch.testing.assert_close(compiled(torch.hypot)(*large), torch.hypot(*large), equal_nan=True)
    z = torch.randn(4, 5, dtype=torch.complex64, requires_grad=True)
    check(lambda z: (z.var(0), z.std(1, correction=0, keepdim=True), *torch.var_mean(z)), z)


def test_less_common_operations():
    def f(x, y):
        return (
            torch.diagonal_scatter(x, y[0, :3], 1), torch.copysign(x, y), x.round(decimals=1), x.round(decimals=-1),
            x.masked_scatter(y > 0, x * 2), x.scatter_reduce(0, (y > 0).long(), y, "mean", include_self=False),
            torch.fft.irfft2(torch.fft.rfft2(x) * 2), torch.fft.ifft(x + 0j, norm="ortho").abs(), torch.cdist(x, y),
        )  # fmt: skip

    check(f, torch.randn(3, 4) * 9, torch.randn(3, 4))


def test_training_warns_of_nothing_and_eager_operations_warn_at_the_users_line(recwarn):
    compiled(torch.nn.Linear(3, 3))(torch.randn(2, 3)).sum().backward()
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]
    frontend.clear()
    compiled(lambda x: x.mode(0).values)(torch.ones(3))
    (warning,) = [w for w in recwarn if issubclass(w.category, frontend.EagerWarning)]
    assert warning.filename == __file__


def test_views_and_in_place_operations():
    def f(x, y):
        x = x.clone()
        x[1:, ::2] += y[1:, ::2]
        x[0].mul_(3)
        x.T[1] = 5
        x[:, -1].copy_(y[:, 0])
        a, b = x.chunk(2, 1)
        return torch.stack((a, b.flip(0)), -1).permute(2, 0, 1), x.t(), x.unflatten(1, (2, 3)).roll(1, 2)

    check(f, torch.randn(4, 6, requires_grad=True), torch.randn(4, 6, requires_grad=True))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ((y := x * 2), y.view(-1)),
        lambda x: ((y := x.sin()), y[1:], y.T, x.t()),
        lambda x: (x * 2).chunk(2, -1),
        lambda x: (x + 1).unbind(0),
        lambda x: ((x + 1)[:, 1],),
        lambda x: ((x + 1)[:, ::2],),
        lambda x: (x.sum(0, keepdim=True).expand(3, 4),),
        lambda x: ((x + 1).as_strided((2, 2), (1, 3)),),
        lambda x: (torch.diagonal(x * 3),),
    ],
)
def test_results_are_views_of_one_another_as_in_eager(f):
    x = torch.rand(4, 4)
    got, wanted = compiled(f)(x), f(x)
    assert [t.stride() for t in got] == [t.stride() for t in wanted]
    for results in (got, wanted):
        if results[0].stride()[0]:  # an element of expanded ones is many
            results[0].add_(1)
    close(got, wanted)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * 2).chunk(2, -1),
        lambda x: ((x + 1)[:, ::2], (x + 2)[1:], x.t(), x[:, 1:3]),
        lambda x: (x.sum(0, keepdim=True).expand(3, 4), x.exp()[:, 0].unsqueeze(1).expand(4, 3)),
        lambda x: ((y := x * 2)[:, 1:3], y.sum(), y[:, 0]),
        lambda x: (torch.diagonal(x * 3), (x + 1).as_strided((2, 2), (1, 3))),
        lambda x: torch.fft.irfft(torch.fft.rfft(x, 8), 8)[..., :4],
        lambda x: (torch.stack([x, x]).mode(0).values[:, 1:3],),
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_results_of_training_have_the_strides_of_eager(f, dynamic):
    x = torch.rand(4, 4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    got, wanted = as_tuple(torch.compile(f, backend="refxla", dynamic=dynamic)(x)), as_tuple(f(y))
    close(got, wanted)
    assert [t.stride() for t in got] == [t.stride() for t in wanted]
    for results in (got, wanted):
        sum((t * t).sum() for t in results).backward()
    close(x.grad, y.grad)


def test_arguments_are_changed_in_place():
    def f(x, y):
        x.add_(y)
        y[0] = 0
        return x.sum()

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    x2, y2 = x.clone(), y.clone()
    close(compiled(f)(x, y), f(x2, y2))
    close((x, y), (x2, y2))


def test_complex_numbers_are_conjugated_where_pytorch_does():
    def f(x, y):
        return torch.vdot(x, y), torch.linalg.vecdot(x, y), torch.dot(x, y), x.conj() * y

    x, y = (torch.tensor(v, requires_grad=True) for v in ([1 + 2j, 3 - 1j], [2 - 1j, 1j]))
    check(f, x, y)
    for g in (torch.tanh, torch.sigmoid):
        check(lambda z, g=g: torch.view_as_real(g(z)), torch.tensor([1 + 2j, 0.5 - 0.3j], requires_grad=True))


def test_signs_and_kinds_of_complex_numbers():
    inf, nan = float("inf"), float("nan")
    parts = torch.tensor([0.0, 1.0, -2.0, inf, nan, 3e38, 1e-30]), torch.tensor([0.0, 2.0, 0.0, 1.0, 1.0, 3e38, -1e-30])
    check(lambda re, im: [f(torch.complex(re, im)) for f in (torch.isinf, torch.isfinite, torch.isnan)], *parts)
    actual, expected = (f(torch.complex(*parts)) for f in (compiled(torch.sgn), torch.sgn))
    torch.testing.assert_close(actual, expected, equal_nan=True)
    check(lambda z: (z.abs() ** 2, torch.view_as_real(z.sgn())), torch.randn(5, dtype=torch.complex64).requires_grad_())


def test_frequencies():
    def f(x):
        return [
            x * g(n, *d).sum() + g(n, *d, dtype=torch.float64)
            for g in (torch.fft.fftfreq, torch.fft.rfftfreq)
            for n in (1, 4, 5)
            for d in ((), (0.25,))
        ]

    check(f, torch.ones(1))
    check(lambda: torch.fft.fftfreq(0))


def test_a_tensor_of_zeros_without_memory():
    def f(x, w):
        return torch.func.jacfwd(lambda p: (p @ w).tanh())(x)

    check(f, torch.randn(3), torch.randn(3, requires_grad=True))
    close(compiled(lambda x: x + 1)(torch._efficientzerotensor((2, 3))), torch.ones(2, 3))


def test_rotations_by_complex_numbers():
    """Rotary embeddings: pairs of real numbers are complex ones and back."""

    def f(x, angles):
        turns = torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(torch.view_as_complex(x.reshape(2, 3, 4, 2)) * turns).flatten(2)

    check(f, torch.randn(2, 3, 8, requires_grad=True), torch.rand(3, 4, requires_grad=True))


def test_indexing():
    i, j = torch.tensor([[0, -1], [2, 1]]), torch.tensor([3, 0])
    mask = torch.tensor([True, False, True])

    def f(x):
        y = x.clone()
        y[i[0], j] = x[0, :2]
        y[mask] = 0.5
        y.index_put_((i[0],), x[1:], accumulate=True)
        found = x[i], x[:, j], x[i, :, None], x[i, j], x.index_select(1, j), x.gather(1, i.abs())
        return *found, y, x.scatter_add(1, i.abs(), x[:2, :2]), x.scatter(0, j[None] % 3, 2.0)

    check(f, torch.randn(3, 4, requires_grad=True))


@pytest.mark.parametrize(
    "f, shape",
    [
        (lambda x, v, m: x.index_put((m,), v), (6,)),
        (lambda x, v, m: x.index_put((m,), v), (2, 6)),  # one for each element of the mask
        (lambda x, v, m: x.index_put((m,), v, accumulate=True), (2, 1)),
        (lambda x, v, m: x.repeat(4, 1, 1).index_put_((m[None].expand(4, 3),), v), (8, 6)),
        (lambda x, v, m: set_item(x, m, v), (1, 1, 2, 6)),
        (lambda x, v, m: set_item(x, m, v[0]), (1,)),
        (lambda x, v, m: set_item(x, (m, 0), v), (2,)),
        (lambda x, v, m: set_item(x, (m, slice(1, 3)), v), (2, 2)),
        (lambda x, v, m: set_item(x.mT, (slice(None), m), v), (6, 2)),
        (lambda x, v, m: set_item(x, (m, None, ..., -1), v), (2, 1)),
        (lambda x, v, m: set_item(x.mT, (..., m), v), (2,)),
        (lambda x, v, m: set_item(x.mT, (..., m), 7), (2,)),
        (lambda x, v, m: set_item(x, (slice(None), x[0] > 0), 7.0), (2,)),
        (lambda x, v, m: (set_item(x > 0, m, x[:1].expand(2, 6) < 0), x * v[0]), (2,)),
        (lambda x, v, m: x.index_put((m & ~m,), v), (0, 6)),
    ],
)
def test_writes_by_a_mask_are_compiled_with_their_gradients(f, shape):
    mask = torch.tensor([True, False, True])
    x, v = torch.randn(3, 6, requires_grad=True), torch.randn(shape, requires_grad=True)
    check(lambda x, v: f(x, v, mask), x, v)


@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_that_is_expanded_selects_rows(dim):
    """As in graph networks: x.scatter_add(0, index.unsqueeze(1).expand_as(x), x)."""

    def rows(i, x):
        return i.unsqueeze(1 - dim).expand_as(x)

    def f(x, i, s):
        kinds = [("sum", True), ("prod", True), ("amax", False), ("mean", False)]
        reduced = [x.scatter_reduce(dim, rows(i, s), s, r, include_self=own) for r, own in kinds]
        one = x.sum(1 - dim, keepdim=True).scatter_add(dim, i.unsqueeze(1 - dim), s.narrow(1 - dim, 0, 1))
        few = x.scatter_add(dim, rows(i, s.narrow(1 - dim, 0, 2)), s)  # columns of the source are left over
        return (
            *reduced,
            one,
            few.detach(),
            x.scatter(dim, rows(i, s), 2.0),
            x.gather(dim, rows(i, s)),
            s.gather(dim, rows(i, s)),
        )

    x, i, s = torch.randn(7, 3), torch.randint(5, (7,)), torch.randn(7, 3)
    inputs = [t if dim == 0 or t.dim() == 1 else t.t().contiguous() for t in (x, i, s)]
    check(f, *(t.requires_grad_() if t.is_floating_point() else t for t in inputs))
    hlo = refxla.compile(lambda x, i, s: x.scatter_add(dim, rows(i, s), s), *(t.detach() for t in inputs)).hlo
    assert f"update_window_dims={{{1 - dim}}}" in str(hlo)


def set_item(x, index, value):
    x = x.clone()
    x[index] = value
    return x


def test_a_write_by_a_mask_of_another_number_of_elements_raises():
    mask = torch.tensor([True, False, True])
    f = compiled(lambda x, v: set_item(x, mask, v) * 2)
    for n in (2, 1):
        f(torch.zeros(3), torch.zeros(n))
    with pytest.raises(RuntimeError, match="another number of elements"):
        f(torch.zeros(3), torch.zeros(3))


def test_a_graph_that_is_left_to_eager_is_reported():
    mask = torch.tensor([True, False, True])
    f = torch.compile(lambda x, v: set_item(x, (torch.tensor([0]), mask), v) * 2, backend="refxla")
    with pytest.warns(frontend.EagerWarning, match="left to eager"):
        f(torch.zeros(3, 3), torch.ones(2, requires_grad=True))
    assert any("set_item" in e.source or "test_torch.py" in e.source for e in frontend.report())


@pytest.mark.parametrize(
    "f, bad",
    [
        (lambda x, i: x[i], [0, 3]),
        (lambda x, i: x[i], [-4, 0]),
        (lambda x, i: F.embedding(i, x), [1, 9]),
        (lambda x, i: x.gather(0, i[:, None].clone()), [0, -4]),
        # a negative index counts from the end in x[i] alone
        (lambda x, i: F.embedding(i, x), [1, -1]),
        (lambda x, i: F.cross_entropy(x[:2], i), [1, -1]),
        (lambda x, i: x.gather(0, i[:, None].clone()), [0, -1]),
        (lambda x, i: x.index_select(0, i), [-1, 0]),
        (lambda x, i: x.scatter(0, i[:, None], 2.0), [-1, 0]),
        (lambda x, i: x.scatter_add(1, i[None], x), [0, -1]),
        (lambda x, i: x.index_add(0, i, x[:2], alpha=2), [0, -1]),
        (lambda x, i: x.index_copy(1, i, x[:, :2]), [0, -2]),
        (lambda x, i: x.index_fill(1, i, 7.0), [0, -9]),
    ],
)
def test_an_index_out_of_range_raises_as_in_eager(f, bad):
    g, x = compiled(f), torch.randn(3, 4)
    close(g(x, torch.tensor([0, 2])), f(x, torch.tensor([0, 2])))
    with pytest.raises(
        IndexError, match=r"an index is out of range of a dimension of size [345] \(.*test_torch.py:\d+\)"
    ) as e:
        g(x, torch.tensor(bad))
    assert isinstance(e.value, (refxla.Error, RuntimeError)) and "\n" not in str(e.value)
    with pytest.raises((IndexError, RuntimeError)):
        f(x, torch.tensor(bad))


def test_an_index_out_of_range_names_the_operation_that_was_called():
    with pytest.raises(IndexError, match="nll_loss_forward: gather: an index is out of range of a dimension of size 4"):
        compiled(F.cross_entropy)(torch.randn(3, 4), torch.tensor([0, 9, 1]))


selects_in_a_graph = pytest.mark.skipif(
    torch.__version__.startswith("2.13"),
    reason="PyTorch 2.13 breaks the graph where a tensor selects, if it is derived",
)
SELECTED = [
    lambda x, i: x[i] * 2,
    lambda x, i: x[i] + x[:, i].sum() + (x * 2).expand(2, 3, 3)[:, i],  # several by one index, and of a view
    lambda x, i: x[i].view(3, 1) * x[i].t() + x[..., i].max(),
    lambda x, i: (x * 2).select(1, i) + torch.select_scatter(x, x[:, 0], 1, i)[:, 1],
]


@selects_in_a_graph
@pytest.mark.parametrize("f", SELECTED)
def test_a_tensor_without_dimensions_indexes(f):
    """The number is not read: all numbers have one program, forward and backward."""
    x, i = torch.randn(3, 3, requires_grad=True), torch.tensor(2)
    g = compiled(f)
    check(f, x, i)
    check(f, x.detach(), i)
    for n in (1, -1, 2):
        close(g(x, i * 0 + n), f(x, i * 0 + n))
    for bad in (3, -4):
        with pytest.raises(IndexError):
            g(x, i * 0 + bad)


@selects_in_a_graph
def test_a_view_that_a_tensor_selects_is_one():
    """It is made by PyTorch, from the number; what else is computed of the same elements is compiled."""

    def f(x, i):
        return x[i], x[i].view(3, 1), x[i] * 2, x[:, i].exp()

    reads = ["aten._local_scalar_dense.default", "aten.select.int"]
    with pytest.warns(frontend.EagerWarning):
        check(f, torch.randn(3, 3, requires_grad=True), torch.tensor(1), eager=reads)
    x = torch.randn(3, 3)
    with pytest.warns(frontend.EagerWarning):
        frontend.clear()
        row, *_ = compiled(f)(x, torch.tensor(1))
    row.zero_()
    assert not x[1].any()


def test_an_index_from_the_end_where_pytorch_takes_one():
    def f(x, i):
        return x[i], x.index_fill(1, i, 7.0), x.index_put((i,), x[0]), x.take(i), torch.take_along_dim(x, i[:, None], 1)

    x, i = torch.randn(2, 4), torch.tensor([0, -1])
    close(compiled(f)(x, i), f(x, i))


@pytest.mark.parametrize(
    "f, bad, message",
    [
        (lambda x: x.max(), torch.zeros(0, 4), "no element"),
        (lambda x: F.binary_cross_entropy(x, torch.ones_like(x)), torch.tensor([0.5, -0.2]), "between 0 and 1"),
        (lambda x: F.one_hot(x.long(), 3), torch.tensor([2.0, 3.0]), "one_hot"),
    ],
)
def test_what_an_operation_asks_of_values_is_checked(f, bad, message):
    good = torch.tensor([0.5, 1.0])
    close(compiled(f)(good), f(good))
    with pytest.raises(RuntimeError):
        f(bad)
    with pytest.raises(frontend.AssertionFailed, match=message) as e:
        compiled(f)(bad)
    assert isinstance(e.value, (refxla.InputError, RuntimeError))


def test_sums_of_sizes_do_not_warn():
    with torch._dynamo.config.patch(capture_scalar_outputs=True), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", frontend.EagerWarning)
        compiled(lambda x: torch.zeros(int(x[0].item()) + 1) + 1)(torch.tensor([3.0]))
    text = " ".join(str(w.message) for w in told)
    assert not any(word in text for word in ("built-in", "sym_", "_assert_scalar")), text


def test_dividing_integers_by_zero_raises_as_in_eager():
    f = compiled(lambda x, y: (x // y, x % y))
    x = torch.tensor([7, -7, 7, -7])
    close(f(x, torch.tensor([2, 2, -2, -2])), (torch.tensor([3, -4, -4, 3]), torch.tensor([1, 1, -1, -1])))
    with pytest.raises(ZeroDivisionError, match="an integer was divided by 0"):
        f(x, torch.tensor([1, 0, 1, 1]))


def test_integers_booleans_and_promotion():
    def f(i, b, u, x):
        return (
            i / 2, i // 2, i % 3, i + x, i * b, b + b, b & (i > 0), ~b, u << 1, (u >> 1) + i, i.sum(dtype=torch.int8),
            b.sum(), b.any(), (i > 1).all(), x.to(torch.int16), i.to(torch.bool), i.float().mean(), x.double() + i,
            torch.where(b, i, x), i.clamp(-1, 2), i.bitwise_xor(3), i.abs().sqrt(), i.pow(3), b == i,
        )  # fmt: skip

    i = torch.tensor([-3, 0, 2, 5])
    check(f, i, i > 0, i.abs().to(torch.uint8), torch.tensor([0.5, -1.5, 2.5, 1e3]))


def test_special_values():
    x = torch.tensor([float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 2.5, -2.5, 0.5])

    def f(x):
        return (
            x.sign(), x.relu(), x.round(), x.trunc(), x.max(), x.argmax(), x.sort(descending=True), x.clamp(0, 1),
            x.isnan(), x.isinf(), x.floor_divide(0.7), x.remainder(-2), x.fmod(2), torch.maximum(x, x.flip(0)),
            torch.fmax(x, x.flip(0)), x.topk(3), x.signbit(), x.reciprocal(), x.nan_to_num(),
        )  # fmt: skip

    expected, actual = (torch.utils._pytree.tree_leaves(g(x)) for g in (f, compiled(f)))
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert torch.equal(torch.stack((actual[2], actual[3])).signbit(), torch.stack((expected[2], expected[3])).signbit())


def test_reductions():
    def f(x):
        return (
            x.sum((0, 2)), x.mean(1, keepdim=True), x.var(0), x.std(), *x.max(1), x.amin((0, 1)), x.prod(2),
            x.logsumexp(1), x.softmax(0), x.log_softmax(-1), x.norm(dim=2), x.cumsum(1), x.cumprod(0),
            *x.sort(2), *x.topk(2, 1), *torch.var_mean(x, 2),
        )  # fmt: skip

    x = torch.randn(3, 4, 5)
    check(lambda x: tuple(o for o in f(x) if o.dtype.is_floating_point), x.requires_grad_())


@pytest.mark.parametrize("groups, stride, dilation", [(1, 1, 1), (2, 2, 1), (4, 1, 2)])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions(groups, stride, dilation, transposed):
    def f(x, w, b):
        if transposed:
            return F.conv_transpose2d(x, w, b, stride, 1, stride - 1, groups, dilation)
        return F.conv2d(x, w, b, stride, 1, dilation, groups)

    inner = (4, 6 // 2) if transposed else (8, 4 // groups)
    w = torch.randn(*inner, 3, 2, requires_grad=True)
    bias = torch.randn(inner[1] * groups if transposed else 8, requires_grad=True)
    check(f, torch.randn(2, 4, 9, 8, requires_grad=True), w, bias, tolerance=1e-4)
    one = torch.randn(2, 3, 7, requires_grad=True), torch.randn(5, 3, 3, requires_grad=True)
    check(lambda x, w: F.conv1d(x, w, padding="same"), *one)


def test_pooling_and_resizing():
    def f(x):
        return (
            F.max_pool2d(x, (2, 3), (1, 2), 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.adaptive_avg_pool2d(x, (3, 5)), F.interpolate(x, scale_factor=2), F.pad(x, (1, 2, 0, 1), "reflect"),
            F.interpolate(x, size=(5, 9), mode="bilinear", align_corners=False),
        )  # fmt: skip

    check(f, torch.randn(2, 3, 8, 7, requires_grad=True))


@pytest.mark.parametrize(
    ("pool", "sizes"),
    [
        (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 9, 8)),
        (lambda x: F.max_pool2d(x, (3, 2), 1, 1, 2, ceil_mode=True), (3, 9, 8)),
        (lambda x: F.max_pool3d(x, 2, 1), (1, 2, 4, 3, 5)),
    ],
)
def test_the_gradient_of_the_largest_adds_in_the_order_of_the_windows(pool, sizes):
    x = torch.randn(sizes, requires_grad=True)
    given = torch.randn(pool(x).shape)
    wanted = torch.autograd.grad((pool(x) * given).sum(), x)[0]
    got = torch.autograd.grad((torch.compile(pool, backend="refxla")(x) * given).sum(), x)[0]
    assert torch.equal(got, wanted)


@pytest.mark.parametrize(
    "sizes, to",
    [
        ((2, 3, 7, 9), (3, 4)), ((3, 7, 9), (5, 1)), ((2, 3, 8, 6), (4, 3)), ((1, 2, 5, 3, 4), (3, 2, 3)),
        ((2, 24, 14), (2, 1)), ((2, 4, 4, 4), (1, 1, 1)), ((2, 3, 7), 3),
    ],
)  # fmt: skip
def test_the_largest_of_cells(sizes, to):
    n = 1 if isinstance(to, int) else len(to)
    pool = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[n]
    x = torch.randn(sizes)
    x.view(-1)[::5] = 1.0  # some are equal
    check(lambda x: (pool(x, to), *pool(x * 2, to, return_indices=True)), x.requires_grad_())
    check(lambda x: pool(x, to).nan_to_num(9), torch.where(x > 1.5, float("nan"), x).detach())


@pytest.mark.parametrize(
    "mode, align", [("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True), ("lanczos", False)]
)
def test_resizing_with_antialiasing(mode, align):
    if mode == "lanczos" and not hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"):
        pytest.skip("this PyTorch does not have it")

    def resized(x, **to):
        return F.interpolate(x, mode=mode, align_corners=align, antialias=True, **to)

    x = torch.randn(2, 3, 13, 17, requires_grad=True)
    check(lambda x: (resized(x, size=(5, 40)), resized(x, size=(1, 17)), resized(x, scale_factor=0.3)), x)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_samples_at_places_of_a_grid(mode, padding, align):
    def sample(x, grid):
        return F.grid_sample(x, grid, mode, padding, align)

    x, grid = torch.randn(2, 3, 5, 4, requires_grad=True), (torch.randn(2, 3, 7, 2) * 1.2).requires_grad_()
    check(sample, x, grid)
    check(lambda g: sample(x.detach(), g), grid)
    if padding == "zeros":
        half = [v.detach().to(torch.bfloat16) for v in (x, grid)]
        close(compiled(sample)(*half), sample(*(v.float() for v in half)).to(torch.bfloat16), 2e-2)
    if mode != "bicubic":
        volume, places = torch.randn(2, 2, 3, 4, 5, requires_grad=True), torch.randn(2, 2, 3, 2, 3, requires_grad=True)
        check(sample, volume, places)


@pytest.mark.parametrize("aligned", [True, False])
def test_means_of_regions(aligned):
    ops = pytest.importorskip("torchvision.ops")
    regions = torch.tensor([[0, 1.0, 1, 10, 12], [1, 3, 2, 18.5, 15], [0, -6, -3, 25, 21], [1, 4, 4, 4, 4]])
    x = torch.randn(2, 3, 20, 17, requires_grad=True)
    check(lambda x: ops.roi_align(x, regions, (5, 4), 0.8, 2, aligned), x)
    whole = ["torchvision.roi_align.default", "torchvision._roi_align_backward.default"]
    with pytest.warns(frontend.EagerWarning):  # as many samples as a region is large
        check(lambda x: ops.roi_align(x, regions, (2, 2)), x, eager=whole)


@pytest.mark.parametrize("groups, offset_groups, strides", [(1, 1, 1), (2, 3, (2, 1))])
def test_deformable_convolutions(groups, offset_groups, strides):
    ops = pytest.importorskip("torchvision.ops")
    x, w = torch.randn(2, 6, 8, 9, requires_grad=True), torch.randn(4, 6 // groups, 3, 2, requires_grad=True)
    options = {"stride": strides, "padding": (1, 2), "dilation": (1, 2)}
    sizes = F.conv2d(x, w, groups=groups, **options).shape[2:]
    offset = torch.randn(2, offset_groups * 12, *sizes).mul_(2).requires_grad_()
    mask = torch.rand(2, offset_groups * 6, *sizes, requires_grad=True)
    bias = torch.randn(4, requires_grad=True)
    conv = ops.deform_conv2d
    check(lambda x, w, o, m, b: conv(x, o, w, b, mask=m, **options), x, w, offset, mask, bias, tolerance=1e-4)
    check(lambda x, w, o: conv(x, o, w, **options), x, w, offset, tolerance=1e-4)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_reductions_of_segments(reduce):
    x = torch.randn(3, 7, 2, dtype=torch.float64)
    x[0, 0] = x[1, 1] = x[1, 2] = 0
    lengths = torch.tensor([[2, 0, 4, 1], [0, 0, 3, 4], [7, 0, 0, 0]])
    segments = torch.segment_reduce
    check(lambda x: segments(x, reduce, lengths=lengths, axis=1, initial=1), x.requires_grad_())
    check(lambda x: segments(x, reduce, lengths=lengths, axis=1, unsafe=True).nan_to_num(5, 6, 7), x.detach())
    ends = torch.tensor([0, 2, 2, 3])
    check(lambda x: segments(x, reduce, offsets=ends, axis=0, initial=0.5), x.detach().requires_grad_())
    with pytest.raises(RuntimeError, match="lengths"):
        compiled(lambda x: segments(x, reduce, lengths=lengths + 1, axis=1))(x)


@pytest.mark.parametrize("norm_type", [2.0, 1.0])
def test_embeddings_of_a_largest_norm(norm_type):
    """The rows that are looked up are changed in place."""
    table, i = torch.randn(6, 4), torch.tensor([[0, 3], [3, 5]])
    other = table.clone()
    for _ in range(2):
        close(compiled(F.embedding)(i, table, None, 1.0, norm_type), F.embedding(i, other, None, 1.0, norm_type))
    close(table, other)
    assert not frontend.report()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_floating_point_types(dtype):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(dtype)
    batch = torch.randn(6, 8, dtype=dtype), torch.randn(6, 4, dtype=dtype)
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 5e-3, torch.float64: 1e-12}[dtype]
    check_training(model, [batch], tolerance, loss=F.mse_loss)


def test_autocast_to_bf16():
    model = nn.Linear(8, 4)

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    x = torch.randn(3, 8)
    assert compiled(f)(x).dtype == torch.bfloat16
    close(compiled(f)(x).float(), f(x).float(), 2e-2)


# -- memory


def test_arguments_are_read_where_they_lie_and_results_are_new():
    """A transposed or channels-last array is read as it lies, without a copy; an array with gaps is copied."""
    from refxla.frontends.torch import tensors

    x = torch.randn(2, 3, 4, 5)
    for view in (x, x.permute(0, 2, 3, 1), x.to(memory_format=torch.channels_last), x[:, :, 1], x[..., ::2]):
        order = tensors.memory_order(view)
        array = tensors.to_array(view, order)
        assert (
            np.shares_memory(array, view.numpy())
            == (order is not None)
            == (view.shape not in ((2, 3, 5), (2, 3, 4, 3)))
        )
        restored = array if order is None else array.transpose(tensors.inverse(order))
        assert np.array_equal(restored, view.numpy())
        check(lambda v: (v * 2, v.clone(), v.transpose(0, 1) + 1), view)
    half = torch.randn(3).to(torch.bfloat16)
    array = tensors.to_array(half, (0,))
    back = tensors.to_tensor(array, None)
    assert array.dtype.name == "bfloat16" and back.data_ptr() == half.data_ptr() and torch.equal(back, half)


def test_saved_parameters_are_not_copied():
    """What a backward graph needs of the parameters is the parameters themselves."""
    w, x = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    y = compiled(lambda w, x: torch.tanh(x @ w.t()) @ w)(w, x)
    saved = {t.untyped_storage().data_ptr() for t in y.grad_fn.saved_tensors if t is not None}
    assert w.untyped_storage().data_ptr() in saved


# -- what is missing


def test_a_report_without_graphs_names_a_break_within_a_loop(monkeypatch):
    monkeypatch.setattr(sys.modules["refxla.frontends.torch.report"], "_graphs", 0)
    i, x = torch.tensor([0, 2, 2]), torch.randn(3)

    def messages(x, i):
        for _ in range(2):
            x = x / torch.bincount(i, minlength=3).clamp(min=1)
        return x

    close(torch.compile(messages, backend="refxla")(x, i), messages(x, i))  # Dynamo leaves all of it to PyTorch
    assert "a graph break within a loop" in str(frontend.report())

    def counted(x, i):
        for _ in range(2):
            x = x / torch.zeros(3).index_add(0, i, torch.ones(i.shape)).clamp(min=1)
        return x

    close(compiled(counted)(x, i), messages(x, i))  # as docs/torch.md suggests
    assert "every operation" in str(frontend.report())


def test_a_report_without_graphs_says_that_none_came(monkeypatch):
    monkeypatch.setattr(sys.modules["refxla.frontends.torch.report"], "_graphs", 0)
    lstm, x = nn.LSTM(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        close(torch.compile(lstm, backend="refxla")(x)[0], lstm(x)[0])  # Dynamo leaves it to PyTorch
        assert "no graph has reached refxla yet" in str(frontend.report()) and "allow_rnn" in str(frontend.report())
        close(compiled(lambda x: x + 1)(x), x + 1)
    assert "every operation" in str(frontend.report())


def test_an_lstm_trains():
    model, batch = nn.LSTM(4, 3, batch_first=True), (torch.randn(2, 5, 4), torch.randn(2, 5, 3))
    with torch._dynamo.config.patch(allow_rnn=True):
        check_training(model, [batch], loss=lambda out, y: F.mse_loss(out[0], y))
    assert torch.backends.mkldnn.enabled == torch.backends.mkldnn.is_available()


def test_what_has_no_lowering_runs_in_eager_with_a_report():
    def f(x):
        y = torch.special.bessel_j0(x * 2) + 1
        z = torch.special.bessel_j0(y)
        return (z * y).sum()

    g, x = compiled(f), torch.rand(3)
    with pytest.warns(
        frontend.EagerWarning, match=r"bessel_j0.* runs in PyTorch, not compiled: it has no lowering \(.*:\d+\)"
    ) as seen:
        close(g(x), f(x))
    assert len(seen) == 1  # once for an operation
    close(g(x + 1), f(x + 1))
    entries = frontend.report()
    assert [(e.calls, e.reason) for e in entries] == [(2, "it has no lowering")] * 2
    lines = {int(e.source.rpartition(":")[2]) for e in entries}
    assert max(lines) - min(lines) == 1 and all("test_torch.py" in e.source for e in entries)
    assert re.fullmatch(r"operation +calls +why +where\n.*bessel_j0.* 2 +it has no lowering +\S+\n.*", str(entries))
    frontend.clear()
    assert "every operation" in str(frontend.report())


def test_a_graph_that_writes_in_place_runs_in_eager_as_a_whole():
    """AOTAutograd leaves no such operation, but PyTorch's decompositions may; HLO's values are no views."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from refxla.compiler.options import Options
    from refxla.frontends.torch.partition import compile_graph

    def f(x):
        y = x * 2
        y.diagonal().add_(1)
        return [y + x]

    x = torch.randn(3, 3)
    with pytest.warns(frontend.EagerWarning, match="add_.* its graph writes in place, and runs in PyTorch as a whole"):
        run = compile_graph(make_fx(f, tracing_mode="fake")(x), "test", Options())
    close(run(x), f(x))


def test_attention_on_both_sides_of_what_runs_in_eager():
    """It has several results, and a tag of random numbers, of which it draws none: no piece begins or ends at it."""

    def f(x):
        for _ in range(2):
            x = F.scaled_dot_product_attention(x, x, x, is_causal=True)
            x = x + torch.histogram(x, 5)[0].sum() * x
        return x

    check(f, torch.randn(1, 2, 6, 8), eager=["aten.histogram.bin_ct"])


def test_gradients_through_what_runs_in_eager():
    def f(x):
        a, i = torch.mode(x * 3, 1)
        return (a.tanh(), x[:, 0] * i)

    with pytest.warns(frontend.EagerWarning):
        x = torch.randn(6, 3, requires_grad=True)
        check(f, x, eager={"aten.mode.default"})


def test_graph_breaks_are_left_to_dynamo():
    def f(x):
        y = x * 2
        if y.sum().item() > 0:
            return y + 1
        return y - 1

    g = torch.compile(f, backend="refxla")
    for x in (torch.ones(3), -torch.ones(3)):
        close(g(x), f(x))


def test_options_are_those_of_compile():
    x = torch.randn(4)
    close(compiled(lambda x: x + 1, options={"device": "reference"})(x), x + 1)
    with pytest.raises(Exception, match="refxla has device, without, tune"):
        compiled(lambda x: x + 1, options={"speed": "high"})(x)
    with pytest.raises(Exception, match="mode='max-autotune', which the backend refxla does not have"):
        compiled(lambda x: x + 1, mode="max-autotune")(x)


def test_sparse_tensors_are_refused():
    from refxla.frontends.torch.graph import LoweredGraph

    graph = torch.fx.symbolic_trace(lambda x: torch.relu(x)).graph
    next(iter(graph.nodes)).meta["val"] = torch.eye(3).to_sparse()
    with pytest.raises(refxla.InputError, match="a sparse tensor .* has no form in HLO: make it dense"):
        LoweredGraph(torch.fx.GraphModule({}, graph), "sparse")
    with pytest.raises(refxla.InputError, match="a sparse tensor .* has no form in HLO: make it dense"):
        refxla.compile(torch.relu, torch.eye(3).to_sparse())


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's quantized tensors are deprecated
def test_quantized_tensors_are_refused():
    with pytest.raises(refxla.InputError, match=r"a quantized tensor .* use tensor.dequantize\(\)"):
        refxla.compile(torch.relu, torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))


def test_core_operations_are_covered_and_pytorchs_samples_agree():
    """A few of them here; all are a matter of minutes (docs/torch.md)."""
    pytest.importorskip("expecttest")
    from refxla_conformance.torch_ops import core_operations, coverage, outcomes
    from torch.testing._internal.common_methods_invocations import op_db

    from refxla.compiler.options import Options

    counts = coverage()
    assert sum(counts.values()) == len(core_operations())
    assert counts["eager"] <= 0.05 * sum(counts.values())
    tried = {"cat", "scatter_reduce", "nn.functional.avg_pool2d", "var_mean", "remainder"}
    options = Options.of(device="reference")
    for info in op_db:
        if info.name in tried:
            found = list(outcomes(info, torch.float32, 3, options))
            assert found and set(found) == {("passed", "")}, info.name


@pytest.mark.filterwarnings("ignore")
def test_a_nested_tensor_is_refused():
    rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(refxla.InputError, match="a nested tensor.*to_padded_tensor"):
        compiled(lambda x: x.sin())(rows)


def test_what_a_program_moves_to_another_device_stays_there():
    with pytest.warns(frontend.EagerWarning, match="its result is on meta, and refxla's are on the CPU"):
        assert compiled(lambda x: (x + 1).to("meta"))(torch.ones(3)).device.type == "meta"
    with pytest.warns(frontend.EagerWarning, match="aten.ones.default"):
        assert compiled(lambda x: torch.ones(3, device="meta"))(torch.ones(3)).device.type == "meta"


def threads():
    return set(os.listdir("/proc/self/task"))


@pytest.fixture
def two_threads(monkeypatch):
    """PyTorch has two, which wait as they do by default."""
    count = torch.get_num_threads()
    torch.set_num_threads(2)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    openmp._pause.cache_clear()
    yield
    torch.set_num_threads(count)
    openmp._pause.cache_clear()


@pytest.mark.parametrize(("size", "policy", "count"), [(1 << 20, "", 1), (1, "", 0), (1 << 20, "ACTIVE", 0)])
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has no other threads")
def test_waiting_threads_are_ended_before_a_program_that_needs_their_cores(
    two_threads, monkeypatch, size, policy, count
):
    if policy:
        monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    x, y, f = torch.rand(1 << 20), torch.rand(size), compiled(lambda x: x.exp().sin())
    f(y)  # refxla's own threads are there then
    without = threads()
    torch.exp(x)
    waiting = threads() - without
    f(y)
    limit = time.monotonic() + 2
    while not (ended := waiting - threads()) and time.monotonic() < limit:
        time.sleep(0.01)
    assert len(ended) == count
