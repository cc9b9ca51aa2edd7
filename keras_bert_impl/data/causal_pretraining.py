"""Documents to batches for a causal language model: tokenize, pack, shuffle, shift."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.next_tokens import next_tokens
from keras_bert_impl.data.packing import pack
from keras_bert_impl.data.sentence_pairs import texts_from_documents
from keras_bert_impl.data.shuffled_rows import batches_by_step, rows_of_documents, tokenized


def causal_pretraining_dataset(
    documents: tf.data.Dataset | Sequence[Sequence[str]],
    tokenizer: Any,
    *,
    sequence_length: int = 128,
    batch_size: int,
    short_sequence_probability: float = 0.0,
    window_documents: int = 64,
    shuffle_buffer: int = 10_000,
    seed: int = 0,
    repeat: bool = True,
    drop_remainder: bool = True,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Batches for `BertCausalLM`: rows of running text, at each token the one after it.

    Rows are those of `pretraining_dataset(..., next_sentence=False)`, which makes the two models
    comparable: runs of sentences of one document. `[SEP]` ends each, whether or not its document
    ends there too. The same arguments give the same batches, as there.

    Args:
        documents, tokenizer, sequence_length, batch_size: as in `pretraining_dataset`.
        short_sequence_probability: float, as in `pairs_from_documents`. Default 0: a causal model
            learns from short contexts at the start of every row.
        window_documents, shuffle_buffer, seed, repeat, drop_remainder, start_step: as in
            `pretraining_dataset`.

    Returns:
        A dataset of `(x, y, sample_weight)`:
        x: dict of token_ids, segment_ids (batch, length) int32, padding_mask (batch, length) bool.
        y: (batch, length) int32, the next ids.
        sample_weight: (batch, length) float32, 0 on the last token and on padding.

    Raises:
        ValueError, tf.errors.InvalidArgumentError: as `pretraining_dataset`.

    Example:

    >>> documents = [["a b", "b a"], ["b", "a a"]]
    >>> data = causal_pretraining_dataset(documents, tokenizer, sequence_length=16, batch_size=2)
    >>> x, y, sample_weight = next(iter(data))
    >>> bool(tf.reduce_all(x["token_ids"][:, 1:] == y[:, :-1]))
    True
    """

    def make_rows(window, window_seed):
        """Ragged (documents, sentences) strings to packed rows (rows, length)."""
        texts = texts_from_documents(
            tokenized(window, tokenizer),
            max_tokens=sequence_length - 2,
            short_sequence_probability=short_sequence_probability,
            seed=window_seed,
        )
        return pack(
            texts, sequence_length=sequence_length, tokenizer=tokenizer, pad_to="max_length"
        )

    rows = rows_of_documents(
        documents,
        make_rows,
        window_documents=window_documents,
        shuffle_buffer=shuffle_buffer,
        seed=seed,
        repeat=repeat,
    )
    return batches_by_step(
        rows,
        lambda _, x: (x, *next_tokens(x)),
        batch_size=batch_size,
        drop_remainder=drop_remainder,
        start_step=start_step,
    )
