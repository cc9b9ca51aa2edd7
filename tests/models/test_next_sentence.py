import numpy as np
import pytest

from keras_bert_impl.models.next_sentence import BertNextSentence
from keras_bert_impl.models.preprocessor import BertPreprocessor
from tests import small

PAIRS = {"text_a": small.TEXTS, "text_b": small.TEXTS[::-1]}


@pytest.fixture(scope="module")
def model():
    return BertNextSentence(
        small.backbone(num_layers=1), BertPreprocessor(small.tokenizer(), 16, pair=True)
    )


def test_logits_are_a_dense_layer_on_the_pooled_vector(model):
    x = small.prepared()
    kernel, bias = (np.array(w) for w in model.next_sentence_head.dense.weights)
    pooled = np.array(model.backbone(x)["pooled_output"])
    np.testing.assert_allclose(model(x), pooled @ kernel + bias, atol=1e-5)


def test_trains_on_raw_pairs(model):
    history = model.fit(PAIRS, np.array([0, 1, 0, 1]), verbose=0).history
    assert sorted(history) == ["accuracy", "loss"]
    assert model.predict(PAIRS, verbose=0).shape == (4, 2)


def test_answers_are_probabilities(model):
    probabilities = model.answer(np.array([[0.0, np.log(3)]]))["probabilities"]
    np.testing.assert_allclose(probabilities, [[0.25, 0.75]], atol=1e-6)


def test_labels_are_zero_or_one(model):
    with pytest.raises(ValueError, match="label in row 2 is 2, but with num_classes=2"):
        model.fit(PAIRS, np.array([0, 1, 2, 1]))
