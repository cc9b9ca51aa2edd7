"""Are two consecutive chunks of a document in order, or swapped?

ALBERT (Lan et al. 2019), section 3.1, "Inter-sentence coherence loss". Both texts are of one
document, so the topic tells nothing, as it does in the next-sentence task.
"""

import keras
import tensorflow as tf

from keras_bert_impl.data.document_walk import Sentences, draws, random_slices, targets, walk
from keras_bert_impl.data.randomness import below
from keras_bert_impl.objectives.base import TextObjective

IN_ORDER = 0
SWAPPED = 1


def sentence_order_pairs(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    short_sequence_probability: float = 0.1,
    swap_probability: float = 0.5,
    seed,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Pairs of consecutive texts of one document, half of them swapped.

    Each document is cut into chunks of sentences of about a target length, as in
    `pairs_from_documents`, but of two sentences at least; a chunk is cut in two at a random
    sentence. What is left at a document's end as a single sentence makes no pair, so a document of
    one sentence makes none. Pairs over `max_tokens` lose tokens as in `pairs_from_documents`.

    Args:
        window: ragged (documents, sentences, pieces) ids. What is empty is dropped.
        max_tokens: int, at least 2. Most pieces of both texts together.
        short_sequence_probability: float. Share of documents with a target drawn from
            [2, max_tokens] instead of max_tokens. Default 0.1, as BERT's.
        swap_probability: float. Default 0.5, as ALBERT's.
        seed: (2,) int tensor or a pair of numbers. The pairs are a function of it and the window.

    Returns:
        first: ragged (pairs, pieces), in the order of the documents.
        second: ragged (pairs, pieces).
        label: (pairs,) int32. 0 (`IN_ORDER`): second followed first; 1 (`SWAPPED`): first followed
            second.

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5], [6, 7]], [[8]]])
    >>> first, second, label = sentence_order_pairs(window, max_tokens=8, seed=(1, 0))
    >>> sorted(first.to_list() + second.to_list())
    [[5], [6, 7]]
    """
    sentences = Sentences.of(window, max_tokens)
    target = targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        draw = draws(sentences, seed, step_index, 2)  # (2, documents)
        chunk_end = sentences.reach(cursor, target, sentences.document_ends)
        chunk_end = tf.minimum(tf.maximum(chunk_end, cursor + 2), sentences.document_ends)
        middle = cursor + 1 + below(draw[0], chunk_end - cursor - 1)
        swapped = draw[1] < swap_probability

        in_order = tf.stack([cursor, middle, middle, chunk_end])
        pair = tf.where(swapped, tf.roll(in_order, 2, axis=0), in_order)
        pair = tf.concat([pair, tf.cast(swapped, tf.int64)[tf.newaxis]], axis=0)
        return chunk_end, pair, middle < chunk_end

    pairs = walk(sentences, step, width=5)  # (5, pairs)
    first, second = random_slices(sentences, pairs[:4], max_tokens, seed)
    return first, second, tf.cast(pairs[4], tf.int32)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class SentenceOrder(TextObjective):
    """Sentence order, with the rows of `sentence_order_pairs`.

    Args:
        weight: float, as in `Objective`.
    """

    name = "sentence_order"
    num_classes = 2

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        return sentence_order_pairs(
            to_pieces(texts),
            max_tokens=max_tokens(2),
            short_sequence_probability=short_sequence_probability,
            seed=seed,
        )
