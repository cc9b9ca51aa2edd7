"""Gradient checkpointing: what lies inside a layer is computed again in the backward pass.

Memory then goes by a layer's input instead of all it computes, for about a third more time
(Chen et al. 2016, arXiv:1604.06174, with a layer as the segment).
"""

import keras
from keras.src.backend import AutocastScope

from keras_bert_impl.layers.dropout import seeds_drawn


def recomputed(function, x, layer, dropouts):
    """`function(x)`, with nothing kept for the backward pass but x.

    Args:
        function: of one tensor to one tensor. It may read variables, and other tensors, to which
            no gradient flows.
        x: float tensor.
        layer: the one whose call this is; the backward pass lies outside that, and reads variables
            in the layer's precision all the same.
        dropouts: pairs (dropout layer that the function runs, how often). Seeds are drawn once, so
            that both passes drop the same, and what they would without recomputing.
    """
    seeds = {
        id(dropout): [dropout.seed_generator.next() for _ in range(times)]
        for dropout, times in dropouts
        if dropout.rate > 0
    }

    def again(x):
        with seeds_drawn(seeds), AutocastScope(layer.compute_dtype):
            return function(x)

    return keras.remat(again)(x)
