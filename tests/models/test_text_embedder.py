import doctest
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl.models import text_embedder
from keras_bert_impl.models.features import BertFeatures
from keras_bert_impl.models.text_embedder import BertTextEmbedder, l2_normalize, pool_tokens
from keras_bert_impl.training.unfreezing import GradualUnfreezing, freeze
from tests import small

ROOT = pathlib.Path(__file__).parents[2]


def embedder(backbone=None, sequence_length=16, **options):
    backbone = small.backbone(num_layers=1) if backbone is None else backbone
    preprocessor = kbi.BertPreprocessor(small.tokenizer(), sequence_length)
    return BertTextEmbedder(backbone, preprocessor, **options)


def test_poolings_by_hand():
    x = np.array([[[1.0, -5], [4, -1], [70, 70]], [[2, 3], [70, 70], [70, 70]]], "float32")
    mask = np.array([[True, True, False], [True, False, False]])
    for pooling, expected in (
        ("cls", [[1, -5], [2, 3]]),
        ("mean", [[2.5, -3], [2, 3]]),
        ("max", [[4, -1], [2, 3]]),
    ):
        assert np.array(pool_tokens(x, mask, pooling)).tolist() == expected, pooling


def test_a_row_of_padding_is_finite_with_its_gradient():
    x = tf.Variable(np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32"))
    mask = np.array([[True, True, True], [False, False, False]])
    for pooling in ("cls", "mean", "max"):
        with tf.GradientTape() as tape:
            vectors = l2_normalize(pool_tokens(x, mask, pooling))
        assert np.isfinite(vectors).all()
        assert np.isfinite(tape.gradient(vectors, x)).all()
        if pooling != "cls":
            assert np.array(vectors)[1].tolist() == [0, 0, 0, 0]
    x = small.prepared()
    x["padding_mask"][1] = False
    for pooling in text_embedder.POOLINGS:
        assert np.isfinite(embedder(pooling=pooling, normalize=True)(x)).all()


def test_l2_norm():
    vectors = np.array([[3.0, 4], [0, 0], [-3e-9, 4e-9]], "float32")
    np.testing.assert_allclose(l2_normalize(vectors), [[0.6, 0.8], [0, 0], [-0.6, 0.8]], atol=1e-6)


def test_vectors_are_pooled_from_the_chosen_layers():
    backbone, x = small.backbone(num_layers=4), small.prepared()
    mask = x["padding_mask"][:, :, None]
    for name in ("last", "embeddings", "second_to_last", "concat_last_four", "weighted_sum"):
        tokens = np.array(BertFeatures(backbone, name)(x))
        mean = (tokens * mask).sum(1) / mask.sum(1)
        vectors = np.array(BertTextEmbedder(backbone, features=name)(x))
        np.testing.assert_allclose(vectors, mean, atol=1e-5)
    normalized = np.array(BertTextEmbedder(backbone, features="weighted_sum", normalize=True)(x))
    np.testing.assert_allclose(
        normalized, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-5
    )
    outputs = backbone(x)
    for pooling, expected in (
        ("cls", outputs["sequence_output"][:, 0]),
        ("max", np.where(mask, outputs["sequence_output"], -np.inf).max(1)),
        ("pooler", outputs["pooled_output"]),
    ):
        vectors = BertTextEmbedder(backbone, pooling=pooling)(x)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_texts_give_the_same_vectors_alone_and_beside_longer_ones():
    model = embedder(normalize=True)
    vectors = model.predict(small.TEXTS, verbose=0)
    assert vectors.shape == (4, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors @ vectors.T)[np.triu_indices(4, 1)].max() < 0.999, "the texts were to differ"
    for text, vector in zip(small.TEXTS, vectors, strict=True):
        np.testing.assert_allclose(model(model.preprocessor([text])), [vector], atol=1e-5)


def test_it_learns_vectors_given():
    keras.utils.set_random_seed(0)
    model = embedder(small.backbone(num_layers=1, dropout=0.0))
    targets = np.random.default_rng(0).normal(size=(4, 16))
    model.compile(kbi.BertAdamW(2e-2))
    model.fit(small.TEXTS * 100, np.tile(targets, (100, 1)), batch_size=8, verbose=0)
    vectors = model.predict(small.TEXTS, verbose=0)
    cosines = np.array(l2_normalize(vectors)) @ np.array(l2_normalize(targets)).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert cosines.diagonal().min() > 0.6


def test_targets_of_another_shape_are_refused_by_the_default_loss():
    model = embedder()
    with pytest.raises(ValueError, match=r"y has the shape \(4,\), but .* vectors of 16 numbers"):
        model.fit(small.TEXTS, np.arange(4), verbose=0)
    model.compile(loss=lambda y, vectors: keras.ops.mean(vectors, axis=-1) * y)
    model.prepared_dataset(small.TEXTS, np.arange(4))


def test_options_that_make_no_embedder_are_refused():
    for options, message in (
        ({"pooling": "last"}, "Unknown pooling 'last'. Choose one of cls, mean, max, pooler"),
        ({"features": "all"}, "Unknown features 'all'"),
        ({"features": "sum_last_four"}, "needs 4 encoder layers, but the backbone has 1"),
        (
            {"pooling": "pooler", "features": "embeddings"},
            "pooling='pooler' stands on the last layer, but features='embeddings'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            embedder(**options)


def test_half_precision_gives_float32():
    model = embedder(small.backbone(num_layers=1, dtype="mixed_float16"), normalize=True)
    full = embedder(normalize=True)
    full.set_weights(model.get_weights())
    vectors = model(small.prepared())
    assert vectors.dtype == "float32"
    np.testing.assert_allclose(vectors, full(small.prepared()), atol=0.01)


@pytest.fixture(scope="module")
def saved():
    """An embedder with a weighted sum that has learned, and its vectors."""
    model = embedder(small.backbone(), pooling="max", features="weighted_sum", normalize=True)
    model.get_layer("scalar_mix").weight_logits.assign([0, 1, 2])
    return model, model.predict(small.TEXTS, verbose=0)


def test_comes_back_from_a_file_and_a_preset(saved, tmp_path):
    model, vectors = saved
    model.save(tmp_path / "embedder.keras")
    model.save_to_preset(str(tmp_path / "preset"))
    for again in (
        keras.saving.load_model(tmp_path / "embedder.keras"),
        BertTextEmbedder.from_preset(str(tmp_path / "preset")),
    ):
        assert (again.pooling, again.features, again.normalize) == ("max", "weighted_sum", True)
        np.testing.assert_array_equal(again.predict(small.TEXTS, verbose=0), vectors)
    # Its encoder goes on to other tasks.
    backbone = kbi.BertBackbone.from_preset(str(tmp_path / "preset"))
    for ours, theirs in zip(backbone.weights, model.backbone.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_exported_it_gives_the_same_vectors(saved, tmp_path):
    model, vectors = saved
    model.export(tmp_path / "served")
    signatures = tf.saved_model.load(str(tmp_path / "served")).signatures
    served = signatures["serving_default"](text=tf.constant(small.TEXTS))
    assert set(served) == {"embedding"}
    np.testing.assert_allclose(served["embedding"], vectors, atol=1e-6)
    inputs = {k: tf.convert_to_tensor(v) for k, v in model.preprocessor(small.TEXTS).items()}
    np.testing.assert_allclose(signatures["ids"](**inputs)["embedding"], vectors, atol=1e-6)


def test_a_checkpoint_without_a_pooler_gives_vectors_that_need_none(tmp_path):
    model = embedder(pooling="mean")
    expected = model.predict(small.TEXTS, verbose=0)
    kbi.save_checkpoint(model, tmp_path, "hugging_face")
    again = BertTextEmbedder.from_preset(tmp_path, pooling="mean", sequence_length=16)
    np.testing.assert_allclose(again.predict(small.TEXTS, verbose=0), expected, atol=1e-5)
    with pytest.raises(kbi.CheckpointError, match="lacks pooler/kernel, pooler/bias"):
        BertTextEmbedder.from_preset(tmp_path, pooling="pooler")


def test_the_documentations_examples_run(tmp_path, monkeypatch):
    page = (ROOT / "docs/features.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 6
    embedder(small.backbone(num_layers=4), sequence_length=32).save_to_preset(
        str(tmp_path / "my_bert")
    )
    monkeypatch.chdir(tmp_path)
    # Public names, also where the package does not yet list them.
    for thing in (BertFeatures, BertTextEmbedder, freeze, GradualUnfreezing):
        monkeypatch.setattr(kbi, thing.__name__, thing, raising=False)
    names = {}
    tf.config.run_functions_eagerly(True)  # nothing runs often enough to be worth its tracing
    try:
        for example in examples:
            exec(example.replace("sequence_length=128", "sequence_length=32"), names)
    finally:
        tf.config.run_functions_eagerly(False)
    assert names["similarity"].shape == (3, 3)
    np.testing.assert_allclose(names["similarity"].diagonal(), 1, atol=1e-5)
    assert names["best"].shape == (1, 2)
    assert names["tokens"].shape[-1] == 4 * names["last"].shape[-1] == 64
    np.testing.assert_allclose(names["features"].scalar_mix.layer_weights(), [0.2] * 5, atol=1e-6)
    assert len(names["tagger"].trainable_weights) == 2 + 6 + 2
    assert not names["classifier"].backbone.encoder_layers[0].trainable


def test_docstring_examples():
    globs = {**vars(text_embedder), "tokenizer": small.tokenizer(), **vars(kbi)}
    (example,) = (
        test for test in doctest.DocTestFinder().find(text_embedder, globs=globs) if test.examples
    )
    assert doctest.DocTestRunner().run(example).failed == 0
