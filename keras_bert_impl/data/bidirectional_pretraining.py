"""Documents to batches for a bidirectional language model over words: cut, shuffle, shift."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_impl.data.characters import MAX_CHARACTERS, sentence_characters
from keras_bert_impl.data.next_tokens import next_tokens
from keras_bert_impl.data.shuffled_rows import batches_by_step, rows_of_documents
from keras_bert_impl.data.windows import cut_windows, windows
from keras_bert_impl.data.word_alignment import split_words
from keras_bert_impl.data.word_vocabulary import BEGIN_ID, END_ID, WordVocabulary


def neighbour_words(word_ids, padding_mask):
    """The word after each and the word before each.

    Args:
        word_ids: (batch, words) int.
        padding_mask: (batch, words) bool, true on real words.

    Returns:
        Two dicts of `forward`, the next word, and `backward`, the previous one: (batch, words)
        int32 numbers, and float32 weights, 0 where there is no such word.

    Example:

    >>> targets, weights = neighbour_words([[1, 7, 8, 2]], [[True, True, True, True]])
    >>> targets["forward"].numpy().tolist(), targets["backward"].numpy().tolist()
    ([[7, 8, 2, 0]], [[0, 1, 7, 8]])
    """
    row = {"token_ids": tf.convert_to_tensor(word_ids), "padding_mask": padding_mask}
    next_ids, next_weights = next_tokens(row)
    reversed_row = {name: tf.reverse(x, [1]) for name, x in row.items()}
    previous_ids, previous_weights = (tf.reverse(x, [1]) for x in next_tokens(reversed_row))
    return (
        {"forward": next_ids, "backward": previous_ids},
        {"forward": next_weights, "backward": previous_weights},
    )


def bidirectional_pretraining_dataset(
    documents: tf.data.Dataset | Sequence[Sequence[str]],
    vocabulary: WordVocabulary,
    *,
    max_words: int = 30,
    batch_size: int,
    max_characters: int = MAX_CHARACTERS,
    window_documents: int = 64,
    shuffle_buffer: int = 10_000,
    seed: int = 0,
    repeat: bool = True,
    drop_remainder: bool = True,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Batches for `BidirectionalLM`: a sentence a row, at each word its neighbours.

    Sentences are cut at white space; what should be words of their own (a full stop) must stand
    apart. A sentence of more than `max_words` makes several rows. The same arguments give the same
    batches, as in `pretraining_dataset`.

    Args:
        documents: as in `pretraining_dataset`.
        vocabulary: the words to choose from.
        max_words: int. Most words of a row; rows are longer by the marks at both ends.
        batch_size: int. Rows of each batch.
        max_characters: int, as in `word_characters` and in the backbone.
        window_documents, shuffle_buffer, seed, repeat, drop_remainder, start_step: as in
            `pretraining_dataset`.

    Returns:
        A dataset of `(x, y, sample_weight)`:
        x: dict of characters (batch, max_words + 2, max_characters) int32 and padding_mask
            (batch, max_words + 2) bool.
        y: dict of forward, the number of the next word, and backward, of the previous one:
            (batch, max_words + 2) int32.
        sample_weight: dict of the same, float32, 0 where there is no such word.

    Raises:
        ValueError: without documents, or for options out of range.
        tf.errors.InvalidArgumentError: on reading, if no document has a word and repeat is true.

    Example:

    >>> documents = [["the cat sat", "a dog"], ["the dog ran"]]
    >>> vocabulary = WordVocabulary.of_documents(documents)
    >>> data = bidirectional_pretraining_dataset(documents, vocabulary, max_words=4, batch_size=2)
    >>> x, y, sample_weight = next(iter(data))
    >>> tuple(x["characters"].shape), tuple(y["forward"].shape)
    ((2, 6, 50), (2, 6))
    """
    if max_words < 1:
        raise ValueError(f"max_words={max_words} must be at least 1.")

    def make_rows(window, _):
        """Ragged (documents, sentences) strings to words (rows, max_words) and lengths (rows,)."""
        words = split_words(window.flat_values).with_row_splits_dtype(tf.int64)
        words = tf.ragged.boolean_mask(words, words.row_lengths() > 0)
        rows = cut_windows(words, windows(words.row_lengths(), max_words, stride=max_words))
        return rows.to_tensor("", shape=[None, max_words]), rows.row_lengths()

    def to_inputs(_, batch):
        words, lengths = batch
        rows = tf.RaggedTensor.from_tensor(words, lengths)
        characters, padding_mask = sentence_characters(rows, max_characters, max_words + 2)
        begin = tf.fill([rows.nrows(), 1], BEGIN_ID)
        ids = tf.concat([begin, vocabulary.ids(rows), tf.ones_like(begin) * END_ID], axis=1)
        ids = ids.to_tensor(0, shape=[None, max_words + 2])
        for tensor in (characters, padding_mask, ids):
            tensor.set_shape([words.shape[0], *tensor.shape[1:]])  # known, if batches are equal
        x = {"characters": characters, "padding_mask": padding_mask}
        return x, *neighbour_words(ids, padding_mask)

    rows = rows_of_documents(
        documents,
        make_rows,
        window_documents=window_documents,
        shuffle_buffer=shuffle_buffer,
        seed=seed,
        repeat=repeat,
    )
    return batches_by_step(
        rows, to_inputs, batch_size=batch_size, drop_remainder=drop_remainder, start_step=start_step
    )
