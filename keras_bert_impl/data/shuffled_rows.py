"""Documents to rows in a random order that a seed alone decides, epoch after epoch."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.randomness import fold_in, permutation

# Documents are shuffled among this many windows, so that other documents meet in each epoch.
SHUFFLED_WINDOWS = 8


def rows_of_documents(
    documents: tf.data.Dataset | Sequence[Sequence[str]],
    make_rows: Callable,
    *,
    window_documents: int,
    shuffle_buffer: int,
    seed: int,
    repeat: bool,
) -> tf.data.Dataset:
    """The rows that a function makes of each window of documents, one by one.

    Args:
        documents: a dataset of (sentences,) string tensors, or a list of lists of strings.
        make_rows: takes ragged (documents, sentences) strings and a (2,) int64 seed, and gives a
            tuple of tensors, or dicts of them, with an axis of rows first and no ragged axis.
        window_documents: int. Documents of a window.
        shuffle_buffer: int. Rows shuffled together; documents are shuffled then too, among
            `SHUFFLED_WINDOWS` windows. 0 keeps documents and rows in order.
        seed: int. The order is a function of it, the epoch and the number of the block.
        repeat: bool. True begins again without end, each epoch with seeds of its own.

    Returns:
        A dataset of rows.

    Raises:
        ValueError: without documents, or where they are a flat list of strings.
        tf.errors.InvalidArgumentError: on reading, if an epoch makes no row and repeat is true: it
            would go on for ever without a batch.
    """
    source = _as_dataset(documents)

    def epoch_blocks(epoch):
        """Blocks of rows, shuffled or in order, and one of no rows where the epoch ends."""
        epoch_seed = fold_in((seed, epoch), 0)
        shuffled = source
        if shuffle_buffer > 0:
            neighbours = source.ragged_batch(window_documents * SHUFFLED_WINDOWS)
            shuffled = _shuffle(neighbours, fold_in(epoch_seed, 1)).unbatch()
        windows = shuffled.ragged_batch(window_documents).enumerate()
        blocks = windows.map(
            lambda index, window: make_rows(window, fold_in(epoch_seed, index)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        if shuffle_buffer > 0:
            blocks = _shuffle(blocks, fold_in(epoch_seed, 2))
            blocks = _shuffle(blocks.unbatch().batch(shuffle_buffer), fold_in(epoch_seed, 3))
        blocks = blocks.filter(lambda *block: _count_rows(block) > 0)
        return blocks.concatenate(_no_rows(blocks.element_spec))

    blocks = tf.data.Dataset.range(tf.int64.max if repeat else 1).flat_map(epoch_blocks)
    if repeat:
        blocks = _refuse_empty_epochs(blocks)
    return blocks.prefetch(1).unbatch()


def batches_by_step(
    rows: tf.data.Dataset,
    finish: Callable,
    *,
    batch_size: int,
    drop_remainder: bool,
    start_step: int,
) -> tf.data.Dataset:
    """Batches of rows from a step on, each finished by a function of its step and itself.

    Args:
        rows: from `rows_of_documents`.
        finish: takes the number of the step, int64, and the batch.
        batch_size, drop_remainder, start_step: as in `pretraining_dataset`. Batches left out are
            made, but not finished.

    Raises:
        ValueError: for a negative start_step.
    """
    check_start_step(start_step)
    batches = rows.batch(batch_size, drop_remainder=drop_remainder).skip(start_step)
    return finished(batches, finish, start_step)


def finished(batches: tf.data.Dataset, finish: Callable, start_step: int) -> tf.data.Dataset:
    """Batches of rows from a step on, each finished by a function of its step and itself."""
    numbered = batches.enumerate(start_step)
    return numbered.map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
        tf.data.AUTOTUNE
    )


def check_start_step(start_step: int) -> None:
    """Raise a ValueError for a negative number of steps to leave out."""
    if start_step < 0:
        raise ValueError(f"start_step={start_step} must not be negative.")


def tokenized(window: tf.RaggedTensor, tokenizer: Any) -> tf.RaggedTensor:
    """Ragged (documents, sentences, pieces) ids of ragged (documents, sentences) strings."""
    pieces = tokenizer.tokenize(window.flat_values)  # (sentences, pieces)
    return window.with_flat_values(pieces.with_row_splits_dtype(tf.int64))


def _count_rows(block) -> tf.Tensor:
    rows = tf.nest.flatten(block)[0]
    return rows.nrows() if isinstance(rows, tf.RaggedTensor) else tf.shape(rows)[0]


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


def _shuffle(blocks: tf.data.Dataset, seed) -> tf.data.Dataset:
    """Each block's rows in random order.

    `Dataset.shuffle` mixes its seed with that of `tf.random.set_seed`: a run resumed in a program
    that sets it otherwise would read other batches.
    """

    def permute(index, block):
        order = permutation(_count_rows(block), fold_in(seed, index))
        return tf.nest.map_structure(lambda rows: tf.gather(rows, order), block)

    return blocks.enumerate().map(permute)


def _no_rows(element_spec) -> tf.data.Dataset:
    """One block of no rows."""
    return tf.data.Dataset.from_tensors(
        tf.nest.map_structure(lambda spec: tf.zeros([0, *spec.shape[1:]], spec.dtype), element_spec)
    )


def _refuse_empty_epochs(blocks: tf.data.Dataset) -> tf.data.Dataset:
    """The same blocks; an error at the end of an epoch that had no rows.

    It would go on for ever without a batch.
    """

    def count(rows_before, block):
        rows = _count_rows(block)
        ended = rows == 0
        message = (
            "The documents of a whole epoch make no training row. Are they empty, or a single "
            "sentence? Next-sentence pairs need two documents, or one of several sentences."
        )
        check = tf.debugging.Assert(~ended | (rows_before > 0), [message])
        with tf.control_dependencies([check]):
            # at most one: no count could run over in a long run
            return tf.where(ended, 0, tf.minimum(rows_before + rows, 1)), block

    return blocks.scan(tf.constant(0), count)
