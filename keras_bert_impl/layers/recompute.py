"""Gradient checkpointing: what lies inside a layer is computed again in the backward pass.

Memory then goes by a layer's input instead of all it computes, for about a third more time
(Chen et al. 2016, arXiv:1604.06174, with a layer as the segment).
"""

import keras

from keras_bert_impl.layers.dropout import seeds_drawn


def recomputed(function, x, dropouts):
    """`function(x)`, with nothing kept for the backward pass but x.

    Args:
        function: of one tensor to one tensor. It may read variables, and other tensors, to which
            no gradient flows.
        x: float tensor.
        dropouts: pairs (dropout layer that the function runs, how often). Seeds are drawn once, so
            that both passes drop the same, and what they would without recomputing.

    Raises:
        ValueError: on a backend that has no such thing here.
    """
    seeds = {
        id(layer): [layer.seed_generator.next() for _ in range(times)]
        for layer, times in dropouts
        if layer.rate > 0
    }

    def again(x):
        with seeds_drawn(seeds):
            return function(x)

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.recompute_grad(again)(x)
    if backend == "jax":
        import jax

        return jax.checkpoint(again)(x)
    raise ValueError(f"recompute=True needs TensorFlow or JAX, but {backend} is running.")
