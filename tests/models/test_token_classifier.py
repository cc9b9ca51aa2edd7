import doctest
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.entities import Entity
from keras_bert_impl.models import token_classifier
from keras_bert_impl.models.masked_lm import BertMaskedLM
from keras_bert_impl.models.preprocessor import BertMaskedLMPreprocessor
from keras_bert_impl.models.token_classifier import BertTokenClassifier
from keras_bert_impl.models.token_classifier_preprocessor import BertTokenClassifierPreprocessor
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ["O", "B-CAT", "I-CAT"]
# The cat sat: one entity. The second sentence has two words that are nothing to the tokenizer,
# the last needs several windows.
WORDS = [
    ["the", "cat", "sat", "on", "unaffable", "mat"],
    ["\u0301", "dog", "\u200b", "cat"],
    [],
    ["a", "cat", "unaffable", "dog", "ran", "."] * 4,
]
TAGS = [
    ["O", "B-CAT", "I-CAT", "O", "O", "O"],
    ["O", "O", "O", "B-CAT"],
    [],
    ["O", "B-CAT", "I-CAT", "O", "O", "O"] * 4,
]


def tagger(class_names=NAMES, sequence_length=14, padding="longest", **options):
    preprocessor = BertTokenClassifierPreprocessor(
        small.tokenizer(), sequence_length, padding=padding
    )
    options = {"preprocessor": preprocessor, "class_names": class_names, **options}
    return BertTokenClassifier(small.backbone(num_layers=1, dropout=0.0), **options)


@pytest.fixture(scope="module")
def random_tagger():
    keras.utils.set_random_seed(0)
    return tagger()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tagger that has learned its lesson."""
    keras.utils.set_random_seed(0)
    model = tagger()
    model.compile(BertAdamW(2e-2))
    model.fit(WORDS * 15, TAGS * 15, batch_size=16, epochs=3, verbose=0)
    return model


def prepared(model, words=WORDS, tags=TAGS):
    numbers = [[NAMES.index(tag) for tag in row] for row in tags]
    x, y, weights = model.preprocessor(words, numbers)
    return {name: np.array(rows) for name, rows in x.items()}, np.array(y), np.array(weights)


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_logits_are_a_dense_layer_on_each_tokens_vector(random_tagger):
    x = small.prepared()
    kernel, bias = (np.array(w) for w in random_tagger.output_dense.weights)
    vectors = np.array(random_tagger.backbone(x)["sequence_output"])
    assert vectors.shape == (4, 12, 16)
    np.testing.assert_allclose(random_tagger(x), vectors @ kernel + bias, atol=1e-5)


def test_vectors_are_dropped_as_in_the_backbone_unless_told():
    backbone = small.backbone(dropout=0.3, num_layers=1)
    assert BertTokenClassifier(backbone, 2).output_dropout.rate == 0.3
    assert BertTokenClassifier(backbone, 2, dropout=0.4).output_dropout.rate == 0.4


def test_learns_tags(trained):
    assert trained.predict(WORDS, verbose=0) == TAGS
    loss, accuracy = trained.evaluate(WORDS, TAGS, verbose=0)
    assert loss < 0.1
    assert accuracy == 1


def test_loss_and_accuracy_are_means_over_words(random_tagger):
    x, y, weights = prepared(random_tagger)
    assert weights.sum() == 6 + 2 + 24  # each word once, but those without pieces
    logits = random_tagger.predict(x, verbose=0)
    losses = -np.take_along_axis(log_softmax(logits), y[..., np.newaxis], axis=-1)[..., 0]
    expected = (losses * weights).sum() / weights.sum()
    accuracy = ((logits.argmax(axis=-1) == y) * weights).sum() / weights.sum()
    numbers = [[NAMES.index(tag) for tag in row] for row in TAGS]
    ragged = (tf.ragged.constant(WORDS, tf.string), tf.ragged.constant(numbers))
    for result in (
        random_tagger.evaluate(WORDS, TAGS, verbose=0, return_dict=True),
        random_tagger.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True),
        random_tagger.evaluate(tf.data.Dataset.from_tensors(ragged), verbose=0, return_dict=True),
        random_tagger.test_on_batch(WORDS, TAGS, return_dict=True),
    ):
        assert result["loss"] == pytest.approx(expected, abs=1e-5)
        assert result["accuracy"] == pytest.approx(accuracy, abs=1e-6)


def test_words_can_be_weighted(random_tagger):
    only_first = [[1, *[0] * (len(row) - 1)] if row else [] for row in WORDS]
    result = random_tagger.evaluate(WORDS, TAGS, sample_weight=only_first, verbose=0)
    x, y, weights = prepared(random_tagger)
    logits = random_tagger.predict(x, verbose=0)
    # The first word of the second sentence has no piece.
    first = [log_softmax(logits[row, 1])[0] for row in (0, 3)]
    assert result[0] == pytest.approx(-np.mean(first), abs=1e-5)


def test_a_batch_has_as_many_windows_as_told(random_tagger):
    dataset = random_tagger.prepared_dataset(WORDS, TAGS, batch_size=3)
    rows = [len(y) for _, y, _ in dataset]
    windows = len(prepared(random_tagger)[1])
    assert windows > len(WORDS)
    assert rows == [3] * (windows // 3) + [windows % 3] * (windows % 3 > 0)
    assert dataset.cardinality() == len(rows)
    assert sum(float(tf.reduce_sum(weights)) for _, _, weights in dataset) == 32


def test_tags_are_read_off_the_best_window(random_tagger):
    """Against the logits of windows laid by hand: 12 pieces, 6 apart."""
    words = WORDS[3]
    pieces = [small.tokenizer().tokenize(word).numpy().tolist() for word in words]
    flat = sum(pieces, [])
    spans = [(start, min(start + 12, len(flat))) for start in range(0, len(flat) - 6, 6)]
    assert len(spans) == 5
    tags, position = [], 0
    for piece in pieces:
        scores = [
            min(position - start, end - 1 - position) + 0.01 * (end - start)
            if start <= position < end
            else -1
            for start, end in spans
        ]
        start, end = spans[int(np.argmax(scores))]
        tokens = np.array([[2, *flat[start:end], 3]])
        logits = random_tagger(
            {
                "token_ids": tokens,
                "segment_ids": np.zeros_like(tokens),
                "padding_mask": np.ones_like(tokens, bool),
            }
        )
        tags.append(NAMES[int(np.argmax(logits[0, 1 + position - start]))])
        position += len(piece)
    assert len(set(tags)) > 1, "the tags were to differ"
    assert random_tagger.predict([words], verbose=0) == [tags]


def test_every_word_given_gets_a_tag_whatever_the_batch(random_tagger):
    words = WORDS * 3 + [["the"], [""], ["un able"]]
    expected = random_tagger.predict(words, verbose=0)
    assert [len(row) for row in expected] == [len(row) for row in words]
    assert expected[1][0] == expected[1][2] == "O"  # nothing to the tokenizer
    assert expected[:4] == expected[4:8] == expected[8:12]
    assert random_tagger.predict(words, batch_size=2, verbose=0) == expected
    assert random_tagger.predict_on_batch(words) == expected
    ragged = tf.ragged.constant(words, tf.string)
    assert random_tagger.predict(ragged, verbose=0) == expected
    batches = tf.data.Dataset.from_tensor_slices(ragged).batch(4)
    assert random_tagger.predict(batches, verbose=0) == expected


def test_texts_are_cut_at_white_space(random_tagger):
    texts = ["the cat\u3000sat\u00a0on unaffable  mat\n", ""]
    expected = random_tagger.predict([WORDS[0], []], verbose=0)
    assert random_tagger.predict(texts, verbose=0) == expected
    assert random_tagger.predict({"text": texts}, verbose=0) == expected


def test_without_names_tags_are_numbers(random_tagger):
    model = tagger(class_names=None, num_classes=3)
    model.set_weights(random_tagger.get_weights())
    expected = random_tagger.predict(WORDS, verbose=0)
    numbers = model.predict(WORDS, verbose=0)
    assert [[NAMES[number] for number in row] for row in numbers] == expected
    with pytest.raises(ValueError, match="this tagger has none"):
        model.entities(WORDS)


def test_words_that_are_nothing_are_of_the_first_class_where_there_is_no_outside():
    assert tagger(class_names=["NN", "VB"]).predict([["\u200b"]], verbose=0) == [["NN"]]
    assert tagger(class_names=["NN", "O"]).predict([["\u200b"]], verbose=0) == [["O"]]


def test_entities_are_spans_of_words(trained):
    assert trained.entities(WORDS[:3], verbose=0) == [
        [Entity("CAT", 1, 2)],
        [Entity("CAT", 3, 3)],
        [],
    ]


def test_validation_split_holds_out_the_last_sentences():
    model = tagger()
    model.compile(keras.optimizers.SGD(0.0))
    expected = model.evaluate(WORDS[2:], TAGS[2:], verbose=0)[0]
    history = model.fit(WORDS, TAGS, validation_split=0.5, verbose=0).history
    assert history["val_loss"] == pytest.approx([expected], abs=1e-5)


def test_a_batch_of_long_sentences_trains_on_all_windows(random_tagger):
    model = tagger()
    model.compile(keras.optimizers.SGD(0.1))
    start = model.get_weights()
    x, y, weights = prepared(model)
    model.train_on_batch(x, y, weights)
    expected = model.get_weights()
    model.set_weights(start)
    model.train_on_batch(WORDS, TAGS)
    for weight, other in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(weight, other, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (WORDS, None, "y is missing: the labels of the words"),
        (None, None, "x is missing"),
        ([], [], "x has no rows"),
        (["the cat"], [["O", "O"]], "Labels are of words, but x has one string a row"),
        ("the cat", ["O", "O"], "a single text. Wrap it in a list"),
        ([["the"], "cat"], [["O"], ["O"]], "Row 1 of x is one string, 'cat'"),
        ((["the"], ["cat"]), [["O"], ["O"]], "A tuple could be"),
        (WORDS, TAGS[:3], "4 rows of words, but 3 of labels"),
        (WORDS[:2], [TAGS[0], ["O"]], "Row 1 has 4 words, but 1 labels"),
        (WORDS[:1], [["O"] * 5 + ["B-DOG"]], "word 5 in row 0 is 'B-DOG', but must be .* B-CAT"),
        (WORDS[:1], [[0] * 5 + [3]], "label of word 5 in row 0 is 3"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(random_tagger, x, y, message):
    with pytest.raises(ValueError, match=message):
        random_tagger.fit(x, y, verbose=0)


def test_labels_of_prepared_ids_need_weights(random_tagger):
    x, y, weights = prepared(random_tagger)
    for wrong in (None, weights[:, 0]):
        with pytest.raises(ValueError, match="Labels of prepared ids need a sample_weight"):
            random_tagger.fit(x, y, sample_weight=wrong, verbose=0)
    with pytest.raises(ValueError, match="Labels of prepared ids need a sample_weight"):
        random_tagger.fit(tf.data.Dataset.from_tensors((x, y)), verbose=0)
    with pytest.raises(ValueError, match="label in row 0 is -100"):
        random_tagger.fit(x, np.full_like(y, -100), sample_weight=weights, verbose=0)


def test_words_need_a_preprocessor_and_fit_the_position_table():
    model = BertTokenClassifier(small.backbone(num_layers=1), 2)
    with pytest.raises(ValueError, match="received words but has no preprocessor"):
        model.predict(WORDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="position table of 32 rows"):
        tagger(sequence_length=40).predict([["the"] * 40], verbose=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_names": None}, "Pass class_names, or num_classes"),
        ({"class_names": ["O"]}, "num_classes=1: a tagger needs at least 2"),
        ({"num_classes": 2}, "3 class_names for num_classes=2"),
        ({"class_names": ["O", "O"]}, "class_names repeat: O, O"),
    ],
)
def test_heads_that_fit_no_task_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tagger(**options)


# Saving and serving


def test_config():
    model = tagger(dropout=0.4)
    again = BertTokenClassifier.from_config(model.get_config())
    assert again.class_names == tuple(NAMES)
    assert (again.num_classes, again.dropout) == (3, 0.4)
    assert again.preprocessor.get_config() == model.preprocessor.get_config()


def test_saved_taggers_come_back(trained, tmp_path):
    trained.save(tmp_path / "tagger.keras")
    trained.save_to_preset(str(tmp_path / "preset"))
    x = small.prepared()
    logits = trained.predict(x, verbose=0)
    for again in (
        keras.saving.load_model(tmp_path / "tagger.keras"),
        BertTokenClassifier.from_preset(str(tmp_path / "preset")),
    ):
        assert type(again.preprocessor) is BertTokenClassifierPreprocessor
        assert again.predict(WORDS, verbose=0) == TAGS
        np.testing.assert_array_equal(again.predict(x, verbose=0), logits)
    shorter = BertTokenClassifier.from_preset(str(tmp_path / "preset"), sequence_length=9, stride=2)
    assert (shorter.preprocessor.sequence_length, shorter.preprocessor.stride) == (9, 2)


def test_a_pretrained_model_gets_a_new_head(tmp_path):
    masked_lm = BertMaskedLM(
        small.backbone(num_layers=1), BertMaskedLMPreprocessor(small.tokenizer(), 16)
    )
    masked_lm.save_to_preset(str(tmp_path / "preset"))
    model = BertTokenClassifier.from_preset(
        str(tmp_path / "preset"), num_classes=3, class_names=NAMES, stride=4, init_missing=True
    )
    assert model.preprocessor.stride == 4
    x = small.prepared()
    np.testing.assert_allclose(
        model.backbone(x)["sequence_output"], masked_lm.backbone(x)["sequence_output"], atol=1e-6
    )


def test_served_texts_are_tagged_as_predicted(trained, tmp_path):
    trained.export(tmp_path / "served")
    signatures = tf.saved_model.load(str(tmp_path / "served")).signatures
    texts = [" ".join(WORDS[0]) + "\u3000", "", "\u0301 cat", " ".join(WORDS[3])]
    words = [text.split() for text in texts]
    outputs = {
        name: tensor.numpy()
        for name, tensor in signatures["serving_default"](text=tf.constant(texts)).items()
    }
    assert sorted(outputs) == ["probabilities", "tags", "words"]
    assert {array.shape for array in outputs.values()} == {(4, 24)}
    expected = trained.predict(texts, verbose=0)
    for row, tags in enumerate(expected):
        padding = [b""] * (24 - len(tags))
        assert outputs["words"][row].tolist() == [w.encode() for w in words[row]] + padding
        assert outputs["tags"][row].tolist() == [tag.encode() for tag in tags] + padding
    probabilities = outputs["probabilities"]
    assert (probabilities > 0).sum(axis=1).tolist() == [6, 0, 1, 24]
    x = {name: np.array(rows) for name, rows in trained.preprocessor(words[:1]).items()}
    logits = trained.predict(x, verbose=0)[0, [1, 2, 3, 4, 5, 8]]  # unaffable has three pieces
    np.testing.assert_allclose(
        probabilities[0, :6], np.exp(log_softmax(logits)).max(axis=-1), atol=1e-5
    )
    nothing = signatures["serving_default"](text=tf.zeros([0], tf.string))
    assert nothing["tags"].shape == (0, 0)

    x = small.prepared()
    by_ids = signatures["ids"](**{name: tf.constant(rows) for name, rows in x.items()})
    np.testing.assert_allclose(
        by_ids["probabilities"], np.exp(log_softmax(trained.predict(x, verbose=0))), atol=1e-5
    )


def test_a_served_tagger_without_names_answers_numbers():
    model = tagger(class_names=None, num_classes=3)
    outputs = model.serve({"text": tf.constant(["the cat sat", "dog"])})
    first, second = model.predict(["the cat sat", "dog"], verbose=0)
    assert outputs["tags"].numpy().tolist() == [first, [*second, -1, -1]]


# Under JAX, in a process of its own: python -m tests.models.test_token_classifier FOLDER


def fit_prepared(model):
    """Losses of two epochs on prepared ids, the same steps on either backend."""
    x, y, weights = prepared(model)
    model.compile(BertAdamW(1e-2))
    options = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
    return model.fit(x, y, sample_weight=weights, **options).history["loss"]


def main(folder):
    model = keras.saving.load_model(folder / "start.keras")
    result = {"backend": keras.backend.backend(), "losses": fit_prepared(model)}
    model.save(folder / "trained.keras")
    result["tags"] = model.predict(WORDS, batch_size=4, verbose=0)
    result["of_words"] = model.fit(WORDS, TAGS, batch_size=4, verbose=0).history["loss"]
    (folder / "result.json").write_text(json.dumps(result))


@pytest.mark.thorough
def test_jax_trains_the_same_steps(tmp_path):
    keras.utils.set_random_seed(0)
    model = tagger(padding="max_length")  # JAX compiles for each shape
    model.save(tmp_path / "start.keras")
    subprocess.run(
        [sys.executable, "-m", "tests.models.test_token_classifier", tmp_path],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        check=True,
        cwd=ROOT,
    )
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["backend"] == "jax"
    losses = fit_prepared(model)
    assert losses[1] < losses[0]
    np.testing.assert_allclose(losses, result["losses"], atol=1e-4)
    again = keras.saving.load_model(tmp_path / "trained.keras")
    assert again.predict(WORDS, verbose=0) == result["tags"]
    assert np.isfinite(result["of_words"]).all()


def test_docstring_examples():
    names = {"backbone": small.backbone(num_layers=1), "tokenizer": small.tokenizer()}
    names["BertTokenClassifierPreprocessor"] = BertTokenClassifierPreprocessor
    # Positions of 128 are more than the small table has; rows are as short as their words.
    assert doctest.testmod(token_classifier, extraglobs=names) == (0, 4)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
