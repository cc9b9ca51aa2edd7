"""KerasHub's own models, in memory and as presets, both ways."""

import shutil

import keras
import keras_hub
import numpy as np
import pytest

from keras_bert_impl import (
    BertBackbone,
    BertMaskedLM,
    BertPreprocessor,
    BertPretrainer,
    BertTextClassifier,
    BertTokenizer,
)
from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.keras_hub import read_keras_hub, to_keras_hub
from keras_bert_impl.checkpoints.parts import CheckpointError
from tests.checkpoints import toys

SIZES = {
    "vocabulary_size": 61,
    "num_layers": 2,
    "num_heads": 4,
    "hidden_dim": 32,
    "intermediate_dim": 64,
    "max_sequence_length": 20,
    "dropout": 0.1,
}


def randomize(model):
    rng = np.random.default_rng(9)
    for variable in model.trainable_variables:
        mean = 1.0 if variable.name == "gamma" else 0.0
        variable.assign(rng.normal(mean, 0.25, variable.shape))
    return model


def their_inputs():
    batch = toys.inputs()
    return {**batch, "padding_mask": batch["padding_mask"].astype("int32")}


def their_tokenizer():
    return keras_hub.tokenizers.BertTokenizer(toys.VOCABULARY, lowercase=True, strip_accents=True)


@pytest.fixture
def backbone():
    return randomize(keras_hub.models.BertBackbone(**SIZES))


def assert_same(ours, theirs):
    toys.assert_close(ours["sequence_output"], theirs["sequence_output"])
    toys.assert_close(ours["pooled_output"], theirs["pooled_output"])


def test_backbone_in_memory_both_ways(backbone):
    checkpoint = read_keras_hub(backbone)
    ours = loading.build(BertBackbone, checkpoint, {})
    loading.load_into(ours, checkpoint)
    assert_same(ours(toys.inputs()), backbone(their_inputs()))
    assert_same(ours(toys.inputs()), to_keras_hub(ours)(their_inputs()))


def test_backbone_preset(backbone, tmp_path):
    backbone.save_to_preset(str(tmp_path))
    ours = BertBackbone.from_preset(tmp_path)
    assert_same(ours(toys.inputs()), backbone(their_inputs()))
    with pytest.raises(CheckpointError, match="lacks masked_lm/transform/kernel"):
        BertMaskedLM.from_preset(tmp_path)


def test_classifier_preset_brings_its_head_and_tokenizer(backbone, tmp_path):
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(their_tokenizer())
    theirs = keras_hub.models.BertTextClassifier(
        backbone, num_classes=3, preprocessor=preprocessor, dropout=0.2
    )
    theirs.save_to_preset(str(tmp_path))
    ours = BertTextClassifier.from_preset(tmp_path)
    assert (ours.num_classes, ours.output_dropout.rate) == (3, 0.2)
    toys.assert_close(ours(toys.inputs()), theirs(their_inputs()))
    tokenizer = ours.preprocessor.tokenizer
    assert tokenizer.get_vocabulary() == toys.VOCABULARY and tokenizer.lowercase


def test_masked_lm_preset_warns_of_the_heads_gelu(backbone, tmp_path):
    theirs = randomize(keras_hub.models.BertMaskedLM(backbone))
    theirs.save_to_preset(str(tmp_path))
    with pytest.warns(UserWarning, match="head computes GELU by erf.*1e-5"):
        ours = BertMaskedLM.from_preset(tmp_path)
    positions = toys.inputs("mask_positions")["mask_positions"]
    expected = theirs({**their_inputs(), "mask_positions": positions})
    toys.assert_close(ours(toys.inputs("mask_positions")), expected, 1e-2)


def test_our_classifier_becomes_a_preset_that_keras_hub_opens(tmp_path):
    ours = BertTextClassifier(
        randomize(BertBackbone(**SIZES, activation="gelu_approximate")),
        num_classes=3,
        preprocessor=BertPreprocessor(BertTokenizer(toys.VOCABULARY)),
    )
    loading.save_checkpoint(ours, tmp_path, "keras_hub")
    theirs = keras_hub.models.BertTextClassifier.from_preset(str(tmp_path))
    toys.assert_close(theirs(their_inputs()), ours(toys.inputs()))
    assert list(theirs.preprocessor.tokenizer("the cat")) == [8, 9]


def test_what_keras_hub_fixes_is_warned_of():
    ours = BertBackbone(**SIZES, activation="gelu", layer_norm_epsilon=1e-5)
    with pytest.warns(UserWarning) as warnings:
        to_keras_hub(ours)
    messages = "\n".join(str(w.message) for w in warnings)
    assert "activation is 'gelu'" in messages and "layer_norm_epsilon is 1e-05" in messages


@pytest.mark.filterwarnings("ignore:.*activation is 'gelu'")
def test_a_pretrainer_has_no_class_there():
    with pytest.raises(CheckpointError, match="no class with the heads masked_lm, next_sentence"):
        to_keras_hub(BertPretrainer(BertBackbone(**SIZES)))


def test_a_preset_of_another_model_is_refused(tmp_path):
    other = keras_hub.models.DistilBertBackbone(61, 1, 4, 32, 64, max_sequence_length=20)
    other.save_to_preset(str(tmp_path))
    with pytest.raises(CheckpointError, match="DistilBertBackbone"):
        BertBackbone.from_preset(tmp_path)


def test_missing_weights_of_a_preset_are_named(backbone, tmp_path):
    backbone.save_to_preset(str(tmp_path))
    (tmp_path / "model.weights.h5").unlink()
    with pytest.raises(CheckpointError, match="model.weights.h5: this file is missing"):
        BertBackbone.from_preset(tmp_path)


def test_truncated_weights_of_a_preset(backbone, tmp_path):
    backbone.save_to_preset(str(tmp_path))
    path = tmp_path / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match=f"{tmp_path}: the preset cannot be read"):
        BertBackbone.from_preset(tmp_path)


def test_our_own_preset_in_a_zip_keeps_its_preprocessor(tmp_path):
    backbone = randomize(BertBackbone(**SIZES))
    preprocessor = BertPreprocessor(BertTokenizer(toys.VOCABULARY), 17, truncation="only_first")
    ours = BertTextClassifier(backbone, num_classes=3, preprocessor=preprocessor)
    ours.save_to_preset(str(tmp_path / "mine"))
    archive = shutil.make_archive(tmp_path / "toy", "zip", tmp_path, "mine")
    again = BertTextClassifier.from_preset(archive)
    toys.assert_close(again(toys.inputs()), ours(toys.inputs()), 0)
    assert again.preprocessor.truncation == "only_first"
    assert again.preprocessor.sequence_length == 17


def test_our_own_preset_follows_the_same_rule_for_heads(tmp_path):
    ours = randomize(BertBackbone(**SIZES))
    ours.save_to_preset(str(tmp_path))
    again = BertBackbone.from_preset(str(tmp_path))
    assert_same(again(toys.inputs()), ours(toys.inputs()))
    with pytest.raises(CheckpointError, match="init_missing=True"):
        BertTextClassifier.from_preset(tmp_path, num_classes=2)
    classifier = BertTextClassifier.from_preset(tmp_path, num_classes=2, init_missing=True)
    assert classifier.load_report.newly_initialized == ("classifier/kernel", "classifier/bias")
    assert_same(classifier.backbone(toys.inputs()), ours(toys.inputs()))
    keras.backend.clear_session()
