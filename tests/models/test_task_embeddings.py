"""Task embeddings from pretraining to fine-tuning, and into other packages' files."""

import keras
import numpy as np
import pytest

from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.keras_hub import to_keras_hub
from keras_bert_impl.checkpoints.resizing import resize
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.causal_lm import BertCausalLM
from keras_bert_impl.models.features import BertFeatures
from keras_bert_impl.models.multiple_choice import BertMultipleChoice
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.pretrainer import BertPretrainer
from keras_bert_impl.models.text_classifier import BertTextClassifier
from tests import small
from tests.checkpoints import toys

PREPARED = small.prepared()


def of_task(task, x=PREPARED):
    return {**x, "task_ids": np.full((len(x["token_ids"]), 1), task, "int32")}


def differ(one, other):
    return np.abs(np.array(one) - np.array(other)).max() > 1e-3


@pytest.fixture(scope="module")
def backbone():
    return small.backbone(num_layers=1, dropout=0.0, num_tasks=3)


def test_rows_without_a_task_are_of_the_first(backbone):
    assert set(backbone.input) == {"token_ids", "segment_ids", "padding_mask", "task_ids"}
    assert "task_ids" not in small.backbone(num_layers=1).input
    outputs = [backbone(x)["sequence_output"] for x in (PREPARED, of_task(0), of_task(2))]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert differ(outputs[0], outputs[2])
    features = BertFeatures(backbone, "last")
    np.testing.assert_array_equal(features(PREPARED), outputs[0])


def test_fine_tuning_on_raw_text_and_on_a_task_of_choice(backbone, tmp_path):
    preprocessor = BertPreprocessor(small.tokenizer(), 12, padding="max_length")
    classifier = BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    raw = classifier.predict(small.TEXTS, verbose=0)
    ids = {name: np.array(x) for name, x in preprocessor(small.TEXTS).items()}
    np.testing.assert_allclose(classifier(of_task(0, ids)), raw, atol=1e-6)
    assert differ(classifier(of_task(1, ids)), raw)
    with pytest.raises(
        ValueError, match="task_ids holds 3 in row 0, column 0, but its table has 3"
    ):
        classifier.predict(of_task(3, ids))

    classifier.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.backbone.num_tasks == 3
    np.testing.assert_array_equal(again(of_task(2, ids)), classifier(of_task(2, ids)))

    before = np.array(backbone.embeddings.task_embedding.embeddings)
    classifier.fit(of_task(1, ids), np.array([0, 1, 1, 0]), verbose=0)
    moved = np.abs(np.array(backbone.embeddings.task_embedding.embeddings) - before).max(axis=1)
    assert moved[1] > 1e-6
    assert moved[2] < 1e-6  # but for decay


def test_choices_and_writing_are_of_the_first_task_too(backbone):
    choices = {name: x.reshape(2, 2, -1) for name, x in PREPARED.items()}
    model = BertMultipleChoice(backbone)
    task_ids = np.zeros((2, 2, 1), "int32")
    logits = model(choices)
    np.testing.assert_array_equal(logits, model({**choices, "task_ids": task_ids}))
    assert differ(logits, model({**choices, "task_ids": task_ids + 1}))
    causal_lm = BertCausalLM(small.backbone(num_layers=1, causal=True, num_tasks=2))
    prompts = np.full((1, 6), 7, "int32")
    written = causal_lm.generate_ids(prompts, np.arange(6)[None] < 3)
    last = np.array(
        causal_lm({**{n: x[:1, :6] for n, x in PREPARED.items()}, "token_ids": written})
    )
    assert written[0, 5] == last[0, 4].argmax()


def test_another_packages_weights_begin_with_a_table_of_zeros(tmp_path):
    start = toys.write_hugging_face(tmp_path / "start", "BertForPreTraining")
    plain = BertBackbone.from_preset(start)(toys.inputs())["pooled_output"]
    backbone = BertBackbone.from_preset(start, num_tasks=2)
    assert backbone.load_report.newly_initialized == ("embeddings/task",)
    pretrainer = BertPretrainer.from_preset(start, num_tasks=2)
    for model in (backbone, pretrainer.backbone):
        assert not np.any(model.embeddings.task_embedding.embeddings)
        x = of_task(1, toys.inputs())
        np.testing.assert_allclose(model(x)["pooled_output"], plain, atol=1e-6)


@pytest.mark.parametrize("format", loading.WRITERS)
@pytest.mark.filterwarnings("ignore:.*KerasHub")
def test_other_packages_get_task_0_alone(backbone, tmp_path, format):
    with pytest.warns(UserWarning, match="has vectors of 3 tasks. Without a task table"):
        loading.save_checkpoint(backbone, tmp_path / format, format)
    again = BertBackbone.from_preset(tmp_path / format, activation="gelu")
    assert again.num_tasks == 0
    for name, output in backbone(of_task(0)).items():
        np.testing.assert_allclose(again(PREPARED)[name], output, atol=1e-5)


def test_a_single_task_needs_no_warning(recwarn):
    backbone = small.backbone(num_layers=1, activation="gelu_approximate", num_tasks=1, dropout=0.0)
    to_keras_hub(backbone)
    assert not [w for w in recwarn if "tasks" in str(w.message)]


def test_more_tasks_and_fewer(backbone):
    pretrainer = BertPretrainer(backbone)
    table = np.array(backbone.embeddings.task_embedding.embeddings)
    more = resize(pretrainer, num_tasks=5).backbone
    np.testing.assert_array_equal(
        more.embeddings.task_embedding.embeddings, np.pad(table, [(0, 2), (0, 0)])
    )
    fewer = resize(backbone, num_tasks=1)
    np.testing.assert_array_equal(fewer.embeddings.task_embedding.embeddings, table[:1])
    first = resize(small.backbone(num_layers=1), num_tasks=2)
    assert not np.any(first.embeddings.task_embedding.embeddings)
    with pytest.warns(UserWarning, match="are left out"):
        none = resize(backbone, num_tasks=0)
    outputs = [model(PREPARED)["pooled_output"] for model in (none, backbone)]
    np.testing.assert_allclose(*outputs, atol=1e-5)
    with pytest.raises(ValueError, match="num_tasks=-1"):
        resize(backbone, num_tasks=-1)
