import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models import multiple_choice, multiple_choice_preprocessor
from keras_bert_impl.models.multiple_choice import ABSENT_LOGIT, BertMultipleChoice
from keras_bert_impl.models.multiple_choice_preprocessor import BertMultipleChoicePreprocessor
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

PAD, UNK, CLS, SEP, MASK = range(5)
THE, CAT, DOG, SAT, RAN = (small.VOCABULARY.index(w) for w in ["the", "cat", "dog", "sat", "ran"])

TEXTS = ["the cat", "dog"]
CHOICES = [["sat", "ran the dog", "ran"], ["cat sat"]]
RAW = {"text_a": TEXTS, "choices": CHOICES}
LABELS = np.array([1, 0])
IDS = [
    [
        [CLS, THE, CAT, SEP, SAT, SEP, PAD, PAD],
        [CLS, THE, CAT, SEP, RAN, THE, DOG, SEP],
        [CLS, THE, CAT, SEP, RAN, SEP, PAD, PAD],
    ],
    [[CLS, DOG, SEP, CAT, SAT, SEP, PAD, PAD], [PAD] * 8, [PAD] * 8],
]


def make_preprocessor(sequence_length=16, **options):
    return BertMultipleChoicePreprocessor(small.tokenizer(), sequence_length, **options)


def make_model(preprocessor=None, dropout=0.0, **backbone_options):
    backbone = small.backbone(num_layers=1, dropout=dropout, **backbone_options)
    return BertMultipleChoice(backbone, preprocessor or make_preprocessor())


def arrays(inputs):
    return {name: np.array(value) for name, value in inputs.items()}


def logits_of(model, raw):
    """What `predict` gives, without a dataset."""
    return np.array(model(model.preprocessor(raw), training=False))


@pytest.fixture(scope="module")
def model():
    model = make_model()
    model.run_eagerly = True  # to trace each shape would take longer than all steps
    return model


# The preprocessor


@pytest.mark.parametrize(
    "choices",
    [
        CHOICES,
        [["sat", "ran the dog", "ran"], ["cat sat", "", ""]],
        np.array([["sat", "ran the dog", "ran"], ["cat sat", "", ""]]),
        np.array([np.array(row, object) for row in CHOICES], object),
        tf.ragged.constant(CHOICES),
        tf.constant([["sat", "ran the dog", "ran"], ["cat sat", "", ""]]),
    ],
    ids=["lists", "filled_lists", "array", "array_of_arrays", "ragged", "tensor"],
)
def test_each_choice_is_a_row_with_its_text(choices):
    # Keras takes no lists beside tensors.
    texts = tf.constant(TEXTS) if tf.is_tensor(choices) else TEXTS
    inputs = make_preprocessor()({"text_a": texts, "choices": choices})
    assert np.array(inputs["token_ids"]).tolist() == IDS
    segments = [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0, 0]]
    assert np.array(inputs["segment_ids"]).tolist() == [
        segments,
        [[0, 0, 0, 1, 1, 1, 0, 0], [0] * 8, [0] * 8],
    ]
    np.testing.assert_array_equal(inputs["padding_mask"], np.array(IDS) != PAD)
    dtypes = {name: np.array(value).dtype.name for name, value in inputs.items()}
    assert dtypes == {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}


@pytest.mark.parametrize("ragged", [True, False])
def test_a_dataset_gives_the_same_with_labels(ragged):
    choices = tf.ragged.constant(CHOICES)
    x = {"text_a": tf.constant(TEXTS), "choices": choices if ragged else choices.to_tensor("")}
    dataset = tf.data.Dataset.from_tensors((x, LABELS))
    inputs, labels = next(iter(dataset.map(lambda x, y: make_preprocessor()(x, y))))
    assert inputs["token_ids"].numpy().tolist() == IDS
    assert labels.numpy().tolist() == LABELS.tolist()


def test_a_row_without_batch_axis():
    x = {"text_a": "dog", "choices": ["cat sat", "ran"]}
    assert np.array(make_preprocessor()(x)["token_ids"]).tolist() == [
        [CLS, DOG, SEP, CAT, SAT, SEP],
        [CLS, DOG, SEP, RAN, SEP, PAD],
    ]


def test_an_empty_choice_before_the_last_is_a_choice():
    inputs = make_preprocessor()({"text_a": ["dog"], "choices": [["", "ran", ""]]})
    assert np.array(inputs["token_ids"]).tolist() == [
        [[CLS, DOG, SEP, SEP, PAD], [CLS, DOG, SEP, RAN, SEP], [PAD] * 5]
    ]


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ("longest_first", [CLS, THE, CAT, SEP, DOG, SEP]),
        ("only_first", [CLS, THE, SEP, DOG, RAN, SEP]),
        ("only_second", [CLS, THE, CAT, SAT, SEP, SEP]),
    ],
)
def test_truncation_is_as_told(truncation, expected):
    preprocessor = make_preprocessor(6, truncation=truncation)
    inputs = preprocessor({"text_a": ["the cat sat"], "choices": [["dog ran"]]})
    assert np.array(inputs["token_ids"]).tolist() == [[expected]]


def test_padding_to_the_maximum_is_a_static_shape():
    preprocessor = make_preprocessor(7, padding="max_length")
    dataset = tf.data.Dataset.from_tensors({"text_a": ["dog"], "choices": [["cat", "ran"]]})
    spec = dataset.map(lambda x: preprocessor(x)).element_spec
    assert spec["token_ids"].shape == (1, 2, 7)
    assert spec["padding_mask"].shape == (1, 2, 7)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (TEXTS, r'pass \{"text_a": \(batch,\) strings, "choices": .* Received list'),
        ({"text_a": TEXTS, "text_b": TEXTS}, r"Received a dict with keys \['text_a', 'text_b'\]"),
        ({"text_a": TEXTS, "choices": TEXTS}, "Row 0 of choices is the string 'the cat', but must"),
        ({"text_a": "dog", "choices": [["cat"]]}, r"received string of shape \(1, 1\) for text_a"),
        ({"text_a": TEXTS, "choices": np.ones((2, 3))}, r"received float64 of shape \(2, 3\)"),
        ((TEXTS, CHOICES), "A tuple could be a pair"),
    ],
)
def test_inputs_that_are_no_text_with_choices_are_refused(x, message):
    with pytest.raises(ValueError, match=message):
        make_preprocessor()(x)


def test_a_row_without_choices_is_refused():
    x = {"text_a": ["dog", "cat", "dog"], "choices": [["ran"], [""], []]}
    message = r"(?s)needs at least one choice. Rows without:.*1, 2"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        make_preprocessor()(x)


# The model


def test_logits_are_a_dense_layer_on_the_pooled_vectors(model):
    x = small.prepared(rows=6)
    kernel, bias = (np.array(w) for w in model.output_dense.weights)
    pooled = np.array(model.backbone(x)["pooled_output"])
    expected = (pooled @ kernel + bias).reshape(2, 3)
    by_choice = {name: rows.reshape(2, 3, -1) for name, rows in x.items()}
    np.testing.assert_allclose(model.predict(by_choice, verbose=0), expected, atol=1e-5)
    assert expected.std() > 1e-2, "the choices were to differ"


def test_absent_choices_leave_the_others_alone(model):
    logits = logits_of(model, RAW)
    first = logits_of(model, {"text_a": TEXTS[:1], "choices": CHOICES[:1]})
    second = logits_of(model, {"text_a": TEXTS[1:], "choices": CHOICES[1:]})
    np.testing.assert_allclose(logits[0], first[0], atol=1e-5)
    np.testing.assert_allclose(logits[1], [second[0, 0], ABSENT_LOGIT, ABSENT_LOGIT], atol=1e-5)


def test_choices_in_another_order_have_the_same_logits(model):
    logits = logits_of(model, {"text_a": ["the"], "choices": [["cat", "dog ran", "sat"]]})
    again = logits_of(model, {"text_a": ["the"], "choices": [["sat", "cat", "dog ran"]]})
    np.testing.assert_allclose(again[0], logits[0][[2, 0, 1]], atol=1e-5)


def test_the_loss_is_over_the_choices_that_are_there(model):
    logits = logits_of(model, RAW)
    first = -logits[0, 1] + np.log(np.exp(logits[0]).sum())  # the second row has one choice: 0
    for x in (RAW, arrays(model.preprocessor(RAW))):
        result = model.evaluate(x, LABELS, verbose=0, return_dict=True)
        assert result["loss"] == pytest.approx(first / 2, abs=1e-5)
        right = [logits[0].argmax() == 1, True]
        assert result["accuracy"] == pytest.approx(np.mean(right))
        assert model.test_on_batch(x, LABELS) == pytest.approx(
            [first / 2, np.mean(right)], abs=1e-5
        )


def test_answers_are_probabilities_and_the_best_choice(model):
    answer = model.answer(np.array([[0, np.log(3), ABSENT_LOGIT], [1, ABSENT_LOGIT, ABSENT_LOGIT]]))
    np.testing.assert_allclose(answer["probabilities"], [[0.25, 0.75, 0], [1, 0, 0]], atol=1e-6)
    assert np.array(answer["best"]).tolist() == [1, 0]


def test_the_pooled_vector_is_dropped_as_the_backbone_unless_told():
    assert make_model(dropout=0.3).output_dropout.rate == 0.3
    assert BertMultipleChoice(small.backbone(), dropout=0.4).output_dropout.rate == 0.4


def test_learns_to_choose_the_cat_among_any_number():
    keras.utils.set_random_seed(0)
    model = make_model()
    choices = [["a cat", "a dog"], ["a dog", "a mat", "a cat"], ["a mat", "a cat", "a dog", "a"]]
    x = {"text_a": ["the"] * 3 * 40, "choices": choices * 40}
    labels = np.tile([0, 2, 1], 40)
    model.compile(BertAdamW(2e-2))
    model.fit(x, labels, batch_size=8, verbose=0)
    unseen = {"text_a": ["the", "the"], "choices": [["a mat", "a cat"], ["a", "a dog", "a cat"]]}
    assert logits_of(model, unseen).argmax(axis=1).tolist() == [1, 2]


def test_absent_choices_are_finite_in_half_precision():
    model = make_model(dtype="mixed_float16")
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    logits = logits_of(model, RAW)
    assert logits.dtype == np.float16
    assert np.isfinite(logits).all()
    assert np.isfinite(model.train_on_batch(arrays(model.preprocessor(RAW)), LABELS)).all()
    assert all(np.isfinite(np.array(weight)).all() for weight in model.weights)
    assert np.array(model.answer(logits)["probabilities"])[1].tolist() == [1, 0, 0]


# What it takes


def test_all_kinds_of_input_give_the_same(model):
    expected = model.predict(RAW, verbose=0)
    ragged = {"text_a": tf.constant(TEXTS), "choices": tf.ragged.constant(CHOICES)}
    prepared = arrays(model.preprocessor(RAW))
    for x in (ragged, prepared, tf.data.Dataset.from_tensors(ragged)):
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)
    for x in (RAW, prepared):
        np.testing.assert_allclose(model.predict_on_batch(x), expected, atol=1e-5)


@pytest.mark.thorough
def test_rows_of_different_lengths_train_in_every_way():
    model = make_model()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    expected = model.evaluate(RAW, LABELS, verbose=0)
    dataset = tf.data.Dataset.from_tensors(
        ({"text_a": TEXTS, "choices": tf.ragged.constant(CHOICES)}, LABELS)
    )
    alike = {"choices": CHOICES[:1] * 2, "text_a": TEXTS[:1] * 2}
    first_loss = model.evaluate(alike, LABELS[[0, 0]], verbose=0)[0]
    history = model.fit(RAW, LABELS, validation_data=dataset, verbose=0).history
    assert [history["loss"][0], history["accuracy"][0]] == pytest.approx(expected, abs=1e-5)
    assert history["val_loss"] == pytest.approx(expected[:1], abs=1e-5)
    held_out = model.fit(RAW, LABELS, validation_split=0.5, verbose=0).history
    assert held_out["loss"] == pytest.approx([first_loss], abs=1e-5)
    assert held_out["val_loss"] == pytest.approx([0], abs=1e-5)
    assert model.train_on_batch(RAW, LABELS) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("prepared", [False, True], ids=["raw", "prepared"])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1], "label in row 1 is 1, but this row has 1 choices, so that labels are 0..0"),
        ([3, 0], "label in row 0 is 3, but this row has 3 choices, so that labels are 0..2"),
        ([-1, 0], "label in row 0 is -1"),
        ([0.5, 0], "numbers of choices, one a row, but y holds float64"),
        (["a", "b"], "numbers of choices, one a row, but y holds <U1"),
        ([[1, 0], [0, 0]], r"y holds int64 of shape \(2, 2\)"),
        ([0], r"differ in rows: \[1, 2\]"),
    ],
)
def test_labels_that_are_no_choice_of_their_row_are_named(model, labels, message, prepared):
    x = arrays(model.preprocessor(RAW)) if prepared else RAW
    for method in (model.fit, model.evaluate, model.train_on_batch):
        with pytest.raises(ValueError, match=message):
            method(x, np.array(labels))


def test_rows_without_choices_are_named(model):
    x = {"text_a": TEXTS, "choices": [["sat"], []]}
    with pytest.raises(ValueError, match="Row 1 has no choices"):
        model.predict(x)
    prepared = arrays(model.preprocessor(RAW))
    prepared["padding_mask"][0] = False
    with pytest.raises(ValueError, match="Row 0 has no choices"):
        model.predict(prepared)


def test_an_empty_choice_before_the_last_may_be_the_label(model):
    x = {"text_a": ["dog"], "choices": [["", "ran", ""]]}
    assert np.isfinite(model.evaluate(x, np.array([0]), verbose=0)[0])
    with pytest.raises(ValueError, match="label in row 0 is 2, but this row has 2 choices"):
        model.evaluate(x, np.array([2]), verbose=0)


# Saved, exported, on another backend


def test_every_option_survives_the_config():
    preprocessor = make_preprocessor(9, truncation="only_first", padding="max_length")
    model = BertMultipleChoice(small.backbone(num_layers=1), preprocessor, dropout=0.4)
    again = BertMultipleChoice.from_config(model.get_config())
    assert again.dropout == 0.4
    assert again.preprocessor.sequence_length == 9
    assert again.preprocessor.truncation == "only_first"
    assert again.preprocessor.padding == "max_length"
    assert again.preprocessor.text_names == ("text_a", "choices")


def test_saved_models_give_the_same(model, tmp_path):
    expected = logits_of(model, RAW)
    model.save(tmp_path / "model.keras")
    model.save_to_preset(str(tmp_path / "preset"))
    for again in (
        keras.saving.load_model(tmp_path / "model.keras"),
        BertMultipleChoice.from_preset(str(tmp_path / "preset")),
    ):
        assert type(again.preprocessor) is BertMultipleChoicePreprocessor
        np.testing.assert_allclose(logits_of(again, RAW), expected, atol=1e-6)
    shorter = BertMultipleChoice.from_preset(str(tmp_path / "preset"), sequence_length=7)
    assert shorter.preprocessor.sequence_length == 7


def test_exported_model_answers_strings_as_predict(model, tmp_path):
    logits = model.predict(RAW, verbose=0)
    expected = arrays(model.answer(logits))
    model.export(str(tmp_path / "served"))
    served = tf.saved_model.load(str(tmp_path / "served"))
    serve = served.signatures["serving_default"]
    choices = tf.ragged.constant(CHOICES).to_tensor("")
    answers = [serve(text_a=tf.constant(TEXTS), choices=choices)]
    prepared = model.preprocessor(RAW)
    answers.append(served.signatures["ids"](**prepared))
    for answer in answers:
        assert set(answer) == {"probabilities", "best"}
        np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], atol=1e-6)
        assert answer["best"].numpy().tolist() == expected["best"].tolist()
    # another number of rows and of choices
    two = serve(text_a=tf.constant(["the"]), choices=tf.constant([["cat", "dog ran"]]))
    alone = logits_of(model, {"text_a": ["the"], "choices": [["cat", "dog ran"]]})
    np.testing.assert_allclose(two["probabilities"], np.exp(alone) / np.exp(alone).sum(), atol=1e-6)


def test_docstring_examples():
    names = {
        "np": np,
        "BertTokenizer": type(small.tokenizer()),
        "BertMultipleChoicePreprocessor": BertMultipleChoicePreprocessor,
        "backbone": small.backbone(num_layers=1),
        "tokenizer": small.tokenizer(),
    }
    for module, count in ((multiple_choice, 4), (multiple_choice_preprocessor, 3)):
        result = doctest.testmod(module, extraglobs=names)
        assert (result.attempted, result.failed) == (count, 0)


def test_an_id_outside_of_the_table_is_named_with_its_choice():
    x = {name: rows.reshape(2, 2, -1) for name, rows in small.prepared(rows=4).items()}
    x["token_ids"][1, 0, 2] = len(small.VOCABULARY)
    with pytest.raises(ValueError, match="row 1, choice 0, column 2"):
        BertMultipleChoice(small.backbone(num_layers=1)).predict(x)
