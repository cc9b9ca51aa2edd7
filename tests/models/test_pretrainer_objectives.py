"""`BertPretrainer` with objectives of the user's choice."""

import keras
import numpy as np
import pytest

from keras_bert_impl.models.pretrainer import BertPretrainer
from keras_bert_impl.objectives.dataset import objectives_dataset
from keras_bert_impl.objectives.masked_lm import MaskedLM
from keras_bert_impl.objectives.next_sentence import NextSentence
from keras_bert_impl.objectives.sentence_distance import SentenceDistance
from keras_bert_impl.objectives.sentence_reordering import SentenceReordering
from keras_bert_impl.objectives.table import OBJECTIVES
from keras_bert_impl.training.losses import MaskedLMLoss, WeightedMeanLoss
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small
from tests.objectives.lines import documents


def pretrainer(objectives):
    return BertPretrainer(small.backbone(num_layers=1, dropout=0.0), objectives=objectives)


def batches_of(objectives, number, **options):
    """A few batches, made once: a dataset's graph takes longer than the steps."""
    options = {"sequence_length": 24, "batch_size": 8, "shuffle_buffer": 20} | options
    return objectives_dataset(documents(), small.tokenizer(), objectives, **options).take(number)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_learns_the_batches_it_sees(name):
    objectives = [OBJECTIVES[name]()]
    model = pretrainer(objectives)
    model.compile(BertAdamW(1e-2))
    data = batches_of(objectives, 2).cache()
    history = model.fit(data.repeat(), steps_per_epoch=20, epochs=2, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]
    assert model.output[name].shape[-1] == {
        "masked_lm": len(small.VOCABULARY),
        "sentence_reordering": 9,
        "sentence_distance": 3,
        "discourse_relation": 57,
        "ir_relevance": 3,
    }.get(name, 2)


@pytest.fixture(scope="module")
def objectives():
    return [MaskedLM(weight=0.5), SentenceDistance(weight=2.0), SentenceReordering(2)]


@pytest.fixture(scope="module")
def batches(objectives):
    return list(batches_of(objectives, 2).as_numpy_iterator())


def test_the_loss_is_the_weighted_sum_and_0_of_what_a_batch_is_not_of(objectives, batches):
    model = pretrainer(objectives)
    for (x, y, weights), own in zip(
        batches, ["sentence_distance", "sentence_reordering"], strict=True
    ):
        outputs = model(x)
        model.reset_metrics()
        result = model.test_on_batch(x, y, weights, return_dict=True)
        masked_lm = MaskedLMLoss()(y["masked_lm"], outputs["masked_lm"], weights["masked_lm"])
        of_text = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y[own], outputs[own])
        weight = 2.0 if own == "sentence_distance" else 1.0
        total = 0.5 * float(masked_lm) + weight * float(of_text)
        assert result["loss"] == pytest.approx(total, rel=1e-5)
        assert result[f"{own}_loss"] == pytest.approx(float(of_text), rel=1e-5)
        others = {"sentence_distance", "sentence_reordering"} - {own}
        assert result[f"{others.pop()}_loss"] == 0


def test_a_head_that_a_batch_is_not_of_gets_no_gradient(objectives, batches):
    model = pretrainer(objectives)
    model.compile(keras.optimizers.SGD(1.0))
    before = [np.array(w) for w in model.sentence_reordering_head.weights]
    model.train_on_batch(*batches[0])
    for old, new in zip(before, model.sentence_reordering_head.weights, strict=True):
        np.testing.assert_array_equal(old, new)
    model.train_on_batch(*batches[1])
    assert not np.array_equal(before[0], model.sentence_reordering_head.weights[0])


def test_saved_and_loaded(objectives, batches, tmp_path):
    model = pretrainer(objectives)
    x = batches[0][0]
    model.save(tmp_path / "model.keras")
    model.save_to_preset(str(tmp_path / "preset"))
    for again in (
        keras.models.load_model(tmp_path / "model.keras"),
        BertPretrainer.from_preset(str(tmp_path / "preset")),
    ):
        assert [o.get_config() for o in again.objectives] == [o.get_config() for o in objectives]
        for name, logits in model(x).items():
            np.testing.assert_array_equal(logits, again(x)[name])


def test_the_default_objectives_are_the_papers():
    model = BertPretrainer(small.backbone(num_layers=1))
    assert list(model.output) == ["masked_lm", "next_sentence"]
    assert "objectives" not in model.get_config()
    named = pretrainer([MaskedLM(), NextSentence()])
    assert [w.path.split("/")[1:] for w in named.weights] == [
        w.path.split("/")[1:] for w in model.weights
    ]
    assert [type(loss) for loss in named.default_loss().values()] == [
        type(loss) for loss in model.default_loss().values()
    ]
    assert model.get_compile_config()["loss_weights"] is None


def test_only_what_an_objective_reads_is_asked_for():
    model = pretrainer([SentenceDistance()])
    assert set(model.input) == {"token_ids", "segment_ids", "padding_mask"}
    assert not hasattr(model, "masked_lm_head")


def test_a_mean_over_weights_of_rows_and_of_tokens():
    draw = np.random.default_rng(0)
    for shape in [(6,), (3, 4)]:
        logits = draw.normal(size=(*shape, 5)).astype("float32")
        labels = draw.integers(0, 5, shape)
        weights = draw.random(shape).astype("float32")
        probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        losses = -np.log(np.take_along_axis(probabilities, labels[..., None], -1)[..., 0])
        loss = WeightedMeanLoss()
        expected = (losses * weights).sum() / weights.sum()
        assert float(loss(labels, logits, weights)) == pytest.approx(expected, rel=1e-5)
        assert float(loss(labels, logits)) == pytest.approx(losses.mean(), rel=1e-5)
        assert float(loss(labels, logits, 0 * weights)) == 0
        by_row = weights if len(shape) == 1 else weights[:, 0]
        expected = (losses.T * by_row).sum() / (by_row.sum() * losses[0].size)
        assert float(loss(labels, logits, by_row)) == pytest.approx(expected, rel=1e-5)
