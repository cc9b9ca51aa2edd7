"""One step of training or evaluation, on a whole batch that devices and moments see in parts.

Keras's own steps take means over replicas of means over rows, which is wrong where replicas hold
unequal numbers of rows or targets, and fail with gradient accumulation under a strategy. Here the
weights of the whole batch are summed first, and each part is divided by these sums; gradients and
losses of the parts then add up to the whole batch's, however it was cut.
"""

import keras
from keras import ops


def rows_of(x):
    """How many rows a batch has: float32 scalar."""
    return ops.cast(ops.shape(keras.tree.flatten(x)[0])[0], "float32")


def whole_batch_loss(model, x, y, y_pred, sample_weight):
    """The loss of a batch that is whole as it is."""
    losses = model.batch_losses
    weight_sums = losses.weight_sums(y, sample_weight, rows_of(x))
    total = losses.total(losses.shares(y, y_pred, sample_weight, weight_sums))
    return total + sum(model.losses)


def track(model, part, y_pred, shares, total, rows, whole_rows):
    """Bring the running losses and metrics up to date by a part of a batch.

    Args:
        part: (x, y, sample_weight).
        shares, total: the part's, of the whole batch's losses.
        rows, whole_rows: float32 scalars, of the part and of the whole batch.
    """
    x, y, sample_weight = part
    # Summed over the parts: the loss times all rows, over all rows.
    scale = whole_rows / ops.maximum(rows, 1.0)
    model._loss_tracker.update_state(total * scale, sample_weight=rows)
    # A single output's loss is the total: then there are no trackers.
    for tracker, share in zip(model.output_loss_trackers, shares, strict=False):
        tracker.update_state(share * scale, sample_weight=rows)
    model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def train_step(model, *args):
    """As `keras.Model.train_step` of the running backend."""
    return _of_backend().train_step(model, *args)


def test_step(model, *args):
    """As `keras.Model.test_step` of the running backend."""
    return _of_backend().test_step(model, *args)


def _of_backend():
    if keras.backend.backend() == "jax":
        from keras_bert_impl.training import jax_steps

        return jax_steps
    from keras_bert_impl.training import tensorflow_steps

    return tensorflow_steps
