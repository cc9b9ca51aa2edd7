"""Whole words to numbers: what a language model over words has to choose from."""

import collections
import os
import pathlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

# Of every vocabulary.
UNKNOWN_WORD_ID = 0
BEGIN_ID = 1
END_ID = 2
_NUM_MARKS = 3
_MARKS = ("<unknown>", "<begin>", "<end>")


class WordVocabulary:
    """The words that a language model knows, by number.

    0 is any word that is not among them, 1 the begin of a sentence, 2 its end; then come the words.

    Args:
        words: sequence of str, each once.

    Raises:
        ValueError: for a word that repeats, is empty or holds white space.

    Example:

    >>> vocabulary = WordVocabulary(["the", "cat"])
    >>> vocabulary.ids(tf.ragged.constant([["the", "dog"], ["cat"]])).to_list()
    [[3, 0], [4]]
    """

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        seen: set[str] = set()
        for number, word in enumerate(self.words):
            if word in seen:
                raise ValueError(f"Word {number}, {word!r}, stands in the vocabulary twice.")
            if word.split() != [word]:
                raise ValueError(
                    f"Word {number} is {word!r}: a word is not empty and holds no gap."
                )
            seen.add(word)
        with tf.device("cpu"), tf.init_scope():
            words_tensor = tf.constant(self.words, tf.string, [len(self.words)])
            numbers = tf.range(_NUM_MARKS, _NUM_MARKS + len(self.words), dtype=tf.int64)
            initializer = tf.lookup.KeyValueTensorInitializer(words_tensor, numbers)
            self._table = tf.lookup.StaticHashTable(initializer, UNKNOWN_WORD_ID)

    @classmethod
    def of_documents(
        cls,
        documents: tf.data.Dataset | Sequence[Sequence[str]],
        max_words: int = 100_000,
        min_count: int = 1,
    ) -> "WordVocabulary":
        """The most frequent words of some text, cut at white space.

        Args:
            documents: as in `pretraining_dataset`.
            max_words: int. At most so many words; of equal counts, the first by code point.
            min_count: int. Words that come less often are left out.

        Raises:
            ValueError: if no word is left.

        Example:

        >>> WordVocabulary.of_documents([["the cat", "the dog"]], max_words=2).words
        ('the', 'cat')
        """
        counts: collections.Counter[str] = collections.Counter()
        for sentence in _sentences(documents):
            counts.update(sentence.split())
        words = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
        if not words[:max_words]:
            raise ValueError(
                f"No word is left: {len(counts)} different words, min_count={min_count}, "
                f"max_words={max_words}."
            )
        return cls(words[:max_words])

    @classmethod
    def read(cls, path: str | os.PathLike) -> "WordVocabulary":
        """From a file that `save` wrote: a word a line."""
        return cls(pathlib.Path(path).read_text("utf-8").splitlines())

    def save(self, path: str | os.PathLike) -> None:
        """Write a word a line, without the three marks."""
        pathlib.Path(path).write_text("".join(f"{word}\n" for word in self.words), "utf-8")

    def __len__(self) -> int:
        """Numbers in all, the three marks among them: the size of a softmax over them."""
        return _NUM_MARKS + len(self.words)

    def word(self, number: int) -> str:
        """The word, or mark, of a number.

        Raises:
            ValueError: for a number outside of the vocabulary.
        """
        if not 0 <= number < len(self):
            raise ValueError(f"{number} is outside of the vocabulary: 0 to {len(self) - 1}.")
        return (*_MARKS, *self.words)[number]

    def ids(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Words to int32 numbers of the same shape, ragged or dense. A TensorFlow graph."""
        with tf.device("cpu"):
            return tf.ragged.map_flat_values(
                lambda flat: tf.cast(self._table.lookup(flat), tf.int32), words
            )


def _sentences(documents) -> Iterator[str]:
    if isinstance(documents, tf.data.Dataset):
        documents = documents.as_numpy_iterator()
    for document in documents:
        for sentence in document:
            yield sentence.decode("utf-8", "ignore") if isinstance(sentence, bytes) else sentence
