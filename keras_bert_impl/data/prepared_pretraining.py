"""Rows for pretraining made ahead, into files; masks are drawn as they are read.

What google-research/bert's create_pretraining_data.py does, but for its masks: text is tokenized,
paired and packed once. A run from files begins at any step at once, needs no tokenizing, and lets
each of several machines read its own files.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.pretraining import row_maker, row_masker
from keras_bert_impl.data.randomness import fold_in
from keras_bert_impl.data.row_files import RowFiles, check_same, write_row_files
from keras_bert_impl.data.shuffled_rows import check_start_step, finished, rows_of_documents


def prepare_pretraining(
    documents: tf.data.Dataset | Sequence[Sequence[str]],
    tokenizer: Any,
    folder: str | os.PathLike,
    *,
    sequence_length: int = 128,
    next_sentence: bool = True,
    short_sequence_probability: float = 0.1,
    num_files: int = 64,
    copies: int = 2,
    seed: int = 0,
    fingerprints: Sequence[Any] = (),
    done: Callable[[int, int], None] = lambda files, rows: None,
) -> None:
    """Write the rows of documents to a folder, for `prepared_pretraining_dataset`.

    Files are TFRecords of `tf.train.Example` with the features token_ids, segment_ids (as many as
    the row has tokens) and next_sentence (one number). Stopped, it goes on at the file it was at.

    Args:
        documents, tokenizer, sequence_length, next_sentence, short_sequence_probability: as in
            `pretraining_dataset`. Each file is made of every `num_files`-th document.
        folder: path.
        num_files: int. Of each copy; rows are shuffled among four while reading, so a file should
            fit in memory several times. Machines that read their own need at least one each.
        copies: int. How many epochs have pairs of their own; after those they come again, in
            another order and with other masks.
        seed: int. Of pairs.
        fingerprints: JSON values that tell the text from another, see `file_fingerprint`.
        done: called with the numbers of files and rows written, after each file.

    Raises:
        ValueError: if the folder holds rows of other settings; they are named.
    """
    settings = {
        "sequence_length": sequence_length,
        "next_sentence": next_sentence,
        "short_sequence_probability": short_sequence_probability,
        "seed": seed,
        "vocabulary": tokenizer.fingerprint(),
        "text": list(fingerprints),
    }
    if not isinstance(documents, tf.data.Dataset):
        ragged = tf.ragged.constant(documents, dtype=tf.string, ragged_rank=1)
        documents = tf.data.Dataset.from_tensor_slices(ragged)
    make_rows = row_maker(
        tokenizer,
        sequence_length=sequence_length,
        next_sentence=next_sentence,
        short_sequence_probability=short_sequence_probability,
    )

    def rows_of_file(number):
        copy, file = divmod(number, num_files)
        part = documents.shard(num_files, file)
        if next(iter(part.take(1)), None) is None:  # fewer documents than files
            return
        rows = rows_of_documents(
            part,
            make_rows,
            window_documents=64,
            shuffle_buffer=0,
            seed=int(fold_in(fold_in((seed, copy), 0), file)[0]),
            repeat=False,
        )
        for packed, label in rows.as_numpy_iterator():
            length = packed["padding_mask"].sum()
            yield {
                "token_ids": packed["token_ids"][:length],
                "segment_ids": packed["segment_ids"][:length],
                "next_sentence": [label],
            }

    write_row_files(folder, settings, num_files, rows_of_file, copies, done)


def prepared_pretraining_dataset(
    folder: str | os.PathLike | RowFiles,
    tokenizer: Any,
    *,
    batch_size: int,
    mask_rate: float = 0.15,
    max_predictions: int = 20,
    whole_word: bool = False,
    seed: int = 0,
    shuffle: bool = True,
    repeat: bool = True,
    drop_remainder: bool = True,
    start_step: int = 0,
    stream: int = 0,
    num_streams: int = 1,
) -> tf.data.Dataset:
    """Batches as `pretraining_dataset` gives, of the rows that `prepare_pretraining` wrote.

    To begin at a step costs reading a few files, however late it is.

    Args:
        folder: path, or the `RowFiles` of it.
        tokenizer: the `BertTokenizer` that the rows were made with.
        batch_size: int. Rows of each batch; of a stream, of its part of it.
        mask_rate, max_predictions, whole_word: as in `DynamicMasker`.
        seed: int. Of order and masks.
        shuffle, repeat: bools, as in `RowFiles.rows`.
        drop_remainder, start_step: as in `pretraining_dataset`.
        stream, num_streams: ints, for `dataset_of_streams`: a stream reads every so many-th file.

    Raises:
        ValueError: for a tokenizer of another vocabulary, or as `RowFiles`.
    """
    check_start_step(start_step)
    files = folder if isinstance(folder, RowFiles) else RowFiles(folder)
    check_same(
        {**files.settings, "vocabulary": tokenizer.fingerprint()}, files.settings, files.folder
    )
    length = files.settings["sequence_length"]
    seed = seed if num_streams == 1 else int(fold_in((seed, stream), 0)[0])
    rows = files.rows(
        {"token_ids": length, "segment_ids": length, "next_sentence": None},
        seed=seed,
        shuffle=shuffle,
        repeat=repeat,
        start_row=start_step * batch_size,
        stream=stream,
        num_streams=num_streams,
    )
    mask = row_masker(
        tokenizer,
        mask_rate=mask_rate,
        max_predictions=max_predictions,
        whole_word=whole_word,
        next_sentence=files.settings["next_sentence"],
        seed=seed,
    )

    def finish(step, batch):
        label = batch.pop("next_sentence")
        return mask(step, (batch, label))

    batches = rows.batch(batch_size, drop_remainder=drop_remainder)
    return finished(batches, finish, start_step)
