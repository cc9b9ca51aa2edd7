"""Training stops where the loss ceases to be a number, and keeps what it takes to find out why."""

import pathlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np


class StopAtNonFinite(keras.callbacks.Callback):
    """Raises at the step whose loss is NaN or infinite.

    The batch is written to `non-finite-step-N.npz` beside the message, for replay. Put it before
    `SaveState`: then the last saved state is from before.

    Under mixed_float16 a step whose gradients overflow is left out and the loss scale halved, as
    Keras does; training stops when the scale has come down below 1.

    Args:
        folder: path, where the batch is written.
        make_dataset: function of the number of steps done, to a dataset of the batches that
            follow; or None, and no batch is kept.
        start_step: int. Steps done before `fit` begins.

    Raises:
        FloatingPointError: naming the step, the loss, the loss scale and the file.
    """

    def __init__(
        self, folder, make_dataset: Callable[[int], Any] | None = None, start_step: int = 0
    ):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.make_dataset = make_dataset
        self.step = start_step

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        loss = float((logs or {}).get("loss", 0.0))
        scale = getattr(self.model.optimizer, "dynamic_scale", None)
        scale = None if scale is None else float(scale)
        if np.isfinite(loss) and (scale is None or scale >= 1):
            return
        what = (
            f"Step {self.step}: the loss is {loss}"
            if not np.isfinite(loss)
            else (f"Step {self.step}: the gradients overflow at every loss scale")
        )
        if scale is not None:
            what += f" (loss scale {scale:g})"
        raise FloatingPointError(
            f"{what}. {self._kept_batch()}Lower the learning rate, train in float32 or bfloat16, or "
            "look at this batch; the last saved state is from before."
        )

    def _kept_batch(self) -> str:
        if self.make_dataset is None:
            return ""
        batch = next(iter(self.make_dataset(self.step - 1).take(1)))
        names = ("x", "y", "sample_weight")
        arrays: dict[str, Any] = {}
        for name, part in zip(names, batch, strict=False):
            parts = part if isinstance(part, dict) else {"": part}
            arrays.update({f"{name}/{k}".strip("/"): np.asarray(v) for k, v in parts.items()})
        path = self.folder / f"non-finite-step-{self.step:08d}.npz"
        np.savez(path, **arrays)
        return f"Its batch is in {path}. "
