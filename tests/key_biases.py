"""The biases of keys: a softmax does not see them, so no output depends on them.

Their gradients are what rounding leaves, of which Adam makes whole steps.
"""

import numpy as np


def parted(path: str, weight):
    """(the weight without biases of keys, these biases or None), by the path of a variable."""
    if not path.endswith("query_key_value/bias"):
        return weight, None
    query, key, value = np.split(np.asarray(weight), 3)
    return np.concatenate([query, value]), key
