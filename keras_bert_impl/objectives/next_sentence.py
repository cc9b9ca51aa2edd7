"""Does B follow A, or was it taken at random? (Paper, section 3.1, task 2.)"""

import keras

from keras_bert_impl.data.sentence_pairs import pairs_from_documents
from keras_bert_impl.layers.heads import next_sentence_head
from keras_bert_impl.objectives.base import TextObjective


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class NextSentence(TextObjective):
    """Next-sentence prediction, with the rows of `pairs_from_documents`.

    Args:
        weight: float, as in `Objective`.

    Example:

    >>> NextSentence().num_classes
    2
    """

    name = "next_sentence"
    num_classes = 2

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        return pairs_from_documents(
            to_pieces(texts),
            max_tokens=max_tokens(2),
            short_sequence_probability=short_sequence_probability,
            seed=seed,
        )

    def head(self, backbone):
        return next_sentence_head(backbone)

    def loss(self):
        # Keras's own, as it was from the first. All rows of a batch have the same weight, 1 or 0,
        # so the mean is the same; and runs that began with it go on bit for bit.
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
