"""Several examples a row are trained as one a row: the same losses, gradients and steps."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl.layers.fusion import fusing
from keras_bert_impl.training.steps import whole_batch_loss
from tests import small

LENGTH, SLOTS = 24, 3
DRAW = np.random.default_rng(0)
TEXTS = [" ".join(DRAW.choice(small.WORDS[:7], size)) for size in [1, 9, 3, 14, 2, 4, 1, 7, 5]]
LABELS = DRAW.integers(0, 2, len(TEXTS))
WEIGHTS = DRAW.random(len(TEXTS)).astype("float32")


def backbone(**changes):
    return small.backbone(num_layers=1, dropout=0.0, **changes)


def preprocessor(pair=False):
    return kbi.BertPreprocessor(small.tokenizer(), LENGTH, pair=pair)


def packed(x, by_example=(), **sizes):
    sizes = {"row_length": LENGTH, "examples_per_row": 4, **sizes}
    return tf.nest.map_structure(np.array, kbi.pack_rows(x, by_example, **sizes))


@pytest.fixture(scope="module")
def classifier():
    return kbi.BertTextClassifier(backbone(), num_classes=2, preprocessor=preprocessor())


@pytest.fixture(scope="module")
def pretraining_batches():
    """The same examples as packed rows and one a row: ((x, y, weights), (x, y, weights))."""
    x, y, weights = (
        dict(part) for part in packed_pretraining_batch(small.prepared(7, 12), LABELS[:7])
    )
    mask_positions, mask_weights = x["mask_positions"], weights["masked_lm"]
    rows = [
        (r, k, int(begin))
        for r, begins in enumerate(x["cls_positions"])
        for k, begin in enumerate(begins[: x["num_examples"][r]])
    ]
    single = {name: [] for name in ("token_ids", "segment_ids", "padding_mask")}
    positions, ids, masked, labels = [], [], [], []
    for r, k, begin in rows:
        inside = x["sequence_ids"][r] == k + 1
        for name, made in single.items():
            made.append(np.resize(x[name][r][inside], LENGTH) * (np.arange(LENGTH) < inside.sum()))
        of_example = inside[mask_positions[r]] * (mask_weights[r] > 0)
        positions.append(np.where(of_example, mask_positions[r] - begin, 0))
        ids.append(np.where(of_example, y["masked_lm"][r], 0))
        masked.append(of_example.astype("float32"))
        labels.append((y["next_sentence"][r, k], weights["next_sentence"][r, k]))
    labels = np.array(labels)
    plain = (
        {**{n: np.array(a) for n, a in single.items()}, "mask_positions": np.array(positions)},
        {"masked_lm": np.array(ids), "next_sentence": labels[:, 0].astype("int32")},
        {"masked_lm": np.array(masked), "next_sentence": labels[:, 1].astype("float32")},
    )
    return (x, y, weights), plain


def packed_pretraining_batch(x, labels):
    x, (labels, weights) = packed(x, (labels, WEIGHTS[: len(labels)]))
    rows = np.arange(len(x["token_ids"]))[:, None]
    tokens = x["padding_mask"].sum(1, keepdims=True)
    positions = DRAW.integers(0, tokens, (len(tokens), SLOTS)).astype("int32")
    mask_weights = (DRAW.random(positions.shape) < 0.8).astype("float32")
    y = {"masked_lm": x["token_ids"][rows, positions], "next_sentence": labels}
    weights = {"masked_lm": mask_weights, "next_sentence": weights}
    return {**x, "mask_positions": positions}, y, weights


@pytest.mark.parametrize("in_loops", [False, True])
def test_losses_and_gradients_are_those_of_one_example_a_row(pretraining_batches, in_loops):
    model = kbi.BertPretrainer(backbone())

    def loss_and_gradients(x, y, weights):
        with fusing(in_loops), tf.GradientTape() as tape:
            loss = whole_batch_loss(model, x, y, model(x, training=True), weights)
            gradients = tape.gradient(loss, model.trainable_variables)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    run = tf.function(loss_and_gradients, autograph=False)
    (loss, gradients), (expected, expected_gradients) = (
        run(*tf.nest.map_structure(tf.constant, batch)) for batch in pretraining_batches
    )
    assert len(pretraining_batches[0][0]["token_ids"]) < 7
    assert float(loss) == pytest.approx(float(expected), abs=1e-5)
    for found, gradient in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, gradient, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_no_example_sees_another(causal):
    model = backbone(causal=causal)
    lengths = [5, 4, 6]
    mask = np.arange(6) < np.array(lengths)[:, None]
    ids = np.where(mask, 5 + np.arange(18).reshape(3, 6), 0).astype("int32")
    x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}
    x, _ = packed(x, row_length=18, examples_per_row=4)
    table = model.token_embedding.embeddings
    for example in range(3):
        own = x["sequence_ids"][0] == example + 1
        with tf.GradientTape() as tape:
            outputs = model(x)
            seen = tf.reduce_sum(outputs["pooled_output"][0, example])
            seen += tf.reduce_sum(tf.square(outputs["sequence_output"][0][own]))
        gradient = np.abs(tf.convert_to_tensor(tape.gradient(seen, table.value))).sum(1)
        ids = x["token_ids"][0]
        assert (gradient[ids[own]] > 0).all()
        assert (gradient[ids[~own]] == 0).all()


def test_outputs_are_those_of_one_example_a_row(classifier):
    plain = {name: np.array(rows) for name, rows in classifier.preprocessor(TEXTS).items()}
    x, numbers = packed(plain, np.arange(len(TEXTS)))
    logits, expected = np.array(classifier(x)), np.array(classifier(plain))
    for row, count in enumerate(x["num_examples"]):
        np.testing.assert_allclose(logits[row, :count], expected[numbers[row, :count]], atol=1e-5)
    assert logits.shape == (len(x["token_ids"]), 4, 2)


def losses_of(model, dataset):
    """The loss of each batch."""
    batches = (keras.utils.unpack_x_y_sample_weight(batch) for batch in dataset)
    return [float(whole_batch_loss(model, x, y, model(x), weights)) for x, y, weights in batches]


def assert_same_loss(model, x, y, weights=None, **options):
    (loss,) = losses_of(model, model.full_dataset(x, y, weights, shuffle=True, **options))
    (expected,) = losses_of(model, model.prepared_dataset(x, y, weights))
    assert loss == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"examples_per_row": 4, "batch_size": 8},  # rows of zeros fill up
        {"examples_per_row": 2, "tokens_per_batch": 6 * LENGTH + 1},
        {"tokens_per_batch": LENGTH * 9},
    ],
)
def test_raw_text_and_prepared_ids_have_the_same_loss(classifier, options):
    texts, labels, weights = TEXTS, LABELS, WEIGHTS
    if "examples_per_row" not in options:  # of one length of batches
        texts, labels, weights = (a[:3] for a in (texts, labels, weights))
    assert_same_loss(classifier, texts, labels, **options)
    prepared = {name: np.array(rows) for name, rows in classifier.preprocessor(texts).items()}
    width = prepared["token_ids"].shape[1]
    if "tokens_per_batch" in options:
        options = {**options, "tokens_per_batch": width * 9}
    assert_same_loss(classifier, prepared, labels, weights, **options)


def test_regression_of_pairs_has_the_same_loss():
    model = kbi.BertTextClassifier(
        backbone(), num_classes=1, regression=True, preprocessor=preprocessor(pair=True)
    )
    pairs = {"text_a": TEXTS[:5], "text_b": TEXTS[5:8] + TEXTS[:2]}
    assert_same_loss(model, pairs, WEIGHTS[:5], batch_size=5, examples_per_row=4)


def test_tagging_has_the_same_loss():
    words = [text.split() for text in TEXTS]
    tags = [[len(word) % 2 for word in row] for row in words]
    model = kbi.BertTokenClassifier(
        backbone(),
        num_classes=2,
        preprocessor=kbi.BertTokenClassifierPreprocessor(small.tokenizer(), LENGTH),
    )
    assert_same_loss(model, words, tags, batch_size=6, examples_per_row=4)
    assert_same_loss(model, words[:3], tags[:3], tokens_per_batch=16 * 5)


def test_masked_lm_masks_rows_that_are_full():
    model = kbi.BertMaskedLM(
        backbone(), kbi.BertMaskedLMPreprocessor(small.tokenizer(), LENGTH, max_predictions=5)
    )
    ((x, y, weights),) = model.full_dataset(TEXTS, batch_size=6, examples_per_row=4)
    tokens = x["padding_mask"].numpy().sum(1)
    counts = np.where(tokens > 0, np.maximum(np.round(0.15 * tokens), 1), 0)
    np.testing.assert_array_equal(np.sum(weights, axis=1), counts)
    assert np.isfinite(losses_of(model, [(x, y, weights)])).all()
    with pytest.raises(ValueError, match="masked once they are full. Pass raw text"):
        model.fit(small.prepared(), examples_per_row=2)


def test_fit_takes_the_same_step(classifier):
    """Loss, metric and weights of one step, from the same weights."""
    before, found = classifier.get_weights(), []
    for options in ({"batch_size": 9}, {"batch_size": 8, "examples_per_row": 4}):
        classifier.set_weights(before)
        classifier.compile(keras.optimizers.SGD(0.5))
        history = classifier.fit(TEXTS, LABELS, sample_weight=WEIGHTS, verbose=0, **options).history
        found.append([*history["loss"], *history["accuracy"], *classifier.get_weights()])
    assert not np.allclose(found[0][2], before[0], atol=1e-3)
    for one_a_row, several in zip(*found, strict=True):
        np.testing.assert_allclose(several, one_a_row, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples_per_row": 0}, "examples_per_row=0 must be at least 1"),
        ({"tokens_per_batch": 23}, "tokens_per_batch=23 is less than a row of 24 tokens"),
        ({"tokens_per_batch": 23, "examples_per_row": 2}, "=23 is less than a row of 24 tokens"),
        ({"tokens_per_batch": 99, "batch_size": 2}, "Pass batch_size or tokens_per_batch"),
        ({"tokens_per_batch": 99, "y": None}, "y is missing"),
        ({"examples_per_row": 2, "x": tf.data.Dataset.range(2)}, "need x as arrays"),
    ],
)
def test_options_that_do_not_go_together(classifier, options, message):
    with pytest.raises(ValueError, match=message):
        classifier.fit(**{"x": TEXTS, "y": LABELS, **options})


def test_metrics_must_be_weighted(classifier):
    classifier.compile(metrics=["accuracy"])
    with pytest.raises(ValueError, match="Pass weighted_metrics to compile"):
        classifier.fit(TEXTS, LABELS, examples_per_row=2)


def test_tasks_of_one_example_a_row_say_so():
    model = kbi.BertQuestionAnswering(backbone())
    with pytest.raises(ValueError, match="takes one example a row: examples_per_row=1"):
        model.fit(small.prepared(), np.zeros((4, 2)), examples_per_row=2)
    with pytest.raises(ValueError, match="BertQuestionAnswering takes one example a row"):
        model(packed(small.prepared())[0])
    choices = {name: rows.reshape(2, 2, -1) for name, rows in small.prepared().items()}
    with pytest.raises(ValueError, match="choices share theirs"):
        kbi.BertMultipleChoice(backbone()).fit(choices, np.array([0, 1]), tokens_per_batch=99)
