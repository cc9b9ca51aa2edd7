"""The precision that a served model's matrices are kept and multiplied in."""

import keras

from keras_bert_impl.models.fixed_weights import lowered_kernels, replaced

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


def lowered(task):
    """The scope in which matrices and token table are constants in the precision they are used in.

    Constants, since oneDNN lays these out for its products once, variables at each call.
    """
    import ml_dtypes

    pairs = []
    for kernel, dtype in lowered_kernels(task):
        if dtype == "bfloat16":
            pairs.append((kernel, keras.ops.convert_to_numpy(kernel).astype(ml_dtypes.bfloat16)))
    if pairs:
        table = task.backbone.embeddings.token_embedding.embeddings
        pairs.append((table, keras.ops.convert_to_numpy(table).astype(ml_dtypes.bfloat16)))
    return replaced(pairs)


def _is_changed(task) -> bool:
    return any(
        getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None)
        for layer in task._flatten_layers()
    )
