import doctest

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import bidirectional_pretraining
from keras_bert_impl.data.bidirectional_pretraining import bidirectional_pretraining_dataset
from keras_bert_impl.data.characters import sentence_characters
from keras_bert_impl.data.word_vocabulary import WordVocabulary
from tests.data.test_pretraining import assert_same

DOCUMENTS = [
    [" ".join(f"w{n}" for n in range(start, start + 2 + start % 5)), f"w{start}"]
    for start in range(40)
]
VOCABULARY = WordVocabulary.of_documents(DOCUMENTS, max_words=30)
IN_ORDER = {"shuffle_buffer": 0, "repeat": False, "drop_remainder": False}


def make(documents=DOCUMENTS, **options):
    options = {"max_words": 4, "batch_size": 8, "shuffle_buffer": 20, **options}
    return bidirectional_pretraining_dataset(documents, VOCABULARY, **options)


def number(word):
    return 3 + VOCABULARY.words.index(word) if word in VOCABULARY.words else 0


def test_structure_shapes_and_types():
    x, y, weight = make().element_spec
    assert {k: (v.shape.as_list(), v.dtype) for k, v in x.items()} == {
        "characters": ([8, 6, 50], tf.int32),
        "padding_mask": ([8, 6], tf.bool),
    }
    for part, dtype in ((y, tf.int32), (weight, tf.float32)):
        assert {k: (v.shape.as_list(), v.dtype) for k, v in part.items()} == {
            "forward": ([8, 6], dtype),
            "backward": ([8, 6], dtype),
        }


def test_every_word_is_to_guess_its_neighbours():
    expected = []
    for document in DOCUMENTS:
        for sentence in document:
            words = sentence.split()
            expected += [words[i : i + 4] for i in range(0, len(words), 4)]
    rows = []
    for x, y, weight in make(**IN_ORDER):
        for i in range(len(x["characters"])):
            words = expected[len(rows)]
            rows.append(words)
            characters, mask = sentence_characters(tf.ragged.constant([words]), length=6)
            np.testing.assert_array_equal(x["characters"][i], characters[0])
            np.testing.assert_array_equal(x["padding_mask"][i], mask[0])
            ids = [1, *map(number, words), 2]
            rest = [0] * (6 - len(ids))
            assert y["forward"][i].numpy().tolist() == [*ids[1:], 0, *rest]
            assert y["backward"][i].numpy().tolist() == [0, *ids[:-1], *rest]
            known = [1.0] * (len(ids) - 1)
            assert weight["forward"][i].numpy().tolist() == [*known, 0, *rest]
            assert weight["backward"][i].numpy().tolist() == [0, *known, *rest]
    assert rows == expected
    assert any(number(word) == 0 for row in rows for word in row), "unknown words were to be there"


def test_same_arguments_same_batches_and_a_late_start_is_the_rest():
    batches = list(make(seed=5).take(30))
    tf.random.set_seed(1)
    assert_same(list(make(seed=5).take(30)), batches)
    assert_same(list(make(seed=5, start_step=21).take(9)), batches[21:])
    other = next(iter(make(seed=6)))
    assert (other[0]["characters"].numpy() != batches[0][0]["characters"].numpy()).any()


def test_empty_lines_make_no_row():
    ((x, _, _),) = make([["", "w1"], [" "], ["w2 w3"]], **IN_ORDER)
    assert x["padding_mask"].numpy().sum(axis=1).tolist() == [3, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="make no training row"):
        list(make([[" "], [""]]).take(1))


def test_impossible_options():
    with pytest.raises(ValueError, match="start_step=-1"):
        make(start_step=-1)
    with pytest.raises(ValueError, match="max_words=0"):
        make(max_words=0)
    with pytest.raises(ValueError, match="There are no documents"):
        make([])


def test_docstring_examples():
    assert doctest.testmod(bidirectional_pretraining) == (0, 7)
