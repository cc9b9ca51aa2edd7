"""Questions and contexts to windows of a question-answering model."""

import keras
import tensorflow as tf

from keras_bert_impl.data.answer_spans import WindowedContexts, answer_positions
from keras_bert_impl.data.packing import keep_first, pack, room_for_text
from keras_bert_impl.data.windows import cut_windows, windows
from keras_bert_impl.models.preprocessor import TextPreprocessor, as_backend_tensors, as_strings


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertQuestionAnsweringPreprocessor(TextPreprocessor):
    """Questions and contexts to rows `[CLS] question [SEP] window of the context [SEP]`.

    A context that does not fit into a row gets several, windows that overlap (paper, section 4.2;
    google-research/bert, run_squad.py), so there are more rows than questions.

    Args:
        tokenizer: a `BertTokenizer`.
        sequence_length: int. Longest row in tokens, `[CLS]` and `[SEP]` included.
        doc_stride: int. Tokens from one window's start to the next's.
        max_question_length: int. Longer questions lose their ends, as do those that leave a row
            no token of the context.
        padding: str, as in `TextPreprocessor`.

    Call arguments:
        x: `{"question": strings, "context": strings}`.
        y: `{"answer_start": ints, "answer_end": ints}`, optional. Characters of the context, the
            end exclusive; both -1 where there is no answer.
        sample_weight: (batch,) float, optional. Each window gets its question's.

    Returns:
        The dict of (windows, length) tensors, ordered by question, or a tuple of it with the
        (windows, 2) int32 positions of the answer's first and last token, and the weights, where
        these are given. A window without the whole answer has the positions (0, 0), `[CLS]`.

    Raises:
        ValueError: for a stride or question length below 1, or other texts than these two.
        tf.errors.InvalidArgumentError: for an answer outside of its context.

    Example:

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "a", "b"])
    >>> preprocessor = BertQuestionAnsweringPreprocessor(tokenizer, 6, doc_stride=1)
    >>> x = {"question": ["who"], "context": ["a b a"]}
    >>> rows, positions = preprocessor(x, {"answer_start": [4], "answer_end": [5]})
    >>> rows["token_ids"].numpy().tolist(), positions.numpy().tolist()
    ([[2, 5, 3, 6, 7, 3], [2, 5, 3, 7, 6, 3]], [[0, 0], [4, 4]])
    """

    def __init__(
        self,
        tokenizer,
        sequence_length: int = 384,
        doc_stride: int = 128,
        max_question_length: int = 64,
        padding: str = "longest",
        **kwargs,
    ):
        super().__init__(
            tokenizer, sequence_length=sequence_length, pair=True, padding=padding, **kwargs
        )
        for name, value in (
            ("doc_stride", doc_stride),
            ("max_question_length", max_question_length),
        ):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1.")
        self.doc_stride = doc_stride
        self.max_question_length = max_question_length

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("question", "context")

    def texts(self, x) -> tuple[tf.Tensor, ...]:
        """The questions and the contexts, string tensors."""
        if not isinstance(x, dict) or set(x) != set(self.text_names):
            got = f"a dict with keys {sorted(x)}" if isinstance(x, dict) else type(x).__name__
            raise ValueError(
                'Questions are asked of contexts: pass {"question": strings, "context": strings}. '
                f"Received {got}."
            )
        no_strings = tf.zeros([0], tf.string)
        return tuple(
            no_strings if isinstance(x[name], list) and not x[name] else as_strings(x[name])
            for name in self.text_names
        )

    def windowed(
        self, questions: tf.Tensor, contexts: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], WindowedContexts]:
        """(batch,) strings to the inputs of all windows, and what these show of the contexts."""
        check = tf.debugging.assert_equal(
            tf.size(questions),
            tf.size(contexts),
            message="Each question needs its own context. Numbers of questions and of contexts:",
        )
        with tf.control_dependencies([check] if check is not None else []):
            questions = tf.identity(questions)
        room = room_for_text(self.sequence_length, num_texts=2)
        question = self.tokenizer.tokenize(questions)
        most = min(self.max_question_length, room - 1)
        question = keep_first(question, tf.minimum(question.row_lengths(), most))
        question_length = tf.cast(question.row_lengths(), tf.int64)

        tokens = self.tokenizer.tokenize_with_offsets(contexts)
        made = windows(tokens.ids.row_lengths(), room - question_length, self.doc_stride)
        inputs = pack(
            tf.gather(question, made.row),
            cut_windows(tokens.ids, made),
            sequence_length=self.sequence_length,
            tokenizer=self.tokenizer,
            truncation="only_second",
            pad_to=self.padding,
        )
        first = tf.gather(question_length, made.row) + 2  # after [CLS] question [SEP]
        return inputs, WindowedContexts(contexts, tokens.starts, tokens.ends, made, first)

    def texts_to_inputs(self, texts: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """Questions and contexts, () or (batch,), to the inputs of all windows."""
        return self.windowed(*(tf.reshape(text, [-1]) for text in texts))[0]

    def call(self, x, y=None, sample_weight=None):
        questions, contexts = (tf.reshape(text, [-1]) for text in self.texts(x))
        inputs, examples = self.windowed(questions, contexts)
        if y is not None:
            if not isinstance(y, dict) or set(y) != {"answer_start", "answer_end"}:
                got = f"a dict with keys {sorted(y)}" if isinstance(y, dict) else type(y).__name__
                raise ValueError(
                    'Answers are {"answer_start": ints, "answer_end": ints}, characters of the '
                    f"context. Received {got}."
                )
            start, end = (tf.reshape(y[name], [-1]) for name in ("answer_start", "answer_end"))
            y = answer_positions(examples, start, end)
        if sample_weight is not None:
            weights = tf.reshape(tf.convert_to_tensor(sample_weight), [-1])
            sample_weight = tf.gather(weights, examples.windows.row)
        return as_backend_tensors(keras.utils.pack_x_y_sample_weight(inputs, y, sample_weight))

    def get_config(self):
        config = {
            **super().get_config(),
            "doc_stride": self.doc_stride,
            "max_question_length": self.max_question_length,
        }
        for name in ("pair", "truncation"):  # given by the task
            config.pop(name)
        return config
