r"""Ask a served pair classifier, as a program would that knows nothing of keras_bert_impl.

    python recipes/ask_served.py runs/quickstart/served/1 "first text" "second text"

Takes any number of pairs. Imports TensorFlow and, for its ops, TensorFlow Text: nothing else.
"""

import sys

import tensorflow as tf
import tensorflow_text as tensorflow_text  # registers the ops that the model calls

path, *texts = sys.argv[1:]
ask = tf.saved_model.load(path).signatures["serving_default"]
answers = ask(text_a=tf.constant(texts[0::2]), text_b=tf.constant(texts[1::2]))
for first, second, label, probabilities in zip(
    texts[0::2],
    texts[1::2],
    answers["label"].numpy(),
    answers["probabilities"].numpy(),
    strict=True,
):
    print(f"\n  a: {first}\n  b: {second}\n  -> {label.decode()} ({probabilities.max():.3f})")
assert "keras_bert_impl" not in sys.modules
