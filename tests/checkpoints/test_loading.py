"""What a folder is taken for, and what a loaded model can do."""

import json
import logging
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl import BertBackbone, BertMaskedLM, BertTextClassifier, BertTokenClassifier
from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.parts import CheckpointError
from tests.checkpoints import toys


def test_an_empty_folder_and_a_strange_one_say_what_was_looked_for(tmp_path):
    with pytest.raises(CheckpointError, match="Looked for config.json.*has no files"):
        BertBackbone.from_preset(tmp_path)
    (tmp_path / "weights.dat").write_text("?")
    with pytest.raises(CheckpointError, match="It has weights.dat"):
        BertBackbone.from_preset(tmp_path)


def test_a_config_that_is_no_json(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="config.json: not JSON"):
        BertBackbone.from_preset(tmp_path)


def test_a_file_that_is_no_archive(tmp_path):
    (tmp_path / "bert.zip").write_text("no zip")
    with pytest.raises(CheckpointError, match="bert.zip: expected a folder, or a .zip or .tar"):
        BertBackbone.from_preset(tmp_path / "bert.zip")


def test_a_tar_of_a_folder(tmp_path):
    toys.write_hugging_face(tmp_path / "bert", "BertForMaskedLM")
    archive = shutil.make_archive(tmp_path / "toy", "gztar", tmp_path, "bert")
    logits = BertMaskedLM.from_preset(archive)(toys.inputs("mask_positions"))
    toys.assert_close(logits, toys.golden("toy_erf")["masked_lm"])


@pytest.mark.parametrize(
    ("preset", "handle"),
    [
        ("kaggle://someone/bert/keras/mine", "someone/bert/keras/mine"),
        ("bert_tiny_en_uncased", "keras/bert/keras/bert_tiny_en_uncased/"),
    ],
)
def test_kaggle_handles_and_preset_names_go_through_kagglehub(
    tmp_path, monkeypatch, preset, handle
):
    import kagglehub

    folder = toys.write_hugging_face(tmp_path, "BertForMaskedLM")
    asked = []
    monkeypatch.setattr(kagglehub, "model_download", lambda h: asked.append(h) or str(folder))
    logits = BertMaskedLM.from_preset(preset)(toys.inputs("mask_positions"))
    toys.assert_close(logits, toys.golden("toy_erf")["masked_lm"])
    assert len(asked) == 1 and asked[0].startswith(handle)


def test_the_report_is_logged_as_a_warning_where_something_is_random(tmp_path, caplog):
    toys.write_hugging_face(tmp_path, "BertModel")
    with caplog.at_level(logging.INFO, "keras_bert_impl"):
        BertBackbone.from_preset(tmp_path)
        BertTextClassifier.from_preset(tmp_path, num_classes=2, init_missing=True)
    good, random = caplog.records
    assert good.levelname == "INFO" and "loaded 39 tensors" in good.message
    assert random.levelname == "WARNING"
    assert "newly initialized: classifier/kernel, classifier/bias" in random.message


def test_sizes_without_weights(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertModel")
    backbone = BertBackbone.from_preset(folder, load_weights=False)
    assert backbone.num_layers == 2
    table = toys.weights()["bert.embeddings.word_embeddings.weight"]
    assert not np.allclose(backbone.token_embedding.embeddings, table)


def test_arguments_override_the_checkpoint(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForMaskedLM")
    model = BertMaskedLM.from_preset(folder, dtype="mixed_bfloat16", sequence_length=16)
    assert model.backbone.dtype_policy.name == "mixed_bfloat16"
    assert model.preprocessor.sequence_length == 16
    assert BertMaskedLM.from_preset(folder, preprocessor=None).preprocessor is None


def test_weights_start_at_step_zero(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForMaskedLM")
    model = BertMaskedLM.from_preset(folder)
    assert int(model.optimizer.iterations) == 0


def test_a_converted_checkpoint_trains_exports_and_serves(tmp_path):
    keras.utils.set_random_seed(1)
    folder = toys.write_hugging_face(tmp_path / "in", "BertModel", hidden_dropout_prob=0.1)
    model = BertTextClassifier.from_preset(
        folder, num_classes=2, class_names=("no", "yes"), init_missing=True, sequence_length=8
    )
    texts, labels = ["the cat", "unaffable"] * 8, np.array([0, 1] * 8)
    model.compile(optimizer=keras.optimizers.Adam(3e-3), run_eagerly=True)
    history = model.fit(texts, labels, epochs=4, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    model.export(str(tmp_path / "out"))
    served = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    answer = served(tf.constant(texts[:2]))
    logits = model.predict(texts[:2], verbose=0)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    toys.assert_close(answer["probabilities"], probabilities)


def test_an_unknown_format_to_write(tmp_path):
    backbone = BertBackbone(61, 1, 2, 8, 8)
    with pytest.raises(ValueError, match="'onnx'.*hugging_face, google, keras_hub"):
        loading.save_checkpoint(backbone, tmp_path, "onnx")


def test_label_names_and_dropout_leave_as_they_came(tmp_path):
    labels = {"0": "bad", "1": "fair", "2": "good"}
    toys.write_hugging_face(
        tmp_path / "in", "BertForSequenceClassification", id2label=labels, classifier_dropout=0.4
    )
    model = BertTextClassifier.from_preset(tmp_path / "in")
    loading.save_checkpoint(model, tmp_path / "out", "hugging_face")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["id2label"], config["classifier_dropout"]) == (labels, 0.4)
    assert config["label2id"] == {"bad": 0, "fair": 1, "good": 2}


def test_the_tokenizer_of_a_preset_of_ours_keeps_every_option_and_reads_no_weights(tmp_path):
    tokenizer = kbi.BertTokenizer(
        [*kbi.SPECIAL_TOKENS, "the"], max_chars_per_word=3, special_tokens_in_strings=True
    )
    backbone = kbi.BertBackbone(6, 1, 1, 4, 8, max_sequence_length=8)
    kbi.BertPretrainer(backbone, kbi.BertPretrainerPreprocessor(tokenizer, 8)).save_to_preset(
        str(tmp_path)
    )
    classifier = kbi.BertTextClassifier.from_preset(tmp_path, num_classes=2, init_missing=True)
    ours = classifier.preprocessor.tokenizer
    assert (ours.max_chars_per_word, ours.special_tokens_in_strings) == (3, True)
    for weights in tmp_path.glob("*.weights.h5"):
        weights.unlink()
    again = kbi.load_tokenizer(tmp_path)
    assert again.get_config() == tokenizer.get_config()
    assert not kbi.load_tokenizer(tmp_path, lowercase=False).lowercase


def test_a_preset_comes_back_as_what_it_was(tmp_path):
    start = toys.write_hugging_face(tmp_path / "in", "BertForTokenClassification")
    tagger = BertTokenClassifier.from_preset(start)
    tagger.save_to_preset(str(tmp_path / "tagger"))
    again = loading.load_task(tmp_path / "tagger")
    assert type(again) is BertTokenClassifier
    words = [["the", "cat"], ["unaffable"]]
    assert again.predict(words, verbose=0) == tagger.predict(words, verbose=0)
    with pytest.raises(CheckpointError, match="not a preset of this package"):
        loading.load_task(start)
