"""Documents to batches for pretraining: tokenize, pair, pack, shuffle, mask. One tf.data graph.

Paper, section 3.1 and appendix A.2. The original writes examples to files, ten masks of each;
here pairs are made anew in each epoch and masks in each step.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.masking import DynamicMasker
from keras_bert_impl.data.packing import pack
from keras_bert_impl.data.randomness import fold_in
from keras_bert_impl.data.row_packing import POOL_EXAMPLES, packed_rows
from keras_bert_impl.data.sentence_pairs import pairs_from_documents, texts_from_documents
from keras_bert_impl.data.shuffled_rows import batches_by_step, rows_of_documents, tokenized


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
    examples_per_row: int = 1,
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
        examples_per_row: int. Above 1, at most so many examples share a row, see
            `data/row_packing.py`; batch_size counts such rows, and so do masks.

    Returns:
        A dataset of `(x, y, sample_weight)`:
        x: dict of token_ids, segment_ids (batch, length) int32, padding_mask (batch, length)
            bool, mask_positions (batch, slots) int32.
        y: dict of masked_lm (batch, slots) int32 and next_sentence (batch,) int32, whose classes
            `pairs_from_documents` tells.
        sample_weight: dict of masked_lm (batch, slots) float32, 0 in empty slots, and
            next_sentence (batch,) float32 ones.
        With next_sentence=False y and sample_weight are the masked_lm tensors themselves.
        Of several examples a row, x is as of `pack_rows`, with mask_positions, and next_sentence
        (batch, examples_per_row), of weight 0 where there is no example.

    Raises:
        ValueError: without documents, or for options out of range.
        tf.errors.InvalidArgumentError: on reading, if all documents together make no row and
            repeat is true: it would go on for ever without a batch.

    Example:

    >>> documents = [["a b", "b a"], ["b", "a a"]]
    >>> data = pretraining_dataset(documents, tokenizer, sequence_length=16, batch_size=2)
    >>> x, y, sample_weight = next(iter(data))
    """
    make_rows = row_maker(
        tokenizer,
        sequence_length=sequence_length,
        next_sentence=next_sentence,
        short_sequence_probability=short_sequence_probability,
    )
    mask = row_masker(
        tokenizer,
        mask_rate=mask_rate,
        max_predictions=max_predictions,
        whole_word=whole_word,
        next_sentence=next_sentence,
        examples_per_row=examples_per_row,
        seed=seed,
    )
    rows = rows_of_documents(
        documents,
        make_rows,
        window_documents=window_documents,
        shuffle_buffer=shuffle_buffer,
        seed=seed,
        repeat=repeat,
    )
    if examples_per_row != 1:
        rows = rows.map(lambda packed, label: (packed, (label, tf.ones_like(label, tf.float32))))
        numbers = tf.data.Dataset.range(tf.int64.max)  # masks draw by children 0 to 3 of a number
        rows = packed_rows(
            rows.batch(POOL_EXAMPLES),
            numbers.map(lambda n: fold_in((seed, n), 4)) if shuffle_buffer > 0 else None,
            row_length=sequence_length,
            examples_per_row=examples_per_row,
        )
    return batches_by_step(
        rows, mask, batch_size=batch_size, drop_remainder=drop_remainder, start_step=start_step
    )


def row_maker(
    tokenizer: Any, *, sequence_length: int, next_sentence: bool, short_sequence_probability: float
):
    """The function that makes rows of a window of documents, for `rows_of_documents`.

    It gives a dict of token_ids, segment_ids, padding_mask (rows, length), and labels (rows,) int32.
    """

    def make_rows(window, seed):
        pieces = tokenized(window, tokenizer)  # (documents, sentences, pieces)
        options = {"short_sequence_probability": short_sequence_probability, "seed": seed}
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
        return packed, label

    return make_rows


def row_masker(
    tokenizer: Any,
    *,
    mask_rate: float,
    max_predictions: int,
    whole_word: bool,
    next_sentence: bool,
    seed: int,
    examples_per_row: int = 1,
):
    """The function of a step and its rows to the batch that `pretraining_dataset` gives."""
    masker = DynamicMasker.for_tokenizer(
        tokenizer, mask_rate=mask_rate, max_predictions=max_predictions, whole_word=whole_word
    )

    def mask(step, rows):
        packed, label = rows
        if examples_per_row != 1:
            label, present = label
        else:
            present = tf.ones_like(label, tf.float32)
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
            "next_sentence": present,
        }
        return x, y, weights

    return mask
