"""Keras on TensorFlow with one changed line: fit, evaluate and predict compiled, with all that belongs to them."""

import math
import re
import warnings

import numpy as np
import pytest
from pages import ROOT, run, run_as_printed

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import refxla.tensorflow  # noqa: E402
from refxla.frontends.traced import RecompilationWarning  # noqa: E402

layers = keras.layers
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.random((44, 8, 8, 3), np.float32)
LABELS = (IMAGES.mean((1, 2, 3)) > 0.5).astype(np.int32)


def network(dropout=0.0, output="softmax"):
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            layers.Input((8, 8, 3)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(momentum=0.8),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(dropout, seed=3),
            layers.Dense(8, activation="relu"),
            layers.Dense(3, activation=output),
        ]
    )


def dense():
    """For what does not depend on the layers: without convolutions it is traced and compiled sooner."""
    keras.utils.set_random_seed(1)
    parts = [layers.Input((8, 8, 3)), layers.Flatten(), layers.Dense(8, "relu"), layers.Dense(3, "softmax")]
    return keras.Sequential(parts)


def compiled(model, optimizer="adam", metrics=("accuracy",), **settings):
    model.compile(optimizer() if callable(optimizer) else optimizer, "sparse_categorical_crossentropy",
                  metrics=list(metrics), **settings)  # fmt: skip
    return model


def both(make, use):
    """What `use` gives of the model by TensorFlow and by refxla, and the second model."""
    wanted = use(make())
    model = refxla.tensorflow.accelerate(make())
    return use(model), wanted, model


def close(got, wanted, tolerance=2e-4):
    for a, b in zip(keras.tree.flatten(got), keras.tree.flatten(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance * 0.1)


def fitted(model, epochs=3, **settings):
    history = model.fit(IMAGES, LABELS, batch_size=16, epochs=epochs, verbose=0, shuffle=False, **settings).history
    return history, model.evaluate(IMAGES, LABELS, batch_size=16, verbose=0), model.predict(IMAGES, 16, verbose=0)


def test_the_loss_curve_metrics_and_validation_are_tensorflows():
    """With partial last batches in all of them, and the moving statistics of the batch normalization."""
    metrics = lambda: ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")]  # noqa: E731
    got, wanted, model = both(
        lambda: compiled(network(), metrics=metrics()), lambda m: (fitted(m, validation_split=0.2), m.get_weights())
    )
    close(got, wanted)
    assert set(got[0][0]) == {"loss", "accuracy", "top", "val_loss", "val_accuracy", "val_top"}
    reports = refxla.tensorflow.report(model)
    assert set(reports) == {"train_step", "test_step", "predict_step"} and not any(reports.values())
    assert str(reports).count("is compiled as a whole") == 3


def test_callbacks_and_schedules():
    def use(model):
        seen = []
        callbacks = [
            keras.callbacks.LambdaCallback(on_train_batch_end=lambda n, logs: seen.append((n, float(logs["loss"])))),
            keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10.0, factor=0.5),
            keras.callbacks.EarlyStopping("loss", patience=3, min_delta=10.0, restore_best_weights=True),
            keras.callbacks.CSVLogger("/dev/null"),
        ]
        history = model.fit(IMAGES, LABELS, batch_size=16, epochs=9, verbose=0, shuffle=False, callbacks=callbacks)
        return history.history, seen, model.get_weights()

    got, wanted, _ = both(lambda: compiled(dense()), use)
    assert len(got[0]["loss"]) == 4 and len(got[1]) == 12
    close(got, wanted)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 8, warmup_steps=2, warmup_target=0.2)),
        lambda: keras.optimizers.AdamW(1e-2, global_clipnorm=0.5, use_ema=True, ema_overwrite_frequency=4),
        lambda: keras.optimizers.RMSprop(1e-2, momentum=0.9, centered=True, gradient_accumulation_steps=2),
    ],
    ids=["schedule", "averaged", "accumulated"],
)
def test_optimizers(optimizer):
    got, wanted, _ = both(lambda: compiled(dense(), optimizer), lambda m: (fitted(m), m.get_weights()))
    close(got, wanted, 1e-3)


def test_dropout_is_fresh_at_each_step_and_the_same_from_the_same_seed():
    def model():
        keras.utils.set_random_seed(5)
        made = keras.Sequential([layers.Input((100,)), layers.Dropout(0.5, seed=3)])
        made.compile("sgd", lambda truth, given: keras.ops.mean(given, -1))
        return refxla.tensorflow.accelerate(made)

    ones, zeros = np.ones((16, 100), np.float32), np.zeros(16)
    with pytest.warns(UserWarning, match="trainable"):
        first, again = ([m.train_on_batch(ones, zeros) for _ in range(4)] for m in (model(), model()))
    assert len(set(map(float, first))) == 4 and first == again and abs(np.mean(first) - 1) < 0.1


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    def make():
        keras.config.set_dtype_policy(policy)
        return compiled(network(), lambda: keras.optimizers.Adam(1e-2))

    try:

        def use(model):
            loss = model.fit(IMAGES, LABELS, batch_size=22, epochs=4, verbose=0, shuffle=False).history["loss"]
            return loss, float(getattr(model.optimizer, "dynamic_scale", 0))

        got, wanted, model = both(make, use)
        close(got[0], wanted[0], 0.02)
        assert got[1] == wanted[1]
        if policy == "mixed_float16":
            broken = np.where(np.arange(22) == 0, np.inf, 1.0)[:, None, None, None] * IMAGES[:22]
            before = model.get_weights()[0]
            model.train_on_batch(broken, LABELS[:22])  # gradients that are no numbers: the step is left out
            assert float(model.optimizer.dynamic_scale) == got[1] / 2
            assert np.array_equal(before, model.get_weights()[0])
    finally:
        keras.config.set_dtype_policy("float32")


def test_saving_and_loading(tmp_path):
    model = refxla.tensorflow.accelerate(compiled(network()))
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="loss", save_best_only=True)
    model.fit(IMAGES, LABELS, verbose=0, callbacks=[checkpoint])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")  # an ordinary model, with the optimizer's state
    close(loaded.predict(IMAGES, verbose=0), model.predict(IMAGES, verbose=0))
    for each in (loaded, model):
        each.fit(IMAGES, LABELS, verbose=0, shuffle=False)
    close(loaded.get_weights(), model.get_weights())
    model.save_weights(tmp_path / "w.weights.h5")
    loaded.load_weights(tmp_path / "w.weights.h5")
    close(loaded.predict(IMAGES, verbose=0), model.predict(IMAGES, verbose=0))


def test_data_sets_generators_weights_and_steps_per_execution():
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(8)

    def use(model):
        weights = np.linspace(0.5, 1.5, len(IMAGES))
        return [
            model.fit(data, epochs=2, verbose=0).history,
            model.fit(data.repeat(), steps_per_epoch=3, verbose=0).history,
            model.fit(IMAGES, LABELS, sample_weight=weights, batch_size=16, shuffle=False, verbose=0).history,
            model.fit(IMAGES, LABELS, class_weight={0: 1.0, 1: 2.0}, batch_size=16, shuffle=False, verbose=0).history,
            model.fit(((IMAGES[n : n + 8], LABELS[n : n + 8]) for n in (0, 8)), verbose=0).history,
            model.predict(data.map(lambda x, _: x), verbose=0),
            model.train_on_batch(IMAGES, LABELS), model.test_on_batch(IMAGES, LABELS), model.predict_on_batch(IMAGES),
        ]  # fmt: skip

    got, wanted, _ = both(lambda: compiled(dense(), steps_per_execution=4), use)
    close(got, wanted, 1e-3)


def test_several_inputs_outputs_and_losses():
    def make():
        keras.utils.set_random_seed(2)
        one, two = layers.Input((6,), name="one"), layers.Input((6,), name="two")
        joined = layers.Concatenate()([layers.Dense(5, activation="gelu")(one), layers.LayerNormalization()(two)])
        model = keras.Model(
            [one, two], {"a": layers.Dense(1, name="a")(joined), "b": layers.Dense(2, name="b")(joined)}
        )
        model.compile("adam", {"a": "mse", "b": "mae"}, loss_weights={"a": 0.5, "b": 2.0}, metrics={"a": ["mae"]})
        return model

    inputs = {name: RANDOM.normal(size=(12, 6)).astype(np.float32) for name in ("one", "two")}
    outputs = {"a": np.ones((12, 1)), "b": np.zeros((12, 2))}

    def use(model):
        history = model.fit(inputs, outputs, batch_size=6, epochs=2, verbose=0, shuffle=False).history
        return history, model.predict(inputs, verbose=0), model.evaluate(inputs, outputs, verbose=0, return_dict=True)

    got, wanted, _ = both(make, use)
    close(got, wanted)


def test_a_model_that_is_built_by_fit_and_a_train_step_of_its_own():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(4)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y)) + tf.reduce_sum(self.losses)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"mine": loss}

    def make():
        keras.utils.set_random_seed(3)
        model = Model()
        model.compile("adam")
        return model

    x = RANDOM.normal(size=(20, 5)).astype(np.float32)
    got, wanted, _ = both(make, lambda m: m.fit(x, x[:, :4], batch_size=8, epochs=2, verbose=0, shuffle=False).history)
    close(got, wanted)
    assert list(got) == ["mine"]


def test_recurrence_attention_and_embeddings():
    def make():
        keras.utils.set_random_seed(4)
        words = layers.Input((7,), dtype="int32")
        x = layers.Embedding(20, 8, mask_zero=True)(words)
        x = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
        x = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
        x = layers.LSTM(5)(x)
        return compiled(keras.Model(words, layers.Dense(3, activation="softmax")(x)))

    words = RANDOM.integers(0, 20, (12, 7))

    def use(model):
        return model.fit(words, np.arange(12) % 3, epochs=2, batch_size=6, verbose=0, shuffle=False).history

    got, wanted, _ = both(make, use)
    close(got, wanted)


def test_text_and_python_in_a_model():
    """They stay in TensorFlow, with their gradient; the report says which, and the lines of Keras' layers."""
    words = np.array([["a b"], ["b b c"], ["c"], ["a a"]])

    class Halved(layers.Layer):
        def call(self, x):
            return tf.ensure_shape(tf.py_function(lambda t: t * 0.5, [x], tf.float32), x.shape)

    def make():
        keras.utils.set_random_seed(6)
        vectorize = layers.TextVectorization(10, output_mode="multi_hot", vocabulary=["a", "b", "c"])
        parts = [layers.Input((1,), dtype="string"), vectorize, layers.Dense(6, activation="gelu"), Halved(),
                 layers.Dense(3, activation="softmax")]  # fmt: skip
        return compiled(keras.Sequential(parts))

    def use(model):
        x, y = tf.constant(words), np.array([0, 1, 2, 0])
        return model.fit(x, y, epochs=3, batch_size=2, verbose=0, shuffle=False).history, model.predict(x, verbose=0)

    with pytest.warns(refxla.tensorflow.ClusteringWarning, match="train_step leaves"):
        got, wanted, model = both(make, use)
    close(got, wanted)
    report = refxla.tensorflow.report(model)["train_step"]
    assert len(report.clusters) >= 2
    assert [o.source.rpartition("/")[2].split(":")[0] for o in report if o.operation == "EagerPyFunc"] == [
        "test_tensorflow_keras.py"
    ] * 2


@pytest.mark.parametrize("mode", ["multi_hot", "count"])
def test_encoded_categories_are_one_program_for_all_values(mode):
    """Their size is computed from the values, and clamped to the number of categories."""
    categories = np.arange(48).reshape(24, 2) // 2 % 7  # other ones in each batch
    labels = categories[:, 0] % 3

    def make():
        keras.utils.set_random_seed(1)
        encoding = layers.CategoryEncoding(num_tokens=9, output_mode=mode)
        return compiled(keras.Sequential([layers.Input((2,), dtype="int32"), encoding, layers.Dense(3, "softmax")]))

    def use(model):
        history = model.fit(categories, labels, batch_size=3, epochs=2, shuffle=False, verbose=0).history
        return history, model.predict(categories, batch_size=3, verbose=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompilationWarning)
        warnings.simplefilter("error", refxla.tensorflow.ClusteringWarning)
        got, wanted, model = both(make, use)
    close(got, wanted)
    assert all(operation.cluster == 0 for operation in refxla.tensorflow.report(model)["train_step"])


def test_compile_again_run_eagerly_and_frozen_layers():
    model = refxla.tensorflow.accelerate(compiled(network()))
    model.fit(IMAGES, LABELS, verbose=0)
    frozen = model.layers[0].get_weights()
    model.layers[0].trainable = False
    compiled(model, "sgd")
    model.fit(IMAGES, LABELS, verbose=0)
    close(model.layers[0].get_weights(), frozen, 0)
    compiled(model, run_eagerly=True)
    assert math.isfinite(model.fit(IMAGES, LABELS, verbose=0).history["loss"][0])
    assert not hasattr(model.train_function, "executable")


def test_what_is_refused(monkeypatch):
    with pytest.raises(refxla.InputError, match="a Dense is no Keras model"):
        refxla.tensorflow.accelerate(layers.Dense(3))

    class Own(keras.Model):
        def make_train_function(self, force=False):
            pass

    with pytest.raises(refxla.InputError, match="Own has a make_train_function of its own"):
        refxla.tensorflow.accelerate(Own())
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = network()
    with pytest.raises(refxla.InputError, match=r"tf\.distribute"):
        refxla.tensorflow.accelerate(model)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(refxla.InputError, match="JAX_PLATFORMS=refxla"):
        refxla.tensorflow.accelerate(model)


def test_resnet50_of_keras_applications_predicts_and_trains():
    """Held to TensorFlow's operations one by one, as its graph would take as long again to build and to trace."""
    keras.utils.set_random_seed(0)
    model = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy")
    images, labels = RANDOM.random((4, 32, 32, 3), np.float32), np.array([1, 0, 7, 3])
    weights = model.get_weights()
    wanted = model(images, training=False)
    with tf.GradientTape() as tape:
        loss = model.compute_loss(images, labels, model(images, training=True))
    bias = tape.gradient(loss, model.layers[-1].bias)
    model.set_weights(weights)  # with the moving statistics as they were

    refxla.tensorflow.accelerate(model)
    close(model.predict(images, verbose=0), wanted)
    close(model.train_on_batch(images, labels), loss, 1e-3)
    close(model.layers[-1].bias - weights[-1], -0.01 * bias, 1e-2)
    assert model.train_on_batch(images, labels) < loss
    assert str(refxla.tensorflow.report(model)).count("is compiled as a whole") == 2


def test_the_example_has_the_losses_of_tensorflow():
    arguments = (str(ROOT / "examples/keras_cat_or_dog/train.py"), "--epochs", "3", "--size", "32", "--images", "400")
    got, wanted = run(*arguments), run(*arguments, "--tensorflow")
    losses = [[float(x) for x in re.findall(r"loss ([\d.]+)", text)] for text in (got, wanted)]
    assert len(losses[0]) == 3
    np.testing.assert_allclose(losses[0], losses[1], 1e-2)
    assert "train_step is compiled as a whole" in got and float(re.search(r"accuracy ([\d.]+)", got)[1]) > 0.8


def test_the_tutorial_runs_as_it_is_printed(tmp_path):
    printed = run_as_printed("tensorflow.md", tmp_path)
    assert "noted: 2 clusters hold " in printed
    assert re.search(r"^PyFunc +PyFunc +calls a Python function +train.py:\d+$", printed, re.M)
