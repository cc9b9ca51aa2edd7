"""Which weights learn when: layers that stay as they are, and layers that join epoch by epoch."""

import keras


def freeze(task, num_layers: int, embeddings: bool = True) -> None:
    """Keep the lowest layers of a task's encoder as they are.

    Call it before `compile`. Frozen weights take no memory of the optimizer, and no gradient is
    computed below the lowest layer that learns. To take it back set `trainable = True` on these
    layers themselves: on the backbone, whose own flag is true already, Keras passes over it.

    Args:
        task: a task on a `BertBackbone`.
        num_layers: int. Encoder layers to freeze, from the bottom.
        embeddings: bool. Freeze the embeddings too.

    Raises:
        ValueError: if the encoder does not have so many layers.

    Example:

    >>> freeze(classifier, num_layers=1)
    >>> [layer.trainable for layer in classifier.backbone.encoder_layers]
    [False, True]
    """
    layers = task.backbone.encoder_layers
    if not 0 <= num_layers <= len(layers):
        raise ValueError(
            f"num_layers={num_layers}, but the encoder has 0..{len(layers)} to freeze."
        )
    for layer in layers[:num_layers]:
        layer.trainable = False
    if embeddings:
        task.backbone.embeddings.trainable = False
    task.train_function = None  # traced with what was trainable then


class GradualUnfreezing(keras.callbacks.Callback):
    """Layers join the training one after the other, the top one first.

    Howard and Ruder 2018 (ULMFiT, arXiv:1801.06146), section 3.3: the top knows least of language
    and must change most; layers below that learned at once with a head that is still random
    would forget what they know.

    Epoch 0 trains the head alone, epoch 1 also the pooler and the last encoder layer, each next
    epoch one layer more, and the epoch after the lowest layer the embeddings and so all. What
    was frozen before (by `freeze` or LoRA) stays so. Epochs are counted as `fit` counts them: with
    `initial_epoch` a run goes on where it was. When `fit` ends all is as before it; after an
    interruption call `unfreeze()`.

    Weights and optimizer slots of layers that have not joined stay bit for bit as they were, on
    the TensorFlow and the JAX backend. Each epoch in which layers join compiles the step anew.
    Adam's bias correction counts the steps of the whole run, not a layer's own.

    The model that `fit` is called on is a task on a `BertBackbone`.

    Args:
        layers_per_epoch: int. Encoder layers that join at a time: with 1, as the paper, an encoder
            of 12 layers trains whole from epoch 13 on.

    Raises:
        ValueError: if `layers_per_epoch` is not positive; at the start of `fit`, if the task has
            no head to begin with, or its optimizer was made for other weights.

    Example:

    >>> callbacks = [GradualUnfreezing(layers_per_epoch=4)]
    """

    def __init__(self, layers_per_epoch: int = 1):
        super().__init__()
        if layers_per_epoch < 1:
            raise ValueError(f"layers_per_epoch must be at least 1, but is {layers_per_epoch}.")
        self.layers_per_epoch = layers_per_epoch
        self._frozen: list = []
        self._slots: _Slots | None = None

    def on_train_begin(self, logs=None):
        self.unfreeze()  # what an interrupted run of this callback left
        variables = self.model.trainable_variables
        in_backbone = {id(v) for v in self.model.backbone.variables}
        if all(id(v) in in_backbone for v in variables):
            raise ValueError(
                f"{type(self.model).__name__} has no head that could learn first: all of its "
                "trainable weights are its backbone's. Leave GradualUnfreezing out."
            )
        # Of the layers, those weights that are to learn at all. Group i joins in epoch i + 1.
        self._groups = [
            [v for layer in group for v in layer.trainable_variables]
            for group in self._layers_in_order()
        ]
        self._slots = _Slots(self.model.optimizer, variables)

    def _layers_in_order(self) -> list[list]:
        """The layers that join at once, the first to join first."""
        backbone, step = self.model.backbone, self.layers_per_epoch
        layers = list(reversed(backbone.encoder_layers))
        groups = [layers[i : i + step] for i in range(0, len(layers), step)]
        groups[0].insert(0, backbone.pooler)
        return [*groups, [backbone.embeddings]]

    def on_epoch_begin(self, epoch, logs=None):
        assert self._slots is not None  # since training began
        frozen = [v for group in self._groups[epoch:] for v in group]
        if len(frozen) != len(self._frozen):
            self.unfreeze()
            for variable in frozen:
                variable.trainable = False
            self._frozen = frozen
            self._slots.step_on(self.model.trainable_variables)
        self.model.make_train_function()

    def on_train_end(self, logs=None):
        self.unfreeze()

    def unfreeze(self) -> None:
        """Make trainable what this callback froze."""
        for variable in self._frozen:
            variable.trainable = True
        self._frozen = []
        if self._slots is not None:
            self._slots.step_on_all()
            self.model.train_function = None  # traced with what was trainable then


class _Slots:
    """An optimizer that has slots for all variables and steps on some of them.

    Under TensorFlow Keras hands it each variable with its gradient. Under JAX it hands it bare
    values and expects one for each variable that the optimizer was built with; so there the
    optimizer is told, for the time being, that it was built with fewer.
    """

    def __init__(self, optimizer, variables):
        if not optimizer.built:
            optimizer.build(variables)
        # With float16 one optimizer scales the loss and wraps another.
        self._optimizers = [optimizer]
        if hasattr(optimizer, "inner_optimizer"):
            self._optimizers.append(optimizer.inner_optimizer)
        self._known = [
            (list(o._trainable_variables), dict(o._trainable_variables_indices))
            for o in self._optimizers
        ]
        unknown = [v.path for v in variables if optimizer._var_key(v) not in self._known[0][1]]
        if unknown:
            raise ValueError(
                f"The optimizer has no slots for {', '.join(unknown)}, which were frozen when it was "
                "built. Compile the task with a new optimizer."
            )
        self._is_told = keras.backend.backend() != "tensorflow"
        if self._is_told and any(o.use_ema for o in self._optimizers):
            raise ValueError(
                "use_ema averages all weights at each step, which Keras cannot do with some of "
                "them frozen on this backend. Switch it off, or use the TensorFlow backend."
            )

    def step_on(self, variables) -> None:
        """Let the optimizer's next steps be on these variables."""
        for optimizer, (_, indices) in zip(self._optimizers, self._known, strict=True):
            keys = [optimizer._var_key(v) for v in variables]
            self._tell(optimizer, variables, {key: indices[key] for key in keys})

    def step_on_all(self) -> None:
        """Let the optimizer be as it was built."""
        for optimizer, known in zip(self._optimizers, self._known, strict=True):
            self._tell(optimizer, *known)

    def _tell(self, optimizer, variables, indices) -> None:
        if not self._is_told:
            return
        # In place: what is assigned to it an optimizer counts among its own variables.
        optimizer._trainable_variables[:] = variables
        optimizer._trainable_variables_indices.clear()
        optimizer._trainable_variables_indices.update(indices)
