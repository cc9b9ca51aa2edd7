import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.layers.fusion import fusing
from keras_bert_impl.layers.normalization import add_and_normalize, normalized


def test_is_layer_norm_with_scale_and_shift():
    x = np.random.default_rng(0).normal(2, 3, (4, 8)).astype("float32")
    gamma, beta = np.linspace(0.5, 2, 8, dtype="float32"), np.arange(8, dtype="float32")
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3)
    result = np.asarray(normalized(keras.ops.convert_to_tensor(x), gamma, beta, 1e-3))
    np.testing.assert_allclose(result, expected * gamma + beta, atol=1e-5)


def test_a_dropped_part_is_not_added():
    layer_norm = keras.layers.LayerNormalization(epsilon=1e-12)
    layer_norm.build((2, 3, 8))
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    with fusing():
        result = add_and_normalize(
            tf.constant(x), tf.zeros((2, 3, 8)), layer_norm, keras.layers.Dropout(0.5), True
        )
    np.testing.assert_allclose(result, layer_norm(x), atol=1e-5)
