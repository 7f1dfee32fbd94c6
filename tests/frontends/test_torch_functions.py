"""refxla.compile(model): models of PyTorch as functions, and files of them."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import refxla  # noqa: E402


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.output, self.words = nn.Linear(4 * 2 * 2, 3), nn.Embedding(5, 3)

    def forward(self, images, scale=1.0, *, words=None):
        x = torch.max_pool2d(torch.relu(self.norm(self.filters(images))), 2)
        logits = self.output(x.flatten(1)) * scale
        return {
            "logits": logits,
            "turned": (logits + 1).t(),
            "given": images,
            "words": (words, self.words(words)),
            "n": None,
        }


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network().eval()


@pytest.fixture
def arguments():
    return (torch.randn(2, 2, 4, 4), 2.0), {"words": torch.tensor([1, 4])}


def test_it_gives_what_the_model_gives_and_sees_its_weights_change(network, arguments):
    args, kwargs = arguments
    compiled = refxla.compile(torch.compile(network))
    for _ in range(2):
        found = compiled(*args, **kwargs)
        torch.testing.assert_close(found, network(*args, **kwargs), rtol=1e-5, atol=1e-5)
        assert not found["logits"].requires_grad and "dot" in str(compiled.hlo)
        with torch.no_grad():
            network.output.bias.add_(1)
    strided = args[0].permute(0, 1, 3, 2)
    torch.testing.assert_close(compiled(strided, 2.0, **kwargs), network(strided, 2.0, **kwargs), rtol=1e-5, atol=1e-5)
    assert not network.training and repr(compiled) == "<TorchFunction Network: compiled for 1 kind of arguments>"


class Attending(nn.Module):
    """With attention, which torch.export keeps as one operation, and a conversion that it asserts the type of."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.mixed = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, memory):
        mixed, _ = self.mixed(x, x, x, need_weights=False)
        heads = mixed.view(*x.shape[:2], 2, 4).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return self.layer(x, memory), attended.to(torch.float64).float()


def test_models_with_attention(tmp_path):
    model, x, memory = Attending().eval(), torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    compiled = refxla.compile(model, x, memory)
    torch.testing.assert_close(compiled(x, memory), model(x, memory), rtol=1e-5, atol=1e-5)
    compiled.save(tmp_path / "attending.refxla")
    found = refxla.load(tmp_path / "attending.refxla")(x.numpy(), memory.numpy())
    torch.testing.assert_close(torch.from_numpy(found[0]), model(x, memory)[0].detach(), rtol=1e-5, atol=1e-5)


def test_a_file_of_it_runs_without_pytorch(network, arguments, tmp_path):
    (images, scale), kwargs = arguments
    expected = network(images, scale, **kwargs)
    compiled = refxla.compile(network)
    compiled(images, scale, **kwargs)
    compiled.save(tmp_path / "network.refxla")
    loaded = refxla.load(tmp_path / "network.refxla")
    words = kwargs["words"].numpy()
    found = loaded(images.numpy(), scale, words=words)
    assert found["n"] is None and found["words"][0].tolist() == [1, 4]
    for name in ("logits", "turned", "given"):
        assert type(found[name]).__module__ == "numpy"
        torch.testing.assert_close(torch.from_numpy(found[name]), expected[name].detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(refxla.InputError, match=r"scale is 3.0, and the function was saved for 2.0"):
        loaded(images.numpy(), 3.0, words=words)
    for run in (loaded, lambda i, s, words: compiled(torch.from_numpy(i), s, words=torch.from_numpy(words))):
        with pytest.raises(IndexError, match="out of range"):
            run(images.numpy(), scale, words=words + 3)


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (Network(), r"Network writes norm.running_mean, .*: call model.eval\(\) first"),
        (nn.Dropout(), r"Dropout draws random numbers \(aten.bernoulli.p.*: call model.eval\(\) first"),
        (
            lambda x: x + torch.randn_like(x),
            r"draws random numbers \(aten.randn_like.*: draw them outside, and pass them as an argument",
        ),
        (lambda x: x[x > 0], r"has aten.index.Tensor, and .* known at run time only"),
        (
            lambda x: x if x.sum() > 0 else -x,
            r"torch.export takes no graph off .* data-dependent .*torch.where chooses.*torch.cond.* several graphs",
        ),
        (lambda x: x.sum().item(), r"reads a number from a tensor, by .item\(\).*is returned: compute with the tensor"),
        (lambda x: torch.ones(x.int().sum().item()), r"reads a number from a tensor, by .item\(\).*decides a size"),
    ],
)
def test_what_is_no_single_program_says_what_to_do(model, problem):
    x = torch.ones(1, 2, 4, 4)
    with pytest.raises(refxla.UnsupportedError, match=problem):
        if isinstance(model, Network):
            refxla.compile(model)(x, words=torch.tensor([0]))
        else:
            refxla.compile(model, x)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return x * self.scale.item() + x.mean().item() / (1 + self.scale.item())


@pytest.mark.parametrize(
    "model",
    [
        Scaled(),
        lambda x: x / x.abs().max().item(),
        lambda x: (x.bfloat16() * x.max().item(), x > x.mean().item(), x.abs() ** x.max().item()),
        lambda x: (x.clamp(max=x.max().item() / 2), torch.full((2,), x[0, 0].item()), x.argmax().item() - x.int()),
        lambda x: x.roll(1, 0) * x.int().max().reshape(1).item(),
    ],
)
def test_numbers_read_from_tensors_are_computed(model, tmp_path):
    x, other = torch.randn(4, 3), 3 * torch.randn(4, 3)
    compiled = refxla.compile(model, x)
    compiled.save(tmp_path / "model.refxla")
    for value in (x, other):
        torch.testing.assert_close(compiled(value), model(value))
    if isinstance(model, Scaled):
        with torch.no_grad():
            model.scale.fill_(5.0)
        torch.testing.assert_close(compiled(x), model(x).detach())


def test_each_module_keeps_its_mode():
    """Parts of a model may be in another mode than the whole, as a frozen normalization in one that trains: they are
    compiled as they are, and another mode is another program."""
    model = nn.Sequential(nn.BatchNorm2d(2), nn.ReLU())
    model[0].eval()
    model[0].running_mean += 1
    x = torch.arange(8.0).reshape(1, 2, 2, 2)
    compiled = refxla.compile(model, x)
    torch.testing.assert_close(compiled(x), model(x).detach())
    assert model.training and not model[0].training
    model[0].train()
    with pytest.raises(refxla.UnsupportedError, match="writes 0.running_mean"):
        compiled(x)


class Scaled(nn.Module):
    def forward(self, x, scale):
        return x * scale


def test_example_arguments_may_be_keywords():
    x = torch.arange(4.0)
    compiled = refxla.compile(Scaled(), x, scale=x)
    assert torch.equal(compiled(x, scale=2 * x), 2 * x * x) and len(compiled._compiled) == 1
    with pytest.raises(refxla.InputError, match="'devise' is neither an option .* which takes x, scale"):
        refxla.compile(Scaled(), x, devise="pocl")


def test_elements_at_a_tensor_and_memory_of_views():
    """The graph of a function is prepared like that of `torch.compile`."""
    x = torch.arange(24.0).reshape(4, 6)
    for f in (
        lambda x: x[x.argmax() % 4] * 2,
        lambda x: x[1:, 1:].as_strided((2, 2), (6, 1)) + 1,
        lambda x: (x * 2)[1:, 1:].as_strided((2, 2), (6, 1), 9),
    ):
        compiled = refxla.compile(f, x)
        for value in (x, x.flip(0).contiguous()):
            torch.testing.assert_close(compiled(value), f(value))
