import keras
import numpy as np
import pytest

from keras_bert_impl.models.masked_lm import BertMaskedLM
from keras_bert_impl.models.preprocessor import BertMaskedLMPreprocessor, BertPreprocessor
from keras_bert_impl.training.losses import MaskedLMLoss
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

TEXTS = small.TEXTS * 8


def masked_lm(backbone=None, **options):
    options = {"sequence_length": 16, "max_predictions": 3, "mask_rate": 0.3, **options}
    backbone = small.backbone(num_layers=1, dropout=0.0) if backbone is None else backbone
    return BertMaskedLM(backbone, BertMaskedLMPreprocessor(small.tokenizer(), **options))


def epochs(model, count, texts=TEXTS):
    """What each of the first epochs sees."""
    dataset = model.prepared_dataset(texts, batch_size=8)
    return [
        [np.array(x["token_ids"]).tolist() for x, _, _ in dataset.as_numpy_iterator()]
        for _ in range(count)
    ]


def test_each_epoch_and_each_batch_draws_other_masks():
    first, second, third = epochs(masked_lm(), 3)
    assert first != second != third != first
    assert first[0] != first[1], "the batches hold the same texts, so their masks were to differ"


def test_the_same_seed_draws_the_same_masks_in_each_epoch():
    keras.utils.set_random_seed(0)
    first = epochs(masked_lm(seed=3), 2)
    keras.utils.set_random_seed(0)
    assert epochs(masked_lm(seed=3), 2) == first
    assert epochs(masked_lm(seed=4), 2) != first


def test_the_loss_is_that_of_masked_tokens():
    model = masked_lm()
    x, y, weights = model.preprocessor(TEXTS)
    assert weights.numpy().sum() < weights.numpy().size, "empty slots were to be there"
    result = model.test_on_batch(x, y, weights, return_dict=True)
    expected = MaskedLMLoss()(y, model(x), weights)
    assert result["loss"] == pytest.approx(float(expected), abs=1e-5)
    right = np.array(model(x)).argmax(axis=-1) == y.numpy()
    expected = (right * weights.numpy()).sum() / weights.numpy().sum()
    assert result["accuracy"] == pytest.approx(expected, abs=1e-6)


def test_learns_its_text():
    keras.utils.set_random_seed(0)
    model = masked_lm()
    model.compile(BertAdamW(2e-2))
    history = model.fit(TEXTS * 8, epochs=2, batch_size=16, verbose=0).history
    assert history["loss"][-1] < 0.7 * history["loss"][0]


def test_predicts_logits_over_the_vocabulary():
    logits = masked_lm().predict(TEXTS[:4], verbose=0)
    assert logits.shape == (4, 3, len(small.VOCABULARY))


def test_the_head_has_the_backbones_options():
    model = BertMaskedLM(
        small.backbone(num_layers=1, activation="relu", layer_norm_epsilon=1e-6, dtype="bfloat16")
    )
    config = model.masked_lm_head.get_config()
    assert (config["activation"], config["layer_norm_epsilon"]) == ("relu", 1e-6)
    assert model.masked_lm_head.dtype_policy.name == "bfloat16"
    assert model.masked_lm_head.token_embedding is model.backbone.token_embedding


def test_labels_are_refused():
    with pytest.raises(ValueError, match="makes its own targets"):
        masked_lm().fit(TEXTS, np.zeros(len(TEXTS), int))


def test_survives_its_config():
    model = masked_lm(whole_word=True)
    again = BertMaskedLM.from_config(model.get_config())
    assert type(again.preprocessor) is BertMaskedLMPreprocessor
    assert again.preprocessor.get_config() == model.preprocessor.get_config()
    assert again.backbone.get_config() == model.backbone.get_config()
    assert not isinstance(again.preprocessor, BertPreprocessor)
