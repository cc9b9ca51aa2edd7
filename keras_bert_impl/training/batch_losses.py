"""A model's losses as means over a whole batch, of which a device or a moment sees a part.

A mean of means is wrong where the parts differ: one device has 16 masked tokens and another 1, one
has three rows and another two. So each part adds up what is its own, and divides by the sum of the
weights of the whole.
"""

from typing import Any, NamedTuple

import keras
from keras import ops


class WeightedLoss(NamedTuple):
    """One output's loss."""

    output: str | None  # None: the model has a single output
    loss: Any  # keras.losses.Loss, or a function of (y_true, y_pred)
    weight: float  # of this loss in the sum


class BatchLosses:
    """The losses that a model was compiled with.

    Args:
        loss: a Keras loss, its name or a function; or a dict of these by output name.
        loss_weights: float, or a dict of them by output name. Default 1.
        output_names: list of str, the keys of a model's outputs, or None for a single output.

    Raises:
        ValueError: for a name that is no output, or a loss that does not reduce to a number.
    """

    def __init__(self, loss, loss_weights=None, output_names=None):
        if output_names is None:
            given = {None: loss}
        elif isinstance(loss, dict):
            given = loss
        else:
            given = dict.fromkeys(output_names, loss)
        weights = loss_weights if isinstance(loss_weights, dict) else {}
        for name in (*given, *weights):
            if output_names is not None and name not in output_names:
                raise ValueError(
                    f"There is no output {name!r} to compute a loss of. Outputs: "
                    f"{', '.join(output_names)}."
                )
        single = loss_weights if isinstance(loss_weights, (int, float)) else 1.0
        self.parts = [
            WeightedLoss(name, _resolved(part), weights.get(name, single))
            for name, part in given.items()
            if part is not None
        ]

    def weight_sums(self, y, sample_weight, rows) -> list:
        """What the weights of this part add up to, one float32 scalar a loss.

        Summed over all parts they are the `weight_sums` that `shares` takes.

        Args:
            y, sample_weight: of this part.
            rows: float32 scalar, how many rows it has.
        """
        return [
            _weight_sum(part.loss, _of(y, part.output), _of(sample_weight, part.output), rows)
            for part in self.parts
        ]

    def shares(self, y, y_pred, sample_weight, weight_sums) -> list:
        """What this part adds to each loss: over all parts they sum to the whole batch's mean.

        Args:
            y, y_pred, sample_weight: of this part.
            weight_sums: list of scalars, of the whole batch.
        """
        return [
            _weighted_sum(
                part.loss,
                _of(y, part.output),
                _of(y_pred, part.output),
                _of(sample_weight, part.output),
            )
            / _divisor(part.loss, weight_sum)
            for part, weight_sum in zip(self.parts, weight_sums, strict=True)
        ]

    def total(self, shares):
        """The weighted sum of the losses."""
        return sum(part.weight * share for part, share in zip(self.parts, shares, strict=True))


def _of(tensors, output):
    return tensors[output] if isinstance(tensors, dict) and output is not None else tensors


def _resolved(loss):
    loss = keras.losses.get(loss) if isinstance(loss, (str, dict)) else loss
    if _reduction(loss) in (None, "none"):
        raise ValueError(
            f"The loss {getattr(loss, 'name', loss)!r} has the reduction 'none' and gives no "
            "number to train on. Use 'sum_over_batch_size'."
        )
    return loss


def _reduction(loss) -> str | None:
    # Our own reduce themselves; a function is reduced as Keras does by default.
    if hasattr(loss, "weighted_sum"):
        return "own"
    return getattr(loss, "reduction", "sum_over_batch_size")


def _weight_sum(loss, y_true, sample_weight, rows):
    reduction = _reduction(loss)
    if reduction == "own":
        return loss.weight_sum(y_true, sample_weight)
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        return ops.sum(ops.cast(sample_weight, "float32"))
    return rows


def _divisor(loss, weight_sum):
    reduction = _reduction(loss)
    if reduction == "own":
        return loss.divisor(weight_sum)
    if reduction == "sum":
        return 1.0
    return ops.where(weight_sum == 0, ops.ones_like(weight_sum), weight_sum)


def _weighted_sum(loss, y_true, y_pred, sample_weight):
    """The sum of a part's weighted losses, each row's averaged over what a row has."""
    if _reduction(loss) == "own":
        return loss.weighted_sum(y_true, y_pred, sample_weight)
    function = loss.call if isinstance(loss, keras.losses.Loss) else loss
    y_pred = ops.cast(y_pred, "float32")
    values = ops.cast(function(_floats(y_true), y_pred), "float32")  # (rows, ...)
    per_row = 1
    for axis in range(1, len(values.shape)):
        per_row = per_row * ops.shape(values)[axis]
    if sample_weight is not None:
        weights = ops.cast(sample_weight, "float32")
        while len(weights.shape) < len(values.shape):
            weights = ops.expand_dims(weights, -1)
        while len(weights.shape) > len(values.shape) and weights.shape[-1] == 1:
            weights = ops.squeeze(weights, -1)
        values = values * weights
    if _reduction(loss) == "sum":
        return ops.sum(values)
    return ops.sum(values) / ops.cast(per_row, "float32")


def _floats(y_true):
    """Labels as Keras hands them to a loss: class indices stay whole numbers."""
    is_float = keras.backend.is_float_dtype(keras.backend.standardize_dtype(y_true.dtype))
    return ops.cast(y_true, "float32") if is_float else y_true
