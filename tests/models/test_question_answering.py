import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.answer_spans import Answer, answer_list
from keras_bert_impl.data.best_answers import best_answers
from keras_bert_impl.models import question_answering
from keras_bert_impl.models.question_answering import BertQuestionAnswering
from keras_bert_impl.models.question_answering_preprocessor import BertQuestionAnsweringPreprocessor
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

LONG = "the cat sat on the mat . a dog ran , unaffable"
X = {
    "question": ["the cat", "dog ran on the mat", "", "x", "cat"],
    "context": [LONG, f"  Caf\u00e9 \U0001f642  {LONG}", "", "a dog", "\u200b \t"],
}
Y = {"answer_start": [4, 12, -1, 2, -1], "answer_end": [11, 19, -1, 5, -1]}
WEIGHTS = np.array([1.0, 2, 1, 0, 3], "float32")


def make(backbone=None, sequence_length=12, padding="longest", **options):
    """Contexts get several windows; weights are drawn anew, so that answers differ."""
    return BertQuestionAnswering(
        small.backbone(num_layers=1, dropout=0.0) if backbone is None else backbone,
        BertQuestionAnsweringPreprocessor(
            small.tokenizer(), sequence_length, doc_stride=3, max_question_length=4, padding=padding
        ),
        **options,
    )


@pytest.fixture(scope="module")
def qa():
    return make(with_no_answer=True)


@pytest.fixture(scope="module")
def prepared(qa):
    """(inputs, positions, weights) of the windows of X, as arrays."""
    x, y, weights = qa.preprocessor(X, Y, WEIGHTS)
    return {name: np.array(rows) for name, rows in x.items()}, np.array(y), np.array(weights)


def batched(*arrays, batch_size=2):
    nested = arrays if len(arrays) > 1 else arrays[0]
    return tf.data.Dataset.from_tensor_slices(nested).batch(batch_size)


def losses(logits, positions):
    """(windows, 2) cross entropies."""
    log_shares = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    return -np.take_along_axis(log_shares, positions[:, :, np.newaxis], axis=2)[..., 0]


def test_docstring_example():
    names = {"BertTokenizer": BertTokenizer, "SPECIAL_TOKENS": SPECIAL_TOKENS}
    assert doctest.testmod(question_answering, extraglobs=names) == (0, 6)


def test_logits_are_a_dense_layer_on_every_token(qa, prepared):
    x = prepared[0]
    kernel, bias = (np.array(w) for w in qa.output_dense.weights)
    expected = np.array(qa.backbone(x)["sequence_output"]) @ kernel + bias
    logits = qa.predict(x, verbose=0)
    assert logits.shape == (len(x["token_ids"]), 2, x["token_ids"].shape[1])
    np.testing.assert_allclose(logits, expected.transpose(0, 2, 1), atol=1e-5)
    served = qa.answer(logits)
    np.testing.assert_array_equal(served["start_logits"], logits[:, 0])
    np.testing.assert_array_equal(served["end_logits"], logits[:, 1])


# Training


def test_learns_to_find_the_cat_or_that_there_is_none():
    draw = np.random.default_rng(0)
    words = [w for w in small.WORDS if w not in ("cat", "##aff", "##able")]
    contexts, golds = [], []
    for i in range(240):
        drawn = list(draw.choice(words, draw.integers(3, 16)))
        golds.append("cat" if i % 3 else "")
        if golds[-1]:
            drawn.insert(draw.integers(len(drawn)), "cat")
        contexts.append(" ".join(drawn))
    x = {"question": ["cat"] * len(contexts), "context": contexts}
    starts = [context.find("cat") for context in contexts]
    y = {"answer_start": starts, "answer_end": [s + 3 if s >= 0 else -1 for s in starts]}
    model = make(sequence_length=16, with_no_answer=True)
    model.compile(BertAdamW(2e-2))
    history = model.fit(x, y, batch_size=16, epochs=2, verbose=0).history
    assert history["loss"][1] < 0.2 < history["loss"][0]
    assert history["accuracy"][1] > 0.95
    answers = model.predict(x, verbose=0)
    right = [
        (answer.text, answer.start) == (gold, start)
        for answer, gold, start in zip(answers, golds, starts, strict=True)
    ]
    assert np.mean(right) > 0.98


def test_the_loss_is_the_mean_over_starts_and_ends_of_all_windows(qa, prepared):
    x, positions, weights = prepared
    expected = losses(qa.predict(x, verbose=0), positions)
    weighted = (expected * weights[:, np.newaxis]).mean()
    result = qa.evaluate(X, Y, verbose=0, return_dict=True)
    assert result["loss"] == pytest.approx(expected.mean(), abs=1e-5)
    for data in ((X, Y, WEIGHTS), (x, positions, weights)):
        result = qa.test_on_batch(*data, return_dict=True)
        assert result["loss"] == pytest.approx(weighted, abs=1e-5)


def test_accuracy_is_the_share_of_positions_found(qa, prepared):
    x, positions, _ = prepared
    found = qa.predict(x, verbose=0).argmax(axis=2)
    positions = np.where(np.arange(len(found))[:, np.newaxis] % 2, found, positions)
    expected = (found == positions).mean()
    assert 0 < expected < 1
    assert qa.test_on_batch(x, positions)[1] == pytest.approx(expected)


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_batches_have_as_many_windows_as_asked(padding, prepared):
    x, positions, weights = prepared
    model = make(padding=padding)
    dataset = model.prepared_dataset(X, Y, WEIGHTS, batch_size=5)
    batches = list(dataset.as_numpy_iterator())
    assert [len(batch[1]) for batch in batches] == [5, 5, 2]
    np.testing.assert_array_equal(np.concatenate([batch[1] for batch in batches]), positions)
    np.testing.assert_array_equal(np.concatenate([batch[2] for batch in batches])[:, 0], weights)
    for name, rows in x.items():
        made = [row for batch in batches for row in batch[0][name]]
        for ours, theirs in zip(made, rows, strict=True):
            length = min(len(ours), len(theirs))
            np.testing.assert_array_equal(ours[:length], theirs[:length])
            assert not ours[length:].any() and not theirs[length:].any()
    if padding == "max_length":
        assert dataset.element_spec[0]["token_ids"].shape == (None, 12)
    else:  # of a dataset: as many windows as the first batch has questions
        batches = list(model.prepared_dataset(batched(X, Y, batch_size=3)))
        assert [len(batch[1]) for batch in batches] == [3, 3, 3, 3]
        np.testing.assert_array_equal(tf.concat([batch[1] for batch in batches], 0), positions)


def test_shuffling_parts_the_windows_of_a_context():
    model = make()
    many = {name: texts[:2] * 50 for name, texts in X.items()}
    labels = {"answer_start": np.arange(100) % 12, "answer_end": np.arange(100) % 12 + 1}

    dataset = model.prepared_dataset(many, labels, batch_size=16, shuffle=True)
    first, second = ([batch[1] for batch in dataset] for _ in range(2))
    windows = len(model.preprocessor(many)["token_ids"])
    assert sum(map(len, first)) == sum(map(len, second)) == windows
    assert (first[0] != second[0]).numpy().any()
    # The two contexts' windows come in no fixed order.
    answered = np.concatenate([(batch != 0).numpy().any(axis=1) for batch in first])
    assert len(set(np.diff(np.flatnonzero(answered)).tolist())) > 3


def test_fit_takes_every_window_once_an_epoch(prepared):
    model = make()
    model.compile(keras.optimizers.SGD(0.0))
    expected = losses(model.predict(prepared[0], verbose=0), prepared[1]).mean()
    history = model.fit(X, Y, batch_size=64, verbose=0, validation_data=prepared[:2]).history
    assert history["loss"][0] == pytest.approx(expected, abs=1e-5)
    assert history["val_loss"][0] == pytest.approx(expected, abs=1e-5)


# Answers


def test_answers_come_in_the_questions_order(qa):
    together = qa.predict(X, verbose=0)
    assert [type(answer) for answer in together] == [Answer] * 5
    assert len({answer.text for answer in together}) > 1
    alone = [
        qa.predict({name: [texts[i]] for name, texts in X.items()}, verbose=0)[0] for i in range(5)
    ]
    for few in (
        qa.predict(batched(X, Y), verbose=0),
        qa.predict_on_batch(X),
        alone,
    ):
        for one, other in zip(few, together, strict=True):
            assert one[:3] == other[:3]
            np.testing.assert_allclose(one[3:5], other[3:5], rtol=1e-4)
            assert one.n_best[0][:3] == other.n_best[0][:3]


def test_answers_are_the_best_of_the_logits_of_prepared_ids(qa, monkeypatch):
    inputs, examples = qa.preprocessor.windowed(*(tf.constant(texts) for texts in X.values()))
    logits = qa.predict({name: rows.numpy() for name, rows in inputs.items()}, verbose=0)
    assert len(logits) > len(X["question"])
    for options in (
        {"n_best": 3, "max_answer_length": 2, "with_no_answer": True, "null_threshold": -1.5},
        {"n_best": 20, "max_answer_length": 30, "with_no_answer": False},
    ):
        for name, value in options.items():
            monkeypatch.setattr(qa, name, value)
        expected = answer_list(best_answers(logits, examples, **options))
        for answer, other, context in zip(
            qa.predict(X, verbose=0), expected, X["context"], strict=True
        ):
            assert answer[:3] == other[:3]
            assert answer.score == pytest.approx(other.score, abs=1e-4)
            assert [x[:3] for x in answer.n_best] == [x[:3] for x in other.n_best]
            assert answer.text == (context[answer.start : answer.end] if answer.start >= 0 else "")


def test_the_threshold_may_be_set_later(qa, monkeypatch):
    differences = [answer.null_score_difference for answer in qa.predict(X, verbose=0)]
    assert differences[2] == differences[4] == 1e6
    for threshold, num_empty in ((-1e5, 5), (1e5, 2)):
        monkeypatch.setattr(qa, "null_threshold", threshold)
        assert sum(answer.text == "" for answer in qa.predict(X, verbose=0)) == num_empty


def test_a_context_of_a_million_characters_is_read():
    tokenizer = small.tokenizer()
    model = BertQuestionAnswering(
        small.backbone(
            num_layers=1, hidden_dim=2, num_heads=1, intermediate_dim=2, max_sequence_length=512
        ),
        BertQuestionAnsweringPreprocessor(tokenizer, 512, doc_stride=500),
        max_answer_length=1,
    )
    # So that the best start is the best end too.
    kernel = np.array(model.output_dense.kernel)
    model.output_dense.kernel.assign(kernel[:, [0, 0]])
    context = "the cat sat on the mat . " * 40_000 + "  z."
    assert len(context) > 1_000_000
    answer = model.predict({"question": ["cat"], "context": [context]}, verbose=0)[0]
    assert answer.text == context[answer.start : answer.end] != ""


# Serving, saving


def assert_served(answers, served):
    assert sorted(served) == ["end", "null_score_difference", "score", "start", "text"]
    assert [text.decode() for text in served["text"].numpy()] == [a.text for a in answers]
    for name in ("start", "end"):
        assert served[name].numpy().tolist() == [getattr(answer, name) for answer in answers]
    for name in ("score", "null_score_difference"):
        np.testing.assert_allclose(
            served[name], [getattr(answer, name) for answer in answers], rtol=1e-4
        )


def test_an_exported_task_answers_as_predict(tmp_path):
    model = make(with_no_answer=True, null_threshold=-1.0)
    # More windows than are read at once.
    long = {"question": ["cat", *X["question"]], "context": [LONG * 20, *X["context"]]}
    answers = model.predict(long, verbose=0)
    assert len({answer.text for answer in answers}) > 2
    model.export(tmp_path / "served")
    loaded = tf.saved_model.load(str(tmp_path / "served"))
    serve = loaded.signatures["serving_default"]
    assert_served(answers, serve(**{name: tf.constant(texts) for name, texts in long.items()}))
    one = serve(**{name: tf.constant(texts[1:2]) for name, texts in long.items()})
    assert_served(answers[1:2], one)
    none = serve(question=tf.zeros([0], tf.string), context=tf.zeros([0], tf.string))
    assert {len(x) for x in none.values()} == {0}
    x = small.prepared()
    logits = loaded.signatures["ids"](**{name: tf.constant(rows) for name, rows in x.items()})
    expected = model.predict(x, verbose=0)
    np.testing.assert_allclose(logits["start_logits"], expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(logits["end_logits"], expected[:, 1], atol=1e-5)


OPTIONS = {"with_no_answer": True, "n_best": 7, "max_answer_length": 5, "null_threshold": -0.25}


@pytest.mark.parametrize("way", ["config", "keras", "preset"])
def test_a_saved_task_answers_the_same(way, tmp_path):
    model = make(**OPTIONS)
    answers = model.predict(X, verbose=0)
    if way == "keras":
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
    elif way == "preset":
        model.save_to_preset(str(tmp_path / "preset"))
        again = BertQuestionAnswering.from_preset(str(tmp_path / "preset"))
        longer = BertQuestionAnswering.from_preset(
            str(tmp_path / "preset"), sequence_length=30, doc_stride=4
        )
        assert longer.preprocessor.sequence_length == 30
        assert longer.preprocessor.doc_stride == 4
        assert longer.preprocessor.max_question_length == 4
    else:
        again = BertQuestionAnswering.from_config(model.get_config())
        again.set_weights(model.get_weights())
        again.preprocessor.tokenizer.set_vocabulary(small.VOCABULARY)
    for name, value in OPTIONS.items():
        assert getattr(again, name) == value
    assert again.preprocessor.get_config() == model.preprocessor.get_config()
    assert again.predict(X, verbose=0) == answers


# Refusals


def test_raw_questions_need_a_preprocessor():
    model = BertQuestionAnswering(small.backbone(num_layers=1))
    for method in (model.fit, model.predict):
        with pytest.raises(ValueError, match="received raw text but has no preprocessor"):
            method(X)
    assert model.predict(small.prepared(), verbose=0).shape == (4, 2, 12)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (None, None, "x is missing"),
        ((X["question"], X["context"]), Y, "A tuple could be"),
        (X["question"], Y, "Questions are asked of contexts.*Received list"),
        ({"question": "Who?", "context": "cat"}, None, "a single text or number"),
        ({"question": [], "context": []}, None, "x has no rows"),
        ({"question": ["a"], "context": ["a", "b"]}, None, r"differ in rows: \[1, 2\]"),
        (X, {"answer_start": [0], "answer_end": [1]}, r"differ in rows: \[1, 5\]"),
        (X, [0, 1, 2, 3, 4], "Answers are .*answer_start"),
        (X, {**Y, "answer_end": [11, 12, -1, 5, -1]}, "answer in row 1 goes from 12 to 12, but"),
        (X, {**Y, "answer_start": [-1, 12, -1, 2, -1]}, "answer in row 0 goes from -1 to 11, but"),
    ],
)
def test_what_is_no_question_or_answer_is_refused(qa, x, y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        qa.fit(x, y, verbose=0)


def test_positions_outside_of_their_rows_are_named(qa, prepared):
    x, positions, _ = prepared
    wrong = positions.copy()
    wrong[3, 1] = x["token_ids"].shape[1]
    with pytest.raises(ValueError, match="answer's last token in row 3 is 12, but rows have 12"):
        qa.fit(x, wrong, verbose=0)
    for wrong in (positions[:, 0], positions.astype("float32")):
        with pytest.raises(ValueError, match=r"\(rows, 2\) int positions"):
            qa.fit(x, wrong, verbose=0)


def test_what_predict_cannot_take_is_said(qa):
    with pytest.raises(ValueError, match="predict.. of questions takes no callbacks"):
        qa.predict(X, callbacks=[])
    with pytest.raises(ValueError, match="x is a tf.data.Dataset.*batch_size was passed"):
        qa.predict(batched(X), batch_size=2)
    with pytest.raises(ValueError, match="x is a tf.data.Dataset.*y was passed"):
        qa.fit(batched(X), Y)


@pytest.mark.parametrize("name", ["n_best", "max_answer_length"])
def test_impossible_options(name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        make(**{name: 0})


def test_rows_longer_than_the_position_table_are_refused():
    model = make(sequence_length=64)
    long = {"question": ["cat"], "context": [LONG * 5]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="position table of 32 rows"):
        model.predict(long)
