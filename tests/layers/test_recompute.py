"""Blocks that are computed again in the backward pass: the same steps, less kept."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.key_biases import parted

ROOT = pathlib.Path(__file__).parents[2]
DATA = small.prepared(rows=4), np.arange(4) % 2


def losses_and_weights(recompute, dtype=None, **fit):
    keras.utils.set_random_seed(0)
    backbone = small.backbone(num_layers=2, dropout=0.3, recompute=recompute, dtype=dtype)
    task = kbi.BertTextClassifier(backbone, 2)
    task.compile(kbi.BertAdamW(1e-2), **fit)
    history = task.fit(*DATA, batch_size=2, epochs=3, verbose=0, shuffle=False)
    weights = [parted(weight.path, np.array(weight))[0] for weight in task.weights]
    return history.history["loss"], weights


def check_same_steps(dtype=None, atol=1e-6, **fit):
    kept, again = (losses_and_weights(r, dtype, **fit) for r in (False, True))
    np.testing.assert_allclose(again[0], kept[0], atol=atol)
    for ours, theirs in zip(again[1], kept[1], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol)


def test_the_steps_are_the_same_dropout_and_all():
    check_same_steps()


@pytest.mark.parametrize("fit", [{"accumulation_steps": 2}, {"run_eagerly": True}])
def test_in_parts_and_without_a_graph(fit):
    check_same_steps(**fit)


def test_in_lower_precision():
    check_same_steps("mixed_bfloat16", atol=1e-3)


def test_each_block_runs_once_more():
    import tensorflow as tf

    counts = {}
    for recompute in (False, True):
        backbone = small.backbone(num_layers=2, recompute=recompute)
        inputs = small.prepared(rows=2)

        @tf.function
        def gradients(backbone=backbone, inputs=inputs):
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(backbone(inputs, training=True)["sequence_output"])
            return tape.gradient(total, [v.value for v in backbone.trainable_variables])

        graph = gradients.get_concrete_function().graph
        counts[recompute] = sum(op.type == "Softmax" for op in graph.get_operations())
    assert counts == {False: 2, True: 4}


def test_two_devices(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "tests.layers.recompute_elsewhere", "mirrored"],
        check=True,
        cwd=ROOT,
    )


def test_jax():
    subprocess.run(
        [sys.executable, "-m", "tests.layers.recompute_elsewhere", "jax"],
        check=True,
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
    )


def test_it_can_be_set_and_survives_the_config():
    backbone = small.backbone(recompute=True)
    assert kbi.BertBackbone.from_config(backbone.get_config()).recompute
    backbone.recompute = False
    assert not backbone.get_config()["recompute"]
    assert not any(layer.recompute for layer in backbone.encoder_layers)
