"""Which precision is the fastest here: asked of the machine, not of a table of machines."""

import statistics
import time

import keras
import numpy as np
from keras import ops

# Of a base model's step on 8 x 128 tokens: into the feed-forward layer.
_ROWS, _INNER, _COLUMNS = 1024, 768, 3072
# What is gained must pay for casting weights and gradients.
_LEAST_GAIN = 1.3


def choose_precision(precision: str = "auto") -> tuple[str, str]:
    """A dtype policy, and why it was chosen.

    Args:
        precision: str. `"auto"` times a matrix product in float32 and in bfloat16 and takes
            `"mixed_bfloat16"` where that is at least 1.3 times as fast, else `"float32"`.
            Anything else is returned as it is. Weights and optimizer slots are float32 in both.

    Returns:
        The name of a policy for `keras.config.set_dtype_policy`, and a sentence for the user.

    Example:

    >>> policy, reason = choose_precision("float32")
    >>> policy
    'float32'
    """
    if precision != "auto":
        return precision, f"Precision {precision}, as asked."
    high, low = _seconds("float32"), _seconds("bfloat16")
    policy = "mixed_bfloat16" if high / low >= _LEAST_GAIN else "float32"
    return policy, (
        f"Precision {policy}: a {_ROWS} x {_INNER} x {_COLUMNS} product takes "
        f"{1000 * high:.1f} ms in float32 and {1000 * low:.1f} ms in bfloat16 here."
    )


def _seconds(dtype: str) -> float:
    """The median time of one product."""
    a = ops.cast(ops.ones((_ROWS, _INNER)), dtype)
    b = ops.cast(ops.ones((_INNER, _COLUMNS)), dtype)

    def product():
        start = time.perf_counter()
        np.asarray(ops.convert_to_numpy(ops.cast(ops.matmul(a, b)[:1, :1], "float32")))
        return time.perf_counter() - start

    for _ in range(2):  # the first is compiled
        product()
    return statistics.median(product() for _ in range(7))


def set_precision(precision: str) -> str:
    """Set the policy of all models made from now on, and print which and why.

    Args:
        precision: as in `choose_precision`.

    Returns:
        The policy's name.
    """
    policy, reason = choose_precision(precision)
    print(reason)
    keras.config.set_dtype_policy(policy)
    return policy
