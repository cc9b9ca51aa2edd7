"""ELMo as it is used: frozen, its layers mixed, a small network on top (Peters et al. 2018, 3.3)."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import keras_bert_impl as kbi

MAX_CHARACTERS = 20


def words_apart(texts):
    """Lowercase texts in which punctuation stands apart, as a word of its own.

    >>> words_apart(tf.constant(["He said, No."])).numpy().tolist()
    [b'he said , no . ']
    """
    texts = tf.strings.lower(texts, encoding="utf-8")
    return tf.strings.regex_replace(texts, r"\s*([^\pL\pN\s])\s*", r" \1 ")


def elmo_inputs(x, max_words):
    """Texts, or a dict of text_a and text_b, to the inputs of `elmo_classifier`, in its order."""
    texts = list(x.values()) if isinstance(x, dict) else [x]
    inputs = []
    for side in texts:
        words = kbi.split_words(words_apart(tf.constant(list(side))))
        characters, padding_mask = kbi.sentence_characters(words, MAX_CHARACTERS, max_words + 2)
        inputs += [np.array(characters), np.array(padding_mask)]
    return inputs


def elmo_classifier(backbone, num_classes, num_texts, lstm_units=64, dropout=0.1):
    """A classifier of single texts or of pairs on what a frozen `ElmoBackbone` gives.

    `ScalarMix`, then the last states of a BiLSTM, for each text; of two texts their vectors u and
    v, the difference |u - v| and the product u * v (Conneau et al. 2017). A dense layer decides.
    """
    backbone.trainable = False
    mix = kbi.ScalarMix(name="scalar_mix")
    lstm = keras.layers.Bidirectional(keras.layers.LSTM(lstm_units), name="bilstm")
    inputs, vectors = [], []
    for i in range(num_texts):
        text = {
            name: keras.Input(x.shape[1:], dtype=x.dtype, name=f"{name}_{i}")
            for name, x in backbone.input.items()
        }
        inputs += [text["characters"], text["padding_mask"]]
        words = mix(backbone(text, training=False)["states"])  # (batch, words, dim)
        vectors.append(lstm(words, mask=text["padding_mask"]))  # (batch, 2 * lstm_units)
    if num_texts == 2:
        u, v = vectors
        vectors = [u, v, ops.absolute(u - v), u * v]
    x = ops.concatenate(vectors, axis=-1) if num_texts == 2 else vectors[0]
    x = keras.layers.Dropout(dropout)(x)
    return keras.Model(inputs, keras.layers.Dense(num_classes, name="output_dense")(x))
