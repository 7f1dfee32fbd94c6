"""Automatic clustering: what cannot be compiled stays in TensorFlow, the rest is compiled, to the same effect."""

import warnings
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import refxla.tensorflow  # noqa: E402
from refxla.frontends.tensorflow.clustering import cluster as levels_of  # noqa: E402
from refxla.frontends.tensorflow.graph import is_users_file  # noqa: E402
from refxla.frontends.traced import RecompilationWarning  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::refxla.tensorflow.ClusteringWarning")
X = tf.constant([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def agrees(function, *args, variables=(), calls=2, clusters=None):
    """The clustered function does what TensorFlow's does, call after call, also to these variables."""
    start = [v.numpy() for v in variables]

    def run(called):
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        return [
            [np.asarray(t) for t in tf.nest.flatten(called(*args), expand_composites=True)]
            + [v.numpy() for v in variables]
            for _ in range(calls)
        ]

    compiled = refxla.tensorflow.cluster(function)
    for got, wanted in zip(run(compiled), run(tf.function(function)), strict=True):
        for a, b in zip(got, wanted, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            if a.dtype.kind == "O":
                assert (a == b).all()
            else:
                np.testing.assert_allclose(a, b, 2e-5, 1e-6)
    report = refxla.tensorflow.report(compiled)
    assert clusters is None or len(report.clusters) == clusters, str(report)
    return report


def of(report, operation):
    return [o for o in report if o.operation == operation]


def dense(x, n=1.0):
    """Enough operations for a cluster."""
    return tf.tanh(tf.exp(x * 0.5) - tf.sin(x) * n)


# Values, gradients, variables, effects.


def test_a_training_step_with_text_python_and_print(capfd):
    w, count = tf.Variable([[0.5, 0.1], [-0.3, 0.2], [0.7, -0.2]]), tf.Variable(0)

    def step(x, name):
        with tf.GradientTape() as tape:
            hidden = dense(x @ w)
            noisy = tf.ensure_shape(tf.py_function(lambda a: a * 1.5, [hidden], tf.float32), (2, 2))
            loss = tf.reduce_mean(tf.square(dense(noisy) - 0.3))
        tf.print(name, "count", count)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        count.assign_add(1)
        return loss, tf.strings.join([name, "!"]), tf.strings.length(name)

    report = agrees(step, X, tf.constant("step"), variables=(w, count), clusters=3)  # before, between, after the calls
    printed = capfd.readouterr().err.splitlines()
    assert printed == [f'"step" count {n}' for n in (0, 1)] * 2
    python = of(report, "EagerPyFunc")
    assert len(python) == 2 and all("Python" in o.reason for o in python)  # one of them is its gradient
    here = Path(__file__).name
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "noisy = " in text)
    assert python[0].source.endswith(f"{here}:{line}")
    assert all(o.cluster is not None for o in of(report, "MatMul"))


def test_the_report_can_be_read():
    def shouted(x, name):
        return dense(x), tf.strings.upper(name)

    report = refxla.tensorflow.report(refxla.tensorflow.cluster(shouted, X, tf.constant("a")))
    lines = str(report).splitlines()
    assert lines[0].startswith("shouted: 1 cluster holds ")
    assert any(line.split()[:2] == ["StringUpper", "StringUpper"] and "texts" in line for line in lines)
    assert len(report.clusters) == 1 and {o.operation for o in report.in_tensorflow} >= {"StringUpper"}


def test_a_function_that_can_be_compiled_is_one_program():
    compiled = refxla.tensorflow.cluster(dense, X)
    assert "compiled as a whole" in str(refxla.tensorflow.report(compiled)) and compiled.plan.kernels
    np.testing.assert_allclose(compiled(X), dense(X), 1e-5)


def test_variables_between_segments():
    """Each read sees the assignments before it and none after it, in whichever segment they are."""
    v = tf.Variable(tf.ones((2, 3)))

    def f(x):
        first = dense(x) * v
        v.assign(first + 1)
        middle = tf.numpy_function(np.cbrt, [v * 2], tf.float32)
        second = dense(v + x)
        v.assign_add(tf.ensure_shape(middle, (2, 3)))
        last = dense(v)
        v.assign(last * 3)
        return first, second, last, v.read_value()

    agrees(f, X, variables=(v,), calls=3)


def test_a_weight_used_in_two_clusters_is_no_result_of_the_first():
    w = tf.Variable(tf.ones((64, 64)))

    def f(x):
        return dense(tf.ensure_shape(tf.numpy_function(np.cbrt, [dense(x @ w)], tf.float32), (2, 64)) @ w)

    compiled = refxla.tensorflow.cluster(f)
    np.testing.assert_allclose(compiled(tf.ones((2, 64))), tf.function(f)(tf.ones((2, 64))), 1e-5)
    segments = compiled.executable.partition.segments
    assert all(v.type == tf.float32 and v.node.operation != "ReadVariableOp" for s in segments for v in s.part.outputs)


def test_prints_keep_their_order(capfd):
    def f(x):
        for _ in range(4):
            x = dense(x)
            with tf.control_dependencies([tf.print("sum", tf.reduce_sum(x))]):
                x = tf.identity(x)
        return x

    agrees(f, X, calls=1)
    printed = [float(line.split()[1]) for line in capfd.readouterr().err.splitlines() if line.startswith("sum")]
    assert len(printed) == 8
    np.testing.assert_allclose(printed[:4], printed[4:], 1e-5)


def test_what_controls_only_pure_operations_does_not_cut():
    def f(x):
        with tf.control_dependencies([tf.print("before")]):
            x = dense(x)
        with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
            return dense(x)

    assert len(agrees(f, X, clusters=1).clusters) == 1


def test_a_tape_around_a_call_has_no_gradients_of_a_part():
    """Those of what TensorFlow runs alone would be wrong."""
    w = tf.Variable([[0.5, 0.1, 0.2], [-0.3, 0.2, 0.1], [0.7, -0.2, 0.3]])
    square = tf.concat([X, X[:1] * 0.5 + 1], 0)
    f = refxla.tensorflow.cluster(lambda x: tf.linalg.det(dense(x @ w)) + tf.linalg.det(x))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(square)
        y = f(square)
    with pytest.warns(refxla.tensorflow.GradientWarning, match="inside of the compiled"):
        assert tape.gradient(y, [square, w]) == [None, None]


def test_what_waits_through_a_pure_operation_waits():
    """print -> identity (no effect) -> assignment: the assignment still comes after the print."""
    v = tf.Variable(1.0)

    def f(x):
        with tf.control_dependencies([tf.print("v is", v)]):
            y = tf.identity(x)
        v.assign(tf.reduce_sum(dense(y)))
        return v.read_value()

    report = agrees(f, X, variables=(v,))
    order = [o.operation for o in report]
    assert order.index("PrintV2") < order.index("AssignVariableOp")


def test_assertions_raise():
    def f(x):
        tf.debugging.assert_less(x, 10.0, message="too large")
        return tf.debugging.check_numerics(dense(x), "not finite")

    compiled = refxla.tensorflow.cluster(f)
    np.testing.assert_allclose(compiled(X), f(X), 1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        compiled(X * 100)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        compiled(-tf.abs(X) * np.inf)


def test_noise_of_the_runtime_is_fresh_and_tensorflows():
    def f(x):
        return dense(x) + tf.random.normal((2, 3)) * tf.nn.dropout(dense(x), 0.5)

    compiled = refxla.tensorflow.cluster(f)
    tf.random.set_seed(7)
    first, second = compiled(X).numpy(), compiled(X).numpy()
    assert not np.array_equal(first, second)
    assert all(
        "random" in o.reason for o in refxla.tensorflow.report(compiled).in_tensorflow if "Random" in o.operation
    )


# Structure of graphs.


def test_nothing_leaves_a_cluster_and_comes_back():
    """a -> text -> b and a -> b: b is in a later cluster than a, and all else with one of them."""

    def f(x):
        a = dense(x)
        size = tf.strings.length(tf.strings.as_string(tf.reduce_sum(a)))
        return dense(a * tf.cast(size, tf.float32)) + dense(x, 3.0)

    report = agrees(f, X, clusters=2)
    assert sum(len(c) > 12 for c in report.clusters) == 1  # dense(x, 3) went with the first


def test_what_waits_for_nothing_compiled_runs_first():
    """Text from the arguments alone: one cluster, after it, and not two."""

    def f(x, name):
        return dense(dense(x) * tf.cast(tf.strings.length(name), tf.float32))

    agrees(f, X, tf.constant("four"), clusters=1)


def test_what_is_small_is_no_reason_to_cut():
    """One operation before the text: it stays with the text, and all else is one cluster after it."""

    def f(x):
        size = tf.strings.length(tf.strings.as_string(x[0, 0]))
        return dense(x) * dense(x * tf.cast(size, tf.float32))

    report = agrees(f, X, clusters=1)
    assert "cut" in of(report, "StridedSlice")[0].reason


def test_small_clusters_stay_in_tensorflow():
    def f(name):
        return tf.strings.length(name) * 2 + 1

    report = agrees(f, tf.constant("four"), clusters=0)
    assert any("fewer than 4" in o.reason for o in report)


def test_calls_are_inlined_with_their_effects():
    v = tf.Variable(2.0)

    @tf.function
    def inner(x, name):
        v.assign_add(1.0)
        tf.print("inner", v, name)
        return dense(x) * v, tf.strings.lower(name)

    @tf.function
    def outer(x, name):
        y, name = inner(x, name)
        v.assign(v * 2)
        z, name = inner(y, tf.strings.join([name, "B"]))
        return dense(z) * v, name

    agrees(outer.python_function, X, tf.constant("A"), variables=(v,), clusters=None)


def test_loops_and_branches_with_and_without_text():
    def f(x, name):
        def body(n, y):
            tf.print("turn", n)
            return n + 1, dense(y)

        _, printed = tf.while_loop(lambda n, _: n < 3, body, (0, x))
        _, quiet = tf.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, dense(y)), (0, x))
        chosen = tf.cond(tf.strings.length(name) > 3, lambda: dense(quiet), lambda: quiet)
        mapped = tf.map_fn(dense, x)
        return printed, dense(chosen), mapped, tf.map_fn(lambda t: dense(t) + tf.random.normal(()) * 0, x)

    report = agrees(f, X, tf.constant("four"))
    loops = {(o.operation, o.cluster is not None) for o in report if "While" in o.operation}
    assert loops == {("While", False), ("StatelessWhile", True)}
    assert any("printed" in o.reason for o in of(report, "While"))


def test_ragged_tensors_and_unknown_sizes():
    def f(words, x):
        parts = tf.strings.split(words)  # ragged
        lengths = tf.cast(tf.strings.length(parts).to_tensor(), tf.float32)  # of unknown size
        return dense(lengths) * tf.reduce_sum(dense(x)), parts, tf.reshape(dense(lengths), [-1])

    agrees(f, tf.constant(["a bb ccc", "dd"]), X)
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    agrees(lambda r: (dense(r.to_tensor()), r * 2, tf.reduce_sum(dense(r.flat_values))), ragged)


def test_what_is_refused_when_it_is_lowered_is_cut_out():
    """A kernel is registered and refuses these arguments: the cluster is cut again, and the reason told."""

    def f(x, k):
        return dense(x) + tf.reduce_sum(dense(tf.nn.max_pool_with_argmax(x[None, :, :, None], 2, 1, "SAME")[0]))

    agrees(f, X, tf.constant(1))


def test_an_operation_without_a_stack_trace_is_cut_out():
    """TensorFlow keeps none for a function that it has copied, which it does where a segment is lowered again."""

    def repeated(classes):
        return dense(tf.repeat(X[0], tf.math.bincount(classes)))

    assert [o.cluster for o in of(agrees(repeated, tf.constant([0, 0, 2]), calls=1), "Tile")] == [None]


def test_what_is_refused_in_a_called_function_is_cut_out():
    """The gradient of a loop without a largest number of turns needs lists that grow."""
    w = tf.Variable([[0.5, 0.1, 0.2], [-0.3, 0.2, 0.1], [0.7, -0.2, 0.3]])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            h = dense(x @ w)
            while tf.reduce_sum(h * h) < 20.0:
                h = h * 1.5
            loss = tf.reduce_mean(dense(h @ w))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    report = agrees(step, X, variables=(w,), clusters=3)
    assert {o.operation for o in report.in_tensorflow} == {"EmptyTensorList", "StatelessWhile"}, str(report)


def test_many_segments_are_no_frequent_retracing(caplog):
    def f(x):
        for _ in range(7):
            x = dense(tf.ensure_shape(tf.numpy_function(np.cbrt, [dense(x)], tf.float32), (2, 3)))
        return x

    agrees(f, X, calls=1, clusters=8)
    assert "retracing" not in caplog.text


def test_sizes_that_change_between_segments_are_told():
    """By what gives the tensor, for the user's function has no such argument."""

    def f(x):
        return tf.reduce_sum(dense(tf.ensure_shape(tf.numpy_function(lambda a: a[a > 0], [x], tf.float32), (None,))))

    compiled = refxla.tensorflow.cluster(f)
    with pytest.warns(RecompilationWarning, match=rf"the result of PyFunc \(.*{Path(__file__).name}:\d+\) changed"):
        for n in range(1, 8):
            compiled(tf.constant([1.0] * n + [-1.0] * (8 - n)))


def test_a_slice_that_is_written_at_a_place_that_changes_is_no_new_program():
    """As in a buffer that is filled round and round. A place that is known stays part of the program."""
    rows, count = tf.Variable(tf.zeros((4, 3))), tf.Variable(0)

    def step(x):
        rows[count % 4].assign(dense(x)[0])
        rows[tf.shape(x)[0] + 1, 1:].assign(x[0, 1:])
        count.assign_add(1)
        return dense(rows + x[:1])

    compiled = refxla.tensorflow.cluster(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompilationWarning)
        for _ in range(8):
            compiled(X)
    report = agrees(step, X, variables=(rows, count), calls=3)
    kinds = [o.cluster is None for o in of(report, "ResourceStridedSliceAssign")]
    assert kinds.count(True) == 1 and len(kinds) == 2, str(report)

    @tf.function
    def known(x):
        rows[1].assign(dense(x)[0])
        return dense(rows + 0)

    assert not agrees(known, X, variables=(rows,))


def test_operations_that_are_functions():
    """TensorFlow's scans call their bodies as operations: they compile, also where something else does not."""
    labels, lengths = tf.constant([[1, 2]]), tf.constant([2])

    def f(x):
        tf.print("loss")
        logits = tf.reshape(dense(x), (1, 2, 3))
        return tf.nn.ctc_loss(labels, logits, lengths, lengths, logits_time_major=False, blank_index=0)

    report = agrees(f, X, calls=1, clusters=1)
    assert {o.cluster for o in report if "While" in o.operation} == {0}


def test_lookup_tables():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [0.25, 2.0]), -1.0)

    def f(keys, x):
        return dense(table.lookup(keys)[:, None] * x)

    report = agrees(f, tf.constant(["b", "c"]), X, clusters=1)
    assert of(report, "LookupTableFindV2")[0].cluster is None


def test_levels():
    """The order is the one with the fewest segments, and each waits only for those before it."""

    class Node:
        def __init__(self, name, *before, operation="Add"):
            self.name, self.operation, self.has_effect, self.controls = name, operation, False, ()
            self.inputs = [type("Value", (), {"node": b, "type": None}) for b in before]
            self.types, self.predecessors = (), before

    text = Node("text")
    a = Node("a")
    b, between = Node("b", a, text), Node("between", a)
    late = Node("late", between, b)
    levels, reasons = levels_of([text, a, b, between, late], {text: "a text", between: "a text"}, 1)
    assert [levels.of[n] for n in (a, text, between, b, late)] == [0, 1, 1, 2, 2]
    assert set(reasons) == {text, between}


# What is said.


def test_a_warning_says_that_something_stays():
    with pytest.warns(refxla.tensorflow.ClusteringWarning, match="leaves 2 operations to TensorFlow; refxla"):
        refxla.tensorflow.cluster(lambda x: (tf.print("x"), dense(x))[1], X)


def test_errors():
    compiled = refxla.tensorflow.cluster(lambda x: (tf.print("x"), dense(x))[1])
    with pytest.raises(refxla.InputError, match="first called"):
        refxla.tensorflow.report(compiled)
    compiled(X)
    with pytest.raises(AttributeError, match="several programs"):
        _ = compiled.plan
    with pytest.raises(AttributeError, match="f.function.get_concrete_function"):
        _ = compiled.get_concrete_function
    with pytest.raises(refxla.UnsupportedError, match="not one program"):
        compiled.save("step.refxla")
    with pytest.raises(refxla.InputError, match="not accelerated"):
        refxla.tensorflow.report(dense)
    with pytest.raises(refxla.InputError, match="no option devise"):
        refxla.tensorflow.cluster(dense, devise="cpu")
    with pytest.raises(refxla.UnsupportedError, match="cluster"):
        refxla.compile(tf.function(lambda x: (tf.print("x"), dense(x))[1]), X)


# xla.compile as it was.


def test_xla_compile():
    calls = []

    def computation(x, options):
        calls.append(1)
        return dense(x) * options["scale"], tf.reduce_sum(x)

    for scale in (tf.constant([2.0]), 3.0, 3.5):
        results = refxla.tensorflow.xla_compile(computation, [X, {"scale": scale}])
        assert isinstance(results, list) and len(results) == 2
        np.testing.assert_allclose(results[0], dense(X) * scale, 1e-5)
    assert len(calls) == 2  # once for a vector, once for numbers
    assert [float(r) for r in refxla.tensorflow.xla_compile(lambda: tf.constant(3.0))] == [3.0]
    v = tf.Variable(1.0)

    def assigning(x):
        v.assign_add(x)

    assert refxla.tensorflow.xla_compile(assigning, [2.0]) == [] and v.numpy() == 3
    (doubled,) = refxla.tensorflow.xla_compile(lambda x: (x * 2, tf.raw_ops.NoOp()), [2.0])
    assert float(doubled) == 4 and refxla.tensorflow.xla_compile(lambda: tf.raw_ops.NoOp()) == []
    nested = refxla.tensorflow.xla_compile(lambda x: {"a": x, "b": [x * 2, x]}, [2.0])
    assert list(nested) == ["a", "b"] and [float(x) for x in (nested["a"], *nested["b"])] == [2, 4, 2]
    with pytest.raises(refxla.InputError, match="inputs is an EagerTensor"):
        refxla.tensorflow.xla_compile(dense, X)
    with pytest.raises(refxla.InputError, match="computation is an int"):
        refxla.tensorflow.xla_compile(3, [X])
    with pytest.raises(refxla.UnsupportedError, match="argument 0 of string_length_v2 is a text"):
        refxla.tensorflow.xla_compile(tf.strings.length, [tf.constant("a")])
    with pytest.raises(refxla.UnsupportedError, match="result 1 of .*lambda.* is a text"):
        refxla.compile(tf.function(lambda x: (x * 2, "s")))(X)


def growing(x, n=5):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in tf.range(n):
        array = array.write(i, dense(x) * tf.cast(i, tf.float32))
    return array.stack()


def test_a_list_that_grows_is_no_business_of_xla():
    """XLA writes the last element of a list that is too short, and stacks of none were empty."""
    report = agrees(lambda x: dense(growing(dense(x))), X, clusters=2)
    assert any("grows" in o.reason for o in report if o.cluster is None)
    with pytest.raises(refxla.UnsupportedError, match="dynamic_size=True"):
        refxla.compile(tf.function(growing))(X)

    class Growing(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = tf.keras.layers.Dense(3)

        def call(self, x):
            array, y = tf.TensorArray(tf.float32, size=0, dynamic_size=True), self.layer(x)
            for i in range(3):
                array = array.write(i, y * float(i + 1))
            return tf.reduce_sum(array.stack(), 0)

    losses = []
    for faster in (False, True):
        tf.keras.utils.set_random_seed(0)
        model = Growing()
        model.compile("sgd", "mse", jit_compile=False)
        if faster:
            refxla.tensorflow.accelerate(model)
        losses.append([model.evaluate(X, X, verbose=0), *model.fit(X, X, epochs=2, verbose=0).history["loss"]])
    np.testing.assert_allclose(losses[0], losses[1], 1e-5)


def test_many_variables_are_read_and_assigned_at_once():
    variables = [tf.Variable(tf.fill([n + 1], float(n))) for n in range(12)]

    def step(x):
        for n, v in enumerate(variables):
            v.assign(v * x + n)
        return [v + 0.0 for v in variables]

    agrees(step, tf.constant(1.5), variables=variables, calls=3)
    few = variables[:3]
    agrees(lambda x: [v.assign_add(v * x) for v in few], tf.constant(1.5), variables=few, calls=3)


def test_results_that_are_not_aligned_are_copied():
    """TensorFlow ends the process when it computes with a tensor that is aligned to less than it expects."""
    compiled = refxla.compile(tf.function(lambda x: x * 2), device="reference")
    for n in (1, 3, 7, 20, 50):
        np.testing.assert_array_equal(tf.concat([compiled(np.ones((n, 1), "f4"))] * 4, 0), np.full((4 * n, 1), 2.0))


@pytest.mark.parametrize("kind", ["for", "enumerate", "reduce"])
def test_data_sets_inside_of_the_function_stay_in_tensorflow(kind):
    data = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(24.0), (8, 3))).batch(2)
    weights = tf.Variable([0.5, 0.1, 0.2])

    def f(x):
        total = dense(x) if kind != "reduce" else x
        if kind == "reduce":
            total += data.reduce(tf.zeros(3), lambda sums, rows: sums + tf.reduce_sum(rows, 0))
        elif kind == "for":
            for rows in data:
                total += tf.reduce_sum(rows * weights)
        else:
            for n, rows in data.enumerate():
                total += tf.reduce_sum(rows * weights) * tf.cast(n, tf.float32)
        weights.assign_sub(tf.reduce_mean(dense(total), 0) * 0.1)
        return dense(total)

    report = agrees(f, X, variables=[weights])
    assert report.clusters and any("Dataset" in o.operation for o in report.in_tensorflow)


@pytest.mark.parametrize("folder", ["lib/python3.13/site-packages", "lib/python3/dist-packages"])
def test_packages_of_another_environment_are_not_the_users_program(folder):
    """As where a .pth file or PYTHONPATH names them: the report then had the lines of TensorFlow's own files."""
    assert not is_users_file(f"/opt/shared/{folder}/tensorflow/python/framework/ops.py")
    assert is_users_file("/home/me/packages/train.py")
