"""Contexts cut into windows, for the tests of answers."""

import tensorflow as tf

from keras_bert_impl.data.answer_spans import WindowedContexts
from keras_bert_impl.data.windows import windows
from tests import small

FIRST = 5  # where each window's row has its first token: after [CLS], 3 tokens of question, [SEP]


def windowed(contexts, room=100, stride=50) -> WindowedContexts:
    contexts = tf.convert_to_tensor(contexts, tf.string)
    tokens = small.tokenizer().tokenize_with_offsets(contexts)
    made = windows(tokens.starts.row_lengths(), room, stride)
    first = tf.fill(tf.shape(made.row), tf.constant(FIRST, tf.int64))
    return WindowedContexts(contexts, tokens.starts, tokens.ends, made, first)
