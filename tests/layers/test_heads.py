import math

import keras_hub
import numpy as np

from keras_bert_impl.layers.heads import MaskedLMHead, NextSentenceHead
from keras_bert_impl.layers.positions import gather_positions
from tests.layers.configs import check_every_option_survives


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def table(vocabulary_size=11, hidden_dim=4, **options):
    layer = keras_hub.layers.ReversibleEmbedding(
        vocabulary_size, hidden_dim, embeddings_initializer="normal", **options
    )
    layer.build((None, None))
    return layer


def test_vectors_at_positions_are_each_rows_own():
    x = np.arange(12.0).reshape(2, 3, 2)
    result = gather_positions(x, np.array([[2, 0], [1, 1]]))
    assert np.array(result).tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]


def test_logits_are_transform_table_and_bias_at_the_positions_alone():
    head = MaskedLMHead(table(), initializer_range=0.5)
    x, positions = random(2, 5, 4), np.array([[3, 1, 0], [4, 4, 2]])
    head.build(x.shape)
    head.output_bias.assign(random(11, seed=1))
    head.transform_layer_norm.gamma.assign(1 + 0.3 * random(4, seed=2))
    head.transform_layer_norm.beta.assign(random(4, seed=3))
    kernel, bias = (np.array(w) for w in head.transform_dense.weights)

    chosen = np.stack([row[where] for row, where in zip(x, positions, strict=True)])
    chosen = chosen @ kernel + bias
    chosen = np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))))(chosen)
    mean, variance = chosen.mean(-1, keepdims=True), chosen.var(-1, keepdims=True)
    chosen = (chosen - mean) / np.sqrt(variance + 1e-12)
    gamma, beta = (np.array(w) for w in head.transform_layer_norm.weights)
    logits = (chosen * gamma + beta) @ np.array(head.token_embedding.embeddings).T
    logits = logits + np.array(head.output_bias)
    np.testing.assert_allclose(head(x, positions), logits, atol=1e-5)


def test_the_table_is_the_embeddings_own():
    """Changing the embeddings changes the logits, and the head has no table of its own."""
    tokens = table()
    head = MaskedLMHead(tokens, initializer_range=0.5)
    x, positions = random(1, 5, 4), np.array([[3]])
    before = np.array(head(x, positions))
    tokens.embeddings.assign(2 * np.array(tokens.embeddings))
    np.testing.assert_allclose(head(x, positions), 2 * before, atol=1e-5)
    shapes = [tuple(v.shape) for v in head.trainable_variables if v is not tokens.embeddings]
    assert sorted(shapes) == [(4,), (4,), (4,), (4, 4), (11,)]


def test_logits_start_without_bias():
    head = MaskedLMHead(table())
    head.build((None, None, 4))
    assert not np.array(head.output_bias).any()


def test_next_sentence_logits_are_a_dense_layer():
    head = NextSentenceHead(initializer_range=0.5)
    pooled = random(3, 4)
    head.build(pooled.shape)
    head.dense.bias.assign([0.5, -0.25])
    kernel, bias = (np.array(w) for w in head.dense.weights)
    np.testing.assert_allclose(head(pooled), pooled @ kernel + bias, atol=1e-6)
    assert head.compute_output_shape((3, 4)) == (3, 2)


def test_masked_lm_options_survive_the_config():
    tokens = table(name="tokens")
    for option, value in {
        "activation": "gelu_approximate",
        "layer_norm_epsilon": 1e-6,
        "initializer_range": 0.1,
    }.items():
        head = MaskedLMHead(tokens, **{option: value})
        again = MaskedLMHead.from_config(head.get_config())
        assert again.get_config() == head.get_config()
        assert getattr(again, option) == value != getattr(MaskedLMHead(tokens), option)
    assert again.token_embedding.input_dim == 11
    assert again.token_embedding.name == "tokens"


def test_next_sentence_options_survive_the_config():
    check_every_option_survives(NextSentenceHead, {}, {"initializer_range": 0.1})
