import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.answer_spans import Answer, answer_list, answer_positions
from tests.data.windowed import FIRST, windowed


def positions_of(context, *answers):
    """The positions of answers to one context that fits into a row."""
    starts, ends = zip(*answers, strict=True)
    found = answer_positions(windowed([context] * len(answers)), starts, ends)
    assert found.dtype == tf.int32
    return found.numpy().tolist()


def test_positions_by_hand():
    assert positions_of("the cat sat", (0, 3), (4, 7), (4, 11), (-1, -1)) == [
        [5, 5],
        [6, 6],
        [6, 7],
        [0, 0],
    ]


def test_the_fewest_tokens_that_cover_the_answer():
    """`un ##aff ##able`; blanks and half pieces at the ends."""
    context = "  unaffable ,  cat"
    assert positions_of(context, (2, 11), (2, 4), (4, 7), (5, 6), (3, 8), (0, 4), (11, 16)) == [
        [5, 7],
        [5, 5],
        [6, 6],
        [6, 6],
        [5, 7],
        [5, 5],
        [8, 9],
    ]


def test_an_answer_without_tokens_is_no_answer():
    context = "cat \u200d\x00 dog"
    assert positions_of(context, (3, 4), (4, 6), (3, 7), (6, 8)) == [[0, 0]] * 3 + [[6, 6]]


def test_a_window_has_the_whole_answer_or_none():
    """Windows over tokens 0-3, 2-5 and 4-6."""
    context = "the cat sat on the mat ."
    examples = windowed([context], room=4, stride=2)
    word = {w: (context.index(w), context.index(w) + 3) for w in ("cat", "sat", "mat")}
    on = (context.index("on"), context.index("on") + 2)
    for (start, end), expected in (
        ((word["cat"]), [[6, 6], [0, 0], [0, 0]]),
        ((word["sat"]), [[7, 7], [5, 5], [0, 0]]),
        ((word["sat"][0], on[1]), [[7, 8], [5, 6], [0, 0]]),
        ((word["cat"][0], word["sat"][1]), [[6, 7], [0, 0], [0, 0]]),
        ((on[0], word["mat"][1]), [[0, 0], [6, 8], [0, 0]]),
        ((word["cat"][0], word["mat"][1]), [[0, 0], [0, 0], [0, 0]]),
        ((word["mat"][0], len(context)), [[0, 0], [0, 0], [6, 7]]),
    ):
        assert answer_positions(examples, [start], [end]).numpy().tolist() == expected


def test_each_context_has_its_own_answer():
    examples = windowed(["cat dog", "", "dog cat ."], room=2, stride=1)
    found = answer_positions(examples, [4, -1, 4], [7, -1, 9])
    assert found.numpy().tolist() == [[6, 6], [0, 0], [0, 0], [5, 6]]


def test_characters_are_counted_as_python_counts_them():
    context = "\U0001f642 e\u0301te\u0301 \u65e5\u672c cat"
    for word in context.split():
        start = context.index(word)
        [[first, last]] = positions_of(context, (start, start + len(word)))
        examples = windowed([context])
        assert examples.starts[0, first - FIRST] == start
        assert examples.ends[0, last - FIRST] == start + len(word)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 8), (-1, 3), (3, 3), (5, 2), (3, -1), (-2, -1), (100, 101)]
)
def test_an_answer_outside_of_its_context_is_refused(start, end):
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be characters of the context"):
        positions_of("cat dog", (0, 3), (start, end))


def test_answers_as_a_list():
    tensors = {
        "text": tf.constant(["caf\u00e9\x00", ""]),
        "start": tf.constant([2, -1], tf.int64),
        "end": tf.constant([7, -1], tf.int64),
        "score": tf.constant([1.5, 2]),
        "null_score_difference": tf.constant([-3.0, 4]),
        "n_best_texts": tf.ragged.constant([["caf\u00e9\x00", "x"], [""]]),
        "n_best_starts": tf.ragged.constant([[2, 0], [-1]]),
        "n_best_ends": tf.ragged.constant([[7, 1], [-1]]),
        "n_best_probabilities": tf.ragged.constant([[0.75, 0.25], [1.0]]),
    }
    assert answer_list(tensors) == [
        Answer(
            "caf\u00e9\x00", 2, 7, 1.5, -3.0, [("caf\u00e9\x00", 2, 7, 0.75), ("x", 0, 1, 0.25)]
        ),
        Answer("", -1, -1, 2.0, 4.0, [("", -1, -1, 1.0)]),
    ]


def test_the_same_in_a_graph():
    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)] + [tf.TensorSpec([None], tf.int32)] * 2
    )
    def positions(contexts, start, end):
        return answer_positions(windowed(contexts, room=2, stride=1), start, end)

    contexts, start, end = ["cat dog", "", "dog cat ."], [4, -1, 4], [7, -1, 9]
    np.testing.assert_array_equal(
        positions(contexts, start, end),
        answer_positions(windowed(contexts, room=2, stride=1), start, end),
    )
