"""The steps of `training/steps.py` in JAX, where a step sees the whole batch of all devices.

JAX cuts batches into equal parts only, so that a batch may end in rows without a token that fill
the devices (`data/batches.py`, fill_rows); they weigh nothing.
"""

import jax
import keras
from jax import numpy as jnp

from keras_bert_impl.training.distribution import num_replicas
from keras_bert_impl.training.steps import rows_of, shares_of, track


def train_step(model, state, data):
    """One optimizer step on a batch, taken in `model.accumulation_steps` parts."""
    trainable, non_trainable, optimizer_state, metrics = state
    batch, rows = _weighted(data)
    weight_sums = model.batch_losses.weight_sums(*batch[1:], rows)

    def share(trainable, non_trainable, part, part_of_batch):
        total, aux = _forward(
            model, trainable, non_trainable, part, weight_sums, part_of_batch, training=True
        )
        scope = keras.StatelessScope(
            state_mapping=list(zip(model.optimizer.variables, optimizer_state, strict=True))
        )
        with scope:
            return model.optimizer.scale_loss(total), (total, *aux)

    def take(carry, part, part_of_batch):
        sums, non_trainable, metrics = carry
        (_, (total, shares, y_pred, non_trainable)), gradients = jax.value_and_grad(
            share, has_aux=True
        )(trainable, non_trainable, part, part_of_batch)
        sums = gradients if sums is None else jax.tree.map(jnp.add, sums, gradients)
        metrics = _tracked(model, metrics, part, y_pred, shares, total, rows)
        return sums, non_trainable, metrics

    length = len(jax.tree.leaves(batch)[0])
    size = -(-length // model.accumulation_steps)
    full = length // size
    if full <= 1:
        carry = take((None, non_trainable, metrics), batch, 1.0)
    else:
        # Row i goes to part i mod full: each device keeps the rows that it has.
        parts = jax.tree.map(
            lambda t: t[: full * size].reshape(size, full, *t.shape[1:]).swapaxes(0, 1), batch
        )
        zeros = [jnp.zeros(value.shape, value.dtype) for value in trainable]
        carry, _ = jax.lax.scan(
            lambda carry, part: (take(carry, part, size / length), None),
            (zeros, non_trainable, metrics),
            parts,
        )
        if length % size:
            rest = jax.tree.map(lambda t: t[full * size :], batch)
            carry = take(carry, rest, 1 - full * size / length)
    gradients, non_trainable, metrics = carry
    trainable, optimizer_state = model.optimizer.stateless_apply(
        optimizer_state, gradients, trainable
    )
    return _results(model, metrics), (trainable, non_trainable, optimizer_state, metrics)


def test_step(model, state, data):
    """Losses and metrics of a batch."""
    trainable, non_trainable, metrics = state
    batch, rows = _weighted(data)
    weight_sums = model.batch_losses.weight_sums(*batch[1:], rows)
    total, (shares, y_pred, non_trainable) = _forward(
        model, trainable, non_trainable, batch, weight_sums, 1.0, training=False
    )
    metrics = _tracked(model, metrics, batch, y_pred, shares, total, rows)
    return _results(model, metrics), (trainable, non_trainable, metrics)


def _weighted(data):
    """((x, y, sample_weight), rows): rows that only fill devices weigh 0 and do not count."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if num_replicas() == 1:
        return (x, y, sample_weight), rows_of(x)
    real = _real_rows(x)

    def weigh(weight, target):
        if isinstance(target, dict):
            given = weight if isinstance(weight, dict) else dict.fromkeys(target, weight)
            return {name: weigh(given.get(name), target[name]) for name in target}
        if weight is None:
            return real
        return weight * real.reshape(-1, *[1] * (weight.ndim - 1))

    return (x, y, weigh(sample_weight, y)), _count(x)


def _count(x):
    """How many rows, or examples, a batch has beside rows that only fill devices."""
    if num_replicas() == 1 or "num_examples" in x:
        return rows_of(x)
    return _real_rows(x).sum()


def _real_rows(x):
    """(rows,) float32: 1 for rows with a token, 0 for those that only fill devices."""
    mask = x["padding_mask"]
    return mask.any(axis=tuple(range(1, mask.ndim))).astype("float32")


def _forward(model, trainable, non_trainable, part, weight_sums, part_of_batch, training):
    """(total share of the loss, (shares, y_pred, non-trainable state)) of a part of a batch.

    What layers added, such as regularizers, counts by the part's rows.
    """
    x = part[0]
    y_pred, non_trainable, added = model.stateless_call(
        trainable, non_trainable, x, return_losses=True, training=training
    )
    shares = shares_of(model, part, y_pred, weight_sums)
    total = model.batch_losses.total(shares) + part_of_batch * sum(added)
    return total, (shares, y_pred, non_trainable)


def _tracked(model, metrics, part, y_pred, shares, total, whole_rows):
    """The metrics' state after a part of a batch."""
    rows = _count(part[0])
    variables = model.metrics_variables
    with keras.StatelessScope(state_mapping=list(zip(variables, metrics, strict=True))) as scope:
        track(model, part, y_pred, shares, total, rows, whole_rows)
    values = [scope.get_current_value(variable) for variable in variables]
    return [old if new is None else new for old, new in zip(metrics, values, strict=True)]


def _results(model, metrics):
    mapping = list(zip(model.metrics_variables, metrics, strict=True))
    with keras.StatelessScope(state_mapping=mapping):
        return model.get_metrics_result()
