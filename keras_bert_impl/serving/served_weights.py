"""The precision that a served model's matrices are kept and multiplied in."""

import keras

from keras_bert_impl.models.fixed_weights import plain_dense_layers, replaced

WEIGHTS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def in_precision(task, weights: str | None):
    """A task that computes in the precision of `weights`, with the same variables' values.

    Args:
        task: built. It stays as it is, and is returned itself where nothing is to change.
        weights: str, of `WEIGHTS`, or None for what the task computes in.

    Raises:
        ValueError: for unknown weights, or where LoRA or int8 has changed layers.
    """
    if weights is None:
        return task
    if weights not in WEIGHTS:
        raise ValueError(f"Unknown weights {weights!r}. Choose one of {', '.join(WEIGHTS)}.")
    policy = WEIGHTS[weights]
    if task.backbone.dtype_policy.name == policy:
        return task
    if _is_changed(task):
        raise ValueError(
            f"weights={weights!r} is for plain layers, and this task has some with LoRA or in "
            "int8. Export without `weights`, or merge LoRA by save_to_preset and from_preset."
        )
    config = task.get_config()
    config["backbone"]["config"]["dtype"] = policy
    config["preprocessor"] = None
    other = type(task).from_config(config)
    other.preprocessor = task.preprocessor
    other.set_weights(task.get_weights())
    return other


def served_weights(task, constants: bool):
    """The scope in which layers see matrices and token table as they are served.

    Args:
        task: as `in_precision` gives it.
        constants: bool. Matrices are constants, which oneDNN lays out for its products once,
            variables at each call. The table is none: single rows of it are read.
    """
    import tensorflow as tf

    layers = plain_dense_layers(task)
    pairs = []
    for layer in layers:
        kernel = keras.ops.cast(layer.kernel, layer.compute_dtype)
        if constants:
            # An array, since a tensor made outside of a graph would be a variable of it.
            pairs.append((layer.kernel, kernel.numpy()))
        elif layer.compute_dtype != layer.variable_dtype:
            pairs.append((layer.kernel, tf.Variable(kernel, trainable=False)))
    if any(layer.compute_dtype == "bfloat16" for layer in layers):
        table = task.backbone.embeddings.token_embedding.embeddings
        pairs.append((table, tf.Variable(keras.ops.cast(table, "bfloat16"), trainable=False)))
    return replaced(pairs)


def _is_changed(task) -> bool:
    return any(
        getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None)
        for layer in task._flatten_layers()
    )
