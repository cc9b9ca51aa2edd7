"""What heads read of the last block is what the whole block would give them, and no more is computed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl.layers.fusion import fusing
from tests import small

X = small.prepared(rows=4)
MASKED = {**X, "mask_positions": np.array([[1, 3, 2], [2, 1, 0], [3, 3, 3], [2, 0, 0]], "int32")}


def backbone(**options):
    keras.utils.set_random_seed(0)
    return small.backbone(dropout=0.0, **options)


TASKS = {
    "classifier": lambda **o: (kbi.BertTextClassifier(backbone(**o), 3), X),
    "next_sentence": lambda **o: (kbi.BertNextSentence(backbone(**o)), X),
    "masked_lm": lambda **o: (kbi.BertMaskedLM(backbone(**o)), MASKED),
    "pretrainer": lambda **o: (kbi.BertPretrainer(backbone(**o)), MASKED),
    "tasks": lambda **o: (
        kbi.BertPretrainer(
            backbone(num_tasks=2, **o), objectives=[kbi.MaskedLM(), kbi.SentenceDistance()]
        ),
        {**MASKED, "task_ids": np.array([[0], [1], [1], [0]], "int32")},
    ),
    "choices": lambda **o: (
        kbi.BertMultipleChoice(backbone(**o)),
        {name: rows.reshape(2, 2, -1) for name, rows in X.items()},
    ),
    "cls": lambda **o: (kbi.BertTextEmbedder(backbone(**o), pooling="cls"), X),
    "pooler": lambda **o: (kbi.BertTextEmbedder(backbone(**o), pooling="pooler"), X),
}


def outputs_and_gradients(task, call):
    with tf.GradientTape() as tape:
        outputs = call()
        total = sum(tf.reduce_sum(tf.sin(output)) for output in tf.nest.flatten(outputs))
    variables = [variable.value for variable in task.trainable_variables]
    gradients = tape.gradient(total, variables, unconnected_gradients="zero")
    return tf.nest.flatten(outputs), [tf.convert_to_tensor(gradient) for gradient in gradients]


def check_as_whole(task, inputs, training=None):
    inputs = {name: tf.constant(x) for name, x in inputs.items()}
    whole = keras.Model(task.input, task.output)  # the functional graph, of all positions
    expected = outputs_and_gradients(task, lambda: whole(inputs, training=training))
    for fuse in (False, True):
        with fusing(fuse):
            found = outputs_and_gradients(task, lambda: task(inputs, training=training))
        for ours, theirs in zip(found, expected, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_outputs_and_gradients_are_those_of_the_whole_block(name):
    check_as_whole(*TASKS[name]())
    check_as_whole(*TASKS[name](recompute=True), training=True)


@pytest.mark.parametrize("name", ["masked_lm", "pretrainer"])
def test_of_a_block_with_lora_and_of_one_layer(name):
    task, inputs = TASKS[name](num_layers=1)
    task.backbone.enable_lora(2)
    for variable in task.trainable_variables:
        variable.assign(variable + 0.1)
    check_as_whole(task, inputs)


@pytest.mark.thorough
def test_of_int8():
    task, inputs = TASKS["classifier"]()
    task.quantize("int8")
    whole = keras.Model(task.input, task.output)
    np.testing.assert_allclose(task(inputs), whole(inputs), atol=0.05)


def test_of_a_causal_backbone():
    whole = small.backbone(causal=True)
    positions = np.array([[0, 2], [3, 1], [1, 1], [2, 3]], "int32")
    found = whole({**X, "read_positions": positions})
    expected = np.array(whole(X)["sequence_output"])
    expected = np.take_along_axis(expected, positions[:, :, None], axis=1)
    assert list(found) == ["sequence_output"]
    np.testing.assert_allclose(found["sequence_output"], expected, atol=1e-5)


def test_positions_without_slots_are_refused():
    with pytest.raises(ValueError, match=r"read_positions must be \(batch, slots\)"):
        small.backbone()({**X, "read_positions": np.zeros(4, "int32")})


def test_dropout_is_on_in_training():
    task = kbi.BertTextClassifier(small.backbone(dropout=0.5), 3)
    assert np.abs(task(X, training=True) - task(X)).max() > 1e-3
    np.testing.assert_array_equal(task(X), task(X))


@pytest.mark.parametrize(
    ("name", "slots"), [("classifier", 1), ("masked_lm", 3), ("pretrainer", 4), ("choices", 1)]
)
def test_the_last_block_is_computed_where_it_is_read_alone(name, slots, monkeypatch):
    task, inputs = TASKS[name]()
    widths = {}
    for layer in task.backbone.encoder_layers:
        inner = layer._after_attention

        def after(x, *args, layer=layer, inner=inner, **kwargs):
            widths[layer.name] = x.shape[1]
            return inner(x, *args, **kwargs)

        monkeypatch.setattr(layer, "_after_attention", after)
    task(inputs)
    assert widths == {"encoder_layer_0": 12, "encoder_layer_1": slots}


def test_objectives_of_all_tokens_get_all():
    objectives = [kbi.MaskedLM(), kbi.Capitalization()]
    pretrainer = kbi.BertPretrainer(backbone(), objectives=objectives)
    assert pretrainer.reads is None
    assert pretrainer(MASKED)["capitalization"].shape == (4, 12, 2)
    assert kbi.BertPretrainer(backbone(), objectives=[kbi.SentenceOrder()]).reads == (
        "cls_positions",
    )
    assert kbi.BertTextEmbedder(backbone(), pooling="mean").reads is None
    assert kbi.BertTextEmbedder(backbone(), pooling="cls", features="embeddings").reads is None
