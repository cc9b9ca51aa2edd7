"""Generated documents, and what is asked of everything that makes rows of them."""

import numpy as np
import tensorflow as tf


def make_documents(sizes, rng, longest=12):
    """Documents of so many sentences whose pieces are 100, 101, ...: each piece is there once."""
    piece = 100
    documents = []
    for size in sizes:
        document = []
        for _ in range(size):
            length = rng.randint(1, longest)
            document.append(list(range(piece, piece + length)))
            piece += length
        documents.append(document)
    return documents


def window_of(documents):
    return tf.ragged.constant(documents, dtype=tf.int32, ragged_rank=2)


def rows(made):
    """What a maker gave, as lists: (first, second, label) of each row."""
    first, second, label = (as_list(part) for part in made)
    return list(zip(first, second or [None] * len(first), label, strict=True))


def as_list(part):
    if part is None:
        return None
    return part.to_list() if isinstance(part, tf.RaggedTensor) else part.numpy().tolist()


def rows_of_steps(make, steps):
    """The rows at steps 0 to steps - 1 of a function of a step, made in one tf.data graph."""
    for made in tf.data.Dataset.range(steps).map(lambda step: no_none(make(step))):
        first, *second, label = made
        yield rows((first, second[0] if second else None, label))


def rows_of_maker(maker, documents, steps, seed=1, **options):
    """The rows that a maker of a window makes with the seeds (seed, 0) to (seed, steps - 1)."""
    window = window_of(documents)
    return rows_of_steps(lambda step: maker(window, seed=(seed, step), **options), steps)


def no_none(made):
    return tuple(part for part in made if part is not None)


def assert_same_everywhere(make):
    """A function of a step gives the same eagerly, in a graph and in tf.data, each step other rows."""
    graph = tf.function(make, input_signature=[tf.TensorSpec([], tf.int64)])
    seen = []
    for step, from_dataset in enumerate(rows_of_steps(make, 3)):
        eager = rows(make(tf.constant(step, tf.int64)))
        assert eager == rows(graph(tf.constant(step, tf.int64))) == from_dataset
        seen.append(eager)
    assert seen[0] and seen[0] != seen[1] != seen[2] != seen[0]


def assert_shares(values, expected, errors=3):
    """Each value is as frequent as expected, a dict of shares, within so many standard errors."""
    assert set(values) <= set(expected), set(values) - set(expected)
    for value, share in expected.items():
        error = np.sqrt(share * (1 - share) / len(values))
        found = values.count(value) / len(values)
        assert abs(found - share) <= errors * error, (value, found, share)
