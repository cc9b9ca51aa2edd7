"""TF2 checkpoints written by Model Garden's own code: see tests/golden/make_model_garden.py."""

import json
import shutil

import pytest

from keras_bert_impl import BertBackbone, BertMaskedLM, BertPretrainer
from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.parts import CheckpointError
from tests.checkpoints import toys

FOLDER = toys.GOLDEN / "model_garden"


@pytest.fixture(scope="module")
def outputs():
    return toys.golden("model_garden/outputs")


def inputs(outputs, *more):
    return {name: outputs[name] for name in (*toys.INPUTS, *more)}


def test_it_is_told_from_tf1():
    assert loading.recognize(FOLDER / "encoder") == "model_garden"


def test_encoder(outputs):
    backbone = BertBackbone.from_preset(FOLDER / "encoder")
    assert (backbone.num_layers, backbone.num_heads, backbone.hidden_dim) == (2, 4, 16)
    encoded = backbone(inputs(outputs))
    toys.assert_close(encoded["sequence_output"], outputs["encoder_sequence"])
    toys.assert_close(encoded["pooled_output"], outputs["encoder_pooled"])
    assert not backbone.load_report.left_over


def test_pretrainer(outputs):
    model = BertPretrainer.from_preset(FOLDER / "pretrainer")
    answers = model(inputs(outputs, "mask_positions"))
    toys.assert_close(answers["masked_lm"], outputs["masked_lm"])
    toys.assert_close(answers["next_sentence"], outputs["next_sentence"])
    # The encoder's own pooler took no part in pretraining there.
    assert [
        name for name in model.load_report.left_over if "layer_with_weights-6" not in name
    ] == []
    assert len(model.load_report.left_over) == 2


def test_checkpoint_items_of_the_trainer(outputs):
    model = BertMaskedLM.from_preset(FOLDER / "items")
    toys.assert_close(model(inputs(outputs, "mask_positions")), outputs["masked_lm"])
    assert "optimizer/.ATTRIBUTES/VARIABLE_VALUE" in model.load_report.left_over
    with pytest.raises(CheckpointError, match="lacks next_sentence/kernel"):
        BertPretrainer.from_preset(FOLDER / "items")


def test_config_beside_it_is_honoured_and_compared(tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(FOLDER / "encoder", folder)
    config = {
        "vocab_size": 31,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "hidden_size": 16,
        "intermediate_size": 24,
        "max_position_embeddings": 12,
        "hidden_dropout_prob": 0.2,
        "type_vocab_size": 2,
    }
    (folder / "bert_config.json").write_text(json.dumps(config))
    backbone = BertBackbone.from_preset(folder)
    assert (backbone.dropout, backbone.activation) == (0.2, "gelu_approximate")
    (folder / "bert_config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(CheckpointError, match="num_layers is 3, but by the tensors 2"):
        BertBackbone.from_preset(folder)
