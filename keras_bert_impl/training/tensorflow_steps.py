"""The steps of `training/steps.py` in TensorFlow, on one replica or many."""

import keras
import tensorflow as tf

from keras_bert_impl.layers.fusion import fusing
from keras_bert_impl.training.distribution import sum_over_replicas
from keras_bert_impl.training.steps import rows_of, shares_of, track


def train_step(model, data):
    """One optimizer step on a replica's rows, taken in `model.accumulation_steps` parts."""
    with fusing():
        return _train_step(model, data)


def _train_step(model, data):
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    whole_rows, weight_sums = _whole_batch(model, x, y, sample_weight)
    num_parts = model.accumulation_steps
    variables = model.trainable_variables
    has_gradient: list[bool] = []

    def gradients_of(part):
        x = part[0]
        with tf.GradientTape() as tape:
            y_pred = model(x, training=True)
            shares = shares_of(model, part, y_pred, weight_sums)
            total = _with_added_losses(model, model.batch_losses.total(shares), x, whole_rows)
            scaled = model.optimizer.scale_loss(total)
        gradients = tape.gradient(scaled, variables)
        track(model, part, y_pred, shares, total, rows_of(x), whole_rows)
        return gradients

    if num_parts == 1:
        gradients = gradients_of((x, y, sample_weight))
    else:

        def add_part(index, sums):
            gradients = gradients_of(_part((x, y, sample_weight), index, num_parts))
            has_gradient[:] = [gradient is not None for gradient in gradients]
            sums = [
                total if gradient is None else total + tf.cast(gradient, total.dtype)
                for total, gradient in zip(sums, gradients, strict=True)
            ]
            return index + 1, sums

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        # One part after another, so that only one's activations are in memory.
        _, sums = tf.while_loop(
            lambda index, _: index < num_parts,
            add_part,
            (tf.constant(0), zeros),
            parallel_iterations=1,
        )
        gradients = [
            gradient if has else None for gradient, has in zip(sums, has_gradient, strict=True)
        ]
    if variables:
        model.optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))
    return _results(model)


def test_step(model, data):
    """Losses and metrics of a replica's rows."""
    with fusing():
        return _test_step(model, data)


def _test_step(model, data):
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    whole_rows, weight_sums = _whole_batch(model, x, y, sample_weight)
    y_pred = model(x, training=False)
    shares = shares_of(model, (x, y, sample_weight), y_pred, weight_sums)
    total = _with_added_losses(model, model.batch_losses.total(shares), x, whole_rows)
    track(model, (x, y, sample_weight), y_pred, shares, total, rows_of(x), whole_rows)
    return _results(model)


def _results(model):
    results = model.get_metrics_result()
    if isinstance(tf.distribute.get_strategy(), tf.distribute.MultiWorkerMirroredStrategy):
        # Keras takes the mean over workers along an axis that scalars do not have.
        results = tf.nest.map_structure(lambda result: result[None], results)
    return results


def _whole_batch(model, x, y, sample_weight):
    """(rows, list of weight sums), float32, over all replicas."""
    rows = rows_of(x)
    weight_sums = model.batch_losses.weight_sums(y, sample_weight, rows)
    sums = sum_over_replicas(tf.stack([rows, *weight_sums]))
    rows, *weight_sums = tf.unstack(sums)
    return rows, weight_sums


def _with_added_losses(model, total, x, whole_rows):
    """What layers added, such as regularizers, counts by the part's rows: over all parts once."""
    for added in model.losses:
        total += tf.math.multiply_no_nan(added, rows_of(x) / whole_rows)
    return total


def _part(data, index, num_parts):
    """Part `index` of the rows; the last parts may have fewer, or none."""

    def cut(tensor):
        if tensor is None:
            return None
        rows = tensor.shape[0]
        if rows is not None and rows % num_parts == 0:  # static shapes stay so, as XLA needs
            size = rows // num_parts
            begin = tf.concat([[index * size], tf.zeros([tensor.shape.rank - 1], tf.int32)], 0)
            part = tf.slice(tensor, begin, [size, *tf.unstack(tf.shape(tensor)[1:])])
            return tf.ensure_shape(part, [size, *tensor.shape[1:]])
        size = -(-tf.shape(tensor)[0] // num_parts)
        return tensor[index * size : (index + 1) * size]

    return tf.nest.map_structure(cut, data)
