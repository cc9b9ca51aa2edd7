"""What is fused to a loop computes what its plain operations compute."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_bert_impl.layers.attention import SelfAttention, make_attention_mask
from keras_bert_impl.layers.embeddings import BertEmbeddings
from keras_bert_impl.layers.encoder_layer import BertEncoderLayer
from keras_bert_impl.layers.fusion import compiled, fused, fusing, is_fusing
from keras_bert_impl.layers.initialization import hidden_activation

TOLERANCE = {"float32": 1e-5, "mixed_bfloat16": 0.06}


def values_and_gradients(function, x, variables, active):
    @tf.function
    def run(x):
        with fusing(active), tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
        # Of tables too: rows that were read summed.
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, [x, *variables])]
        return [y, *gradients]

    results = [np.asarray(tf.cast(result, tf.float32)) for result in run(tf.constant(x))]
    assert not is_fusing()
    return results


def check_same(function, x, variables=(), policy="float32"):
    plain = values_and_gradients(function, x, list(variables), False)
    loops = values_and_gradients(function, x, list(variables), True)
    for ours, theirs in zip(loops, plain, strict=True):
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=TOLERANCE[policy])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("name", ["gelu", "gelu_approximate"])
def test_activations(name):
    check_same(hidden_activation(name), normal(3, 50))


@pytest.mark.parametrize("policy", list(TOLERANCE))
def test_a_whole_encoder_layer(policy):
    layer = BertEncoderLayer(2, 32, dropout=0.0, initializer_range=0.3, dtype=policy)
    x = normal(2, 5, 16)
    mask = make_attention_mask(np.array([[True] * 5, [True] * 3 + [False] * 2]))
    layer.build(x.shape)
    # Scales and shifts other than those of the start, so that their gradients count.
    for variable in layer.trainable_variables:
        if variable.name in ("gamma", "beta"):
            variable.assign_add(normal(*variable.shape, seed=1) / 10)
    check_same(
        lambda x: layer(x, attention_mask=mask, training=True),
        x,
        [variable.value for variable in layer.trainable_variables],
        policy,
    )


def test_attention_without_a_mask():
    layer = SelfAttention(2, dropout=0.0, initializer_range=0.3)
    layer.build((2, 5, 8))
    check_same(lambda x: layer(x, training=True), normal(2, 5, 8))


def test_embeddings():
    layer = BertEmbeddings(20, 8, dropout=0.0)
    ids = np.array([[1, 2, 3], [4, 5, 5]])
    layer.build(ids.shape)
    check_same(
        lambda x: x[0, 0] * layer(ids, ids % 2, training=True),
        normal(1, 1),
        [variable.value for variable in layer.trainable_variables],
    )


def test_dropout_in_a_layer_drops_its_share_and_keeps_the_mean():
    layer = SelfAttention(1, dropout=0.5)
    layer.build((1, 400, 4))
    # All keys score alike: each position gets the mean of the values that were not dropped.
    layer.query_key_value.kernel.assign(ops.zeros((4, 12)))
    layer.query_key_value.bias.assign([0.0] * 8 + [1.0] * 4)
    layer.output_dense.kernel.assign(ops.eye(4))

    @tf.function
    def run():
        with fusing():
            return layer(tf.ones((1, 400, 4)), training=True)

    first, second = run().numpy(), run().numpy()
    # Sums of 400 coin flips times 2/400, at 400 positions: one standard error is 0.0025.
    assert first.mean() == pytest.approx(1, abs=0.01)
    assert first[..., 0].std() == pytest.approx(0.05, rel=0.2)
    assert (first != second).any()


def test_integers_get_no_gradient():
    double = fused(lambda x, n: x * ops.cast(n, x.dtype))
    with fusing(), tf.GradientTape() as tape:
        x = tf.constant(3.0)
        tape.watch(x)
        y = double(x, tf.constant(2))
    assert float(y) == 6
    assert float(tape.gradient(y, x)) == 2


def test_several_results_without_gradients():
    both = compiled(lambda x: (x + 1, x * 2))
    with fusing():
        assert [float(y) for y in both(tf.constant(3.0))] == [4, 6]
    assert [float(y) for y in both(tf.constant(3.0))] == [4, 6]


def test_an_exported_model_needs_no_compiler(tmp_path):
    """A served graph is plain operations, whatever was fused in training."""
    layer = BertEncoderLayer(2, 32, dropout=0.1)
    model = keras.Sequential([keras.Input((5, 16)), layer])
    graph = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec((1, 5, 16)))
    assert "_XlaMustCompile" not in str(graph.graph.as_graph_def())


def test_threads_fuse_apart():
    import threading

    seen = []
    with fusing():
        thread = threading.Thread(target=lambda: seen.append(is_fusing()))
        thread.start()
        thread.join()
        assert is_fusing()
    assert seen == [False]
