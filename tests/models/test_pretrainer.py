import keras
import numpy as np
import pytest

from keras_bert_impl.data.pretraining import pretraining_dataset
from keras_bert_impl.models.preprocessor import BertPretrainerPreprocessor
from keras_bert_impl.models.pretrainer import BertPretrainer
from keras_bert_impl.training.losses import MaskedLMLoss
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

DOCUMENTS = [["the cat sat on the mat .", "the cat ran", "a cat"], ["a dog", "the dog ran"]] * 4
PAIRS = {"text_a": small.TEXTS, "text_b": small.TEXTS[::-1]}
LABELS = np.array([0, 1, 1, 0])


@pytest.fixture(scope="module")
def model():
    preprocessor = BertPretrainerPreprocessor(small.tokenizer(), 20, max_predictions=3)
    return BertPretrainer(small.backbone(num_layers=1, dropout=0.0), preprocessor)


def test_the_loss_is_the_sum_of_both(model):
    x, y, weights = model.preprocessor(PAIRS, y=LABELS)
    outputs = model(x)
    masked_lm = MaskedLMLoss()(y["masked_lm"], outputs["masked_lm"], weights["masked_lm"])
    next_sentence = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(
        LABELS, outputs["next_sentence"]
    )
    result = model.test_on_batch(x, y, weights, return_dict=True)
    assert result["masked_lm_loss"] == pytest.approx(float(masked_lm), abs=1e-5)
    assert result["next_sentence_loss"] == pytest.approx(float(next_sentence), abs=1e-5)
    assert result["loss"] == pytest.approx(float(masked_lm + next_sentence), abs=1e-5)
    assert {"masked_lm_accuracy", "next_sentence_accuracy"} <= set(result)


def test_learns_from_documents(model):
    keras.utils.set_random_seed(0)
    model.compile(BertAdamW(1e-2))
    data = pretraining_dataset(DOCUMENTS, small.tokenizer(), sequence_length=20, batch_size=8)
    history = model.fit(data, steps_per_epoch=20, epochs=3, verbose=0).history
    assert history["masked_lm_loss"][-1] < 0.7 * history["masked_lm_loss"][0]


def test_trains_on_raw_pairs(model):
    history = model.fit(PAIRS, LABELS, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    outputs = model.predict(
        {**small.prepared(), "mask_positions": np.zeros((4, 2), "int32")}, verbose=0
    )
    assert outputs["masked_lm"].shape == (4, 2, len(small.VOCABULARY))
    assert outputs["next_sentence"].shape == (4, 2)


def test_labels_are_zero_or_one(model):
    with pytest.raises(ValueError, match="label in row 1 is 2, but with num_classes=2"):
        model.fit(PAIRS, np.array([0, 2, 1, 1]))
