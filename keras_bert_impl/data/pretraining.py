"""Documents to batches for pretraining: tokenize, pair, pack, shuffle, mask. One tf.data graph.

Paper, section 3.1 and appendix A.2. The original writes examples to files, ten masks of each;
here pairs are made anew in each epoch and masks in each step.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.masking import DynamicMasker
from keras_bert_impl.data.packing import pack
from keras_bert_impl.data.randomness import fold_in, permutation
from keras_bert_impl.data.sentence_pairs import pairs_from_documents, texts_from_documents

# Documents are shuffled among this many windows, so that other documents meet in each epoch.
SHUFFLED_WINDOWS = 8


def pretraining_dataset(
    documents: tf.data.Dataset | Sequence[Sequence[str]],
    tokenizer: Any,
    *,
    sequence_length: int = 128,
    batch_size: int,
    mask_rate: float = 0.15,
    max_predictions: int = 20,
    whole_word: bool = False,
    next_sentence: bool = True,
    short_sequence_probability: float = 0.1,
    window_documents: int = 64,
    shuffle_buffer: int = 10_000,
    seed: int = 0,
    repeat: bool = True,
    drop_remainder: bool = True,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Batches for `BertPretrainer`, or without next sentences for `BertMaskedLM`.

    The same arguments give the same batches, whenever and wherever they are read, whatever
    `tf.random.set_seed` says; masks at step n are a function of the batch and `(seed, n)`. Memory
    holds a few windows of documents and two or three shuffle buffers, not the corpus.

    Args:
        documents: a dataset of (sentences,) string tensors, as `read_documents` gives, or a list
            of lists of strings.
        tokenizer: a `BertTokenizer`.
        sequence_length: int. Tokens of each row, special ones included. Default 128, where the
            paper trains for the first 90% of steps.
        batch_size: int. Rows of each batch.
        mask_rate, max_predictions, whole_word: as in `DynamicMasker`.
        next_sentence: bool. True gives pairs and their labels, false single texts.
        short_sequence_probability: float, as in `pairs_from_documents`.
        window_documents: int. Documents tokenized together, among which random sentences are
            drawn; more cost memory, fewer repeat the same sentences.
        shuffle_buffer: int. Rows shuffled together; also documents are shuffled then, among eight
            windows. 0 keeps documents and rows in order, for evaluation.
        seed: int.
        repeat: bool. True begins again without end, with other pairs in each epoch.
        drop_remainder: bool. True drops a last, smaller batch, so that shapes are static.
        start_step: int. Batches to leave out at the beginning, for a resumed run: what follows
            equals the uninterrupted dataset. They are made, though not masked, so this takes time.

    Returns:
        A dataset of `(x, y, sample_weight)`:
        x: dict of token_ids, segment_ids (batch, length) int32, padding_mask (batch, length)
            bool, mask_positions (batch, slots) int32.
        y: dict of masked_lm (batch, slots) int32 and next_sentence (batch,) int32, whose classes
            `pairs_from_documents` tells.
        sample_weight: dict of masked_lm (batch, slots) float32, 0 in empty slots, and
            next_sentence (batch,) float32 ones.
        With next_sentence=False y and sample_weight are the masked_lm tensors themselves.

    Raises:
        ValueError: without documents, or for options out of range.
        tf.errors.InvalidArgumentError: on reading, if all documents together make no row and
            repeat is true: it would go on for ever without a batch.

    Example:

    >>> documents = [["a b", "b a"], ["b", "a a"]]
    >>> data = pretraining_dataset(documents, tokenizer, sequence_length=16, batch_size=2)
    >>> x, y, sample_weight = next(iter(data))
    """
    if start_step < 0:
        raise ValueError(f"start_step={start_step} must not be negative.")
    masker = DynamicMasker.for_tokenizer(
        tokenizer, mask_rate=mask_rate, max_predictions=max_predictions, whole_word=whole_word
    )

    def make_rows(epoch, index, window):
        """Strings (documents, sentences) to packed rows (rows, length) and labels (rows,)."""
        pieces = tokenizer.tokenize(window.flat_values)  # (sentences, pieces)
        pieces = window.with_flat_values(pieces.with_row_splits_dtype(tf.int64))
        options = {
            "short_sequence_probability": short_sequence_probability,
            "seed": fold_in((seed, epoch), index),
        }
        if next_sentence:
            texts = pairs_from_documents(pieces, max_tokens=sequence_length - 3, **options)
            first, second, label = texts
        else:
            first = texts_from_documents(pieces, max_tokens=sequence_length - 2, **options)
            second, label = None, tf.zeros([first.nrows()], tf.int32)
        packed = pack(
            first,
            second,
            sequence_length=sequence_length,
            tokenizer=tokenizer,
            pad_to="max_length",
        )
        return epoch, (packed, label)

    def mask(step, rows):
        packed, label = rows
        masked = masker(packed["token_ids"], packed["padding_mask"], seed=(seed, step))
        x = {
            **packed,
            "token_ids": masked["token_ids"],
            "mask_positions": masked["mask_positions"],
        }
        if not next_sentence:
            return x, masked["mask_ids"], masked["mask_weights"]
        y = {"masked_lm": masked["mask_ids"], "next_sentence": label}
        weights = {
            "masked_lm": masked["mask_weights"],
            "next_sentence": tf.ones_like(label, tf.float32),
        }
        return x, y, weights

    windows = _windows(_as_dataset(documents), window_documents, shuffle_buffer > 0, seed, repeat)
    rows = windows.map(make_rows, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    rows = _refuse_empty_epochs(rows).unbatch()
    if shuffle_buffer > 0:
        rows = _shuffle(rows.batch(shuffle_buffer), (seed, -1))
    batches = rows.batch(batch_size, drop_remainder=drop_remainder).enumerate()
    batches = batches.skip(start_step)
    return batches.map(mask, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
        tf.data.AUTOTUNE
    )


def _as_dataset(documents) -> tf.data.Dataset:
    """A dataset of (sentences,) strings, with at least one element."""
    if not isinstance(documents, tf.data.Dataset):
        documents = list(documents)
        if any(isinstance(document, str | bytes) for document in documents):
            raise ValueError(
                "documents is a list of strings. Pass a list of documents, each a list of "
                "sentences, or give file paths to read_documents()."
            )
        if not documents:
            raise ValueError("There are no documents.")
        ragged = tf.ragged.constant(documents, dtype=tf.string, ragged_rank=1)
        return tf.data.Dataset.from_tensor_slices(ragged)
    if next(iter(documents.take(1)), None) is None:
        raise ValueError("There are no documents.")
    return documents


def _windows(documents, window_documents, shuffle, seed, repeat) -> tf.data.Dataset:
    """(epoch, index in the epoch, ragged (documents, sentences) strings), epoch after epoch."""

    def epoch_windows(epoch):
        shuffled = documents
        if shuffle:
            blocks = documents.ragged_batch(window_documents * SHUFFLED_WINDOWS)
            shuffled = _shuffle(blocks, (seed, epoch))
        windows = shuffled.ragged_batch(window_documents).enumerate()
        return windows.map(lambda index, window: (epoch, index, window))

    epochs = tf.data.Dataset.range(tf.int64.max if repeat else 1)
    return epochs.flat_map(epoch_windows)


def _shuffle(blocks: tf.data.Dataset, seed) -> tf.data.Dataset:
    """The rows of each block in random order, then all rows one by one.

    `Dataset.shuffle` mixes its seed with that of `tf.random.set_seed`: a run resumed in a program
    that sets it otherwise would read other batches.
    """

    def permute(index, block):
        order = permutation(_num_rows(tf.nest.flatten(block)[0]), fold_in(seed, index))
        return tf.nest.map_structure(lambda rows: tf.gather(rows, order), block)

    permuted = blocks.enumerate().map(permute, num_parallel_calls=1)
    return permuted.prefetch(1).unbatch()


def _num_rows(rows) -> tf.Tensor:
    return rows.nrows() if isinstance(rows, tf.RaggedTensor) else tf.shape(rows)[0]


def _refuse_empty_epochs(rows: tf.data.Dataset) -> tf.data.Dataset:
    """(epoch, rows) to rows, an error when the next epoch begins and there were none."""

    def count(state, element):
        counted_epoch, num_rows = state
        epoch, made = element
        label = made[1]
        message = (
            "The documents of a whole epoch make no training row. Are they empty, or a single "
            "sentence? Next-sentence pairs need two documents, or one of several sentences."
        )
        check = tf.debugging.Assert((epoch == counted_epoch) | (num_rows > 0), [message])
        with tf.control_dependencies([check]):
            before = tf.where(epoch == counted_epoch, num_rows, 0)
        return (epoch, before + tf.shape(label, out_type=tf.int64)[0]), made

    start = (tf.constant(0, tf.int64), tf.constant(0, tf.int64))
    return rows.scan(start, count)
