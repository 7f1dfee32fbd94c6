"""An MLP, a CNN and a GPT written with Keras on TensorFlow: python examples/four_ways/with_keras.py [MODEL ...]

A program of Keras alone, but for the one line that has refxla compile its steps.
"""

import keras
from keras import layers, ops
from problems import (
    BATCH,
    CHANNELS,
    CLASSES,
    HEADS,
    HIDDEN,
    LAYERS,
    LENGTH,
    MOMENTUM,
    NORM_EPSILON,
    SIZE,
    WIDTH,
    WORDS,
    Parameters,
    Problem,
    main,
)

import refxla.tensorflow


def train(problem: Problem, count: int, compiled: bool) -> list[float]:
    """The mean loss of each of `count` epochs."""
    model = {"mlp": mlp, "cnn": cnn, "gpt": gpt}[problem.name]()
    set_parameters(model, problem.parameters)
    model.compile(
        keras.optimizers.SGD(problem.rate, MOMENTUM), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    if compiled:
        refxla.tensorflow.accelerate(model)  # the line
    history = model.fit(problem.inputs, problem.labels, BATCH, count, shuffle=False, verbose=0)
    losses: list[float] = history.history["loss"]
    return losses


def set_parameters(model: keras.Model, parameters: Parameters) -> None:
    """Give a model the weights of a problem, whose names are those of its layers. Those of an attention
    are [width, heads, depth] and [heads, depth, width]."""
    names = {"kernel": "weights", "bias": "bias", "gamma": "scale", "beta": "bias"}
    for layer in model.layers:
        for weight in layer.weights:
            *_, part, kind = weight.path.split("/")
            path = layer.name
            if isinstance(layer, layers.MultiHeadAttention):
                path = f"{layer.name.partition('.')[0]}.{'merge' if part == 'attention_output' else part}"
            value = parameters[path] if kind == "embeddings" else parameters[f"{path}.{names[kind]}"]
            weight.assign(value.reshape(weight.shape))


def mlp() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((SIZE, SIZE, 1)),
            layers.Flatten(),
            layers.Dense(HIDDEN, activation="relu", name="hidden"),
            layers.Dense(CLASSES, name="output"),
        ]
    )


def cnn() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((SIZE, SIZE, 1)),
            layers.Conv2D(CHANNELS[0], 3, padding="same", activation="relu", name="first"),
            layers.MaxPooling2D(),
            layers.Conv2D(CHANNELS[1], 3, padding="same", activation="relu", name="second"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(CLASSES, name="output"),
        ]
    )


def gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    return ops.gelu(x, approximate=True)


def gpt() -> keras.Model:
    words = layers.Input((LENGTH,), dtype="int32")
    places = ops.cumsum(ops.ones_like(words), axis=1) - 1  # 0, 1, ... in each row
    x = layers.Embedding(WORDS, WIDTH, name="words")(words) + layers.Embedding(LENGTH, WIDTH, name="places")(places)
    for layer in range(LAYERS):
        y = layers.LayerNormalization(epsilon=NORM_EPSILON, name=f"{layer}.before")(x)
        x += layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name=f"{layer}.attention")(y, y, use_causal_mask=True)
        y = layers.LayerNormalization(epsilon=NORM_EPSILON, name=f"{layer}.between")(x)
        y = layers.Dense(4 * WIDTH, activation=gelu, name=f"{layer}.widen")(y)
        x += layers.Dense(WIDTH, name=f"{layer}.narrow")(y)
    x = layers.LayerNormalization(epsilon=NORM_EPSILON, name="after")(x)
    return keras.Model(words, layers.Dense(WORDS, name="output")(x))


if __name__ == "__main__":
    main(train, "Keras")
