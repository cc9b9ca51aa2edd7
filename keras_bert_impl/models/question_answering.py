"""Question answering by spans of a context (paper, sections 4.2 and 4.3)."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.data.answer_spans import Answer, answer_list
from keras_bert_impl.data.batches import as_arrays, dataset_of_arrays, is_prepared, refuse_tuple
from keras_bert_impl.data.best_answers import best_answers
from keras_bert_impl.layers.initialization import dense
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.question_answering_preprocessor import BertQuestionAnsweringPreprocessor
from keras_bert_impl.models.task import BATCH_SIZE, BertTask

# Questions that are cut into windows together; their windows are the rows of batches.
_QUESTIONS_TOGETHER = 32
# Windows among which `fit` draws the next, so that those of one context part.
_SHUFFLED_WINDOWS = 1024
# More questions than a batch can have.
_ALL = 2**31 - 1
# Windows that a served model reads at once, so that a long context needs little memory.
_SERVED_WINDOWS = 32


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertQuestionAnswering(BertTask):
    """Start and end of the answer as two vectors' products with every token's (paper, figure 4c).

    Trained with the mean of both cross entropies over the positions of a row. As in
    google-research/bert, run_squad.py, a window without the whole answer is one whose answer is
    `[CLS]`, and padding is not taken out of the softmax, so that the loss depends a little on how
    far a batch is padded. Answers never hold padding.

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertQuestionAnsweringPreprocessor`, or None where ids come prepared.
        with_no_answer: bool. May a question have no answer (SQuAD 2.0)? Answers are then `""`
            where `[CLS]` beats the best span by more than `null_threshold`.
        n_best: int. Starts and ends that are tried in each window, and answers that are listed.
        max_answer_length: int. Longest answer, in tokens.
        null_threshold: float, best chosen on held-out questions, see `best_thresholds`.

    Inputs: the backbone's. In place of these `fit`, `evaluate` and `predict` take
        `x={"question": strings, "context": strings}` and `y={"answer_start": ints,
        "answer_end": ints}`: characters of the context, the end exclusive, both -1 for no answer.
        Rows of a batch are then windows over the contexts. With prepared ids y is (rows, 2) int
        positions of the answer's first and last token.

    Outputs: (batch, 2, length) logits of starts and ends. `predict` of questions gives a list of
        `Answer`.

    Raises:
        ValueError: if `n_best` or `max_answer_length` is below 1.

    Example:

    >>> tokenizer = BertTokenizer([*SPECIAL_TOKENS, "who", "sat", "the", "cat"])
    >>> qa = BertQuestionAnswering(
    ...     BertBackbone.from_size("tiny", vocabulary_size=tokenizer.vocabulary_size()),
    ...     BertQuestionAnsweringPreprocessor(tokenizer, sequence_length=64))
    >>> x = {"question": ["Who sat?"], "context": ["The cat sat."]}
    >>> history = qa.fit(x, {"answer_start": [0], "answer_end": [7]}, verbose=0)
    >>> answer = qa.predict(x, verbose=0)[0]
    >>> answer.text == "The cat sat."[answer.start : answer.end]
    True
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertQuestionAnsweringPreprocessor
    head_name = "question_answering"
    uses_pooler = False
    one_row_each = False

    def __init__(
        self,
        backbone,
        preprocessor=None,
        with_no_answer: bool = False,
        n_best: int = 20,
        max_answer_length: int = 30,
        null_threshold: float = 0.0,
        **kwargs,
    ):
        for name, value in (("n_best", n_best), ("max_answer_length", max_answer_length)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1.")

        # Layers
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dense = dense(backbone, 2, "output_dense")

        # Functional model
        sequence_output = backbone(backbone.input)["sequence_output"]
        logits = self.output_dense(sequence_output)  # (batch, length, 2)
        logits = ops.transpose(logits, (0, 2, 1))  # (batch, 2, length)
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)

        # Config
        self.with_no_answer = with_no_answer
        self.n_best = n_best
        self.max_answer_length = max_answer_length
        self.null_threshold = null_threshold

    def default_loss(self):
        # Over (batch, 2) positions: the mean of the starts' and the ends' loss.
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, y):
        """Raise a ValueError naming the first row that can be no answer."""
        if not isinstance(y, dict) or set(y) != {"answer_start", "answer_end"}:
            return  # positions are checked with their rows; the preprocessor names wrong keys
        start, end = np.asarray(y["answer_start"]), np.asarray(y["answer_end"])
        is_none = (start == -1) & (end == -1)
        wrong = np.flatnonzero(~(is_none | ((start >= 0) & (start < end))))
        if len(wrong):
            row = wrong[0]
            raise ValueError(
                f"The answer in row {row} goes from {start[row]} to {end[row]}, but must be "
                "characters of the context, the end exclusive, or -1 and -1 for no answer."
            )

    def prepared_dataset(
        self, x, y=None, sample_weight=None, batch_size=None, shuffle=False
    ) -> tf.data.Dataset:
        """As `BertTask.prepared_dataset`; the rows of a batch are windows, not questions.

        Where x is a dataset of batches of questions, batches have as many windows as the first
        of those has questions.
        """
        if is_prepared(x):
            if y is not None and not isinstance(x, tf.data.Dataset):
                _check_positions(as_arrays(y), np.shape(x["token_ids"])[-1])
            return super().prepared_dataset(x, y, sample_weight, batch_size, shuffle)
        together = min(batch_size or BATCH_SIZE, _QUESTIONS_TOGETHER)
        questions = self._questions(x, y, sample_weight, together, shuffle)
        if isinstance(x, tf.data.Dataset):
            batch_size = len(tf.nest.flatten(next(iter(questions)))[0])
        rows = self._preprocessed(questions).unbatch()
        if shuffle:
            rows = rows.shuffle(_SHUFFLED_WINDOWS, reshuffle_each_iteration=True)
        batches = rows.padded_batch(
            batch_size or BATCH_SIZE, padding_values=self._padding(rows.element_spec)
        )
        return super().prepared_dataset(batches)

    def _questions(self, x, y, sample_weight, batch_size, shuffle=False) -> tf.data.Dataset:
        """Questions, contexts and labels as a dataset of batches, not cut into windows yet."""
        if isinstance(x, tf.data.Dataset):
            if y is not None or sample_weight is not None:
                super().prepared_dataset(x, y, sample_weight)  # says that x holds them
            return x
        x = refuse_tuple(x)
        if x is None:
            raise ValueError("x is missing.")
        if self.preprocessor is None:
            x = as_arrays(x)  # to be refused with the datasets
        else:
            # As tensors: an array of strings would be padded to its longest context.
            names = self.preprocessor.text_names
            x = dict(zip(names, self.preprocessor.texts(x), strict=True))
        y, sample_weight = as_arrays(y), as_arrays(sample_weight)
        if y is not None:
            self.check_labels(y)
        return dataset_of_arrays(x, y, sample_weight, batch_size=batch_size, shuffle=shuffle)

    def _check_batch(self, *batch):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(super()._check_batch(*batch))
        if weights is not None and weights.shape.rank == 1:
            weights = weights[:, tf.newaxis]  # for the start and for the end
        return keras.utils.pack_x_y_sample_weight(x, y, weights)

    def _padding(self, spec):
        """What rows of different length are filled up with."""
        values = tf.nest.map_structure(lambda s: tf.zeros([], s.dtype), spec)
        x = values[0] if isinstance(values, tuple) else values
        x["token_ids"] += self.preprocessor.tokenizer.pad_token_id
        return values

    def _one_batch(self, x, y, sample_weight):
        if is_prepared(x):
            return super()._one_batch(x, y, sample_weight)
        questions = self._questions(x, y, sample_weight, batch_size=_ALL)
        dataset = super().prepared_dataset(self._preprocessed(questions))
        return keras.utils.unpack_x_y_sample_weight(next(dataset.as_numpy_iterator()))

    def predict(self, x=None, batch_size=None, verbose="auto", **kwargs):
        """The answers to questions; the logits of prepared ids.

        Args:
            x: `{"question": strings, "context": strings}`, a dataset of batches of these, or
                prepared ids.
            batch_size: int, default 32. Questions that are read at once, and windows of each
                step. Must be None where x is a dataset: its batches say it.
            verbose: as in `keras.Model.predict`.
            **kwargs: for prepared ids, as in `keras.Model.predict`.

        Returns:
            A list of `Answer`, one a question, in order; or (rows, 2, length) logits.
        """
        if is_prepared(x):
            return super().predict(x, batch_size, verbose=verbose, **kwargs)
        if kwargs:
            raise ValueError(f"predict() of questions takes no {', '.join(kwargs)}.")
        if isinstance(x, tf.data.Dataset) and batch_size is not None:
            super().prepared_dataset(x, batch_size=batch_size)  # says that x has batches
        questions = self._questions(x, None, None, batch_size or BATCH_SIZE)
        total = int(questions.cardinality())
        progress = keras.utils.Progbar(
            total if total > 0 else None, verbose=1 if verbose == "auto" else verbose
        )
        answers: list[Answer] = []
        for inputs, examples in self._windowed(questions):
            logits = self._logits(inputs, batch_size or len(examples.contexts))
            answers += answer_list(self._best_answers(logits, examples))
            progress.add(1)
        return answers

    def predict_on_batch(self, x, **kwargs):
        """As `predict`, without progress."""
        if is_prepared(x):
            return super().predict_on_batch(x, **kwargs)
        return self.predict(x, verbose=0, **kwargs)

    def _windowed(self, questions: tf.data.Dataset):
        """Batches of questions to the inputs of their windows, and what these show."""
        if self.preprocessor is None:
            return self._preprocessed(questions)  # says so
        self._check_vocabulary()

        def windowed(x, *labels):
            inputs, examples = self.preprocessor.windowed(*self.preprocessor.texts(x))
            return self._check_batch(inputs), examples

        if questions.cardinality() == 1:  # a graph would take longer to build than it spares
            return [windowed(*(x if isinstance(x, tuple) else (x,))) for x in questions]
        windowed = tf.autograph.experimental.do_not_convert(windowed)
        return questions.map(windowed, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

    def _logits(self, inputs, batch_size: int) -> np.ndarray:
        """(windows, 2, length), computed for `batch_size` windows at a time."""
        inputs = {name: x.numpy() for name, x in inputs.items()}
        logits = []
        for start in range(0, len(inputs["token_ids"]), batch_size):
            part = {name: x[start : start + batch_size] for name, x in inputs.items()}
            rows = len(part["token_ids"])
            if keras.backend.backend() != "tensorflow":  # the others compile for each shape
                fill = ((0, batch_size - rows), (0, 0))
                part = {name: np.pad(x, fill, mode="edge") for name, x in part.items()}
            # Under tf.distribute each replica computes the whole part, and the answers are joined.
            answers = keras.Model.predict_on_batch(self, part)
            logits.append(np.asarray(answers, "float32")[:rows])
        return np.concatenate(logits)

    def _best_answers(self, logits, examples):
        return best_answers(
            logits,
            examples,
            n_best=self.n_best,
            max_answer_length=self.max_answer_length,
            with_no_answer=self.with_no_answer,
            # A tensor, so that another threshold is not another graph.
            null_threshold=tf.constant(self.null_threshold, tf.float32),
        )

    def serve(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Questions and contexts, (batch,) string, to answers, as a TensorFlow graph.

        Returns:
            text, start, end, score and null_score_difference, each (batch,), as in `Answer`.
        """
        inputs, examples = self.preprocessor.windowed(texts["question"], texts["context"])
        answers = self._best_answers(self._logits_in_steps(inputs), examples)
        return {name: x for name, x in answers.items() if not name.startswith("n_best")}

    def _logits_in_steps(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """Logits of any number of windows, `_SERVED_WINDOWS` at a time."""
        count = tf.shape(inputs["token_ids"])[0]
        steps = tf.maximum((count + _SERVED_WINDOWS - 1) // _SERVED_WINDOWS, 1)
        parts = tf.TensorArray(
            tf.float32, size=steps, infer_shape=False, element_shape=[None, 2, None]
        )

        def step(i, parts):
            start = i * _SERVED_WINDOWS
            part = {name: x[start : start + _SERVED_WINDOWS] for name, x in inputs.items()}
            logits = self(part, training=False)
            return i + 1, parts.write(i, tf.cast(logits, tf.float32))

        _, parts = tf.while_loop(
            lambda i, _: i < steps, step, (tf.constant(0), parts), parallel_iterations=1
        )
        return parts.concat()  # (windows, 2, length)

    def answer(self, logits):
        """Logits to what a served model answers to ids."""
        logits = ops.cast(logits, "float32")
        return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}

    def get_config(self):
        return {
            **super().get_config(),
            "with_no_answer": self.with_no_answer,
            "n_best": self.n_best,
            "max_answer_length": self.max_answer_length,
            "null_threshold": self.null_threshold,
        }


def _check_positions(y, length: int) -> None:
    """Raise a ValueError naming the first row of `y` with positions outside of its row."""
    if y.ndim != 2 or y.shape[1] != 2 or y.dtype.kind not in "iu":
        raise ValueError(
            "Labels of prepared ids are (rows, 2) int positions of the answer's first and last "
            f"token, but y has shape {y.shape} and dtype {y.dtype}."
        )
    wrong = np.argwhere((y < 0) | (y >= length))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"The answer's {('first', 'last')[column]} token in row {row} is {y[row, column]}, but "
            f"rows have {length} tokens."
        )
