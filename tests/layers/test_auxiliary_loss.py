import keras
import keras_hub
import numpy as np
import pytest

from keras_bert_impl.layers.auxiliary_loss import AuxiliaryNextTokenLoss, mean_next_token_loss

LOGITS = np.random.default_rng(0).normal(size=(3, 4, 6)).astype("float32")
IDS = np.array([[1, 2, 3, 4], [5, 1, 0, 0], [2, 0, 0, 0]])
MASK = IDS > 0


def test_the_mean_over_rows_of_each_rows_mean():
    shares = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=-1, keepdims=True)
    first = -np.mean([np.log(shares[0, i, IDS[0, i + 1]]) for i in range(3)])
    second = -np.log(shares[1, 0, 1])
    expected = (first + second + 0) / 3
    assert float(mean_next_token_loss(LOGITS, IDS, MASK)) == pytest.approx(expected, abs=1e-5)


def test_rows_of_one_token_have_no_loss():
    assert float(mean_next_token_loss(LOGITS[:, :1], IDS[:, :1], MASK[:, :1])) == 0


def test_the_layer_hands_on_and_adds():
    table = keras_hub.layers.ReversibleEmbedding(6, 8, name="table")
    table.build()
    layer = AuxiliaryNextTokenLoss(table, weight=0.25)
    x = np.random.default_rng(1).normal(size=(3, 4, 8)).astype("float32")
    np.testing.assert_array_equal(layer(x, IDS, MASK), x)
    (loss,) = layer.losses
    expected = 0.25 * mean_next_token_loss(x @ np.array(table.embeddings).T, IDS, MASK)
    assert float(loss) == pytest.approx(float(expected), abs=1e-5)
    layer(x, IDS, MASK)
    assert len(layer.losses) == 1


def test_survives_its_config():
    layer = AuxiliaryNextTokenLoss(keras_hub.layers.ReversibleEmbedding(6, 8), weight=0.25)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is AuxiliaryNextTokenLoss
    assert (again.weight, again.token_embedding.input_dim) == (0.25, 6)
