"""Folders of transformers, written by the safetensors library and PyTorch, read by us."""

import json
import re
import shutil
import socket

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl import BertBackbone, BertMaskedLM, BertPretrainer, BertTextClassifier
from keras_bert_impl.checkpoints import hugging_face_config, loading
from keras_bert_impl.checkpoints.checkpoint import of_model
from keras_bert_impl.checkpoints.hugging_face import hugging_face_name
from keras_bert_impl.checkpoints.parts import CheckpointError
from tests.checkpoints import toys


@pytest.fixture
def pretraining(tmp_path):
    return toys.write_hugging_face(tmp_path / "bert")


def predict(model, *more):
    return model(toys.inputs(*more))


@pytest.mark.parametrize(("hidden_act", "name"), [("gelu", "erf"), ("gelu_new", "tanh")])
def test_both_pretraining_heads_are_loaded_and_compute_what_theirs_do(tmp_path, hidden_act, name):
    folder = toys.write_hugging_face(tmp_path, hidden_act=hidden_act)
    model = BertPretrainer.from_preset(folder)
    expected = toys.golden(f"toy_{name}")
    outputs = predict(model, "mask_positions")
    toys.assert_close(outputs["masked_lm"], expected["masked_lm"])
    toys.assert_close(outputs["next_sentence"], expected["next_sentence"])
    assert not model.load_report.newly_initialized and not model.load_report.left_over
    assert len(model.load_report.loaded) == len(toys.weights())


def test_masked_lm_from_pretraining_keeps_its_head_and_names_the_other(pretraining):
    model = BertMaskedLM.from_preset(pretraining)
    toys.assert_close(predict(model, "mask_positions"), toys.golden("toy_erf")["masked_lm"])
    assert set(model.load_report.left_over) == {
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
    }


def test_bare_model_without_prefix(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertModel")
    outputs = predict(BertBackbone.from_preset(folder))
    toys.assert_close(outputs["sequence_output"], toys.golden("toy_erf")["sequence_output"])
    toys.assert_close(outputs["pooled_output"], toys.golden("toy_erf")["pooled_output"])


def test_a_head_that_the_checkpoint_lacks_is_an_explicit_choice(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertModel")
    head = {
        *("masked_lm/transform/kernel", "masked_lm/transform/bias", "masked_lm/layer_norm/scale"),
        *("masked_lm/layer_norm/shift", "masked_lm/bias"),
    }
    with pytest.raises(CheckpointError, match="lacks masked_lm/transform/kernel.*init_missing"):
        BertMaskedLM.from_preset(folder)
    model = BertMaskedLM.from_preset(folder, init_missing=True)
    assert set(model.load_report.newly_initialized) == head
    outputs = predict(model.backbone)
    toys.assert_close(outputs["sequence_output"], toys.golden("toy_erf")["sequence_output"])


def test_masked_lm_needs_no_pooler_but_a_backbone_does(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForMaskedLM")
    model = BertMaskedLM.from_preset(folder)
    toys.assert_close(predict(model, "mask_positions"), toys.golden("toy_erf")["masked_lm"])
    assert model.load_report.newly_initialized == ("pooler/kernel", "pooler/bias")
    with pytest.raises(CheckpointError, match="lacks pooler/kernel, pooler/bias"):
        BertBackbone.from_preset(folder)


def test_pickle_of_2019_with_gamma_beta_and_position_ids(tmp_path):
    folder = toys.write_hugging_face(tmp_path)
    (folder / "model.safetensors").unlink()
    shutil.copy(toys.GOLDEN / "toy_2019.bin", folder / "pytorch_model.bin")
    model = BertPretrainer.from_preset(folder)
    toys.assert_close(
        predict(model, "mask_positions")["masked_lm"], toys.golden("toy_erf")["masked_lm"]
    )
    assert not model.load_report.left_over and not model.load_report.newly_initialized


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_precisions_become_float32(tmp_path, dtype):
    tensors = {name: value.astype(dtype) for name, value in toys.weights().items()}
    model = BertPretrainer.from_preset(toys.write_hugging_face(tmp_path, tensors=tensors))
    table = model.backbone.token_embedding.embeddings
    expected = tensors["bert.embeddings.word_embeddings.weight"].astype("float32")
    np.testing.assert_array_equal(table, expected)


def write_shards(folder):
    names = sorted(toys.weights())
    weight_map = {}
    for number, some in enumerate((names[::2], names[1::2]), start=1):
        shard = f"model-{number:05}-of-00002.safetensors"
        safetensors.numpy.save_file({n: toys.weights()[n] for n in some}, folder / shard)
        weight_map |= dict.fromkeys(some, shard)
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_sharded_safetensors(pretraining):
    write_shards(pretraining)
    outputs = predict(BertPretrainer.from_preset(pretraining), "mask_positions")
    toys.assert_close(outputs["masked_lm"], toys.golden("toy_erf")["masked_lm"])


def test_a_missing_shard_is_named(pretraining):
    write_shards(pretraining)
    (pretraining / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model-00002-of-00002.safetensors: this shard is"):
        BertPretrainer.from_preset(pretraining)


def test_config_keys_that_change_numbers_are_honoured(tmp_path):
    folder = toys.write_hugging_face(
        tmp_path,
        hidden_act="relu",
        layer_norm_eps=1e-3,
        hidden_dropout_prob=0.25,
        attention_probs_dropout_prob=0.35,
        initializer_range=0.5,
    )
    backbone = BertBackbone.from_preset(folder)
    assert (backbone.activation, backbone.layer_norm_epsilon) == ("relu", 1e-3)
    assert (backbone.dropout, backbone.attention_dropout) == (0.25, 0.35)
    assert backbone.initializer_range == 0.5
    layer = backbone.encoder_layers[1]
    assert (layer.output_layer_norm.epsilon, layer.attention.dropout_rate) == (1e-3, 0.35)
    assert (layer.dropout.rate, backbone.embeddings.dropout.rate) == (0.25, 0.25)
    assert backbone.embeddings.layer_norm.epsilon == 1e-3


@pytest.mark.parametrize("segments", [1, 3, 4])
def test_type_vocab_size(tmp_path, segments):
    tensors = toys.weights()
    table = np.arange(segments * 32, dtype="float32").reshape(segments, 32)
    tensors["bert.embeddings.token_type_embeddings.weight"] = table
    folder = toys.write_hugging_face(tmp_path, tensors=tensors, type_vocab_size=segments)
    backbone = BertBackbone.from_preset(folder)
    np.testing.assert_array_equal(backbone.embeddings.segment_embedding.embeddings, table)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("model_type", "roberta"),
        ("hidden_act", "quick_gelu"),
        ("pruned_heads", {"1": [2]}),
        ("embedding_size", 16),
    ],
)
def test_another_model_is_refused_by_key(tmp_path, key, value):
    folder = toys.write_hugging_face(tmp_path, **{key: value})
    with pytest.raises(CheckpointError, match=key):
        BertBackbone.from_preset(folder)


def test_a_table_may_be_longer_than_the_vocabulary_but_not_shorter(tmp_path):
    assert len(toys.VOCABULARY) < 61
    BertMaskedLM.from_preset(toys.write_hugging_face(tmp_path / "longer"))
    many = [*toys.VOCABULARY, "a", "b", "c"]
    folder = toys.write_hugging_face(tmp_path / "shorter", vocabulary=many)
    with pytest.raises(CheckpointError, match="62 tokens.*61 rows"):
        BertBackbone.from_preset(folder)


def test_tokenizer_options(tmp_path):
    options = {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}
    folder = toys.write_hugging_face(tmp_path, tokenizer=options)
    tokenizer = BertMaskedLM.from_preset(folder).preprocessor.tokenizer
    assert (tokenizer.lowercase, tokenizer.strip_accents, tokenizer.split_on_cjk) == (
        False,
        True,
        False,
    )
    assert tokenizer.get_vocabulary() == toys.VOCABULARY


def test_accents_follow_lowercase_where_strip_accents_is_null(tmp_path):
    vocabulary = [*toys.VOCABULARY[:5], "cafe", "café"]
    options = {"do_lower_case": True, "strip_accents": None}
    folder = toys.write_hugging_face(tmp_path, vocabulary=vocabulary, tokenizer=options)
    assert loading.load_tokenizer(folder)("Café").numpy().tolist() == [5]


def whole_tokenizer(folder, **normalizer):
    ids = {token: id for id, token in enumerate(toys.VOCABULARY)}
    whole = {
        "normalizer": {"type": "BertNormalizer", "clean_text": True, **normalizer},
        "model": {"type": "WordPiece", "vocab": ids},
        "added_tokens": [
            {"id": 0, "content": "[PAD]", "special": True},
            {"id": len(ids), "content": "covid", "special": False},
        ],
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole))


def test_tokenizer_json_alone_with_an_added_token(tmp_path):
    folder = toys.write_hugging_face(tmp_path, vocabulary=None)
    whole_tokenizer(folder, lowercase=False, strip_accents=None, handle_chinese_chars=False)
    tokenizer = loading.load_tokenizer(folder)
    assert tokenizer.get_vocabulary() == [*toys.VOCABULARY, "covid"]
    assert (tokenizer.lowercase, tokenizer.split_on_cjk) == (False, False)


def test_lowercasing_a_cased_vocabulary_warns_and_a_flag_sets_it(tmp_path):
    vocabulary = [*toys.VOCABULARY[:5], "The", "Cat", "the"]
    folder = toys.write_hugging_face(
        tmp_path, vocabulary=vocabulary, tokenizer={"do_lower_case": True}
    )
    with pytest.warns(UserWarning, match="2 tokens of the vocabulary have capitals"):
        assert loading.load_tokenizer(folder).lowercase
    assert loading.load_tokenizer(folder, lowercase=False)("The").numpy().tolist() == [5]


def test_classifier_with_names(tmp_path):
    labels = {"0": "bad", "1": "fair", "2": "good"}
    folder = toys.write_hugging_face(
        tmp_path, "BertForSequenceClassification", id2label=labels, classifier_dropout=0.4
    )
    model = BertTextClassifier.from_preset(folder)
    assert (model.num_classes, model.class_names) == (3, ("bad", "fair", "good"))
    assert model.output_dropout.rate == 0.4
    tensors = toys.heads_of("BertForSequenceClassification")
    pooled = toys.golden("toy_erf")["pooled_output"]
    expected = pooled @ tensors["classifier.weight"].T + tensors["classifier.bias"]
    toys.assert_close(predict(model), expected)


def test_a_classifier_of_another_size_is_an_explicit_choice(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForSequenceClassification")
    with pytest.raises(CheckpointError, match=r"classifier.weight.*\[32, 3\].*init_missing"):
        BertTextClassifier.from_preset(folder, num_classes=5)
    model = BertTextClassifier.from_preset(folder, num_classes=5, init_missing=True)
    assert model.load_report.newly_initialized == ("classifier/kernel", "classifier/bias")
    assert set(model.load_report.left_over) == {"classifier.weight", "classifier.bias"}


def test_one_label_is_regression(tmp_path):
    tensors = toys.heads_of("BertForSequenceClassification")
    tensors |= {"classifier.weight": np.ones((1, 32), "float32")}
    tensors |= {"classifier.bias": np.zeros(1, "float32")}
    folder = toys.write_hugging_face(
        tmp_path, "BertForSequenceClassification", tensors, id2label={"0": "LABEL_0"}
    )
    model = BertTextClassifier.from_preset(folder)
    assert model.regression and model.num_classes == 1 and model.class_names is None


@pytest.mark.parametrize("architecture", ["BertForTokenClassification", "BertForMultipleChoice"])
def test_another_classifier_never_lands_in_a_text_classifier(tmp_path, architecture):
    folder = toys.write_hugging_face(tmp_path, architecture)
    with pytest.raises(CheckpointError, match="lacks.*classifier/kernel"):
        BertTextClassifier.from_preset(folder, num_classes=3)
    backbone = BertBackbone.from_preset(folder, init_missing=True)
    assert set(backbone.load_report.left_over) == {"classifier.weight", "classifier.bias"}


def test_question_answering_gives_its_backbone_and_names_its_head(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForQuestionAnswering")
    backbone = BertBackbone.from_preset(folder, init_missing=True)
    assert set(backbone.load_report.left_over) == {"qa_outputs.weight", "qa_outputs.bias"}


def test_an_output_table_of_its_own_is_refused(tmp_path):
    tensors = toys.weights()
    tensors["cls.predictions.decoder.weight"] = (
        2 * tensors["bert.embeddings.word_embeddings.weight"]
    )
    folder = toys.write_hugging_face(tmp_path, tensors=tensors)
    with pytest.raises(CheckpointError, match="decoder.weight.*differs"):
        BertPretrainer.from_preset(folder)


# Damage


def test_truncated_file(pretraining):
    path = pretraining / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: tensor '.*' ends at.*truncated"
    ):
        BertPretrainer.from_preset(pretraining)


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64, b"\x10" + b"\0" * 7 + b"{" * 16])
def test_corrupt_header(pretraining, content):
    (pretraining / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*(header|whole)"):
        BertPretrainer.from_preset(pretraining)


def test_wrong_shape(tmp_path):
    tensors = toys.weights()
    name = "bert.encoder.layer.1.output.dense.weight"
    tensors[name] = np.zeros((32, 63), "float32")
    folder = toys.write_hugging_face(tmp_path, tensors=tensors)
    with pytest.raises(CheckpointError, match=rf"model.safetensors: tensor '{name}'.*\[63, 32\]"):
        BertPretrainer.from_preset(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none(tmp_path, value):
    tensors = toys.weights()
    tensors["bert.pooler.dense.bias"][7] = value
    folder = toys.write_hugging_face(tmp_path, tensors=tensors)
    with pytest.raises(CheckpointError, match="'bert.pooler.dense.bias' holds 1 values.*NaN"):
        BertPretrainer.from_preset(folder)


def test_an_incomplete_encoder_is_never_filled_with_random_weights(tmp_path):
    tensors = toys.weights()
    del tensors["bert.encoder.layer.1.output.dense.weight"]
    folder = toys.write_hugging_face(tmp_path, tensors=tensors)
    with pytest.raises(CheckpointError, match="not complete, it lacks encoder/1/output/kernel"):
        BertPretrainer.from_preset(folder, init_missing=True)


def test_missing_weights_are_named_with_what_is_there(pretraining):
    (pretraining / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="Looked for model.safetensors.*has config.json, voc"):
        BertPretrainer.from_preset(pretraining)


# Paths and handles


def test_a_local_path_needs_no_network(pretraining, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    BertPretrainer.from_preset(pretraining)
    with pytest.raises(FileNotFoundError, match="no-such-folder: there is no such folder"):
        BertPretrainer.from_preset("no-such-folder")
    with pytest.raises(FileNotFoundError, match=re.escape(str(pretraining / "deeper"))):
        BertBackbone.from_preset(pretraining / "deeper")


def test_a_handle_goes_through_the_hub(pretraining, monkeypatch):
    import huggingface_hub

    asked = []

    def download(handle, allow_patterns):
        asked.append((handle, "*.bin" in allow_patterns))
        return str(pretraining)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    model = BertPretrainer.from_preset("hf://someone/bert")
    assert asked == [("someone/bert", False)]
    outputs = predict(model, "mask_positions")
    toys.assert_close(outputs["masked_lm"], toys.golden("toy_erf")["masked_lm"])


# Out


def test_names_are_those_of_transformers():
    model = BertPretrainer(BertBackbone(61, 2, 4, 32, 64, max_sequence_length=20))
    ours = {hugging_face_name(part) for part in of_model(model).tensors}
    assert ours == set(toys.weights())


@pytest.mark.parametrize("architecture", hugging_face_config._ARCHITECTURES)
def test_written_folder_holds_the_same_bits_and_class(tmp_path, architecture):
    folder = toys.write_hugging_face(tmp_path / "in", architecture, layer_norm_eps=1e-6)
    loading.save_checkpoint(loading.read_checkpoint(folder), tmp_path / "out", "hugging_face")
    written = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    expected = toys.heads_of(architecture)
    assert written.keys() == expected.keys()
    for name, value in expected.items():
        assert written[name].tobytes() == value.tobytes(), name
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == [architecture]
    for key, value in {**toys.CONFIG, "layer_norm_eps": 1e-6}.items():
        assert key == "architectures" or config[key] == value, key
    vocabulary = (tmp_path / "out" / "vocab.txt").read_text().splitlines()
    assert vocabulary == toys.VOCABULARY
