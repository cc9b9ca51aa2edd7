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


def fused(function, backward=None, biases=()):
    """A function of tensors to a tensor, compiled to few loops forward and backward.

    Args:
        function: written in `keras.ops`, a function of its tensors alone, elementwise but for
            reductions. It is compiled anew for each combination of shapes.
        backward: None, and backward computes the function anew from its arguments, which costs
            less than to keep what lies between and read it again. Or a function that says how:
            then `function` gives a tuple of its result and of what is kept, and `backward` takes
            the result's gradient and what was kept, and gives the gradients of the floating
            arguments, in their order, `biases` left out.
        biases: pairs (index of a vector, index of the argument that it is added to along the last
            axis): the vector's gradient is the sum of the other's, which is a matrix product.

    Returns:
        A function of the same tensors. Gradients reach the floating ones.
    """

    @functools.wraps(function)
    def call(*args):
        if not is_fusing():
            return function(*args) if backward is None else function(*args)[0]
        return _in_tensorflow(function, backward, tuple(biases))(*args)

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
def _in_tensorflow(function, backward, biases):
    import tensorflow as tf

    targets = dict(biases)

    def differentiable(args):
        return [arg for i, arg in enumerate(args) if arg.dtype.is_floating and i not in targets]

    def derived(dy, *args):
        with tf.GradientTape() as tape:
            tape.watch(differentiable(args))
            y = function(*args)
        return tape.gradient(y, differentiable(args), dy, unconnected_gradients="zero")

    run = _compiled(function)
    run_backward = _compiled(backward or derived)

    @tf.custom_gradient
    def apply(*args):
        result = run(*args)
        result, kept = (result, args) if backward is None else (result[0], result[1:])
        floating = [arg.dtype.is_floating for arg in args]

        def gradient(dy):
            left = iter(run_backward(dy, *kept))
            gradients: list = [
                next(left) if is_floating and i not in targets else None
                for i, is_floating in enumerate(floating)
            ]
            for bias, target in biases:
                gradients[bias] = _sum_of_rows(gradients[target])
            return gradients

        return result, gradient

    return lambda *args: apply(*(tf.convert_to_tensor(arg) for arg in args))


def _sum_of_rows(x):
    """(..., columns) to (columns,), as a product, which sums in float32."""
    import tensorflow as tf

    x = tf.reshape(x, [-1, tf.shape(x)[-1]])
    return tf.matmul(tf.ones([1, tf.shape(x)[0]], x.dtype), x)[0]
