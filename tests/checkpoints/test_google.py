"""TF1 checkpoints as google-research/bert's graphs save them, written here by tf.compat.v1's Saver."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl import BertBackbone, BertMaskedLM, BertPretrainer, BertTextClassifier
from keras_bert_impl.checkpoints import loading, tensorflow_file
from keras_bert_impl.checkpoints.parts import CheckpointError
from tests.checkpoints import toys

# Written down from google-research/bert's modeling.py and run_pretraining.py: variable_scope for
# variable_scope; with the shapes of their get_variable calls at the toy's sizes.
NAMES = """
bert/embeddings/word_embeddings 61 32
bert/embeddings/token_type_embeddings 2 32
bert/embeddings/position_embeddings 20 32
bert/embeddings/LayerNorm/gamma 32
bert/embeddings/LayerNorm/beta 32
bert/encoder/layer_N/attention/self/query/kernel 32 32
bert/encoder/layer_N/attention/self/query/bias 32
bert/encoder/layer_N/attention/self/key/kernel 32 32
bert/encoder/layer_N/attention/self/key/bias 32
bert/encoder/layer_N/attention/self/value/kernel 32 32
bert/encoder/layer_N/attention/self/value/bias 32
bert/encoder/layer_N/attention/output/dense/kernel 32 32
bert/encoder/layer_N/attention/output/dense/bias 32
bert/encoder/layer_N/attention/output/LayerNorm/gamma 32
bert/encoder/layer_N/attention/output/LayerNorm/beta 32
bert/encoder/layer_N/intermediate/dense/kernel 32 64
bert/encoder/layer_N/intermediate/dense/bias 64
bert/encoder/layer_N/output/dense/kernel 64 32
bert/encoder/layer_N/output/dense/bias 32
bert/encoder/layer_N/output/LayerNorm/gamma 32
bert/encoder/layer_N/output/LayerNorm/beta 32
bert/pooler/dense/kernel 32 32
bert/pooler/dense/bias 32
cls/predictions/transform/dense/kernel 32 32
cls/predictions/transform/dense/bias 32
cls/predictions/transform/LayerNorm/gamma 32
cls/predictions/transform/LayerNorm/beta 32
cls/predictions/output_bias 61
cls/seq_relationship/output_weights 2 32
cls/seq_relationship/output_bias 2
"""


def names() -> dict[str, list[int]]:
    listed = {}
    for line in NAMES.split("\n"):
        if line:
            name, *shape = line.split()
            for layer in range(2 if "layer_N" in name else 1):
                listed[name.replace("layer_N", f"layer_{layer}")] = list(map(int, shape))
    return listed


def toy_variables() -> dict[str, np.ndarray]:
    """The toy's weights under Google's names, by the rules of transformers' loader of these."""
    variables = {}
    for name, value in toys.weights().items():
        name = name.replace("encoder.layer.", "encoder.layer_").replace(".", "/")
        if name.endswith("_embeddings/weight"):
            name = name.removesuffix("/weight")
        elif "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        elif name in ("cls/predictions/bias", "cls/seq_relationship/bias"):
            name = name.replace("/bias", "/output_bias")
        elif name == "cls/seq_relationship/weight":
            name = "cls/seq_relationship/output_weights"
        elif name.endswith("/weight"):
            name, value = name.replace("/weight", "/kernel"), value.T
        variables[name] = value
    return variables


def write_tf1(folder, variables, vocabulary=toys.VOCABULARY, **config):
    """A release: as the original's tf.train.Saver and BertConfig write one."""
    folder.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in variables.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        saver.save(session, str(folder / "bert_model.ckpt"), write_state=False)
    keys = {k: v for k, v in toys.CONFIG.items() if k not in ("architectures", "model_type")}
    del keys["layer_norm_eps"]
    (folder / "bert_config.json").write_text(json.dumps({**keys, **config}))
    if vocabulary is not None:
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    return folder


@pytest.fixture
def release(tmp_path):
    return write_tf1(tmp_path / "uncased_L-2_H-32_A-4", toy_variables())


def assert_is_toy(model):
    expected = toys.golden("toy_erf")
    outputs = model(toys.inputs("mask_positions"))
    toys.assert_close(outputs["masked_lm"], expected["masked_lm"])
    toys.assert_close(outputs["next_sentence"], expected["next_sentence"])


def test_the_list_of_names_is_that_of_the_toy():
    assert {name: list(value.shape) for name, value in toy_variables().items()} == names()


def test_a_release_is_loaded_with_both_heads(release):
    model = BertPretrainer.from_preset(release)
    assert_is_toy(model)
    assert set(model.load_report.loaded.values()) == names().keys()
    assert not model.load_report.left_over


def test_a_zip_of_a_release(release, tmp_path):
    archive = shutil.make_archive(tmp_path / "toy", "zip", release.parent, release.name)
    assert_is_toy(BertPretrainer.from_preset(archive))


def test_masked_lm_and_optimizer_slots(tmp_path):
    variables = toy_variables()
    extra = {
        "bert/pooler/dense/bias/adam_m": np.zeros(32, "float32"),
        "bert/pooler/dense/bias/adam_v": np.zeros(32, "float32"),
        "global_step": np.int64(1000),
    }
    model = BertMaskedLM.from_preset(write_tf1(tmp_path / "uncased", {**variables, **extra}))
    logits = model(toys.inputs("mask_positions"))
    toys.assert_close(logits, toys.golden("toy_erf")["masked_lm"])
    assert set(model.load_report.left_over) == {
        *extra,
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }


def test_encoder_alone_gives_no_silent_head(tmp_path):
    encoder = {name: v for name, v in toy_variables().items() if name.startswith("bert/")}
    folder = write_tf1(tmp_path / "uncased", encoder)
    with pytest.raises(CheckpointError, match="lacks masked_lm/transform/kernel"):
        BertMaskedLM.from_preset(folder)


def test_gelu_can_be_set_to_the_later_formula(release):
    model = BertPretrainer.from_preset(release, activation="gelu_approximate")
    outputs = model(toys.inputs("mask_positions"))
    toys.assert_close(outputs["masked_lm"], toys.golden("toy_tanh")["masked_lm"])


def test_written_names_are_those_of_the_original(release, tmp_path):
    model = BertPretrainer.from_preset(release)
    written = loading.save_checkpoint(model, tmp_path / "out", "google")
    assert set(written) == names().keys()
    reader = tf.train.load_checkpoint(str(tmp_path / "out" / "bert_model.ckpt"))
    assert reader.get_variable_to_shape_map() == names()
    for name, value in toy_variables().items():
        assert reader.get_tensor(name).tobytes() == value.tobytes(), name
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files >= {"bert_config.json", "vocab.txt", "bert_model.ckpt.index"}


def test_original_graph_restores_what_we_write(release, tmp_path):
    loading.save_checkpoint(BertPretrainer.from_preset(release), tmp_path / "out", "google")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.get_variable(name, shape) for name, shape in names().items()]
        tf.compat.v1.train.Saver().restore(session, str(tmp_path / "out" / "bert_model.ckpt"))
        for variable, value in zip(variables, session.run(variables), strict=True):
            np.testing.assert_array_equal(value, toy_variables()[variable.op.name])


def test_config_is_kept_where_the_originals_keys_cannot_say_it(tmp_path):
    backbone = BertBackbone(
        61, 1, 4, 32, 64, activation="gelu_approximate", layer_norm_epsilon=1e-6
    )
    classifier = BertTextClassifier(backbone, 3, class_names=("a", "b", "c"), dropout=0.3)
    loading.save_checkpoint(classifier, tmp_path, "google")
    assert json.loads((tmp_path / "bert_config.json").read_text())["hidden_act"] == "gelu"
    again = BertTextClassifier.from_preset(tmp_path)
    assert again.backbone.activation == "gelu_approximate"
    assert again.backbone.layer_norm_epsilon == 1e-6
    assert (again.class_names, again.dropout) == (("a", "b", "c"), 0.3)
    names = [name for name, _ in tf.train.list_variables(str(tmp_path / "bert_model.ckpt"))]
    # run_classifier.py makes these outside of any scope.
    assert {"output_weights", "output_bias"} <= set(names)


# Casing

CASED = [*toys.VOCABULARY[:5], "The", "Cat", "the"]


def test_casing_by_vocabulary_where_the_name_says_nothing(tmp_path):
    folder = write_tf1(tmp_path / "model", toy_variables(), CASED)
    assert not loading.load_tokenizer(folder).lowercase
    folder = write_tf1(tmp_path / "other", toy_variables())
    assert loading.load_tokenizer(folder).lowercase


@pytest.mark.parametrize(
    ("name", "vocabulary", "lowercase"),
    [
        ("uncased_L-2_H-32_A-4", CASED, False),
        ("cased_L-2_H-32_A-4", toys.VOCABULARY, True),
        ("multi_cased_L-2", toys.VOCABULARY, True),
    ],
)
def test_a_name_that_contradicts_the_vocabulary_warns(tmp_path, name, vocabulary, lowercase):
    folder = write_tf1(tmp_path / name, toy_variables(), vocabulary)
    with pytest.warns(UserWarning, match=f"The name '{name}' says"):
        assert loading.load_tokenizer(folder).lowercase == lowercase


def test_a_flag_sets_the_casing_and_it_is_stored(tmp_path, recwarn):
    folder = write_tf1(tmp_path / "uncased_x", toy_variables(), CASED)
    model = BertMaskedLM.from_preset(folder, lowercase=False)
    assert not [w for w in recwarn if "says" in str(w.message)]
    assert not model.preprocessor.tokenizer.lowercase
    loading.save_checkpoint(model, tmp_path / "uncased_y", "google")
    assert not loading.load_tokenizer(tmp_path / "uncased_y").lowercase
    assert not [w for w in recwarn if "says" in str(w.message)]


# Damage


def test_missing_files_are_named(release):
    (release / "bert_model.ckpt.index").unlink()
    with pytest.raises(CheckpointError, match="bert_model.ckpt.index is missing"):
        BertBackbone.from_preset(release)


def test_missing_config_is_named(release):
    (release / "bert_config.json").unlink()
    with pytest.raises(CheckpointError, match="bert_config.json: this file is missing"):
        BertBackbone.from_preset(release)


def test_missing_data_is_named(release):
    (release / "bert_model.ckpt.data-00000-of-00001").unlink()
    with pytest.raises(CheckpointError, match=r"bert_model.ckpt.data-\*: 0 of 1"):
        BertBackbone.from_preset(release)


def test_truncated_data(release):
    path = release / "bert_model.ckpt.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="bert_model.ckpt: tensor '.*' cannot be read"):
        BertBackbone.from_preset(release)


def test_corrupt_data_is_found_by_its_checksum(release):
    path = release / "bert_model.ckpt.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="bert_model.ckpt: tensor '.*' cannot be read"):
        BertBackbone.from_preset(release)


def test_corrupt_index(release):
    (release / "bert_model.ckpt.index").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match="bert_model.ckpt.index: not a whole"):
        BertBackbone.from_preset(release)


def test_config_of_other_weights(tmp_path):
    folder = write_tf1(tmp_path / "uncased", toy_variables(), max_position_embeddings=40)
    with pytest.raises(CheckpointError, match="position_embeddings.*by bert_config.json"):
        BertBackbone.from_preset(folder)


def test_numbers_that_are_none(tmp_path):
    variables = toy_variables()
    variables["bert/pooler/dense/bias"] = np.full(32, np.nan, "float32")
    folder = write_tf1(tmp_path / "uncased", variables)
    with pytest.raises(CheckpointError, match="'bert/pooler/dense/bias' holds 32 values"):
        BertBackbone.from_preset(folder)


def test_several_checkpoints_in_one_folder(release):
    for path in list(release.glob("bert_model.ckpt.*")):
        shutil.copy(path, release / path.name.replace("bert_model", "model"))
    with pytest.raises(CheckpointError, match="found bert_model.ckpt, model.ckpt"):
        BertBackbone.from_preset(release)
    (release / "checkpoint").write_text('model_checkpoint_path: "model.ckpt"\n')
    assert tensorflow_file.find_prefix(release).endswith("/model.ckpt")
