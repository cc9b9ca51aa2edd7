"""In which order do the segments of a paragraph stand?

ERNIE 2.0 (Sun et al. 2019), section 4.2.2, "Sentence Reordering Task".
"""

import itertools
import math

import keras
import tensorflow as tf

from keras_bert_impl.data.document_walk import Sentences, targets, walk
from keras_bert_impl.data.randomness import below, fold_in, uniform_float64
from keras_bert_impl.objectives.base import TextObjective


def num_classes(max_segments: int = 3) -> int:
    """How many orders 1 to `max_segments` segments have: the sum of n!.

    Raises:
        ValueError: for max_segments below 1.

    Example:

    >>> num_classes(3)
    9
    """
    if max_segments < 1:
        raise ValueError(f"max_segments={max_segments} must be at least 1.")
    return sum(math.factorial(n) for n in range(1, max_segments + 1))


def reordered_paragraphs(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    max_segments: int = 3,
    short_sequence_probability: float = 0.1,
    seed,
) -> tuple[tf.RaggedTensor, None, tf.Tensor]:
    """Paragraphs cut into segments and shuffled, with the number of their order.

    A paragraph is as many sentences of one document as fit into a target length whole; only a
    sentence that is longer than the target is a paragraph of its own, its end cut off. The number n
    of segments is drawn evenly from 1 to max_segments, or to the number of sentences where these
    are fewer; the n - 1 boundaries evenly from the places between sentences; the order evenly from
    the n! orders.

    Classes are numbered by n first, then by order in the order of the alphabet. An order tells
    which segment of the original stands first, second and so on. For max_segments=3:
    0: (0); 1: (0 1), 2: (1 0); 3: (0 1 2), 4: (0 2 1), 5: (1 0 2), 6: (1 2 0), 7: (2 0 1),
    8: (2 1 0). Of paragraphs with max_segments sentences or more, each class of n segments has the
    share 1 / (max_segments * n!). Classes 0, 1 and 3 look alike, as in the paper: the text is in
    order. Who always recognizes the order, and says 0 there, is right in 7 of 9 cases.

    Args:
        window: ragged (documents, sentences, pieces) ids. What is empty is dropped.
        max_tokens: int, at least 2. Most pieces of a paragraph.
        max_segments: int, at least 1. Default 3.
        short_sequence_probability: float. Share of documents with a target drawn from
            [2, max_tokens] instead of max_tokens. Default 0.1, as BERT's.
        seed: (2,) int tensor or a pair of numbers. A function of it and the window.

    Returns:
        first: ragged (paragraphs, pieces), the shuffled segments. In the order of the documents.
        second: None.
        label: (paragraphs,) int32, below `num_classes(max_segments)`.

    Raises:
        ValueError: for max_tokens below 2, max_segments below 1 or a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5], [6, 7], [8]], [[9]]])
    >>> first, _, label = reordered_paragraphs(window, max_tokens=8, seed=(1, 0))
    >>> sorted(first[0].numpy().tolist()), first[1].numpy().tolist(), int(label[1])
    ([5, 6, 7, 8], [9], 0)
    """
    num_classes(max_segments)  # checks it
    sentences = Sentences.of(window, max_tokens)
    target = targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        end = sentences.fit(cursor, target, sentences.document_ends)
        return end, tf.stack([cursor, end, target]), cursor < end

    start, end, room = tf.unstack(walk(sentences, step, width=3))  # (paragraphs,) each
    shape = tf.stack([1 + max_segments, tf.size(start)])
    draws = uniform_float64(shape, fold_in(seed, -2))

    size = end - start
    last = below(draws[0], tf.minimum(size, max_segments))  # n - 1
    label, order = _drawn_order(last, draws[1], max_segments)  # (paragraphs, segments)
    cuts = _boundaries(start, end, last, [draws[k] for k in range(2, 1 + max_segments)])

    # Only a paragraph of one sentence, so of one segment, is cut.
    offsets = tf.gather(sentences.offsets, cuts)
    offsets = tf.minimum(offsets, offsets[:, :1] + room[:, tf.newaxis])
    segment_start = tf.gather(offsets[:, :-1], order, batch_dims=1)
    segment_end = tf.gather(offsets[:, 1:], order, batch_dims=1)
    segments = tf.ragged.range(tf.reshape(segment_start, [-1]), tf.reshape(segment_end, [-1]))
    first = tf.RaggedTensor.from_row_lengths(
        tf.gather(sentences.pieces, segments.values), offsets[:, -1] - offsets[:, 0]
    )
    return first, None, tf.cast(label, tf.int32)


def _drawn_order(last, draw, max_segments):
    """(rows,) int64 classes of last + 1 segments, and (rows, max_segments) their orders.

    Segments from last + 1 on are empty and stay where they are.
    """
    orders: list[list[int]] = []
    first_class: list[int] = []
    for n in range(1, max_segments + 1):
        first_class.append(len(orders))
        for order in itertools.permutations(range(n)):
            orders.append([*order, *range(n, max_segments)])
    first_class.append(len(orders))
    bounds = tf.constant(first_class, tf.int64)
    low, high = tf.gather(bounds, last), tf.gather(bounds, last + 1)
    label = low + below(draw, high - low)
    return label, tf.gather(tf.constant(orders, tf.int64), label)


def _boundaries(start, end, last, draws):
    """(rows, segments + 1) int64: the sentences at which segments begin, and the end.

    As many boundaries as `last` says are drawn, without repetition; the others are the end.
    """
    places: list = []  # ascending, each (rows,); place 0 is after the first sentence
    for k, draw in enumerate(draws):
        place = below(draw, end - start - 1 - k)
        for other in places:  # step over those that are taken
            place += tf.cast(place >= other, tf.int64)
        place = tf.where(k < last, place, end - start - 1)
        places = tf.unstack(tf.sort(tf.stack([*places, place]), axis=0), num=k + 1)
    return tf.stack([start, *(start + 1 + place for place in places), end], axis=1)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class SentenceReordering(TextObjective):
    """Sentence reordering, with the rows of `reordered_paragraphs`.

    Args:
        max_segments: int, at least 1. Default 3, which makes 9 classes.
        weight: float, as in `Objective`.

    Raises:
        ValueError: for max_segments below 1.
    """

    name = "sentence_reordering"

    def __init__(self, max_segments: int = 3, weight: float = 1.0):
        super().__init__(weight)
        self.num_classes = num_classes(max_segments)
        self.max_segments = max_segments

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        return reordered_paragraphs(
            to_pieces(texts),
            max_tokens=max_tokens(1),
            max_segments=self.max_segments,
            short_sequence_probability=short_sequence_probability,
            seed=seed,
        )

    def get_config(self):
        return {**super().get_config(), "max_segments": self.max_segments}
