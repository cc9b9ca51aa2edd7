"""AdamW as BERT uses it: decay of matrices only, clipping by the whole batch's norm."""

import functools
import re
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.fusion import compiled, fusing, is_fusing

# As BertBackbone names its layers.
_ENCODER_LAYER = re.compile(r"\bencoder_layer_(\d+)/")
_EMBEDDINGS = re.compile(r"\bembeddings/")


def decays(variable) -> bool:
    """Whether weight decay pulls this variable to zero: matrices yes, shifts and scales no.

    The reference excludes what is named "LayerNorm" or "bias". Names change with the library
    (Keras calls layer norm's scale and shift gamma and beta), so the role is read off the
    variable instead: vectors and scalars shift or scale an activation; a bias of higher rank
    is one that its layer called so.
    """
    name = variable.name.split("/")[-1].split(":")[0]
    return len(variable.shape) >= 2 and name not in ("bias", "gamma", "beta")


def rates_by_depth(paths: Sequence[str], layer_decay: float) -> list[float]:
    """What each variable's learning rate is multiplied by: the deeper below, the less.

    Howard and Ruder 2018 (ULMFiT), section 3.2: each layer takes the rate of the one above it
    times `layer_decay`. Pooler and head are the top, the embeddings the bottom.

    Args:
        paths: the variables' paths.
        layer_decay: float in (0, 1].

    Returns:
        A float for each path.

    Raises:
        ValueError: if there is no encoder layer among them.

    Example:

    >>> rates_by_depth(["embeddings/x", "encoder_layer_0/x", "encoder_layer_1/x", "head/x"], 0.5)
    [0.125, 0.25, 0.5, 1.0]
    """
    numbers = [int(found[1]) if (found := _ENCODER_LAYER.search(path)) else None for path in paths]
    known = [number for number in numbers if number is not None]
    if not known:
        raise ValueError(
            "layer_decay needs a model on a BertBackbone: no variable's path has "
            f"encoder_layer_0 in it, for example {paths[0] if paths else 'none at all'!r}."
        )
    top = max(known) + 1
    rates = []
    for path, number in zip(paths, numbers, strict=True):
        depth = top + 1 if _EMBEDDINGS.search(path) else 0
        depth = depth if number is None else top - number
        rates.append(layer_decay**depth)
    return rates


@functools.cache
def _adam_step(beta_1: float, beta_2: float, epsilon: float, decay: float):
    """A variable and its slots after a step, in few loops where loops are fused."""

    def function(gradient, variable, momentum, velocity, rate, first, second, clip_scale):
        gradient = gradient * clip_scale
        momentum = momentum + (1.0 - beta_1) * (gradient - momentum)
        velocity = velocity + (1.0 - beta_2) * (ops.square(gradient) - velocity)
        update = (momentum / first) / (ops.sqrt(velocity / second) + epsilon)
        if decay:
            update = update + decay * variable
        return variable - rate * update, momentum, velocity

    return compiled(function)


def _norm(gradients):
    """Of all gradients as one vector, float32 scalar."""
    import tensorflow as tf

    halves = [tf.nn.l2_loss(tf.cast(gradient, tf.float32)) for gradient in gradients]
    return tf.sqrt(2 * tf.add_n(halves))


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertAdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay (google-research/bert, optimization.py).

    Differences from `keras.optimizers.AdamW`: biases and layer-norm scales and shifts are not
    decayed; gradients are clipped by the norm of the batch's whole gradient, after replicas
    are summed; bias correction can be switched off.

    Args:
        learning_rate: float or schedule.
        weight_decay: float. Times the learning rate, taken off each matrix at each step.
        beta_1, beta_2: float. Decay of the running mean and of the running square.
        epsilon: float. Added to the root of the running square.
        bias_correction: bool. True divides the running means by what their start at zero
            took from them (Kingma and Ba 2015), which small fine-tuning sets need (Mosbach et
            al. 2021, Zhang et al. 2021). False is the original BERT's step.
        global_clipnorm: float or None. Longest gradient, all variables together.
        layer_decay: float in (0, 1]. Each encoder layer's learning rate is this times that of
            the layer above it, see `rates_by_depth`. 1, the default, is BERT's; ULMFiT takes
            1 / 2.6.

    Raises:
        ValueError: for a `layer_decay` outside of (0, 1].

    Example:

    >>> optimizer = BertAdamW(WarmupLinearDecay(5e-5, num_steps=1000, num_warmup_steps=100))
    >>> optimizer.bias_correction
    True
    """

    def __init__(
        self,
        learning_rate=5e-5,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = True,
        global_clipnorm: float | None = 1.0,
        layer_decay: float = 1.0,
        name: str = "bert_adamw",
        **kwargs,
    ):
        if not 0 < layer_decay <= 1:
            raise ValueError(f"layer_decay={layer_decay}: expected above 0 and at most 1.")
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            global_clipnorm=global_clipnorm,
            name=name,
            **kwargs,
        )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay
        # Gradients are multiplied by it in the step's one loop, in place of a pass of their own.
        self._clip_scale: Any = 1.0

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(
            variables, ["momentum", "velocity"]
        )
        excluded: set = getattr(self, "_exclude_from_weight_decay", set())
        self._decayed = {
            self._var_key(v) for v in variables if decays(v) and self._var_key(v) not in excluded
        }
        self._rates = [1.0] * len(variables)
        if self.layer_decay < 1:
            self._rates = rates_by_depth([v.path for v in variables], self.layer_decay)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """As Keras's, for more than the default; a name that matches no variable is an error."""
        if var_names:
            raise ValueError(
                "BertAdamW excludes biases and layer-norm scales and shifts by their role and "
                "takes no name patterns, since a pattern that matches nothing goes unnoticed. "
                "Pass the variables themselves as var_list."
            )
        super().exclude_from_weight_decay(var_list=var_list)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        dtype = variable.dtype
        # In float32 at least: 0.999 is 1 in bfloat16, which would divide by 0.
        precise = keras.backend.result_type(dtype, "float32")
        corrections = [1.0, 1.0]
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, precise)
            betas = (self.beta_1, self.beta_2)
            corrections = [1.0 - ops.power(ops.cast(beta, precise), step) for beta in betas]
        decay = self.weight_decay if self._var_key(variable) in self._decayed else None
        scalars = [ops.cast(learning_rate, dtype) * self._rates[index], *corrections]
        step_function = _adam_step(self.beta_1, self.beta_2, self.epsilon, decay or 0.0)
        gradient = ops.cast(gradient, dtype)
        scalars = [ops.cast(scalar, dtype) for scalar in (*scalars, self._clip_scale)]
        targets = (variable, momentum, velocity)
        values = step_function(gradient, *(ops.convert_to_tensor(v) for v in targets), *scalars)
        for target, value in zip(targets, values, strict=True):
            self.assign(target, value)

    # Keras clips each replica's gradient before the replicas are summed, and decays weights
    # in a pass of its own; here both belong to the step, after the sum.

    def _clip_gradients(self, gradients):
        return gradients

    def _apply_weight_decay(self, variables):
        pass

    def _backend_update_step(self, gradients, variables, learning_rate):
        if keras.backend.backend() != "tensorflow":
            gradients = super()._clip_gradients(gradients)
            super()._backend_update_step(gradients, variables, learning_rate)
            return
        import tensorflow as tf

        # Table lookups give their gradient as rows, one for each time a row was read. The norm
        # is of the gradient, so rows that belong together are summed first.
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        values = [v.value if isinstance(v, keras.Variable) else v for v in variables]
        pairs = self._all_reduce_sum_gradients(list(zip(gradients, values, strict=True)))
        gradients = [gradient for gradient, _ in pairs]
        if self.global_clipnorm is None:
            gradients = super()._clip_gradients(gradients)  # by value, or each by its own norm
        else:
            norm = _norm(gradients)
            self._clip_scale = self.global_clipnorm / ops.maximum(norm, self.global_clipnorm)
        fuse = is_fusing()

        def update(strategy, pairs, learning_rate):
            with fusing(fuse):  # strategies call this in another thread
                self._distributed_tf_update_step(strategy, pairs, learning_rate)

        tf.__internal__.distribute.interim.maybe_merge_call(
            update,
            self._distribution_strategy,
            list(zip(gradients, values, strict=True)),
            learning_rate,
        )
        self._clip_scale = 1.0

    def load_own_variables(self, store):
        """Take saved slots, where both sides have some.

        A model that never trained has none, and one read by `from_preset` starts at step 0: no
        reason for Keras's warning that variables are skipped.
        """
        untrained = 2  # step and learning rate
        if self.built and len(store.keys()) > untrained:
            super().load_own_variables(store)

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "layer_decay": self.layer_decay,
        }
