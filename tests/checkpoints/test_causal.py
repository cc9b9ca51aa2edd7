"""Causal models: begun from bidirectional ones and from each other, and kept to this package."""

import keras
import numpy as np
import pytest

from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.keras_hub import to_keras_hub
from keras_bert_impl.checkpoints.parts import CheckpointError
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.causal_classifier import BertCausalClassifier
from keras_bert_impl.models.causal_lm import BertCausalLM
from keras_bert_impl.models.causal_lm_preprocessor import BertCausalLMPreprocessor
from tests import small
from tests.checkpoints import toys


def assert_same_weights(ours, theirs):
    for weight, other in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(np.array(weight), np.array(other), err_msg=weight.path)


def test_a_causal_backbone_begins_with_berts_weights(tmp_path):
    start = toys.write_hugging_face(tmp_path / "start", "BertForMaskedLM")
    both_ways, causal = (
        BertBackbone.from_preset(start, causal=causal, init_missing=True)
        for causal in (False, True)
    )
    assert (both_ways.causal, causal.causal) == (False, True)
    for ours, theirs in zip(both_ways.encoder_layers, causal.encoder_layers, strict=True):
        assert_same_weights(ours, theirs)
    model = BertCausalLM.from_preset(start, causal=True)
    assert type(model.preprocessor) is BertCausalLMPreprocessor
    assert_same_weights(model.backbone.encoder_layers[0], causal.encoder_layers[0])
    with pytest.raises(ValueError, match="has causal=False"):
        BertCausalLM.from_preset(start)


def test_fine_tuning_begins_where_pretraining_ended(tmp_path):
    preprocessor = BertCausalLMPreprocessor(small.tokenizer(), 16)
    model = BertCausalLM(small.backbone(causal=True), preprocessor)
    model.save_to_preset(str(tmp_path / "gpt"))
    classifier = BertCausalClassifier.from_preset(
        tmp_path / "gpt", num_classes=3, sequence_length=12, pair=True
    )
    assert classifier.backbone.causal is True
    for ours, theirs in zip(
        classifier.backbone.encoder_layers, model.backbone.encoder_layers, strict=True
    ):
        assert_same_weights(ours, theirs)
    assert (classifier.preprocessor.sequence_length, classifier.preprocessor.pair) == (12, True)
    again = loading.load_task(tmp_path / "gpt")
    assert type(again) is BertCausalLM
    assert again.generate("the cat", max_length=10) == model.generate("the cat", max_length=10)


@pytest.mark.parametrize("format", loading.WRITERS)
def test_other_packages_do_not_get_it(tmp_path, format):
    for model in (small.backbone(causal=True), BertCausalLM(small.backbone(causal=True))):
        with pytest.raises(CheckpointError, match="is causal, but other packages' BERT is not"):
            loading.save_checkpoint(model, tmp_path / "there", format)
    assert not (tmp_path / "there").exists()


def test_keras_hub_does_not_get_it():
    with pytest.raises(CheckpointError, match="is causal"):
        to_keras_hub(small.backbone(causal=True))
    assert isinstance(to_keras_hub(small.backbone(activation="gelu_approximate")), keras.Model)
