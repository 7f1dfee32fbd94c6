"""Functions of TensorFlow: structures in and out, variables, values that decide about shapes, and what is refused."""

import collections
import gc
import subprocess
import sys
import time
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import refxla.tensorflow  # noqa: E402
from refxla import InputError, UnsupportedError  # noqa: E402
from refxla.frontends.traced import RecompilationWarning  # noqa: E402

A, B = tf.range(8.0), tf.constant(2.0)
Pair = collections.namedtuple("Pair", "first second")


@pytest.fixture(autouse=True)
def same_weights_at_every_run():
    keras.utils.set_random_seed(0)


def check(function, *args, **kwargs):
    """The compiled function gives what the function gives: structure, types, values."""
    compiled = refxla.compile(function)
    got, wanted = compiled(*args, **kwargs), function(*args, **kwargs)
    tf.nest.assert_same_structure(got, wanted)
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True):
        if b is None:
            assert a is None
            continue
        assert isinstance(a, tf.Tensor) and (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), 1e-5, 1e-6)
    return compiled


def kinds(compiled) -> int:
    return len(compiled._compiled)


# Training.


def network():
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((12, 12, 3)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.3, seed=3),
            layers.Dense(5),
        ]
    )


def test_training_with_adam_agrees_with_tensorflow():
    """Several steps: weights, statistics, moments, the count of steps and the state of the dropout are written back."""
    model, optimizer = network(), keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=True)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    variables = [v.value for v in model.variables + optimizer.variables]
    start = [v.numpy() for v in variables]
    images, labels = tf.random.stateless_normal((4, 12, 12, 3), [1, 2]), tf.constant([1, 2, 3, 4])
    wanted = [step(images, labels).numpy() for _ in range(4)]
    trained = [v.numpy() for v in variables]
    for variable, value in zip(variables, start, strict=True):
        variable.assign(value)
    compiled = refxla.compile(step, images, labels)
    assert all(np.array_equal(v.numpy(), value) for v, value in zip(variables, start, strict=True))  # not run yet
    np.testing.assert_allclose([compiled(images, labels).numpy() for _ in range(4)], wanted, 1e-5)
    assert kinds(compiled) == 1  # no recompilation because the count of steps or the learning rate changes
    for variable, value in zip(variables, trained, strict=True):
        np.testing.assert_allclose(
            variable.numpy(), value, 1e-5, 1e-5 * abs(value).max(initial=0), err_msg=variable.name
        )


def test_keras_models_layers_and_methods():
    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(4, activation="gelu"), keras.layers.Dense(2)]
    )
    compiled = check(model, A[None])
    assert compiled.plan.kernels
    layer = keras.layers.Dense(3)  # has no weights before its first call
    np.testing.assert_allclose(refxla.compile(layer)(A[None]), layer(A[None]), 1e-5, 1e-5)
    model.compile("sgd", "mse")
    step, before = refxla.compile(model.train_step), model.get_weights()
    first, second = (float(step((A[None], tf.ones((1, 2))))["loss"]) for _ in range(2))
    assert first != second and not np.array_equal(before[0], model.get_weights()[0])


# Arguments and results.


def test_structures():
    @tf.function
    def f(a, pair, training, *, rest):
        b = pair.first if training else pair.second
        return {"z": a * b, "a": [a, (a, None)], "pair": Pair(a > 2, 3), "rest": rest["x"], "empty": tf.zeros((0, 3))}

    compiled = check(f, A, Pair(B, [A][0]), True, rest={"x": tf.cast(A, tf.bfloat16)})
    assert kinds(compiled) == 1
    compiled(A, Pair(B, A), False, rest={"x": tf.cast(A, tf.bfloat16)})
    assert kinds(compiled) == 2  # a Python value is part of the program


def test_numpy_arrays_and_plain_functions():
    check(tf.function(lambda a, b: a * b), A.numpy(), np.float32(3))
    compiled = refxla.compile(lambda a: a * 2, A)  # which a tensor among the examples says is TensorFlow's
    np.testing.assert_array_equal(compiled(A), A * 2)


def test_python_control_flow_becomes_that_of_the_program():
    @tf.function
    def f(x):
        count = 0
        while tf.reduce_sum(x) < 1000:
            x, count = x * 2, count + 1
        return x, count

    check(f, A)


def test_results_take_over_memory():
    compiled = refxla.compile(tf.function(lambda a: a + 1), tf.TensorSpec((1000,)))
    result = compiled(tf.zeros(1000))
    again = compiled(tf.zeros(1000))
    assert np.asarray(result).ctypes.data != np.asarray(again).ctypes.data
    del again
    result += 1
    np.testing.assert_array_equal(result, np.full(1000, 2, np.float32))


def test_example_arguments_may_be_keywords():
    compiled = refxla.compile(tf.function(lambda x, y: x - y), tf.ones(3), y=tf.ones(3))
    assert float(tf.reduce_sum(compiled(tf.ones(3), y=tf.zeros(3)))) == 3 and kinds(compiled) == 1
    with pytest.raises(InputError, match="'devise' is neither an option"):
        refxla.compile(tf.function(lambda x: x), tf.ones(3), devise="pocl")


def test_concrete_functions_and_input_signatures():
    f = tf.function(lambda a: a * 2, input_signature=[tf.TensorSpec([None])])
    check(f, A)
    check(f.get_concrete_function(), A)


def test_in_a_gradient_and_as_decorator():
    @refxla.compile
    @tf.function
    def f(x):
        """Doubles."""
        return tf.gradients(tf.sin(x), x)[0]

    np.testing.assert_allclose(f(A), tf.cos(A), 1e-6)
    assert f.__doc__ == "Doubles." and "cosine" in str(f.hlo)


def test_a_tape_around_a_call_says_that_it_records_nothing():
    w, frozen, after = tf.Variable(2.0), tf.Variable(3.0, trainable=False), tf.Variable(4.0)
    f = refxla.compile(tf.function(lambda a: {"y": tf.sin(a * w) * frozen, "kinds": tf.range(3)}))
    with tf.GradientTape(persistent=True) as tape:
        y = f(A)["y"] * after
        unasked = tf.stop_gradient(f(A)["y"]) * after
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tape.gradient(unasked, w) is None
        np.testing.assert_allclose(tape.gradient(unasked, after), tf.reduce_sum(tf.sin(A * 2) * 3), 1e-5)
    with pytest.warns(refxla.tensorflow.GradientWarning, match="inside of the compiled function") as caught:
        assert tape.gradient(y, [w, frozen]) == [None, None]
        assert tape.gradient(y, w) is None
    assert len(caught) == 1 and caught[0].filename == __file__


# Variables.


def test_variables_are_read_and_written_at_each_call():
    v, w = tf.Variable(3.0), tf.Variable([1.0, 2.0])

    @tf.function
    def f(x, y):
        v.assign_add(tf.reduce_sum(x))
        return {"r": w * v, "n": None, "same": y}

    compiled = refxla.compile(f)
    np.testing.assert_array_equal(compiled(A, B)["r"], [31, 62])
    assert v.numpy() == 31
    v.assign(1)
    w.assign([0, 1])
    np.testing.assert_array_equal(compiled(A, B)["r"], [0, 29])
    v.assign_add(1)
    assert v.numpy() == 30 and kinds(compiled) == 1


def test_variables_that_are_written_only_or_arguments():
    v, count = tf.Variable(0.0), tf.Variable(0, dtype=tf.int64)
    compiled = refxla.compile(tf.function(lambda x: (v.assign(x), None)[1]))
    assert compiled(B) is None and v.numpy() == 2
    assert compiled(B + 1) is None and v.numpy() == 3

    @tf.function
    def f(x, variable):
        variable.assign_add(1)
        return x * tf.cast(variable, tf.float32)

    compiled = refxla.compile(f)
    assert [compiled(B, count).numpy() for _ in range(3)] == [2, 4, 6] and count.numpy() == 3
    assert kinds(compiled) == 1


# Values that decide about shapes: the trap of a cache that knows shapes alone.


def test_a_value_in_the_program_is_part_of_the_key():
    f = tf.function(lambda a, i, b: a[i : i + 2] * b)
    compiled = refxla.compile(f, A, tf.constant(3), B)
    assert len(compiled.hlo.entry.parameters) == 2
    for i in (3, 5, 3, 0):
        np.testing.assert_array_equal(compiled(A, tf.constant(i), B), f(A, tf.constant(i), B))
    assert kinds(compiled) == 3
    np.testing.assert_array_equal(compiled(A, tf.constant(3), B + 1), f(A, tf.constant(3), B + 1))
    assert kinds(compiled) == 3


def test_which_of_several_arguments_it_is():
    f = tf.function(lambda a, s, t, c: (tf.reshape(a, t) + c, s))
    s, t = tf.constant([8, 1]), tf.constant([2, 4])
    compiled = check(f, A, s, t, B)
    np.testing.assert_array_equal(compiled(A, s + 5, t, B)[1], s + 5)
    assert kinds(compiled) == 1
    assert compiled(A, s, t[::-1], B)[0].shape == (4, 2)
    assert kinds(compiled) == 2


def test_captured_constants_in_the_program():
    shape = tf.constant([2, 4])
    check(tf.function(lambda a: tf.reshape(a, shape) + tf.reshape(A, shape)), A)


def test_a_variable_that_decides_about_shapes():
    shape, at = tf.Variable([2, 4]), tf.Variable(0)
    compiled = refxla.compile(tf.function(lambda a: tf.reshape(a, shape)))
    assert compiled(A).shape == (2, 4)
    shape.assign([4, 2])
    assert compiled(A).shape == (4, 2)

    @tf.function
    def ring(a):
        part = a[at : at + 2]
        at.assign((at + 3) % 6)
        return part

    compiled = refxla.compile(ring)
    assert [compiled(A).numpy().tolist() for _ in range(3)] == [[0, 1], [3, 4], [0, 1]]
    assert kinds(compiled) == 2 and at.numpy() == 3


def test_tensor_specs():
    compiled = refxla.compile(tf.function(lambda a, b: a * b), tf.TensorSpec((8,)), tf.TensorSpec(()))
    np.testing.assert_array_equal(compiled(A, B), A * B)
    assert kinds(compiled) == 1
    with pytest.raises(refxla.InputError, match="unknown dimensions"):
        refxla.compile(tf.function(lambda a: a), tf.TensorSpec((None,)))
    with pytest.raises(refxla.InputError, match="depend on the values"):
        refxla.compile(tf.function(tf.reshape), tf.TensorSpec((0,)), tf.TensorSpec((2,), tf.int32))


def test_shapes_that_depend_on_data():
    def chosen(a, mask):
        kept = tf.boolean_mask(a, mask)
        return {"kept": kept * 2, "where": tf.where(mask), "sum": tf.reduce_sum(kept), "all": a, "one": tf.unique(a)[0]}

    compiled = refxla.compile(tf.function(chosen))
    for mask in (A > 0, A > 1000, A == A):
        got, wanted = compiled(A, mask), chosen(A, mask)
        for name, value in wanted.items():
            assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
            np.testing.assert_allclose(got[name], value, 1e-6)
    assert kinds(compiled) == 1  # one program for all sizes


# What is refused.


HERE = Path(__file__).name
REFUSED = {
    "print": (lambda a: (tf.print(a), a)[1], "cannot lower print_ to HLO: .*StringFormat"),
    "python": (lambda a: tf.numpy_function(np.sin, [a], tf.float32), "PyFunc"),
    "text": (lambda a: tf.strings.length(tf.as_string(a)), "AsString"),
    "matrix": (lambda a: tf.linalg.det(a[None] * a[:, None]), f"HLO: MatrixDeterminant .*{HERE}:.*: XLA has no kernel"),
    "python of a size known at run time": (
        lambda a: tf.numpy_function(np.sin, [tf.boolean_mask(a, a > 0)], tf.float32),
        "PyFunc .*: calls a Python function",
    ),
    "in a loop": (
        lambda a: tf.while_loop(lambda b: b[0] < 3, lambda b: [tf.linalg.sqrtm(tf.linalg.diag(b))[0]], [a]),
        f"HLO: MatrixSquareRoot .*{HERE}:",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, reason = REFUSED[name]
    function.__name__ = f"{name}_"
    with pytest.raises(refxla.UnsupportedError, match=reason) as caught:
        refxla.compile(tf.function(function), A)
    assert "\n" not in str(caught.value)


RANDOM = {
    "normal": (lambda a: a + tf.random.normal((8,)), "tf.random.normal"),
    "seeded": (lambda a: a + tf.random.normal((8,), seed=3), "tf.random.normal"),
    "uniform": (lambda a: a + tf.random.uniform((8,)), "tf.random.uniform"),
    "integers": (lambda a: a + tf.cast(tf.random.uniform((8,), maxval=5, dtype=tf.int32), tf.float32), "uniform"),
    "dropout": (lambda a: tf.nn.dropout(a, 0.5), "dropout"),
    "shuffle": (lambda a: tf.random.shuffle(a), "tf.random.shuffle"),
    "categorical": (lambda a: tf.random.categorical(a[None], 3), "tf.random.categorical"),
    "gamma": (lambda a: a + tf.random.gamma((8,), 1.0), "tf.random.gamma"),
    "in a branch": (lambda a: tf.cond(a[0] > 0, lambda: a + tf.random.normal((8,)), lambda: a), "tf.random.normal"),
    "in a loop": (lambda a: tf.map_fn(lambda t: t + tf.random.normal(()), a), "tf.random.normal"),
}


@pytest.mark.parametrize("name", RANDOM)
def test_noise_that_would_be_the_same_at_every_call_is_refused(name):
    function, called = RANDOM[name]
    with pytest.raises(refxla.UnsupportedError, match=f"{called}.*stateless_"):
        refxla.compile(tf.function(function), A)


def test_noise_of_numpy_is_refused():
    with pytest.raises(refxla.UnsupportedError, match=r"np\.random\.randn draws random numbers"):
        refxla.compile(tf.function(lambda a: a + np.random.randn(8).astype(np.float32)), A)


def test_python_values_that_change_are_told():
    compiled = refxla.compile(tf.function(lambda a, rate: a * rate))
    with pytest.warns(RecompilationWarning, match="rate changed, the last time from 4.0 to 5.0.*tf.constant"):
        for n in range(7):
            compiled(A, float(n))


def test_python_values_that_no_tensor_can_replace_are_told():
    compiled = refxla.compile(tf.function(lambda a, mode: a if mode == "none" else tf.sin(a)))
    with pytest.warns(RecompilationWarning, match="mode changed, .* to 'aaaaa': each value is .* use a few of them"):
        for n in range(7):
            compiled(A, "a" * n)


def test_sizes_that_change_are_told():
    compiled = refxla.compile(tf.function(lambda a, at: {"part": tf.sin(a[: at["n"]]), "whole": a * at["scale"]}))
    with pytest.warns(RecompilationWarning, match=r"at\['n'\] changed, the last time from 4 to 5: .*pad"):
        for n in range(7):
            compiled(tf.ones(10), {"n": tf.constant(n), "scale": tf.constant(float(n))})


@pytest.mark.parametrize("compiled", [refxla.compile, refxla.tensorflow.cluster])
def test_each_object_has_a_method_of_its_own(compiled):
    """As in TensorFlow, where each may create its variables when it is first called; and its object is not kept."""

    class Total(tf.Module):
        def __init__(self):
            super().__init__()
            self.total = None

        @compiled
        @tf.function
        def add(self, x):
            if self.total is None:
                self.total = tf.Variable(tf.zeros(2))
            return self.total.assign_add(x)

    one, other = Total(), Total()
    assert one.add(tf.ones(2)).numpy().tolist() == [1, 1]
    assert other.add(tf.ones(2)).numpy().tolist() == [1, 1]
    assert one.add(tf.ones(2)).numpy().tolist() == [2, 2]
    assert one.add is one.add and Total.add is Total.add
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_methods():
    class Model:
        def __init__(self, n):
            self.w = tf.Variable(tf.fill((8,), float(n)))

        @refxla.compile
        @tf.function
        def scaled(self, a):
            return a * self.w

    models = [Model(2), Model(3)]
    for _ in range(2):
        for model in models:
            np.testing.assert_allclose(model.scaled(A), A * model.w)
            model.w.assign_add(tf.ones(8))


def test_noise_with_a_state_of_its_own_changes_from_call_to_call():
    generator = tf.random.Generator.from_seed(1)
    compiled = refxla.compile(tf.function(lambda a: a + generator.normal((8,))))
    first, second = compiled(A).numpy(), compiled(A).numpy()
    assert not np.array_equal(first, second)
    generator.reset_from_seed(1)
    np.testing.assert_array_equal(compiled(A), first)
    stateless = tf.function(lambda a, seed: a + tf.random.stateless_normal((8,), seed), jit_compile=True)
    check(stateless, A, tf.constant([1, 2]))


def test_inside_of_another_function():
    compiled = refxla.compile(tf.function(lambda a: a * 2), A)
    with pytest.raises(refxla.InputError, match="compile the outermost"):
        tf.function(compiled)(A)
    outer = refxla.compile(tf.function(lambda a: compiled(a) + 1))
    np.testing.assert_array_equal(outer(A), A * 2 + 1)
    np.testing.assert_array_equal(compiled(A), A * 2)


def test_errors_of_the_function_itself_pass_through():
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        refxla.compile(tf.function(lambda a, b: a + b), A, A[:3])


def test_keras_of_another_framework(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(refxla.InputError, match="runs on jax"):
        refxla.compile(keras.layers.Dense(3))


def test_opencl_beside_tensorflow():
    """Both carry an LLVM. Whichever comes first, kernels are built and TensorFlow computes, in one process."""
    import subprocess

    body = "import refxla; f = refxla.compile('HloModule m\\nENTRY e { ROOT p = f32[3] parameter(0) }')"
    code = f"{body}\nimport tensorflow as tf\ng = refxla.compile(tf.function(lambda a: tf.sin(a) * 3.25))\n"
    code += "print(g(tf.ones(3)).numpy()[0], tf.function(tf.sin, jit_compile=True)(1.0).numpy())"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(refxla.__file__).parent.parent
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    np.testing.assert_allclose([float(x) for x in ran.stdout.split()], [3.25 * np.sin(1), np.sin(1)], 1e-6)


def test_a_keras_model_out_of_a_file_needs_no_tensorflow(tmp_path):
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(2)]
    )
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    compiled = refxla.compile(model)
    wanted = compiled(x)
    compiled.save(tmp_path / "model.refxla")
    model.set_weights([w + 1 for w in model.get_weights()])  # the file has the weights of before
    text = (
        "import sys, numpy as np, refxla; f, x = refxla.load(sys.argv[1]), np.load(sys.argv[2]); "
        "np.save(sys.argv[3], f(x)); assert 'tensorflow' not in sys.modules"
    )
    np.save(tmp_path / "x.npy", x)
    names = [str(tmp_path / name) for name in ("model.refxla", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", text, *names], check=True)
    assert np.array_equal(np.load(names[2]), wanted)


def test_functions_out_of_files(tmp_path):
    @tf.function
    def f(batch, scale, shape, mode):
        scale = scale if mode == "kind" else -scale
        return {"y": tf.reshape(batch["x"] * scale, shape), "rest": [batch["n"] + 1, None]}

    x, shape = tf.range(6.0), tf.constant([2, 3])
    compiled = refxla.compile(f)
    wanted = compiled({"x": x, "n": tf.constant(3)}, tf.constant(2.0), shape, "kind")
    compiled.save(tmp_path / "f.refxla")
    loaded = refxla.load(tmp_path / "f.refxla")
    found = loaded({"x": x.numpy(), "n": np.int32(3)}, np.float32(2), shape.numpy(), "kind")
    assert np.array_equal(found["y"], wanted["y"]) and found["rest"][0] == 4 and found["rest"][1] is None
    with pytest.raises(InputError, match="shape is an array"):
        loaded({"x": x.numpy(), "n": np.int32(3)}, np.float32(2), np.array([3, 2], np.int32), "kind")

    variable = tf.Variable(1.0)
    counting = refxla.compile(tf.function(lambda x: variable.assign_add(x)))
    counting(tf.constant(1.0))
    with pytest.raises(UnsupportedError, match="assigns 1 variable, "):
        counting.save(tmp_path / "g.refxla")


# Variables whose values are in the program, whatever they hold.


def of_vector():
    v = tf.Variable([1.0, 2.0])
    return v, lambda x: x[: tf.cast(v[0], tf.int32)], [2.0, 0.0]


def of_mask():
    v = tf.Variable([True, False, False])
    return v, lambda x: x[: tf.reduce_sum(tf.cast(v, tf.int32))], [True, True, False]


def of_many_integers():
    v = tf.Variable(tf.ones(100, tf.int32))
    return v, lambda x: tf.repeat(x[:2], v[7]), tf.range(100)


def of_a_bound():
    v = tf.Variable(50)  # another value near it gives the same size
    return v, lambda x: x[: tf.minimum(v, 3)], 2


def of_a_branch():
    v = tf.Variable(1)
    return v, lambda x: tf.cond(v > 2, lambda: tf.reduce_sum(x[: tf.minimum(v, 5)]), lambda: 0.0), 4


@pytest.mark.parametrize("make", [of_vector, of_mask, of_many_integers, of_a_bound, of_a_branch])
def test_a_variable_that_decides_a_size_is_looked_at_in_each_call(make):
    variable, function, value = make()
    compiled = refxla.compile(tf.function(function))
    np.testing.assert_array_equal(compiled(A), function(A))
    np.testing.assert_array_equal(compiled(A), function(A))
    assert kinds(compiled) == 1
    variable.assign(value)
    np.testing.assert_array_equal(compiled(A), function(A))
    assert kinds(compiled) == 2


def test_a_variable_that_decides_a_size_is_assigned_right():
    v, weights = tf.Variable([1.0, 2.0], name="kept"), tf.Variable(tf.ones(3))

    def step(x):
        v.assign_add([1.0, 0.0])
        weights.assign_add(weights)
        return x[: tf.cast(v[0], tf.int32)]

    compiled = refxla.compile(tf.function(step))
    assert [compiled(A).shape[0] for _ in range(3)] == [2, 3, 4]
    assert v.numpy().tolist() == [4, 2] and weights.numpy().tolist() == [8, 8, 8]
    with pytest.warns(RecompilationWarning, match=r"the variable kept changed, the last time from \[6\.0"):
        for _ in range(4):
            compiled(A)


def test_results_that_cannot_be_written_are_copied():
    compiled = refxla.compile(tf.function(lambda a: tf.reshape(a, (2, 4))), device="reference")
    np.testing.assert_array_equal(compiled(A), tf.reshape(A, (2, 4)))


def test_many_variables_take_less_time_than_one_by_one():
    """All of them are read by one operation, and assigned by one."""
    variables = [tf.Variable(tf.zeros(4)) for _ in range(300)]
    handles = [variable.handle for variable in variables]

    @refxla.compile
    @tf.function
    def step(x):
        for variable in variables:
            variable.assign_add(x)

    def one_by_one():
        for handle in handles:
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    x, seconds = tf.ones(4), {step: [], one_by_one: []}
    step(x)
    for _ in range(30):
        for function, measured in seconds.items():
            start = time.perf_counter()
            function(*[x] * (function is step))
            measured.append(time.perf_counter() - start)
    assert min(seconds[step]) < 0.9 * min(seconds[one_by_one])
    np.testing.assert_array_equal(variables[-1], np.full(4, 31))
