import numpy as np

from keras_bert_impl.layers.pooler import BertPooler
from tests.layers.configs import check_every_option_survives


def test_first_token_through_dense_and_tanh():
    layer = BertPooler(initializer_range=0.5)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    layer.build(x.shape)
    layer.dense.bias.assign([0.1, -0.2, 0.3, 0.0])
    kernel, bias = (np.array(w) for w in layer.dense.weights)
    np.testing.assert_allclose(layer(x), np.tanh(x[:, 0] @ kernel + bias), atol=1e-6)
    assert layer.compute_output_shape((2, None, 4)) == (2, 4)


def test_every_option_survives_the_config():
    check_every_option_survives(BertPooler, {}, {"initializer_range": 0.1})
