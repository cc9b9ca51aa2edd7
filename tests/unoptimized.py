"""Imported first: this process runs TensorFlow's graphs as they are written.

Graphs are optimized before their first run, which most tests never repeat. What the recipes' tests
start in processes of their own is optimized as users' programs are.
"""

import tensorflow as tf

tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
