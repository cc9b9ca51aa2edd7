"""Chains of elementwise operations in one pass over memory, where TensorFlow takes one for each.

Beside the matrix products a training step spends its time moving numbers: GELU by erf is eight
operations forward and more backward. XLA compiles such a chain to one loop. JAX compiles whole
steps, so there is nothing to do there; TensorFlow compiles what it is told to.

Only the steps of `fit`, `evaluate` and `predict` fuse. A model called by itself, and one that is
exported, is plain operations that any TensorFlow runs; in a loop of your own open `fusing()`.
"""

import contextlib
import functools
import threading

import keras

_state = threading.local()  # tf.distribute runs replicas in threads


@contextlib.contextmanager
def fusing(active: bool = True):
    """The scope in which functions that are `fused` become one compiled loop each."""
    before = getattr(_state, "active", False)
    _state.active = active
    try:
        yield
    finally:
        _state.active = before


def is_fusing() -> bool:
    """Whether a scope of `fusing` is open."""
    return getattr(_state, "active", False) and keras.backend.backend() == "tensorflow"


def fused(function):
    """A function of tensors to a tensor, compiled to one loop forward and one backward.

    Backward computes the function anew from its arguments, which costs less than to keep what
    lies between and read it again.

    Args:
        function: written in `keras.ops`, a function of its tensors alone, elementwise but for
            reductions. It is compiled anew for each combination of shapes.

    Returns:
        A function of the same tensors. Gradients reach the floating ones.
    """

    @functools.wraps(function)
    def call(*args):
        if not is_fusing():
            return function(*args)
        return _in_tensorflow(function)(*args)

    return call


def compiled(function):
    """A function of tensors to tensors, compiled to few loops; without gradients.

    Args:
        function: as in `fused`, with as many results as it likes.
    """

    @functools.wraps(function)
    def call(*args):
        return _compiled(function)(*args) if is_fusing() else function(*args)

    return call


@functools.cache
def _compiled(function):
    import tensorflow as tf

    apply = tf.function(function, jit_compile=True, autograph=False)
    return lambda *args: apply(*(tf.convert_to_tensor(arg) for arg in args))


@functools.cache
def _in_tensorflow(function):
    import tensorflow as tf

    def differentiable(args):
        return [arg for arg in args if arg.dtype.is_floating]

    def backward(dy, *args):
        with tf.GradientTape() as tape:
            tape.watch(differentiable(args))
            y = function(*args)
        return tape.gradient(y, differentiable(args), dy, unconnected_gradients="zero")

    forward, backward = _compiled(function), _compiled(backward)

    @tf.custom_gradient
    def apply(*args):
        def gradient(dy):
            gradients = iter(backward(dy, *args))
            return [next(gradients) if arg.dtype.is_floating else None for arg in args]

        return forward(*args), gradient

    return lambda *args: apply(*(tf.convert_to_tensor(arg) for arg in args))
