"""One step of training or evaluation, on a whole batch that devices and moments see in parts.

Keras's own steps take means over replicas of means over rows, which is wrong where replicas hold
unequal numbers of rows or targets, and fail with gradient accumulation under a strategy. Here the
weights of the whole batch are summed first, and each part is divided by these sums; gradients and
losses of the parts then add up to the whole batch's, however it was cut.
"""

import keras
from keras import ops


def rows_of(x):
    """How many rows a batch has, or examples where the batch says how many: float32 scalar.

    Rows that only fill a batch up are 0 examples, packed rows several.
    """
    if isinstance(x, dict) and "num_examples" in x:
        return ops.sum(ops.cast(x["num_examples"], "float32"))
    return ops.cast(ops.shape(keras.tree.flatten(x)[0])[0], "float32")


def single_examples(x, *targets):
    """Labels, logits and weights as if each example had a row of its own.

    Args:
        x: a model's inputs.
        *targets: nested tensors (rows, examples, ...) where x is packed rows, else (rows, ...).

    Returns:
        A tuple of nested tensors (rows * examples, ...); of other than packed rows the targets.
    """
    if not (isinstance(x, dict) and "cls_positions" in x):
        return targets

    def joined(tensor):
        return None if tensor is None else ops.reshape(tensor, (-1, *tensor.shape[2:]))

    return keras.tree.map_structure(joined, targets)


def shares_of(model, part, y_pred, weight_sums):
    """`BatchLosses.shares` of a part of a batch, (x, y, sample_weight)."""
    x, y, sample_weight = part
    y, y_pred, sample_weight = single_examples(x, y, y_pred, sample_weight)
    return model.batch_losses.shares(y, y_pred, sample_weight, weight_sums)


def whole_batch_loss(model, x, y, y_pred, sample_weight):
    """The loss of a batch that is whole as it is."""
    losses = model.batch_losses
    weight_sums = losses.weight_sums(y, sample_weight, rows_of(x))
    total = losses.total(shares_of(model, (x, y, sample_weight), y_pred, weight_sums))
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
    y, y_pred, sample_weight = single_examples(x, y, y_pred, sample_weight)
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
