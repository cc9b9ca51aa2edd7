"""Learning rate by step: BERT's warmup and decay, and ULMFiT's slanted triangle."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear from 0 over the warmup, then on the line that ends at 0 at the last step.

    Paper, appendix A.2; google-research/bert, optimization.py, `create_optimizer`. The decay
    line starts at step 0, not where the warmup ends, as in the reference. Where tasks begin one
    after another, a later `decay_from` (Hu et al. 2024, MiniCPM, section 4) gives the late ones
    the rate of the early ones.

    Args:
        peak: float. The learning rate that both lines aim at.
        num_steps: int. Steps of the whole run; the rate is 0 from there on.
        num_warmup_steps: int. Default none; the paper takes 10,000 of 1,000,000 in
            pretraining, its code 10% in fine-tuning.
        decay_from: int. Step up to which the rate stays at the peak once it is warm.

    Raises:
        ValueError: if `num_steps` is not positive, the warmup is longer than the run or the
            decay begins after it.

    Example:

    >>> schedule = WarmupLinearDecay(1e-4, num_steps=100, num_warmup_steps=10)
    >>> round(float(schedule(5)), 9), round(float(schedule(50)), 9)
    (5e-05, 5e-05)
    """

    def __init__(self, peak: float, num_steps: int, num_warmup_steps: int = 0, decay_from: int = 0):
        super().__init__()
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, but is {num_steps}.")
        if not 0 <= num_warmup_steps <= num_steps:
            raise ValueError(
                f"num_warmup_steps={num_warmup_steps} must lie between 0 and num_steps={num_steps}."
            )
        if not 0 <= decay_from < num_steps:
            raise ValueError(
                f"decay_from={decay_from} must be at least 0 and below num_steps={num_steps}."
            )
        self.peak = peak
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps
        self.decay_from = decay_from

    def __call__(self, step):
        step = ops.cast(step, "float32")
        decaying = ops.clip(step - self.decay_from, 0, self.num_steps - self.decay_from)
        remaining = 1.0 - decaying / (self.num_steps - self.decay_from)
        if not self.num_warmup_steps:
            return self.peak * remaining
        warming = step / self.num_warmup_steps
        return self.peak * ops.where(step < self.num_warmup_steps, warming, remaining)

    def get_config(self):
        config = {
            "peak": self.peak,
            "num_steps": self.num_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }
        # Only where it is used: states of runs are compared with those of earlier versions.
        return {**config, "decay_from": self.decay_from} if self.decay_from else config


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class SlantedTriangle(keras.optimizers.schedules.LearningRateSchedule):
    """A short linear rise, then a long linear fall, neither from nor to zero.

    Howard and Ruder 2018 (ULMFiT), section 3.2, equation 3, with the paper's defaults.

    Args:
        peak: float. The highest learning rate.
        num_steps: int. Steps of the whole run; from there on the rate stays at the lowest.
        cut_frac: float in (0, 1). Share of the steps in which the rate rises.
        ratio: float. How much smaller the lowest rate is than the peak.

    Raises:
        ValueError: if `num_steps` is not positive, `cut_frac` leaves no rise or no fall, or
            `ratio` is below 1.

    Example:

    >>> schedule = SlantedTriangle(0.01, num_steps=1000)
    >>> [round(float(schedule(step)), 6) for step in (0, 100, 1000)]
    [0.000312, 0.01, 0.000312]
    """

    def __init__(self, peak: float, num_steps: int, cut_frac: float = 0.1, ratio: float = 32.0):
        super().__init__()
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, but is {num_steps}.")
        if not 0 < cut_frac < 1:
            raise ValueError(f"cut_frac={cut_frac} must lie between 0 and 1.")
        if ratio < 1:
            raise ValueError(f"ratio={ratio} must be at least 1.")
        self.peak = peak
        self.num_steps = num_steps
        self.cut_frac = cut_frac
        self.ratio = ratio

    def __call__(self, step):
        step = ops.minimum(ops.cast(step, "float32"), self.num_steps)
        # The paper's floor; a run too short for a rise of a step has one all the same.
        cut = max(int(self.num_steps * self.cut_frac), 1)
        rising = step / cut
        # Falls to 0 at the last step: the paper's cut * (1 / cut_frac - 1), its floor undone.
        falling = 1.0 - (step - cut) / max(self.num_steps - cut, 1)
        share = ops.where(step < cut, rising, falling)
        return self.peak * (1.0 + share * (self.ratio - 1.0)) / self.ratio

    def get_config(self):
        return {
            "peak": self.peak,
            "num_steps": self.num_steps,
            "cut_frac": self.cut_frac,
            "ratio": self.ratio,
        }
