"""Steps of a small model on one device and on two, for test_distribution.py, as JSON.

    python -m tests.training.two_devices FILE

A process of its own, since devices must be made before TensorFlow starts.
"""

import json
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.training.distribution import (
    distribution_scope,
    num_replicas,
)
from keras_bert_impl.training.losses import MaskedLMLoss
from keras_bert_impl.training.optimizers import BertAdamW
from keras_bert_impl.training.schedules import WarmupLinearDecay

# Each device takes half of the rows: 16 masked tokens in the first, 1 in the second.
COUNTS = np.array([8, 8, 1, 0])
SLOTS, NUM_IDS = 8, 11


def batch():
    draw = np.random.default_rng(0)
    ids = draw.integers(0, NUM_IDS, (len(COUNTS), SLOTS))
    targets = draw.integers(0, NUM_IDS, (len(COUNTS), SLOTS))
    return ids, targets, (np.arange(SLOTS) < COUNTS[:, None]).astype("float32")


def train(choice, make_optimizer, steps, dtype=None):
    """Weights after some steps, and the loss that `fit` reported."""
    keras.utils.set_random_seed(0)
    with distribution_scope(choice):
        table = keras.layers.Embedding(NUM_IDS, 8, embeddings_initializer="normal", dtype=dtype)
        model = keras.Sequential([table, keras.layers.Dense(NUM_IDS, dtype=dtype)])
        model.build((None, SLOTS))
        model.compile(make_optimizer(), MaskedLMLoss())
    data = tf.data.Dataset.from_tensors(batch()).repeat(steps)
    loss = model.fit(data, verbose=0).history["loss"][0] if steps else None
    return {"weights": [np.array(w).tolist() for w in model.weights], "loss": loss}


def scheduled():
    return BertAdamW(WarmupLinearDecay(1e-2, num_steps=10, num_warmup_steps=1))


def main(path):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    result = {}
    # A large epsilon, without which Adam's first step would not tell long gradients from short.
    adamw = {"learning_rate": 1.0, "epsilon": 0.1, "bias_correction": False}
    runs = {
        "sgd": (lambda: keras.optimizers.SGD(1.0), 1),
        "clipped": (lambda: BertAdamW(**adamw, global_clipnorm=0.1), 2),
        "half_precision": (scheduled, 2, "mixed_float16"),
    }
    for name, run in runs.items():
        result[name] = {"one": train("none", *run), "two": train("mirrored", *run)}
    result["start"] = {"one": train("none", keras.optimizers.SGD, 0)}
    not_clipped = BertAdamW(**adamw, global_clipnorm=None)
    result["not_clipped"] = {"one": train("none", lambda: not_clipped, 2)}
    with distribution_scope("mirrored"):
        result["replicas"] = num_replicas()
    pathlib.Path(path).write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
