import keras
import numpy as np
import pytest

from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.text_classifier import BertTextClassifier, check_class_labels
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small


def classifier(num_classes=2, backbone=None, **options):
    backbone = small.backbone(num_layers=1) if backbone is None else backbone
    return BertTextClassifier(backbone, num_classes=num_classes, **options)


def test_logits_are_a_dense_layer_on_the_pooled_vector():
    model, x = classifier(3), small.prepared()
    kernel, bias = (np.array(w) for w in model.output_dense.weights)
    pooled = np.array(model.backbone(x)["pooled_output"])
    np.testing.assert_allclose(model(x), pooled @ kernel + bias, atol=1e-5)


def test_the_pooled_vector_is_dropped_as_the_backbone_unless_told():
    assert classifier(backbone=small.backbone(dropout=0.3)).output_dropout.rate == 0.3
    assert classifier(dropout=0.4).output_dropout.rate == 0.4


def test_learns_which_texts_have_a_cat():
    texts = ["the cat sat", "the dog sat", "a cat ran", "a dog ran", "cat on mat", "dog on mat"]
    labels = np.array([1, 0, 1, 0, 1, 0])
    keras.utils.set_random_seed(0)
    model = classifier(
        backbone=small.backbone(num_layers=1, dropout=0.0),
        preprocessor=BertPreprocessor(small.tokenizer(), 16),
    )
    model.compile(BertAdamW(2e-2))
    before = model.evaluate(texts, labels, verbose=0)[0]
    model.fit(texts * 40, np.tile(labels, 40), batch_size=8, verbose=0)
    loss, accuracy = model.evaluate(texts, labels, verbose=0)
    assert loss < 0.1 < before
    assert accuracy == 1
    assert model.predict(texts, verbose=0).argmax(axis=1).tolist() == labels.tolist()


def test_regression_learns_numbers():
    keras.utils.set_random_seed(0)
    model = BertTextClassifier(
        small.backbone(num_layers=1, dropout=0.0),
        num_classes=1,
        regression=True,
        preprocessor=BertPreprocessor(small.tokenizer(), 16),
    )
    texts, values = ["the cat", "the dog", "cat sat", "dog sat"], np.array([3.5, -1.25, 3.5, -1.25])
    model.compile(BertAdamW(2e-2))
    model.fit(texts * 120, np.tile(values, 120), batch_size=8, verbose=0)
    predicted = model.predict(texts, verbose=0)
    assert predicted.shape == (4, 1)
    np.testing.assert_allclose(predicted[:, 0], values, atol=0.5)
    result = model.evaluate(texts, values, verbose=0, return_dict=True)
    expected = ((predicted[:, 0] - values) ** 2).mean()
    assert result["loss"] == pytest.approx(expected, abs=1e-4)
    assert result["mean_squared_error"] == pytest.approx(expected, abs=1e-4)


def test_answers_are_probabilities_or_values():
    probabilities = np.array(classifier(2).answer(np.array([[0.0, np.log(3)]]))["probabilities"])
    np.testing.assert_allclose(probabilities, [[0.25, 0.75]], atol=1e-6)
    regression = classifier(1, regression=True)
    assert np.array(regression.answer(np.array([[2.5], [1]]))["values"]).tolist() == [2.5, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 1}, "num_classes=1: a classifier needs at least 2.*regression=True"),
        ({"num_classes": 0}, "num_classes=0: a classifier needs at least 2"),
        ({"num_classes": 2, "regression": True}, "Regression has num_classes=1, but num_classes=2"),
        ({"num_classes": 3, "class_names": ["a", "b"]}, "2 class_names for num_classes=3"),
    ],
)
def test_heads_that_fit_no_task_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        classifier(**options)


def test_labels_are_whole_numbers_in_range():
    check_class_labels(np.array([0, 2, 1]), 3)
    check_class_labels(np.array([0.0, 2.0]), 3)
    check_class_labels(np.array([[0], [2]]), 3)
    check_class_labels(np.array([True, False]), 2)
    with pytest.raises(ValueError, match="label in row 1 is 3, but with num_classes=3"):
        check_class_labels(np.array([[0], [3]]), 3)
    with pytest.raises(ValueError, match=r"class numbers 0..2, but y holds float64 .* as 0.5"):
        check_class_labels(np.array([0.5, 1]), 3)
    with pytest.raises(ValueError, match="Map names to numbers first"):
        check_class_labels(np.array(["good", "bad"]), 3)


def test_every_option_survives_the_config():
    for options in (
        {"num_classes": 3},
        {"num_classes": 3, "class_names": ["a", "b", "c"]},
        {"num_classes": 3, "dropout": 0.4},
        {"num_classes": 1, "regression": True},
    ):
        preprocessor = BertPreprocessor(small.tokenizer(), 9, pair=True)
        config = classifier(**options, preprocessor=preprocessor).get_config()
        again = BertTextClassifier.from_config(config)
        for name, value in options.items():
            assert np.array_equal(getattr(again, name), value)
        assert again.preprocessor.sequence_length == 9
        assert again.preprocessor.pair is True
        assert (
            again.backbone.get_config()
            == small.backbone(num_layers=1, name=again.backbone.name).get_config()
        )


def test_lora_trains_adapters_and_the_head():
    model = classifier(backbone=small.backbone(num_layers=1, dropout=0.0))
    model.backbone.enable_lora(rank=2)
    model.compile(BertAdamW(1e-2))
    before = {w.path: np.array(w) for w in model.weights}
    model.fit(small.prepared(), np.arange(4) % 2, epochs=3, verbose=0)
    moved = {w.path for w in model.weights if np.abs(np.array(w) - before[w.path]).max() > 0}
    product = "encoder_layer_0/attention/query_key_value"
    assert moved == {
        f"{product}/lora_kernel_a",
        f"{product}/lora_kernel_b",
        f"{product}/bias",
        "output_dense/kernel",
        "output_dense/bias",
    }
