"""Hugging Face -> ours -> Google TF1 -> ours -> KerasHub -> ours -> Hugging Face: every bit."""

import pytest
import safetensors.numpy

from keras_bert_impl import (
    BertBackbone,
    BertMaskedLM,
    BertMultipleChoice,
    BertNextSentence,
    BertPretrainer,
    BertQuestionAnswering,
    BertTextClassifier,
    BertTokenClassifier,
)
from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.parts import CheckpointError
from tests.checkpoints import toys

# KerasHub has no class with one of the other heads: these skip its step.
JOURNEYS = [
    ("BertModel", BertBackbone, ["google", "keras_hub"]),
    ("BertForMaskedLM", BertMaskedLM, ["google", "keras_hub"]),
    ("BertForSequenceClassification", BertTextClassifier, ["google", "keras_hub"]),
    ("BertForPreTraining", BertPretrainer, ["google"]),
    ("BertForNextSentencePrediction", BertNextSentence, ["google"]),
    ("BertForTokenClassification", BertTokenClassifier, ["google"]),
    ("BertForQuestionAnswering", BertQuestionAnswering, ["google"]),
    ("BertForMultipleChoice", BertMultipleChoice, ["google"]),
]


@pytest.mark.filterwarnings("ignore:.*KerasHub")
@pytest.mark.parametrize(("architecture", "cls", "steps"), JOURNEYS)
def test_every_tensor_comes_home_bit_for_bit(tmp_path, architecture, cls, steps):
    labels = {"0": "bad", "1": "fair", "2": "good"}
    options = {"do_lower_case": True, "strip_accents": False}
    folder = toys.write_hugging_face(
        tmp_path / "start", architecture, id2label=labels, tokenizer=options
    )
    for step in [*steps, "hugging_face"]:
        model = cls.from_preset(folder)
        folder = tmp_path / step
        loading.save_checkpoint(model, folder, step)
    written = safetensors.numpy.load_file(folder / "model.safetensors")
    expected = toys.heads_of(architecture)
    assert written.keys() == expected.keys()
    for name, value in expected.items():
        assert written[name].tobytes() == value.tobytes(), name
    if cls is BertTokenClassifier:
        assert model.class_names == ("bad", "fair", "good")
    if cls is not BertBackbone:  # A backbone has no tokenizer to pass on.
        tokenizer = loading.load_tokenizer(folder)
        assert tokenizer.get_vocabulary() == toys.VOCABULARY
        assert (tokenizer.lowercase, tokenizer.strip_accents) == (True, False)


@pytest.mark.filterwarnings("ignore:.*KerasHub")
@pytest.mark.parametrize("format", ["hugging_face", "google", "keras_hub"])
def test_without_a_model_in_between(tmp_path, format):
    start = toys.write_hugging_face(tmp_path / "start", "BertForMaskedLM")
    checkpoint = loading.read_checkpoint(start)
    loading.save_checkpoint(checkpoint, tmp_path / "there", format)
    again = loading.read_checkpoint(tmp_path / "there")
    for part, tensor in checkpoint.tensors.items():
        assert again.tensors[part].read().tobytes() == tensor.read().tobytes(), part


@pytest.mark.parametrize("cls", [BertTokenClassifier, BertQuestionAnswering, BertMultipleChoice])
def test_keras_hub_has_no_class_for_these_heads(tmp_path, cls):
    architecture = {
        BertTokenClassifier: "BertForTokenClassification",
        BertQuestionAnswering: "BertForQuestionAnswering",
        BertMultipleChoice: "BertForMultipleChoice",
    }[cls]
    model = cls.from_preset(toys.write_hugging_face(tmp_path / "start", architecture))
    with pytest.raises(CheckpointError, match=f"KerasHub has no class with.*{cls.head_name}"):
        loading.save_checkpoint(model, tmp_path / "there", "keras_hub")
    # The encoder goes there alone.
    loading.save_checkpoint(model.backbone, tmp_path / "encoder", "keras_hub")


@pytest.mark.parametrize(
    ("architecture", "cls"),
    [
        ("BertForTokenClassification", BertTokenClassifier),
        ("BertForSequenceClassification", BertTextClassifier),
    ],
)
def test_a_classifiers_head_never_lands_in_the_other_kind(tmp_path, architecture, cls):
    """In Google's files both are one dense layer with the same name."""
    other = {BertTokenClassifier: BertTextClassifier, BertTextClassifier: BertTokenClassifier}[cls]
    model = cls.from_preset(
        toys.write_hugging_face(
            tmp_path / "start", architecture, id2label={"0": "a", "1": "b", "2": "c"}
        )
    )
    loading.save_checkpoint(model, tmp_path / "google", "google")
    with pytest.raises(CheckpointError, match=f"lacks.*{other.head_name}/kernel"):
        other.from_preset(tmp_path / "google", num_classes=3)
