"""What every task takes: raw text, prepared ids, arrays, datasets; and what it refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batching import padded_evenly
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.text_classifier import BertTextClassifier
from tests import small

TEXTS = small.TEXTS + ["dog on mat", "un able ."]
PAIRS = {"text_a": TEXTS, "text_b": TEXTS[::-1]}
LABELS = np.array([0, 1, 2, 0, 1, 2])
WEIGHTS = np.array([1.0, 2, 1, 0, 1, 3], "float32")


def prepare(classifier, raw):
    return {name: np.array(rows) for name, rows in classifier.preprocessor(raw).items()}


def make_classifier(pair):
    preprocessor = BertPreprocessor(small.tokenizer(), 16, pair=pair)
    backbone = small.backbone(num_layers=1, dropout=0.0)
    return BertTextClassifier(backbone, num_classes=3, preprocessor=preprocessor)


@pytest.fixture(scope="module")
def classifier():
    return make_classifier(pair=False)


@pytest.fixture(scope="module")
def task(classifier):
    """(classifier, raw texts, the same prepared)."""
    return classifier, TEXTS, prepare(classifier, TEXTS)


def batched(*arrays, batch_size=4):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(
        batch_size
    )


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
def test_all_kinds_of_input_give_the_same_predictions(pair):
    classifier, raw = make_classifier(pair), PAIRS if pair else TEXTS
    prepared = prepare(classifier, raw)
    expected = classifier.predict(prepared, batch_size=6, verbose=0)
    assert expected.shape == (6, 3)
    assert expected.std(axis=0).min() > 1e-3, "the texts were to differ in their predictions"
    even = padded_evenly({name: tf.constant(rows) for name, rows in prepared.items()}, 16)
    even = {name: rows.numpy() for name, rows in even.items()}
    answers = classifier.predict(raw, batch_size=6, verbose=0)
    np.testing.assert_array_equal(answers, classifier.predict(even, batch_size=6, verbose=0))
    for x in (raw, prepared, batched(raw), batched(prepared)):
        np.testing.assert_allclose(classifier.predict(x, verbose=0), expected, atol=1e-5)
    for x in (raw, prepared):
        np.testing.assert_allclose(classifier.predict_on_batch(x), expected, atol=1e-5)
    # The last batch is smaller.
    np.testing.assert_allclose(
        classifier.predict(raw, batch_size=4, verbose=0), expected, atol=1e-5
    )


def test_predict_asks_texts_by_length_and_answers_in_order(task, monkeypatch):
    classifier, raw, prepared = task
    expected, asked = classifier.predict(prepared, verbose=0), []
    prepare_batches = classifier.prepared_dataset

    def record(x, **options):
        asked.append(list(x))
        return prepare_batches(x, **options)

    monkeypatch.setattr(classifier, "prepared_dataset", record)
    answers = classifier.predict(raw, batch_size=2, verbose=0)
    np.testing.assert_allclose(answers, expected, atol=1e-5)
    assert asked == [sorted(raw, key=len, reverse=True)] != [raw]


def test_few_texts_are_answered_as_among_many_and_by_the_same_graph(monkeypatch):
    classifier, built = make_classifier(pair=False), []
    predict_step = BertTextClassifier.predict_step

    def record(self, *batch):
        built.append(batch)
        return predict_step(self, *batch)

    monkeypatch.setattr(BertTextClassifier, "predict_step", record)
    expected = classifier.predict(TEXTS, batch_size=2, verbose=0)
    classifier.predict(["a dog"], verbose=0)  # another shape: a graph for all shapes
    of_two_shapes = len(built)
    for text, answer in zip(TEXTS, expected, strict=True):
        np.testing.assert_allclose(classifier.predict([text], verbose=0)[0], answer, atol=1e-5)
    assert len(built) == of_two_shapes


def test_batches_that_are_asked_have_few_lengths(classifier, monkeypatch):
    lengths, for_devices = [], classifier._for_devices

    def record(dataset):
        inputs = dataset.map(lambda *batch: tf.shape(batch[0]["padding_mask"])[1])
        lengths.extend(inputs.as_numpy_iterator())
        return for_devices(dataset)

    monkeypatch.setattr(classifier, "_for_devices", record)
    texts = ["a dog", "a dog " * 4, "a dog " * 20]
    classifier.predict(texts, batch_size=1, verbose=0)
    classifier.evaluate(texts, LABELS[:3], batch_size=1, verbose=0)
    classifier.predict(texts[:1], verbose=0)
    assert lengths == [16, 16, 8, 8, 16, 16, 8]


def test_all_kinds_of_input_give_the_same_evaluation(task):
    classifier, raw, prepared = task
    logits = classifier.predict(prepared, verbose=0)
    log_shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses = -log_shares[np.arange(6), LABELS]
    right = logits.argmax(axis=1) == LABELS
    for x in (raw, prepared):
        for result in (
            classifier.evaluate(x, LABELS, batch_size=4, verbose=0, return_dict=True),
            classifier.evaluate(batched(x, LABELS), verbose=0, return_dict=True),
            classifier.test_on_batch(x, LABELS, return_dict=True),
        ):
            assert result["loss"] == pytest.approx(losses.mean(), abs=1e-5)
            assert result["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
        for result in (
            classifier.evaluate(
                x, LABELS, sample_weight=WEIGHTS, batch_size=6, verbose=0, return_dict=True
            ),
            classifier.evaluate(
                batched(x, LABELS, WEIGHTS, batch_size=6), verbose=0, return_dict=True
            ),
            classifier.test_on_batch(x, LABELS, WEIGHTS, return_dict=True),
        ):
            assert result["loss"] == pytest.approx((losses * WEIGHTS).sum() / 6, abs=1e-5)
            assert result["accuracy"] == pytest.approx((right * WEIGHTS).sum() / 8, abs=1e-6)


def test_all_kinds_of_input_train_alike(task):
    classifier, raw, prepared = task
    classifier.compile(keras.optimizers.SGD(0.1))
    start = classifier.get_weights()

    def after(train):
        classifier.set_weights(start)
        train()
        return classifier.get_weights()

    expected = after(lambda: classifier.train_on_batch(prepared, LABELS))
    assert np.abs(expected[0] - start[0]).max() > 1e-4
    in_one = {"batch_size": 6, "shuffle": False, "verbose": 0}
    for train in (
        lambda: classifier.train_on_batch(raw, LABELS),
        lambda: classifier.fit(raw, LABELS, **in_one),
        lambda: classifier.fit(prepared, LABELS, **in_one),
        lambda: classifier.fit(batched(raw, LABELS, batch_size=6), verbose=0),
        lambda: classifier.fit(batched(prepared, LABELS, batch_size=6), verbose=0),
    ):
        for weight, other in zip(after(train), expected, strict=True):
            np.testing.assert_allclose(weight, other, atol=1e-5)
    classifier.set_weights(start)


def test_validation_data_is_evaluated(task):
    classifier, raw, prepared = task
    expected = classifier.evaluate(prepared, LABELS, verbose=0)[0]
    classifier.compile(keras.optimizers.SGD(0.0))
    for validation in ((raw, LABELS), (prepared, LABELS), batched(raw, LABELS)):
        history = classifier.fit(prepared, LABELS, validation_data=validation, verbose=0, epochs=2)
        assert history.history["val_loss"] == pytest.approx([expected] * 2, abs=1e-5)


def test_validation_split_holds_out_the_last_rows(task):
    classifier, raw, prepared = task
    classifier.compile(keras.optimizers.SGD(0.0))
    last = {name: rows[4:] for name, rows in prepared.items()}
    first = {name: rows[:4] for name, rows in prepared.items()}
    history = classifier.fit(raw, LABELS, validation_split=0.34, verbose=0).history
    held_out = classifier.evaluate(last, LABELS[4:], verbose=0)[0]
    trained = classifier.evaluate(first, LABELS[:4], verbose=0)[0]
    assert history["val_loss"] == pytest.approx([held_out], abs=1e-5)
    assert history["loss"] == pytest.approx([trained], abs=1e-5)


def test_validation_split_of_a_dataset_is_refused(classifier):
    with pytest.raises(ValueError, match="validation_split needs arrays"):
        classifier.fit(batched(TEXTS, LABELS), validation_split=0.5)


def test_arrays_are_shuffled_in_training_and_in_order_otherwise(classifier):
    def order(**options):
        dataset = classifier.prepared_dataset(
            TEXTS * 4, np.arange(24) % 3, batch_size=24, **options
        )
        return next(iter(dataset))[0]["token_ids"].numpy().tolist()

    assert order(shuffle=True) != order(shuffle=False) == order()
    assert sorted(order(shuffle=True)) == sorted(order())


def test_a_single_batch_without_labels_is_shuffled_anew_too(classifier):
    tf.random.set_seed(0)
    dataset = classifier.prepared_dataset(TEXTS, shuffle=True)
    orders = {next(dataset.as_numpy_iterator())["token_ids"].tobytes() for _ in range(5)}
    assert len(orders) > 1


def test_a_tuple_of_texts_is_refused(classifier):
    """It could be a pair, or (x, y)."""
    for method in (classifier.predict, classifier.fit, classifier.evaluate):
        with pytest.raises(ValueError, match="A tuple could be a pair of texts"):
            method((TEXTS, TEXTS))
    with pytest.raises(ValueError, match="labels of this dataset are strings. A tuple could be"):
        classifier.fit(batched(TEXTS, TEXTS))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (None, None, "x is missing"),
        ("one text", None, "a single text or number. Wrap it in a list"),
        (TEXTS, LABELS[:5], r"differ in rows: \[5, 6\]"),
        ([], [], "x has no rows"),
        (np.ones((6, 4)), LABELS, "Expected strings, but received float64"),
        ({"text_a": TEXTS, "text_b": TEXTS}, LABELS, "packs single texts"),
    ],
)
def test_inputs_that_make_no_batch_are_refused(classifier, x, y, message):
    with pytest.raises(ValueError, match=message):
        classifier.fit(x, y, verbose=0)


def test_a_dataset_holds_its_labels_and_batches(classifier):
    with pytest.raises(ValueError, match="x is a tf.data.Dataset.*but y was passed"):
        classifier.fit(batched(TEXTS), LABELS)
    with pytest.raises(ValueError, match="x is a tf.data.Dataset.*but batch_size was passed"):
        classifier.predict(batched(TEXTS), batch_size=2)


def test_labels_outside_their_range_are_named_by_row(classifier):
    for wrong in (3, -1):
        labels = LABELS.copy()
        labels[4] = wrong
        message = f"label in row 4 is {wrong}, but with num_classes=3 labels are 0..2"
        for method in (classifier.fit, classifier.evaluate, classifier.train_on_batch):
            with pytest.raises(ValueError, match=message):
                method(TEXTS, labels)


def test_ids_outside_the_table_are_named_by_row_and_column(task):
    classifier, _, prepared = task
    wrong = {name: rows.copy() for name, rows in prepared.items()}
    size = len(small.VOCABULARY)
    wrong["token_ids"][3, 2] = size
    message = f"token_ids holds {size} in row 3, column 2, but its table has {size} rows"
    for method in (classifier.predict, classifier.predict_on_batch):
        with pytest.raises(ValueError, match=message):
            method(wrong)
    with pytest.raises(ValueError, match=message):
        classifier.fit(wrong, LABELS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="token_ids points outside its table"):
        classifier.fit(batched(wrong, LABELS), verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="token_ids points outside its table"):
        classifier.predict(batched(wrong), verbose=0)


def test_rows_longer_than_the_position_table_are_refused(classifier):
    long = small.prepared(rows=6, length=33)
    with pytest.raises(ValueError, match="rows of 33 tokens, but the position table has 32 rows"):
        classifier.predict(long)
    with pytest.raises(tf.errors.InvalidArgumentError, match="position table of 32 rows"):
        classifier.predict(batched(long), verbose=0)


def test_raw_text_longer_than_the_row_is_cut(classifier):
    text = " ".join(["cat"] * 5000)
    cut = " ".join(["cat"] * 14)
    first, second = classifier.predict([text, cut], verbose=0)
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_rows_longer_than_the_position_table_out_of_raw_text_are_refused():
    preprocessor = BertPreprocessor(small.tokenizer(), 64)
    classifier = BertTextClassifier(small.backbone(), num_classes=2, preprocessor=preprocessor)
    with pytest.raises(tf.errors.InvalidArgumentError, match="position table of 32 rows"):
        classifier.predict([" ".join(["cat"] * 40)], verbose=0)


def test_a_vocabulary_longer_than_the_table_is_refused():
    preprocessor = BertPreprocessor(small.tokenizer())
    rows = len(small.VOCABULARY)
    message = f"vocabulary has {rows} tokens, but the backbone's table has {rows - 1} rows"
    with pytest.raises(ValueError, match=message):
        BertTextClassifier(
            small.backbone(vocabulary_size=rows - 1), num_classes=2, preprocessor=preprocessor
        )


def test_raw_text_needs_a_preprocessor():
    classifier = BertTextClassifier(small.backbone(), num_classes=2)
    with pytest.raises(ValueError, match="received raw text but has no preprocessor"):
        classifier.predict(TEXTS)
    assert classifier.predict(small.prepared(), verbose=0).shape == (4, 2)


def test_a_loss_and_metrics_of_ones_own_replace_the_tasks(classifier):
    classifier.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseTopKCategoricalAccuracy(2, name="in_two")],
    )
    result = classifier.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    assert sorted(result) == ["in_two", "loss"]
    classifier.compile()


def test_rows_of_like_length_share_a_batch():
    classifier = make_classifier(pair=False)
    seen = []

    class Spy(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(logs["loss"])

    short, long = ["a"] * 40, ["the cat sat on the mat . the dog"] * 8
    dataset = classifier._grouped_dataset(short + long, np.zeros(48, "int32"), None, 8)
    shapes = sorted(x["token_ids"].shape[1] for x, _ in dataset)
    assert shapes == [8, 8, 8, 8, 8, 11]
    history = classifier.fit(
        short + long, np.zeros(48, "int32"), batch_size=8, epochs=2, verbose=0, callbacks=[Spy()]
    )
    assert len(seen) == 2 * 6 and len(history.history["loss"]) == 2
    ungrouped = classifier.prepared_dataset(short + long, batch_size=8, shuffle=True)
    assert {x["token_ids"].shape[1] for x in ungrouped} != {8, 11}
