import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.masking_units import groups_of, marked_begins, ngram_begins, reached
from keras_bert_impl.data.randomness import uniform
from keras_bert_impl.data.word_units import ENTITY, PHRASE
from tests.documents import assert_shares


def random_rows(rows, length, seed):
    rng = np.random.default_rng(seed)
    return rng.random((rows, length)) < 0.6, rng.random((rows, length)) < 0.1


@pytest.mark.parametrize("max_words", [1, 2, 3, 5, 50])
def test_ngrams_as_by_a_loop(max_words):
    begins, is_alone = random_rows(40, 37, 1)
    made = ngram_begins(tf.constant(begins), tf.constant(is_alone), max_words, (1, 2)).numpy()
    draws = uniform([40, 37], (1, 2)).numpy()
    shares = np.array([1 / n for n in range(1, max_words + 1)])
    bounds = np.cumsum(shares / shares.sum())[:-1]
    for row in range(40):
        words = []  # of each its tokens; the first need not begin one
        for i in range(37):
            if begins[row, i] or i == 0:
                words.append([])
            words[-1].append(i)
        alone = [is_alone[row, word].any() for word in words]
        expected, w = [], 0
        while w < len(words):
            expected.append(words[w][0])
            size = 1 + int((draws[row, w] >= bounds).sum())
            while size > 1 and (w + size > len(words) or any(alone[w : w + size])):
                size -= 1
            w += size
        expected = [i for i in expected if begins[row, i]]
        assert np.flatnonzero(made[row]).tolist() == expected


def test_lengths_of_ngrams():
    begins = tf.ones([300, 200], tf.bool)
    starts = ngram_begins(begins, tf.zeros_like(begins), 3, (3, 4)).numpy()
    sizes = [n for row in starts for n in np.diff(np.flatnonzero(row)).tolist()[:-2]]
    assert_shares(sizes, {1: 6 / 11, 2: 3 / 11, 3: 2 / 11})


def test_empty_rows_and_batches():
    for shape in ([0, 5], [3, 0], [2, 1]):
        begins = tf.ones(shape, tf.bool)
        assert ngram_begins(begins, begins, 3, (0, 0)).shape == shape


def test_wider_padding_changes_no_ngram():
    begins, is_alone = random_rows(30, 40, 5)
    padding = ((0, 0), (0, 60))
    narrow = ngram_begins(begins, is_alone, 3, (6, 7)).numpy()
    wide_begins = np.pad(begins, padding, constant_values=True)
    wide = ngram_begins(wide_begins, np.pad(is_alone, padding, constant_values=True), 3, (6, 7))
    np.testing.assert_array_equal(wide.numpy()[:, :40], narrow)


def test_marked_units_begin_where_they_say():
    kinds = {".": 0, "P": 2 * PHRASE + 1, "p": 2 * PHRASE, "E": 2 * ENTITY + 1, "e": 2 * ENTITY}
    for row, begins, phrase, entity in [
        # units    words      with phrases  with entities
        ("...Ppp.", "x.xxx.x", "x.xx..x", "x.xxx.x"),
        ("PpPp.Ee", "xxxxxxx", "x.x.xxx", "xxxxxx."),
        (".pp.ee.", "xxxxxx.", "xx.xxx.", "xxxxx.."),  # the first piece was cut off
        ("PpEepp.", "xxxxxxx", "x.xxx.x", "xxx.xxx"),
        ("P......", "xx.x...", "xx.x...", "xx.x..."),
        (".......", "x......", "x......", "x......"),
    ]:
        units = tf.constant([[kinds[c] for c in row]])
        is_begin = tf.constant([[c == "x" for c in begins]])
        for kind, expected in ((PHRASE, phrase), (ENTITY, entity)):
            made = marked_begins(is_begin, units, kind).numpy()[0]
            assert "".join("x" if b else "." for b in made) == expected, (row, kind)


def test_groups_are_numbered_from_the_first_token():
    begins = tf.constant([[True, False, True, True], [False, False, True, False]])
    assert groups_of(begins).numpy().tolist() == [[0, 0, 1, 2], [0, 0, 1, 1]]


def test_reached_as_by_following():
    rng = random.Random(8)
    for size in (0, 1, 2, 50, 300):
        jump = [rng.randint(i + 1, min(i + 4, size)) for i in range(size)]
        starts = [rng.random() < 0.05 for _ in range(size)]
        expected = list(starts)
        for i in range(size):
            if expected[i] and jump[i] < size:
                expected[jump[i]] = True
        made = reached(tf.constant(starts, tf.bool), tf.constant(jump, tf.int32)).numpy()
        assert made.tolist() == expected
