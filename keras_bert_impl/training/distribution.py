"""One device or many: one call that recipes use, on either backend."""

import contextlib
import functools
import json
import os

import keras

CHOICES = ("none", "mirrored", "multi_worker", "tpu", "model_parallel", "auto")


def sum_over_replicas(value):
    """The sum of a scalar over all replicas of the running step; itself on one device.

    Under JAX a step sees the whole batch already, so there is nothing to add.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.convert_to_tensor(value))


def distribution_scope(choice: str = "auto", model_devices: int = 2):
    """The scope in which a model is built, compiled and trained on the devices chosen.

    Args:
        choice: str.
            `"none"`: one device.
            `"mirrored"`: every local GPU (or, without one, every logical CPU device), each with
            the whole model and a part of each batch.
            `"multi_worker"`: several machines, as the TF_CONFIG variable names them.
            `"tpu"`: a TPU.
            `"model_parallel"`: JAX only; matrices are cut over `model_devices` devices, for
            models too large for one, see `encoder_layout_map`; batches over the others.
            `"auto"`: mirrored where several accelerators are, else one device; under JAX
            all its devices.
            The TensorFlow backend goes through `tf.distribute`; the JAX backend through
            `keras.distribution.DataParallel`, where `"mirrored"` and `"tpu"` mean all of
            JAX's devices.
        model_devices: int. Of `"model_parallel"`: must divide the number of devices.

    Returns:
        A context manager. `num_replicas()` inside it tells how many parts a batch is cut into;
        batches need not be a multiple of it.

    Raises:
        ValueError: if the choice is unknown, the backend has no such distribution, or
            `model_devices` does not divide the devices.
    """
    if choice not in CHOICES:
        raise ValueError(f"Unknown distribution {choice!r}. Choose one of {', '.join(CHOICES)}.")
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _tensorflow_scope(choice)
    if backend == "jax":
        return _jax_scope(choice, model_devices)
    if choice in ("none", "auto"):
        return contextlib.nullcontext()
    raise ValueError(f"The {backend} backend has no distribution {choice!r} here. Use 'none'.")


def num_replicas() -> int:
    """How many parts each batch is cut into in the current scope."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.distribute.get_strategy().num_replicas_in_sync
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else int(distribution.num_model_replicas)


def worker_position() -> tuple[int, int]:
    """Which of the processes that train together this is, from 0, and how many they are."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.process_index(), jax.process_count()
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    chiefs, workers = len(cluster.get("chief", [])), len(cluster.get("worker", []))
    index = int(task.get("index", 0))
    return index if task.get("type") == "chief" else chiefs + index, max(1, chiefs + workers)


def is_chief() -> bool:
    """Whether this process writes files, of the processes that train together: one does."""
    return worker_position()[0] == 0


def refuse_idle_distribution() -> None:
    """Raise where `keras.distribution` is set under a backend that it does nothing for.

    Raises:
        ValueError: saying what does.
    """
    if keras.backend.backend() == "jax" or keras.distribution.distribution() is None:
        return
    raise ValueError(
        "keras.distribution.set_distribution() does nothing under the "
        f"{keras.backend.backend()} backend: the model would train on one device. Set "
        "KERAS_BACKEND=jax, or undo it by set_distribution(None) and build the model in "
        "distribution_scope()."
    )


def encoder_layout_map(device_mesh) -> keras.distribution.LayoutMap:
    """How the matrices of an encoder are cut over the devices of a mesh's axis "model".

    Shoeybi et al. 2019 (Megatron-LM), section 3: the first product of each pair by its columns,
    the second by its rows, so that only their result is exchanged. The token table is cut by its
    columns, since vocabularies rarely divide.

    Args:
        device_mesh: `keras.distribution.DeviceMesh` with an axis "model".

    Example:

    >>> mesh = keras.distribution.DeviceMesh((1, 2), ("batch", "model"), ["cpu:0", "cpu:1"])
    >>> encoder_layout_map(mesh)["encoder_layer_0/output_dense/kernel"].axes
    ('model', None)
    """
    layout_map = keras.distribution.LayoutMap(device_mesh)
    columns, rows, parts = (None, "model"), ("model", None), ("model",)
    layout_map[r".*query_key_value.kernel"] = columns
    layout_map[r".*query_key_value.bias"] = parts
    layout_map[r".*attention.output_dense.kernel"] = rows
    layout_map[r".*intermediate_dense.kernel"] = columns
    layout_map[r".*intermediate_dense.bias"] = parts
    layout_map[r".*encoder_layer_\d+.output_dense.kernel"] = rows
    layout_map[r".*token_embedding.embeddings"] = columns
    return layout_map


@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]):
    """One strategy a process: two number their sums alike, and TensorFlow mixes these up."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(devices))


@functools.cache
def _multi_worker_strategy():
    import tensorflow as tf

    if "TF_CONFIG" not in os.environ:
        raise ValueError(
            "distribution 'multi_worker' needs the environment variable TF_CONFIG, which "
            'names all workers and this one: {"cluster": {"worker": ["host:port", ...]}, '
            '"task": {"type": "worker", "index": 0}}.'
        )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise RuntimeError(
            "distribution_scope('multi_worker') must come first in a program, before any "
            f"tensor, dataset or tokenizer is made: {error}"
        ) from error


def _tensorflow_scope(choice: str):
    import tensorflow as tf

    if choice == "multi_worker":
        return _multi_worker_strategy().scope()
    gpus = tf.config.list_logical_devices("GPU")
    if choice == "auto":
        choice = "mirrored" if len(gpus) > 1 else "none"
    if choice == "none":
        return contextlib.nullcontext()
    if choice == "model_parallel":
        raise ValueError(
            "'model_parallel' is for the JAX backend: set KERAS_BACKEND=jax. TensorFlow has "
            "'mirrored', where each device holds the whole model."
        )
    if choice == "mirrored":
        devices = gpus or tf.config.list_logical_devices("CPU")
        strategy = _mirrored_strategy(tuple(device.name for device in devices))
    else:
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
        except (ValueError, tf.errors.NotFoundError, tf.errors.UnavailableError) as error:
            raise ValueError(
                "No TPU answers to TensorFlow. On a Colab or Kaggle TPU set KERAS_BACKEND=jax: "
                "Keras 3 drives TPUs through JAX."
            ) from error
        strategy = tf.distribute.TPUStrategy(resolver)
    return strategy.scope()


def _jax_scope(choice: str, model_devices: int):
    if choice == "multi_worker":
        raise ValueError(
            "Under JAX call keras.distribution.initialize() on each host and use 'auto'; "
            "'multi_worker' is tf.distribute's."
        )
    devices = keras.distribution.list_devices()
    if choice == "none" or (choice == "auto" and len(devices) == 1):
        return contextlib.nullcontext()
    if choice != "model_parallel":
        return keras.distribution.DataParallel(devices=devices).scope()
    if model_devices < 1 or len(devices) % model_devices:
        raise ValueError(
            f"model_devices={model_devices} does not divide the {len(devices)} devices of JAX."
        )
    mesh = keras.distribution.DeviceMesh(
        (len(devices) // model_devices, model_devices), ("batch", "model"), devices
    )
    return keras.distribution.ModelParallel(layout_map=encoder_layout_map(mesh)).scope()
