import doctest

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models import token_classifier_preprocessor
from keras_bert_impl.models.token_classifier_preprocessor import BertTokenClassifierPreprocessor
from tests import small

TOKENIZER = small.tokenizer()
the, cat, un, aff, able = (
    TOKENIZER.token_to_id(t) for t in ("the", "cat", "un", "##aff", "##able")
)
CLS, SEP, PAD = TOKENIZER.cls_token_id, TOKENIZER.sep_token_id, TOKENIZER.pad_token_id
WORDS = [["the", "\u0301", "unaffable"], [], ["cat"]]


def make(sequence_length=8, **options):
    return BertTokenClassifierPreprocessor(TOKENIZER, sequence_length, **options)


def lists(tensors):
    return [np.array(tensor).tolist() for tensor in tensors]


def test_inputs_without_labels():
    x = make()(WORDS)
    assert np.array(x["token_ids"]).tolist() == [
        [CLS, the, un, aff, able, SEP],
        [CLS, SEP, PAD, PAD, PAD, PAD],
        [CLS, cat, SEP, PAD, PAD, PAD],
    ]
    assert np.array(x["segment_ids"]).tolist() == [[0] * 6] * 3
    assert np.array(x["padding_mask"]).sum(axis=1).tolist() == [6, 2, 3]


def test_labels_stand_on_first_pieces():
    x, y, weights = make()(WORDS, [[1, 2, 3], [], [4]])
    assert x["token_ids"].shape == y.shape == weights.shape == (3, 6)
    assert lists((y, weights)) == [
        [[0, 1, 3, 0, 0, 0], [0] * 6, [0, 4, 0, 0, 0, 0]],
        [[0, 1, 1, 0, 0, 0], [0] * 6, [0, 1, 0, 0, 0, 0]],
    ]
    assert (y.dtype, weights.dtype) == (tf.int32, tf.float32)


@pytest.mark.parametrize("weights", [[[0.5, 9, 0], [], [2]], [0.5, 9, 2]])
def test_weights_are_of_words_or_of_sentences(weights):
    found = lists(make()(WORDS, [[1, 2, 3], [], [4]], weights))[2]
    of_unaffable = 0 if isinstance(weights[0], list) else 0.5
    assert found == [[0, 0.5, of_unaffable, 0, 0, 0], [0] * 6, [0, 2, 0, 0, 0, 0]]


def test_rows_are_as_long_as_the_longest_or_as_told():
    assert make(padding="max_length")(WORDS)["token_ids"].shape == (3, 8)
    x, y, weights = make(padding="max_length")(WORDS, [[1, 2, 3], [], [4]])
    assert x["token_ids"].shape == y.shape == weights.shape == (3, 8)
    spec = tf.RaggedTensorSpec([None, None], tf.string)
    graph = tf.function(make(padding="max_length"), input_signature=[spec])
    assert graph.get_concrete_function().structured_outputs["token_ids"].shape == (None, 8)


def test_long_sentences_become_windows_in_which_each_word_counts_once():
    words = [["the", "unaffable"] * 5, ["cat"]]
    numbers = [list(range(1, 11)), [11]]
    # 20 pieces in windows of 6 with the stride 3: starts 0, 3, ..., 15.
    x, y, weights = make()(words, numbers)
    assert x["token_ids"].shape == (7, 8)
    assert np.array(x["token_ids"])[1].tolist() == [CLS, able, the, un, aff, able, the, SEP]
    y, weights = np.array(y), np.array(weights)
    assert sorted(y[weights > 0].tolist()) == list(range(1, 12))
    assert make(stride=6)(words)["token_ids"].shape == (5, 8)


def test_texts_are_cut_at_white_space():
    expected = lists(make()([["the", "unaffable"], []]).values())
    texts = [" the\u3000unaffable\n", ""]
    for x in (texts, np.array(texts), tf.constant(texts), {"text": texts}):
        assert lists(make()(x).values()) == expected


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["the cat"], [[1, 2]], "Labels are of words, but x has one string a row"),
        ("the cat", None, "a single text. Wrap it in a list"),
        ([["the"], "cat"], None, "Row 1 of x is one string, 'cat'"),
        (["the", ["cat"]], None, r"Row 0 of x is one string, but row 1 is \['cat'\]"),
        ((["the"], ["cat"]), None, "A tuple could be"),
    ],
)
def test_what_is_not_words_is_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        make()(x, y)


def test_labels_that_do_not_fit_the_words_are_refused_in_a_dataset():
    words = tf.ragged.constant(WORDS, tf.string)
    for labels, weights in (([[1, 2], [], [4]], None), ([[1, 2, 3], [], [4]], [[1.0], [], [1]])):
        parts = [words, tf.ragged.constant(labels)]
        parts += [] if weights is None else [tf.ragged.constant(weights)]
        dataset = tf.data.Dataset.from_tensors(tuple(parts)).map(make())
        name = "labels" if weights is None else "weights"
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"numbers of {name} and of words"):
            list(dataset)


@pytest.mark.parametrize("stride", [0, 7])
def test_a_stride_that_would_skip_words_is_refused(stride):
    with pytest.raises(ValueError, match=f"stride={stride}, but with sequence_length=8 windows ho"):
        make(stride=stride)


def test_config():
    preprocessor = make(16, stride=5, padding="max_length")
    again = BertTokenClassifierPreprocessor.from_config(preprocessor.get_config())
    assert again.get_config() == preprocessor.get_config()
    assert (again.sequence_length, again.stride, again.padding) == (16, 5, "max_length")
    assert "pair" not in preprocessor.get_config()


def test_docstring_examples():
    from keras_bert_impl.text.tokenizer import BertTokenizer

    examples = {"BertTokenizer": BertTokenizer}
    assert doctest.testmod(token_classifier_preprocessor, extraglobs=examples) == (0, 3)
