"""Losses as means over weighted targets: over masked tokens, never over empty slots."""

import keras
from keras import ops

from keras_bert_impl.training.distribution import sum_over_replicas

# google-research/bert, run_pretraining.py, get_masked_lm_output().
EPSILON = 1e-5


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class WeightedMeanLoss(keras.losses.Loss):
    """sum(w * cross_entropy) / sum(w), and 0 where no target has a weight.

    Dividing by the targets, as Keras's own mean does, would make the learning rate depend on
    padding, and on how many rows of a batch are of this objective.
    Under `tf.distribute` the denominator is that of the whole batch, so that replicas with
    different numbers of targets train as one device would; and so it is where a batch is
    taken in several parts (`BertTask.compile`, accumulation_steps).

    Call arguments:
        y_true: (batch,) or (batch, length) int classes.
        y_pred: (batch, classes) or (batch, length, classes) logits.
        sample_weight: float, of the shape of y_true; or (batch,), of whole rows. Default 1.

    Returns:
        float32 scalar.
    """

    def __init__(self, name: str = "weighted_mean_loss", **kwargs):
        # The reduction is this class's whole point: it is done in __call__.
        kwargs.pop("reduction", None)
        super().__init__(name=name, reduction="none", **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None):
        with keras.name_scope(self.name):
            weight_sum = sum_over_replicas(self.weight_sum(y_true, sample_weight))
            return self.weighted_sum(y_true, y_pred, sample_weight) / self.divisor(weight_sum)

    # What `BatchLosses` asks, to divide the sum of a part by the weights of the whole.

    def weight_sum(self, y_true, sample_weight=None):
        """float32 scalar: how many targets there are, by weight."""
        weights = ops.ones(ops.shape(y_true))
        if sample_weight is not None:
            weights = weights * _by_target(sample_weight, weights)
        return ops.sum(weights)

    def weighted_sum(self, y_true, y_pred, sample_weight=None):
        """float32 scalar: the losses of all targets, weighted and summed."""
        losses = self.call(y_true, y_pred)  # of the shape of y_true
        if sample_weight is not None:
            losses = losses * _by_target(sample_weight, losses)
        return ops.sum(losses)

    def divisor(self, weight_sum):
        """What the sum of all losses is divided by."""
        return ops.where(weight_sum == 0, ops.ones_like(weight_sum), weight_sum)

    def call(self, y_true, y_pred):
        y_pred = ops.cast(y_pred, "float32")
        return ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)

    def get_config(self):
        config = super().get_config()
        config.pop("reduction", None)
        return config


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class MaskedLMLoss(WeightedMeanLoss):
    """sum(w * cross_entropy) / (sum(w) + 1e-5), as the reference.

    Rows hold fixed numbers of prediction slots, most of them empty in short rows.

    Call arguments:
        y_true: (batch, slots) int. The original ids.
        y_pred: (batch, slots, vocabulary_size) logits.
        sample_weight: (batch, slots) float, 1 at masked tokens, 0 in empty slots; or (batch,), of
            whole rows. Default 1.

    Returns:
        float32 scalar.
    """

    def __init__(self, name: str = "masked_lm_loss", **kwargs):
        super().__init__(name=name, **kwargs)

    def divisor(self, weight_sum):
        """What the sum of all losses is divided by."""
        return weight_sum + EPSILON


def _by_target(sample_weight, targets):
    """float32 weights that multiply targets: of each, or (batch, 1) where rows are weighed."""
    weights = ops.cast(sample_weight, "float32")
    while len(weights.shape) < len(targets.shape):
        weights = weights[..., None]
    return weights
