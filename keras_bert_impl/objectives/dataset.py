"""Documents to batches of several objectives, in one universal form. One tf.data graph.

A batch's rows are of one task: made by one objective, or plain texts for those that only ask
something of tokens. Which task step n is of is a function of n, and each maker has a stream of rows
of its own, so that the dataset can begin at any step.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.marked_pieces import join_bits, mark, room_for_bits, split_bits, unmark
from keras_bert_impl.data.packing import pack, room_for_text
from keras_bert_impl.data.randomness import fold_in
from keras_bert_impl.data.sentence_pairs import texts_from_documents
from keras_bert_impl.data.shuffled_rows import check_start_step, rows_of_documents, tokenized
from keras_bert_impl.objectives.base import (
    Lines,
    Objective,
    TextObjective,
    TokenObjective,
    check_objectives,
)
from keras_bert_impl.objectives.schedule import Schedule, multi_task


def objectives_dataset(
    documents: tf.data.Dataset | Sequence[Sequence[str]],
    tokenizer: Any,
    objectives: Sequence[Objective],
    *,
    sequence_length: int = 128,
    batch_size: int,
    schedule: Schedule | None = None,
    short_sequence_probability: float = 0.1,
    window_documents: int = 64,
    shuffle_buffer: int = 10_000,
    seed: int = 0,
    repeat: bool = True,
    drop_remainder: bool = True,
    start_step: int = 0,
    task_embeddings: bool = False,
) -> tf.data.Dataset:
    """Batches for `BertPretrainer(backbone, objectives=objectives)`.

    The same arguments give the same batches, as in `pretraining_dataset`; but its default pair has
    other batches there than here. Memory holds windows and shuffle buffers for each objective that
    makes rows.

    Args:
        documents, tokenizer, sequence_length, batch_size: as in `pretraining_dataset`.
        objectives: `Objective`s, no two of one name.
        schedule: a `Schedule` whose tasks are of these objectives, or None: then objectives that
            make rows take turns, and those of tokens are trained in every batch beside them.
        short_sequence_probability, window_documents, shuffle_buffer, seed: as in
            `pretraining_dataset`.
        repeat: bool. True begins again without end. False gives the rows of each maker once, one
            maker after another: for evaluation, without a schedule.
        drop_remainder: bool. True drops last, smaller batches, so that shapes are static.
        start_step: int. Batches to leave out at the beginning, for a resumed run.
        task_embeddings: bool. Whether x has `task_ids`, for a backbone with
            `num_tasks=len(objectives)`. The id of a task is the place among the objectives of the
            one that makes its rows, or, where none does, of the task's first.

    Returns:
        A dataset of `(x, y, sample_weight)`:
        x: dict of token_ids, segment_ids (batch, length) int32, padding_mask (batch, length)
            bool; with a masked LM also mask_positions (batch, slots) int32, with task embeddings
            task_ids (batch, 1) int32.
        y: dict by name of objective: int32 (batch,) of texts, (batch, length) of tokens,
            (batch, slots) of the masked LM. Labels without weight are 0 or anything.
        sample_weight: dict of float32 of the same shapes, 0 in batches of other tasks.

    Raises:
        ValueError: without documents, for objectives that do not go together, a schedule of other
            ones, or options out of range.
        tf.errors.InvalidArgumentError: on reading, if all documents together make no row of one of
            the objectives and repeat is true.

    Example:

    >>> documents = [["a b", "b a"], ["b", "a a"]]
    >>> objectives = [MaskedLM(), SentenceOrder()]
    >>> data = objectives_dataset(documents, tokenizer, objectives, sequence_length=16, batch_size=2)
    >>> x, y, sample_weight = next(iter(data))
    >>> sorted(y)
    ['masked_lm', 'sentence_order']
    """
    check_start_step(start_step)
    objectives = check_objectives(objectives)
    if schedule is not None and not repeat:
        raise ValueError("repeat=False gives all rows once, whatever the schedule: leave it out.")
    schedule = schedule or side_by_side(objectives)
    named = {objective.name: objective for objective in objectives}
    makers = [_maker(task.objectives, named) for task in schedule.tasks]  # by task
    streams = list(dict.fromkeys(makers))
    stream_of_task = [streams.index(maker) for maker in makers]
    task_ids = [
        objectives.index(maker or named[task.objectives[0]])
        for task, maker in zip(schedule.tasks, makers, strict=True)
    ]
    token_objectives = [o for o in objectives if isinstance(o, TokenObjective)]
    widths = [o.num_bits(sequence_length) for o in token_objectives]
    room = room_for_bits(tokenizer.vocabulary_size())
    if sum(widths) > room:
        raise ValueError(
            f"The objectives' marks need {sum(widths)} bits, but beside a vocabulary of "
            f"{tokenizer.vocabulary_size()} pieces there is room for {room}. Leave one out."
        )

    def to_pieces(texts):
        """Strings to marked pieces: (documents, sentences) or (lines,), and one more axis."""
        is_window = isinstance(texts, tf.RaggedTensor)
        lines = texts.flat_values if is_window else texts
        plain = lines
        for objective in token_objectives:
            plain = objective.plain(plain)
        if is_window:
            pieces = tokenized(texts.with_flat_values(plain), tokenizer)
        else:
            pieces = tokenizer.tokenize(plain).with_row_splits_dtype(tf.int64)
        if not sum(widths):
            return pieces
        told = Lines(lines, plain, pieces, tokenizer, sequence_length)
        marked = [(o, w) for o, w in zip(token_objectives, widths, strict=True) if w]
        bits = join_bits([o.marks(told) for o, _ in marked], [w for _, w in marked])
        return mark(pieces, bits, tokenizer.vocabulary_size())

    def batches_of(maker):
        """Packed rows with marks, and labels, batch by batch."""

        def make_rows(texts, window_seed):
            first, second, label = _rows(
                maker,
                texts,
                to_pieces,
                max_tokens=lambda num_texts: room_for_text(sequence_length, num_texts),
                short_sequence_probability=short_sequence_probability,
                seed=window_seed,
            )
            packed = pack(
                first,
                second,
                sequence_length=sequence_length,
                tokenizer=tokenizer,
                pad_to="max_length",
            )
            return packed, tf.cast(label, tf.int32)

        # By name, so that one more objective leaves the others' rows as they are.
        name = "" if maker is None else maker.name
        own = None if maker is None else maker.documents
        rows = rows_of_documents(
            documents if own is None else own,
            make_rows,
            window_documents=window_documents,
            shuffle_buffer=shuffle_buffer,
            seed=fold_in((seed, zlib.crc32(name.encode())), 0)[0],
            repeat=repeat,
        )
        return rows.batch(batch_size, drop_remainder=drop_remainder)

    def finish(step, batch):
        task, packed, label = batch
        token_ids, bits = unmark(packed["token_ids"], tokenizer.vocabulary_size())
        packed = {**packed, "token_ids": token_ids}
        marks = dict(zip(token_objectives, split_bits(bits, widths), strict=True))
        x, y, weights = dict(packed), {}, {}
        for objective in objectives:
            if isinstance(objective, TokenObjective):
                inputs, labels, weight = objective.targets(
                    packed, marks[objective], tokenizer=tokenizer, seed=(seed, step)
                )
                x.update(inputs)
            else:
                labels, weight = label, tf.ones_like(label, tf.float32)
            trained = tf.gather(
                tf.constant([objective.name in t.objectives for t in schedule.tasks]), task
            )
            # Another maker's labels may be classes that this head does not have.
            y[objective.name] = tf.where(trained, labels, 0)
            weights[objective.name] = tf.where(trained, weight, 0.0)
        if task_embeddings:
            task_id = tf.gather(tf.constant(task_ids, tf.int32), task)
            x["task_ids"] = tf.zeros_like(packed["token_ids"][:, :1]) + task_id
        return x, y, weights

    if repeat:
        counts = schedule.counts(start_step)
        skipped = [0] * len(streams)
        for task, count in enumerate(counts):
            skipped[stream_of_task[task]] += count
        tasks = tf.data.Dataset.range(start_step, tf.int64.max).map(schedule.at)
        chosen = tasks.map(lambda task: tf.gather(tf.constant(stream_of_task, tf.int64), task))
        batches = tf.data.Dataset.choose_from_datasets(
            [batches_of(m).skip(n) for m, n in zip(streams, skipped, strict=True)], chosen
        )
        batches = tf.data.Dataset.zip(tasks, batches).map(lambda task, batch: (task, *batch))
    else:
        batches = None
        for task, maker in enumerate(makers):
            number = tf.constant(task, tf.int64)
            part = batches_of(maker).map(lambda *batch, number=number: (number, *batch))
            batches = part if batches is None else batches.concatenate(part)
        batches = batches.skip(start_step)
    return (
        batches.enumerate(start_step)
        .map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def side_by_side(objectives: Sequence[Objective]) -> Schedule:
    """Objectives that make rows take turns, each with all those of tokens.

    Example:

    >>> schedule = side_by_side([MaskedLM(), SentenceOrder(), Capitalization()])
    >>> schedule.tasks[0].objectives
    ('masked_lm', 'capitalization', 'sentence_order')
    """
    of_tokens = [o.name for o in objectives if not isinstance(o, TextObjective)]
    of_texts = [o.name for o in objectives if isinstance(o, TextObjective)]
    if not of_texts:
        return multi_task(["+".join(of_tokens)])
    return multi_task(["+".join([*of_tokens, name]) for name in of_texts])


def _maker(names, known) -> TextObjective | None:
    """The objective that makes a task's rows, or None for plain texts."""
    for name in names:
        if name not in known:
            raise ValueError(
                f"The schedule trains {name!r}, which is none of the objectives {', '.join(known)}."
            )
    makers = [known[name] for name in names if isinstance(known[name], TextObjective)]
    if len(makers) > 1:
        raise ValueError(
            f"The task {'+'.join(names)!r} has {len(makers)} objectives that make rows; a batch is "
            "of one. Make them tasks of their own."
        )
    return makers[0] if makers else None


def _rows(maker, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
    if maker is not None:
        return maker.rows(
            texts,
            to_pieces,
            max_tokens=max_tokens,
            short_sequence_probability=short_sequence_probability,
            seed=seed,
        )
    first = texts_from_documents(
        to_pieces(texts),
        max_tokens=max_tokens(1),
        short_sequence_probability=short_sequence_probability,
        seed=seed,
    )
    return first, None, tf.zeros([first.nrows()], tf.int32)
