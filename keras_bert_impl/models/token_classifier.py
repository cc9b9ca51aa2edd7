"""Tagging of words: named entities, parts of speech (paper, section 5.3 and figure 4, d)."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.data.batches import is_prepared, refuse_tuple
from keras_bert_impl.data.entities import OUTSIDE, Entity, entities_of
from keras_bert_impl.data.tagged_words import (
    array_of_rows,
    ragged_batches,
    word_labels,
    word_weights,
)
from keras_bert_impl.data.word_alignment import (
    at_first_pieces,
    at_words,
    likeliest_classes,
    split_words,
)
from keras_bert_impl.layers.initialization import dense
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.task import BATCH_SIZE, BertTask
from keras_bert_impl.models.text_classifier import check_class_labels
from keras_bert_impl.models.token_classifier_preprocessor import (
    UNCUT_ERROR,
    BertTokenClassifierPreprocessor,
    are_texts,
)
from keras_bert_impl.training.losses import MaskedLMLoss


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertTokenClassifier(BertTask):
    """A dense layer on each token's vector; a word's is that of its first piece.

    Words go in and one tag for each comes out, whatever the tokenizer makes of them: long
    sentences are read in windows, see `BertTokenClassifierPreprocessor`.

    Args:
        backbone: a `BertBackbone`.
        num_classes: int, at least 2. May be left out where `class_names` are given.
        preprocessor: a `BertTokenClassifierPreprocessor`, or None where ids come prepared.
        class_names: sequence of str, optional. The tags, in order, such as `"O"`, `"B-PER"`.
        dropout: float in [0, 1), default the backbone's. On the tokens' vectors.

    Outputs: (batch, length, num_classes) logits.

    In `fit` and `evaluate`, x is the words of each sentence: nested lists of str, or ragged
    strings; y is as long, class names or numbers; sample_weight is as long too, or one number a
    sentence. The loss is the mean over the words of a batch. Prepared ids take y and
    sample_weight of shape (batch, length), the weight 0 on all but the first pieces of words.

    Raises:
        ValueError: for fewer than 2 classes, or names that repeat or do not fit their number.

    Example:

    >>> tagger = BertTokenClassifier(
    ...     backbone, preprocessor=BertTokenClassifierPreprocessor(tokenizer, 128),
    ...     class_names=["O", "B-PER", "I-PER"])
    >>> words, tags = [["Jim", "went"], ["Ok"]], [["B-PER", "O"], ["O"]]
    >>> history = tagger.fit(words, tags, verbose=0)
    >>> [len(row) for row in tagger.predict(words, verbose=0)]
    [2, 1]
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertTokenClassifierPreprocessor
    head_name = "token_classifier"
    uses_pooler = False
    targets_by_token = True
    one_row_each = False
    packs_rows = True

    def __init__(
        self,
        backbone,
        num_classes: int | None = None,
        preprocessor=None,
        class_names: Sequence[str] | None = None,
        dropout: float | None = None,
        **kwargs,
    ):
        if num_classes is None and class_names is None:
            raise ValueError("Pass class_names, or num_classes where classes have no names.")
        num_classes = len(class_names or ()) if num_classes is None else num_classes
        if num_classes < 2:
            raise ValueError(f"num_classes={num_classes}: a tagger needs at least 2.")
        if class_names is not None and len(class_names) != num_classes:
            raise ValueError(f"{len(class_names)} class_names for num_classes={num_classes}.")
        if class_names is not None and len(set(class_names)) != num_classes:
            raise ValueError(f"class_names repeat: {', '.join(class_names)}.")
        dropout = backbone.dropout if dropout is None else dropout

        # Layers
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.output_dense = dense(backbone, num_classes, "output_dense")

        # Functional model
        logits = self.logits(backbone(backbone.input), backbone.input)
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)

        # Config
        self.num_classes = num_classes
        self.class_names = None if class_names is None else tuple(class_names)
        self.dropout = dropout

    def logits(self, encoded, inputs):
        return self.output_dense(self.output_dropout(encoded["sequence_output"]))

    def default_loss(self):
        # The same mean: over the words labelled, as there over the tokens masked.
        return MaskedLMLoss(name="word_loss")

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, y):
        check_class_labels(y, self.num_classes)

    # Training

    def fit(self, x=None, y=None, batch_size=None, sample_weight=None, *args, **kwargs):
        """As `keras.Model.fit`, of words and their labels; see the class and `BertTask.fit`."""
        if y is None and x is not None and not isinstance(x, tf.data.Dataset):
            raise ValueError("y is missing: the labels of the words, a list for each sentence.")
        if kwargs.get("validation_split") and not is_prepared(x) and x is not None:
            # Rows that can be sliced.
            x, y, sample_weight = (
                rows if rows is None else array_of_rows(rows)
                for rows in (refuse_tuple(x), y, sample_weight)
            )
        return super().fit(x, y, batch_size, sample_weight, *args, **kwargs)

    def prepared_dataset(
        self, x, y=None, sample_weight=None, batch_size=None, shuffle=False
    ) -> tf.data.Dataset:
        """As `BertTask.prepared_dataset`; a batch of words has `batch_size` windows."""
        if x is None or isinstance(x, tf.data.Dataset) or is_prepared(x):
            _check_has_weights(x, y, sample_weight)
            return super().prepared_dataset(x, y, sample_weight, batch_size, shuffle)
        rows = self._windows(x, y, sample_weight)
        pack = self.preprocessor.pack if y is None else self.preprocessor.pack_targets
        return self._packed(rows, pack, batch_size or BATCH_SIZE, shuffle)

    def _packed(self, windows, pack, batch_size, shuffle=False) -> tf.data.Dataset:
        """Checked batches of windows."""
        batches = ragged_batches(windows, batch_size, shuffle)
        pack = tf.autograph.experimental.do_not_convert(pack)
        return super().prepared_dataset(batches.map(pack, num_parallel_calls=tf.data.AUTOTUNE))

    def _windows(self, x, y, sample_weight):
        """Of all words, ragged (windows, None): pieces, or a tuple with their labels and weights."""
        words = self._words(x)
        aligned = self.preprocessor.align(words)
        if y is None:
            return aligned.ids
        if are_texts(x):
            raise ValueError(UNCUT_ERROR)
        lengths = words.row_lengths().numpy().tolist()
        labels = word_labels(y, lengths, self.num_classes, self.class_names)
        weights = word_weights(sample_weight, lengths)
        return aligned.ids, at_first_pieces(aligned, labels), at_first_pieces(aligned, weights)

    def _words(self, x) -> tf.RaggedTensor:
        if self.preprocessor is None:
            raise ValueError(
                f"{type(self).__name__} received words but has no preprocessor. Pass one to its "
                "constructor, or pass prepared ids: a dict with token_ids, segment_ids and "
                "padding_mask."
            )
        self._check_vocabulary()
        words = self.preprocessor.words(refuse_tuple(x))
        if words.nrows() == 0:
            raise ValueError("x has no rows.")
        return words

    def _one_batch(self, x, y, sample_weight):
        if is_prepared(x):
            return super()._one_batch(x, y, sample_weight)
        # All windows of long sentences, of which there may be more than sentences.
        num_windows = int(self._windows(x, None, None).nrows())
        dataset = self.prepared_dataset(x, y, sample_weight, batch_size=num_windows)
        return keras.utils.unpack_x_y_sample_weight(next(dataset.as_numpy_iterator()))

    # Answers

    def predict(self, x=None, batch_size=None, verbose="auto", **kwargs):
        """The tag of each word; of prepared ids the logits.

        Args:
            x: words as in `fit`, or one string for each sentence, which is cut at white space
                as by Python's `str.split()`; a dataset of batches of these; or prepared ids.
            batch_size: int, default 32. Windows that are read at a time.
            verbose: as in `keras.Model.predict`.
            **kwargs: for prepared ids, as in `keras.Model.predict`.

        Returns:
            For each sentence a list with one class name, or number where classes have no names,
            for each word. A word that is nothing to the tokenizer (U+200B, a lone accent) is
            `"O"`, or the first class where there is no such class.
        """
        if x is None or is_prepared(x):
            return super().predict(x, batch_size, verbose=verbose, **kwargs)
        if kwargs:
            raise ValueError(f"predict() of words takes no {', '.join(kwargs)}.")
        if isinstance(x, tf.data.Dataset):
            batches = (batch[0] if isinstance(batch, tuple) else batch for batch in x)
            words = tf.concat([self._words(batch) for batch in batches], axis=0)
        else:
            words = self._words(x)
        aligned = self.preprocessor.align(words)
        logits = self._word_logits(aligned, batch_size or BATCH_SIZE, verbose)
        numbers, _ = likeliest_classes(logits, aligned, words, self._unread)
        rows = numbers.to_list()
        if self.class_names is None:
            return rows
        return [[self.class_names[number] for number in row] for row in rows]

    def predict_on_batch(self, x, **kwargs):
        """As `predict`, all at a time."""
        if is_prepared(x):
            return super().predict_on_batch(x, **kwargs)
        return self.predict(x, batch_size=int(self._words(x).nrows()), verbose=0, **kwargs)

    def entities(self, x, **kwargs) -> list[list[Entity]]:
        """The entities in each sentence.

        Args:
            x, **kwargs: as in `predict`, x not prepared.

        Returns:
            For each sentence its entities in order: type, first and last word.

        Raises:
            ValueError: if the classes have no names, or one is no entity tag.
        """
        if self.class_names is None:
            raise ValueError("Entities are read off the class names, but this tagger has none.")
        return [entities_of(tags) for tags in self.predict(x, **kwargs)]

    def answer(self, logits):
        """Logits to what a served model answers to ids: probabilities of each token's classes."""
        return {"probabilities": ops.softmax(ops.cast(logits, "float32"))}

    def serve(self, texts):
        """Texts to their words, the words' tags and these tags' probabilities.

        Args:
            texts: `{"text": (batch,) strings}`, cut at white space as by Python's `str.split()`.

        Returns:
            words: (batch, words) strings, padded with `""`.
            tags: (batch, words) strings padded with `""`, as `predict` gives; int32 padded with
                -1 where classes have no names.
            probabilities: (batch, words) float32, 0 on padding and on words that are nothing to
                the tokenizer.
        """
        words = split_words(texts["text"])
        aligned = self.preprocessor.align(words)
        logits = self(self.preprocessor.pack(aligned.ids), training=False)
        logits = at_words(logits, aligned)
        numbers, probabilities = likeliest_classes(logits, aligned, words, self._unread)
        if self.class_names is None:
            tags = numbers.to_tensor(-1)
        else:
            names = tf.constant(self.class_names)
            tags = tf.ragged.map_flat_values(lambda n: tf.gather(names, n), numbers).to_tensor("")
        return {
            "words": words.to_tensor(""),
            "tags": tags,
            "probabilities": probabilities.to_tensor(0.0),
        }

    def _word_logits(self, aligned, batch_size, verbose) -> np.ndarray:
        """(read, classes): the logits of the words that are read, windows in batches."""
        order = np.argsort(aligned.ids.row_lengths(), kind="stable")  # so that little is padding
        dataset = self._packed(tf.gather(aligned.ids, order), self.preprocessor.pack, batch_size)
        window = np.argsort(order)[aligned.window]  # of each word, its window's place in the order
        by_window = np.argsort(window, kind="stable")
        logits = np.empty([len(window), self.num_classes], "float32")
        progress = keras.utils.Progbar(len(dataset), verbose=1 if verbose == "auto" else verbose)
        first = 0
        for inputs in dataset.as_numpy_iterator():
            # Under tf.distribute each replica computes the whole batch, and answers are joined.
            answers = np.asarray(keras.Model.predict_on_batch(self, inputs))
            end = first + len(inputs["token_ids"])
            words = by_window[slice(*np.searchsorted(window, [first, end], sorter=by_window))]
            places = window[words] - first, aligned.position.numpy()[words] + 1  # after [CLS]
            logits[words] = answers[places]
            first = end
            progress.add(1)
        return logits

    @property
    def _unread(self) -> int:
        """The class of words that are nothing to the tokenizer."""
        names = self.class_names or ()
        return names.index(OUTSIDE) if OUTSIDE in names else 0

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "class_names": self.class_names,
            "dropout": self.dropout,
        }


def _check_has_weights(x, y, sample_weight) -> None:
    """Raise where labels of prepared ids come without weights: all padding would count."""
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        without = is_prepared(x) and isinstance(spec, tuple) and len(spec) == 2
    else:
        without = y is not None and np.shape(sample_weight) != np.shape(y)
    if without:
        raise ValueError(
            "Labels of prepared ids need a sample_weight of the same shape: 1 where a token has "
            "a label, 0 on [CLS], [SEP], padding and later pieces of words."
        )
