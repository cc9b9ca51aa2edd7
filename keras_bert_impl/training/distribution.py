"""One device or many: one call that recipes use, on either backend."""

import contextlib
import functools
import os

import keras

CHOICES = ("none", "mirrored", "multi_worker", "tpu", "auto")


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


def distribution_scope(choice: str = "auto"):
    """The scope in which a model is built and compiled to train on the devices chosen.

    Args:
        choice: str.
            `"none"`: one device.
            `"mirrored"`: every local GPU (or, without one, every logical CPU device).
            `"multi_worker"`: several machines, as the TF_CONFIG variable names them.
            `"tpu"`: a TPU.
            `"auto"`: mirrored where several accelerators are, else one device; under JAX
            all its devices.
            The TensorFlow backend goes through `tf.distribute`; the JAX backend through
            `keras.distribution.DataParallel`, where `"mirrored"` and `"tpu"` mean all of
            JAX's devices.

    Returns:
        A context manager. `num_replicas()` inside it tells how many devices share a batch.

    Raises:
        ValueError: if the choice is unknown or the backend has no such distribution.
    """
    if choice not in CHOICES:
        raise ValueError(f"Unknown distribution {choice!r}. Choose one of {', '.join(CHOICES)}.")
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _tensorflow_scope(choice)
    if backend == "jax":
        return _jax_scope(choice)
    if choice in ("none", "auto"):
        return contextlib.nullcontext()
    raise ValueError(f"The {backend} backend has no distribution {choice!r} here. Use 'none'.")


def num_replicas() -> int:
    """How many devices share each batch in the current scope."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.distribute.get_strategy().num_replicas_in_sync
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else int(distribution.device_mesh.devices.size)


def check_batch_size(batch_size: int) -> None:
    """Raise where the global batch does not split evenly over the replicas in scope.

    Raises:
        ValueError: naming the batch size, the replicas and the nearest sizes that fit.
    """
    replicas = num_replicas()
    if batch_size % replicas:
        lower = batch_size // replicas * replicas
        raise ValueError(
            f"batch_size={batch_size} is the global batch and does not split over {replicas} "
            f"devices. Use {lower or replicas} or {lower + replicas}."
        )


@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]):
    """One strategy a process: two number their sums alike, and TensorFlow mixes these up."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(devices))


def _tensorflow_scope(choice: str):
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    if choice == "auto":
        choice = "mirrored" if len(gpus) > 1 else "none"
    if choice == "none":
        return contextlib.nullcontext()
    if choice == "mirrored":
        devices = gpus or tf.config.list_logical_devices("CPU")
        strategy = _mirrored_strategy(tuple(device.name for device in devices))
    elif choice == "multi_worker":
        if "TF_CONFIG" not in os.environ:
            raise ValueError(
                "distribution 'multi_worker' needs the environment variable TF_CONFIG, which "
                'names all workers and this one: {"cluster": {"worker": ["host:port", ...]}, '
                '"task": {"type": "worker", "index": 0}}.'
            )
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
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


def _jax_scope(choice: str):
    if choice == "multi_worker":
        raise ValueError(
            "Under JAX call keras.distribution.initialize() on each host and use 'auto'; "
            "'multi_worker' is tf.distribute's."
        )
    devices = keras.distribution.list_devices()
    if choice == "none" or (choice == "auto" and len(devices) == 1):
        return contextlib.nullcontext()
    return keras.distribution.DataParallel(devices=devices).scope()
