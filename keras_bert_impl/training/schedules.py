"""Learning rate by step: linear warmup, then linear decay to zero."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear from 0 over the warmup, then on the line that ends at 0 at the last step.

    Paper, appendix A.2; google-research/bert, optimization.py, `create_optimizer`. The decay
    line starts at step 0, not where the warmup ends, as in the reference.

    Args:
        peak: float. The learning rate that both lines aim at.
        num_steps: int. Steps of the whole run; the rate is 0 from there on.
        num_warmup_steps: int. Default none; the paper takes 10,000 of 1,000,000 in
            pretraining, its code 10% in fine-tuning.

    Raises:
        ValueError: if `num_steps` is not positive or the warmup is longer than the run.

    Example:

    >>> schedule = WarmupLinearDecay(1e-4, num_steps=100, num_warmup_steps=10)
    >>> round(float(schedule(5)), 9), round(float(schedule(50)), 9)
    (5e-05, 5e-05)
    """

    def __init__(self, peak: float, num_steps: int, num_warmup_steps: int = 0):
        super().__init__()
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, but is {num_steps}.")
        if not 0 <= num_warmup_steps <= num_steps:
            raise ValueError(
                f"num_warmup_steps={num_warmup_steps} must lie between 0 and num_steps={num_steps}."
            )
        self.peak = peak
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        remaining = 1.0 - ops.minimum(step, self.num_steps) / self.num_steps
        if not self.num_warmup_steps:
            return self.peak * remaining
        warming = step / self.num_warmup_steps
        return self.peak * ops.where(step < self.num_warmup_steps, warming, remaining)

    def get_config(self):
        return {
            "peak": self.peak,
            "num_steps": self.num_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }
