"""More tokens, more positions, padded tables: by value."""

import numpy as np
import pytest

from keras_bert_impl import BertBackbone, BertMaskedLM, DynamicMasker
from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.resizing import extend_vocabulary, resize
from tests.checkpoints import toys

VOCABULARY = [*toys.VOCABULARY[:10], *(f"w{i}" for i in range(51))]


@pytest.fixture
def masked_lm(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForMaskedLM", vocabulary=VOCABULARY)
    return BertMaskedLM.from_preset(folder)


def table(model):
    return np.array(model.backbone.token_embedding.embeddings)


def logits(model):
    return np.array(model(toys.inputs("mask_positions")))


def test_a_new_token_is_the_mean_of_its_pieces(masked_lm):
    new = resize(masked_lm, new_tokens=["unaffable", "##affable", "thecat"])
    old = table(masked_lm)
    assert table(new).shape == (64, 32)
    np.testing.assert_array_equal(table(new)[:61], old)
    np.testing.assert_allclose(table(new)[61], old[[5, 6, 7]].mean(0), atol=1e-7)
    np.testing.assert_allclose(table(new)[62], old[[6, 7]].mean(0), atol=1e-7)
    bias, old_bias = new.masked_lm_head.output_bias, masked_lm.masked_lm_head.output_bias
    np.testing.assert_allclose(bias[61], np.mean(old_bias[5:8]), atol=1e-7)
    toys.assert_close(logits(new)[..., :61], logits(masked_lm), 1e-6)
    tokenizer = new.preprocessor.tokenizer
    assert tokenizer("Unaffable the").numpy().tolist() == [61, 8]
    assert new.backbone.vocabulary_size == 64
    assert masked_lm.backbone.vocabulary_size == 61


def test_new_tokens_take_free_rows_first(tmp_path):
    folder = toys.write_hugging_face(tmp_path, "BertForMaskedLM")  # 59 tokens, 61 rows
    checkpoint = extend_vocabulary(loading.read_checkpoint(folder), ["unaffable"])
    assert checkpoint.config["vocabulary_size"] == 61
    old = toys.weights()["bert.embeddings.word_embeddings.weight"]
    new = checkpoint.tensors["embeddings/token"].read()
    np.testing.assert_allclose(new[59], old[5:8].mean(0), atol=1e-7)
    np.testing.assert_array_equal(new[60], old[60])


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("the", "in the vocabulary already"),
        ("The", "can never be met"),
        ("covid-19", "can never be met"),
        ("two words", "can never be met"),
    ],
)
def test_a_token_that_can_never_be_met_is_refused(masked_lm, token, message):
    with pytest.raises(ValueError, match=message):
        resize(masked_lm, new_tokens=[token])


def test_padding_rows_are_never_predicted_nor_drawn(masked_lm):
    padded = resize(masked_lm, pad_vocabulary_to=64)
    assert table(padded).shape == (64, 32)
    scores = logits(padded)
    toys.assert_close(scores[..., :61], logits(masked_lm), 1e-6)
    probabilities = np.exp(scores - scores.max(-1, keepdims=True))
    assert probabilities[..., 61:].max() == 0.0
    # Replacements are drawn from the vocabulary, which is no longer than it was.
    masker = DynamicMasker.for_tokenizer(padded.preprocessor.tokenizer, mask_rate=0.9)
    rows = np.full((64, 30), 8, "int32")
    masked = masker(rows, rows > 0, seed=np.array([1, 2], "int32"))
    assert np.max(masked["token_ids"]) < 61


def test_training_leaves_padding_rows_unlikely(masked_lm):
    padded = resize(masked_lm, pad_vocabulary_to=64)
    padded.compile(optimizer="adam", run_eagerly=True)
    padded.fit(["the cat w1 w2 w3"] * 8, epochs=2, batch_size=4, verbose=0)
    assert logits(padded)[..., 61:].max() < -9000
    np.testing.assert_array_equal(table(padded)[61:], 0)


def test_padding_in_half_precision_stays_finite(masked_lm):
    bias = np.float16(resize(masked_lm, pad_vocabulary_to=64).masked_lm_head.output_bias[-1])
    assert np.isfinite(bias)


def test_positions_repeated(masked_lm):
    longer = resize(masked_lm, max_sequence_length=50, position_method="repeat")
    old = np.array(masked_lm.backbone.embeddings.position_embedding.embeddings)
    new = np.array(longer.backbone.embeddings.position_embedding.embeddings)
    np.testing.assert_array_equal(new, np.concatenate([old, old, old[:10]]))
    toys.assert_close(logits(longer), logits(masked_lm), 1e-6)


def test_positions_interpolated():
    backbone = BertBackbone(10, 1, 1, 2, 4, max_sequence_length=3)
    backbone.embeddings.position_embedding.embeddings.assign([[0, 0], [2, 10], [4, 30]])
    longer = resize(backbone, max_sequence_length=5)
    new = np.array(longer.embeddings.position_embedding.embeddings)
    np.testing.assert_allclose(new, [[0, 0], [1, 5], [2, 10], [3, 20], [4, 30]], atol=1e-6)
    shorter = resize(backbone, max_sequence_length=2)
    new = np.array(shorter.embeddings.position_embedding.embeddings)
    np.testing.assert_allclose(new, [[0, 0], [2, 10]])


def test_an_unused_pooler_is_kept(masked_lm):
    kernel = np.array(masked_lm.backbone.pooler.dense.kernel)
    new = resize(masked_lm, pad_vocabulary_to=8)
    np.testing.assert_array_equal(new.backbone.pooler.dense.kernel, kernel)


def test_wrong_arguments(masked_lm):
    with pytest.raises(ValueError, match="Unknown method 'stretch'"):
        resize(masked_lm, max_sequence_length=30, position_method="stretch")
    with pytest.raises(ValueError, match="length=0"):
        resize(masked_lm, max_sequence_length=0)
    with pytest.raises(ValueError, match="multiple=0"):
        resize(masked_lm, pad_vocabulary_to=0)
