"""Documents to sentence pairs A/B, where B follows A or was taken from another document.

Paper, section 3.1 (task 2) and appendix A.2; google-research/bert, create_pretraining_data.py,
`create_instances_from_document`. "Sentences" are the lines of a document, whatever they hold.

A pair is two slices of the window's pieces, end to end: the walk moves numbers only, and the pieces
are gathered when it is done.
"""

import tensorflow as tf

from keras_bert_impl.data.document_walk import (
    Sentences,
    draws,
    random_slice,
    random_slices,
    targets,
    walk,
)
from keras_bert_impl.data.randomness import below, fold_in

# The label's classes, as in the reference (`is_random_next`) and in its checkpoints' head.
IS_NEXT = 0
IS_RANDOM = 1


def pairs_from_documents(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    short_sequence_probability: float = 0.1,
    next_sentence_random_probability: float = 0.5,
    seed,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """All sentence pairs of some documents.

    Each document is cut into chunks of sentences of about a target length. A is a random number
    of the chunk's first sentences. B is the rest of the chunk, or, in half of the cases and where
    the chunk has one sentence, a piece of another document of the window, begun at a random
    sentence; then the rest of the chunk goes back and begins the next one. Pairs over `max_tokens`
    lose tokens of the longer text, each at random from its front or its end.

    Args:
        window: ragged (documents, sentences, pieces) ids. Sentences without pieces and documents
            without sentences are dropped. Random sentences come from within the window, so a
            window of one document gives only pairs of label 0, and its chunks of one sentence
            give none.
        max_tokens: int, at least 2. Most pieces of A and B together: the row's length less
            `[CLS]` and two `[SEP]`.
        short_sequence_probability: float. Share of documents with a target drawn from
            [2, max_tokens] instead of max_tokens, so that the model sees short rows too.
            Default 0.1, the reference's.
        next_sentence_random_probability: float. Default 0.5, the paper's.
        seed: (2,) int tensor or a pair of numbers. The pairs are a function of it and the window.

    Returns:
        first: ragged (pairs, pieces), A. In the order of the documents.
        second: ragged (pairs, pieces), B.
        is_random: (pairs,) int32. 0 (`IS_NEXT`): B follows A; 1 (`IS_RANDOM`): it was drawn.

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5], [6, 7], [8]], [[9, 9, 9]]])
    >>> first, second, is_random = pairs_from_documents(window, max_tokens=8, seed=(1, 0))
    """
    sentences = Sentences.of(window, max_tokens)
    target = targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        draw = draws(sentences, seed, step_index, 4)  # (4, documents)
        chunk_end = sentences.reach(cursor, target, sentences.document_ends)
        chunk_size = chunk_end - cursor
        a_end = cursor + 1 + below(draw[0], chunk_size - 1)
        a_pieces = sentences.pieces_between(cursor, a_end)

        is_random = (chunk_size == 1) | (draw[1] < next_sentence_random_probability)
        is_random &= sentences.num_documents > 1
        other_start, other_end = sentences.elsewhere(draw[2], draw[3])
        b_start = tf.where(is_random, other_start, a_end)
        b_end = tf.where(
            is_random, sentences.reach(other_start, target - a_pieces, other_end), chunk_end
        )

        made = (cursor < sentences.document_ends) & (b_start < b_end)
        pair = tf.stack([cursor, a_end, b_start, b_end, tf.cast(is_random, tf.int64)])
        return tf.where(is_random, a_end, chunk_end), pair, made

    pairs = walk(sentences, step, width=5)  # (5, pairs)
    first, second = random_slices(sentences, pairs[:4], max_tokens, seed)
    return first, second, tf.cast(pairs[4], tf.int32)


def texts_from_documents(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    short_sequence_probability: float = 0.1,
    seed,
) -> tf.RaggedTensor:
    """Single texts of about `max_tokens`, for a masked LM without next sentences.

    The chunks of `pairs_from_documents`, whole: runs of sentences of one document.

    Args:
        window, max_tokens, short_sequence_probability, seed: as in `pairs_from_documents`, but
            max_tokens leaves room for `[CLS]` and one `[SEP]`.

    Returns:
        Ragged (texts, pieces), texts over max_tokens cut at random from the front or the end.

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.
    """
    sentences = Sentences.of(window, max_tokens)
    target = targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        chunk_end = sentences.reach(cursor, target, sentences.document_ends)
        return chunk_end, tf.stack([cursor, chunk_end]), cursor < sentences.document_ends

    start, end = tf.unstack(tf.gather(sentences.offsets, walk(sentences, step, width=2)))
    kept = tf.minimum(end - start, tf.cast(max_tokens, tf.int64))
    return random_slice(sentences.pieces, start, end, kept, fold_in(seed, -2))
