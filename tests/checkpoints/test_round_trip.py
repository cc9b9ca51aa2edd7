"""Hugging Face -> ours -> Google TF1 -> ours -> KerasHub -> ours -> Hugging Face: every bit."""

import pytest
import safetensors.numpy

from keras_bert_impl import (
    BertBackbone,
    BertMaskedLM,
    BertNextSentence,
    BertPretrainer,
    BertTextClassifier,
)
from keras_bert_impl.checkpoints import loading
from tests.checkpoints import toys

# KerasHub has no class with a next-sentence head: these two skip its step.
JOURNEYS = [
    ("BertModel", BertBackbone, ["google", "keras_hub"]),
    ("BertForMaskedLM", BertMaskedLM, ["google", "keras_hub"]),
    ("BertForSequenceClassification", BertTextClassifier, ["google", "keras_hub"]),
    ("BertForPreTraining", BertPretrainer, ["google"]),
    ("BertForNextSentencePrediction", BertNextSentence, ["google"]),
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
