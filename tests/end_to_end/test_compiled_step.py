"""The training step of each recipe's model is one XLA program: what a TPU asks for."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from tests import small
from tests.end_to_end.under_jax import tasks

# Operations of a compiled module that reach for the host.
HOST_OPERATIONS = re.compile(r"= \S+ (infeed|outfeed|send|recv|send-done|recv-done)\(|HostCompute")


def pretraining_batch():
    draw = np.random.default_rng(0)
    x = {**small.prepared(), "mask_positions": draw.integers(0, 4, (4, 3)).astype("int32")}
    y = {
        "masked_lm": draw.integers(0, 40, (4, 3)).astype("int32"),
        "next_sentence": np.array([0, 1, 1, 0]),
    }
    return x, y, {"masked_lm": np.ones((4, 3), "float32"), "next_sentence": np.ones(4, "float32")}


def models():
    """(task, batch) by name: those of the recipes, with dropout."""
    x, y, weights = pretraining_batch()
    ids = {name: array for name, array in x.items() if name != "mask_positions"}
    labels = np.array([0, 1, 1, 0])

    def backbone():
        return small.backbone(num_layers=1, dropout=0.1)

    found = {
        "pretrainer": (kbi.BertPretrainer(backbone()), (x, y, weights)),
        "masked_lm": (
            kbi.BertMaskedLM(backbone()),
            (x, y["masked_lm"], weights["masked_lm"]),
        ),
        "next_sentence": (kbi.BertNextSentence(backbone()), (ids, labels)),
        "text_classifier": (kbi.BertTextClassifier(backbone(), num_classes=2), (ids, labels)),
    }
    for name, (task, x, y, weights) in tasks().items():
        found[name] = (task, (x, y) if weights is None else (x, y, weights))
    return found


@pytest.mark.parametrize(
    ("name", "accumulation_steps"), [*((name, 1) for name in models()), ("pretrainer", 2)]
)
def test_a_training_step_is_one_program_without_the_host(name, accumulation_steps):
    task, batch = models()[name]
    task.compile(
        kbi.BertAdamW(kbi.WarmupLinearDecay(1e-3, 10)), accumulation_steps=accumulation_steps
    )
    batch = tf.nest.map_structure(tf.constant, batch)
    task._symbolic_build(data_batch=batch)
    step = tf.function(task.train_step, jit_compile=True)
    before = [keras.ops.convert_to_numpy(v) for v in task.trainable_variables]
    module = step.experimental_get_compiler_ir(batch)(stage="hlo")
    assert "ENTRY" in module
    assert not HOST_OPERATIONS.search(module)
    # Every shape is a number: "<=" marks one that is not.
    assert "<=" not in module
    logs = step(batch)
    assert np.isfinite(float(logs["loss"]))
    after = [keras.ops.convert_to_numpy(v) for v in task.trainable_variables]
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
