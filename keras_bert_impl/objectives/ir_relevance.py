"""Does a title answer a query?

ERNIE 2.0 (Sun et al. 2019), section 4.2.3, "IR Relevance Task": 0 where users clicked the title for
the query, 1 where it was only shown, 2 where it has nothing to do with it. Its log is a search
engine's; documents whose first sentence is a heading stand in for one.
"""

import os

import keras
import tensorflow as tf

from keras_bert_impl.data.document_walk import Sentences
from keras_bert_impl.data.packing import truncate_pair
from keras_bert_impl.data.randomness import below, fold_in, uniform_float64
from keras_bert_impl.data.sources import check_labels, read_table
from keras_bert_impl.objectives.base import TextObjective
from keras_bert_impl.objectives.given_rows import documents_of_rows, rows_of_window

STRONG = 0
WEAK = 1
NONE = 2


def read_click_log(
    path: str | os.PathLike, format: str | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A log of which titles were shown for a query, and which of them clicked.

    Args:
        path: a TSV (or CSV, JSONL) file, as `read_table` takes it, with the columns `query`,
            `title` and `clicked`, which is 0 or 1. A title that was shown for a query several
            times is clicked if it was once.
        format: `"tsv"`, `"csv"`, `"jsonl"` or None for the file's suffix.

    Returns:
        query: (rows,) strings. Each pair of query and title is there once, in the file's order.
        title: (rows,) strings.
        clicked: (rows,) bool.

    Raises:
        FileNotFoundError, ValueError: as `read_table` and `check_labels`, with file and line.

    Example:

    >>> query, title, clicked = read_click_log("clicks.tsv")
    """
    table = read_table(path, ["query", "title", "clicked"], format)
    clicks = check_labels(table, "clicked", num_classes=2)
    is_clicked: dict[tuple[str, str], bool] = {}
    pairs = zip(table.columns["query"], table.columns["title"], strict=True)
    for pair, clicked in zip(pairs, clicks, strict=True):
        is_clicked[pair] = is_clicked.get(pair, False) or bool(clicked)
    query, title = zip(*is_clicked, strict=True)
    return tf.constant(query), tf.constant(title), tf.constant(list(is_clicked.values()))


def clicked_pairs(
    query, title, clicked, *, none_probability: float = 1 / 3, seed
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Rows of a click log, some of them with the title of another query.

    Args:
        query, title: (rows,) strings, as `read_click_log` gives, or a batch of them.
        clicked: (rows,) bool.
        none_probability: float. Share of rows that get the title of a random row of another query.
            A row keeps its own where it drew a title that was shown for its query too, or where
            all rows are of one query. Default 1/3.
        seed: (2,) int tensor or a pair of numbers. The rows are a function of it and the log.

    Returns:
        first: (rows,) strings, the queries.
        second: (rows,) strings, the titles.
        label: (rows,) int32. 0 (`STRONG`) clicked, 1 (`WEAK`) shown, 2 (`NONE`) another query's.

    Example:

    >>> first, second, label = clicked_pairs(
    ...     ["a", "b"], ["A", "B"], [True, False], none_probability=1.0, seed=(1, 0)
    ... )
    >>> second.numpy().tolist(), label.numpy().tolist()
    ([b'B', b'A'], [2, 2])
    """
    query, title = tf.convert_to_tensor(query), tf.convert_to_tensor(title)
    clicked = tf.cast(clicked, tf.bool)
    num_rows = tf.size(query, tf.int64)
    draw = uniform_float64(tf.stack([2, tf.size(query)]), fold_in(seed, 0))

    # Rows in the order of their queries: all but a query's own run are of others.
    queries, group, counts = tf.unique_with_counts(query, tf.int64)
    by_query = tf.argsort(group, stable=True)
    others = num_rows - tf.gather(counts, group)
    place = below(draw[0], others)
    run_start = tf.gather(tf.cumsum(counts, exclusive=True), group)
    place += tf.where(place >= run_start, tf.gather(counts, group), 0)
    other = tf.gather(by_query, tf.minimum(place, num_rows - 1))

    titles, title_number = tf.unique(title, tf.int64)
    num_titles = tf.size(titles, tf.int64)
    shown = tf.sort(group * num_titles + title_number)
    asked = group * num_titles + tf.gather(title_number, other)
    found = tf.searchsorted(shown, asked, side="right") - tf.searchsorted(shown, asked)

    is_none = (draw[1] < none_probability) & (others > 0) & (found == 0)
    own = tf.where(clicked, STRONG, WEAK)
    return (
        query,
        tf.where(is_none, tf.gather(title, other), title),
        tf.where(is_none, NONE, own),
    )


def heading_pairs(
    window: tf.RaggedTensor, *, max_tokens: int, seed
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Headings of documents as queries, and sentences below a heading as titles.

    The first sentence of a document is its heading. Each document of two sentences or more makes
    three rows: its heading with the sentence right after it (class 0), with a random one of its
    others (class 1; not where there are but two), and with a random sentence, no heading, of the
    other documents (class 2; not where these have none).

    Args:
        window: ragged (documents, sentences, pieces) ids. What is empty is dropped.
        max_tokens: int, at least 2. Pairs over it lose the end of the longer text.
        seed: (2,) int tensor or a pair of numbers. The pairs are a function of it and the window.

    Returns:
        first: ragged (rows, pieces), headings. In the order of the documents, then of the classes.
        second: ragged (rows, pieces), sentences.
        label: (rows,) int32. 0 (`STRONG`), 1 (`WEAK`) or 2 (`NONE`).

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5], [6, 7], [8]], [[9], [10]]])
    >>> first, second, label = heading_pairs(window, max_tokens=8, seed=(1, 0))
    >>> first.to_list(), label.numpy().tolist()
    ([[5], [5], [5], [9], [9]], [0, 1, 2, 0, 2])
    """
    sentences = Sentences.of(window, max_tokens)
    heading, end = sentences.document_starts, sentences.document_ends
    below_heading = end - heading - 1  # (documents,)
    draw = uniform_float64(tf.stack([2, tf.size(heading)]), fold_in(seed, 0))

    # Sentences that are no headings, numbered through, and the first of each document.
    first_number = heading - tf.range(sentences.num_documents)
    others = tf.reduce_sum(below_heading) - below_heading
    number = below(draw[0], others)
    number += tf.where(number >= first_number, below_heading, 0)
    other = number + tf.searchsorted(first_number, number, side="right", out_type=tf.int64)

    title = tf.stack([heading + 1, heading + 2 + below(draw[1], below_heading - 1), other], axis=1)
    made = tf.stack([below_heading > 0, below_heading > 1, (below_heading > 0) & (others > 0)], 1)
    row = tf.where(made)  # (rows, 2): document, class
    first, second = truncate_pair(
        _sentence(sentences, tf.gather(heading, row[:, 0])),
        _sentence(sentences, tf.gather_nd(title, row)),
        max_tokens,
    )
    return first, second, tf.cast(row[:, 1], tf.int32)


def _sentence(sentences, number):
    """Ragged (rows, pieces): the sentences of these numbers."""
    start, end = tf.gather(sentences.offsets, number), tf.gather(sentences.offsets, number + 1)
    return tf.gather(sentences.pieces, tf.ragged.range(start, end))


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class IRRelevance(TextObjective):
    """Relevance of a title for a query, with the rows of `heading_pairs`, or of a click log.

    Args:
        weight: float, as in `Objective`.
        click_log: queries, titles and clicks, as `read_click_log` gives them, or None. With it rows
            are those of `clicked_pairs`, titles of other queries drawn within a window of queries.
            It belongs to the data: `get_config` leaves it out.
    """

    name = "ir_relevance"
    num_classes = 3

    def __init__(self, weight: float = 1.0, click_log=None):
        super().__init__(weight)
        if click_log is not None:
            query, title, clicked = click_log
            clicked = tf.strings.as_string(tf.cast(clicked, tf.int32))
            # A query's titles together: which were never shown for it is then known.
            self.documents = documents_of_rows([query, title, clicked], by=0)

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        # Headings are short as they are.
        if self.documents is None:
            return heading_pairs(to_pieces(texts), max_tokens=max_tokens(2), seed=seed)
        query, title, clicked = rows_of_window(texts, 3)
        first, second, label = clicked_pairs(query, title, clicked == "1", seed=seed)
        first, second = truncate_pair(to_pieces(first), to_pieces(second), max_tokens(2))
        return first, second, label
