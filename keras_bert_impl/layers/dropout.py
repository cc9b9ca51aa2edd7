"""Dropout by counting: whether an element is kept is a function of its place and a seed.

Such a mask costs a few integer operations an element inside a fused loop, is made again in the
backward pass instead of kept, and is the same wherever and whenever the step is taken.
"""

import contextlib
import threading

import keras
from keras import ops


class _State(threading.local):  # tf.distribute runs replicas in threads
    drawn: dict = {}


_state = _State()


def keep_mask(shape, rate: float, seed):
    """Which elements dropout keeps.

    A 32-bit mixing function (Wellons 2018, "lowbias32") of the element's index and the seed.

    Args:
        shape: of the result; numbers or scalar tensors.
        rate: float in [0, 1). Share of elements to drop.
        seed: (2,) integer tensor.

    Returns:
        bool of that shape, each element true with probability 1 - rate.
    """
    seed = ops.cast(seed, "uint32")
    size = 1
    for axis in shape:
        size *= axis
    # An odd factor of the seed's own: where two layers' ranges of numbers overlap, their masks
    # do not.
    factor = ops.bitwise_or(_mixed(seed[1] + _uint32(0x85EBCA6B)), _uint32(1))
    start = _mixed(seed[0] + _mixed(seed[1] + _uint32(0x9E3779B9)))
    bits = _mixed(ops.cast(ops.arange(size, dtype="int32"), "uint32") * factor + start)
    threshold = min(round(rate * 2**32), 2**32 - 1)
    return ops.reshape(bits >= _uint32(threshold), shape)


def dropped(x, rate: float, seed):
    """x with a share of its elements 0, the others larger by as much (Srivastava et al. 2014).

    Args:
        x: float tensor.
        rate: float in [0, 1).
        seed: (2,) integer tensor.
    """
    kept = keep_mask(ops.shape(x), rate, seed)  # a batch of `fit` may have any shape
    return ops.where(kept, x * ops.cast(1 / (1 - rate), x.dtype), ops.zeros_like(x))


def _uint32(number: int):
    return ops.cast(ops.convert_to_tensor(number, dtype="int64"), "uint32")


def _mixed(bits):
    bits = ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(16)))
    bits = bits * _uint32(0x7FEB352D)
    bits = ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(15)))
    bits = bits * _uint32(0x846CA68B)
    return ops.bitwise_xor(bits, ops.right_shift(bits, _uint32(16)))


def seeds_of(layer: keras.layers.Dropout, training) -> tuple:
    """(seed,), a new one of a dropout layer's generator, whose state `fit` saves.

    () where nothing is dropped: at rate 0, and not in training.
    """
    if not training or layer.rate == 0:
        return ()
    drawn = _state.drawn.get(id(layer))
    return (layer.seed_generator.next() if drawn is None else next(drawn),)


@contextlib.contextmanager
def seeds_drawn(seeds: dict):
    """The scope in which dropout layers take these seeds in turn, and draw none.

    Args:
        seeds: lists, by the layer's `id`.
    """
    before = _state.drawn
    _state.drawn = {layer: iter(of_layer) for layer, of_layer in seeds.items()}
    try:
        yield
    finally:
        _state.drawn = before


class _DrawnSeed(keras.random.SeedGenerator):
    """One seed, for functions of Keras that take them from a generator."""

    def __init__(self, seed):
        self._seed = seed  # and no state, which Keras would track

    def next(self, ordered=True):
        return self._seed


def drop(layer: keras.layers.Dropout, x, training):
    """`layer(x, training=training)`, by a seed that is drawn already where there is one."""
    if training and id(layer) in _state.drawn:
        return keras.random.dropout(x, layer.rate, seed=_DrawnSeed(*seeds_of(layer, training)))
    return layer(x, training=training)
