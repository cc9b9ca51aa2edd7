"""Which objectives are trained at which step.

ERNIE 2.0 (Sun et al. 2019), section 3.2, "Continual Multi-task Learning": when a task is added, the
model goes on from its weights and trains all tasks so far, each for its number of steps. Plain
multi-task and sequential training are there to compare.

A schedule is a function of the step alone: a resumed run needs nothing but its step.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Task(NamedTuple):
    """What one step trains."""

    objectives: tuple[str, ...]  # names, at most one of a `TextObjective`


class Stage(NamedTuple):
    """Steps whose tasks follow a pattern, again and again."""

    num_steps: int
    pattern: np.ndarray  # (length,) int64 numbers of tasks


class Schedule:
    """Stages, one after another. After the last the last one's pattern goes on without end.

    Args:
        tasks: what a step can train: each a name of an objective, or several joined by `+`, such
            as `"masked_lm+next_sentence"`.
        stages: for each stage the number of steps that each of the first tasks gets in it, 0 for
            none. Steps of a stage's tasks are spread evenly over it.

    Raises:
        ValueError: without tasks or stages, for a stage of more numbers than there are tasks, of a
            negative number, or of no step.

    Example:

    >>> schedule = Schedule(["masked_lm", "sentence_order"], [[2], [2, 4]])
    >>> [int(schedule.at(step)) for step in range(8)]
    [0, 0, 1, 0, 1, 1, 0, 1]
    """

    def __init__(self, tasks: Sequence[str], stages: Sequence[Sequence[int]]):
        if not tasks or not stages:
            raise ValueError("A schedule needs a task and a stage.")
        self.tasks = [Task(tuple(task.split("+"))) for task in tasks]
        self.stages = [_stage(number, steps, tasks) for number, steps in enumerate(stages)]
        self._config = {"tasks": list(tasks), "stages": [list(steps) for steps in stages]}

    @property
    def num_steps(self) -> int:
        """Of all stages."""
        return sum(stage.num_steps for stage in self.stages)

    def at(self, step) -> tf.Tensor:
        """int64 scalar: the number of the task at a step, an int scalar; eagerly or in a graph."""
        step = tf.cast(step, tf.int64)
        starts = np.cumsum([0, *(stage.num_steps for stage in self.stages[:-1])])
        stage = tf.searchsorted(tf.constant(starts, tf.int64), step[tf.newaxis], side="right")[0]
        stage -= 1
        lengths = [len(stage.pattern) for stage in self.stages]
        offsets = np.cumsum([0, *lengths[:-1]])
        place = (step - tf.gather(tf.constant(starts, tf.int64), stage)) % tf.gather(
            tf.constant(lengths, tf.int64), stage
        )
        patterns = tf.constant(np.concatenate([stage.pattern for stage in self.stages]))
        return tf.gather(patterns, tf.gather(tf.constant(offsets, tf.int64), stage) + place)

    def counts(self, num_steps: int) -> list[int]:
        """How many of the first `num_steps` steps are of each task."""
        counts, left = np.zeros([len(self.tasks)], "int64"), num_steps
        for number, stage in enumerate(self.stages):
            last = number == len(self.stages) - 1
            steps = left if last else min(left, stage.num_steps)
            rounds, part = divmod(steps, len(stage.pattern))
            counts += rounds * np.bincount(stage.pattern, minlength=len(counts))
            counts += np.bincount(stage.pattern[:part], minlength=len(counts))
            left -= steps
        return counts.tolist()

    def get_config(self) -> dict:
        """The constructor's arguments, fit for JSON."""
        return self._config


def multi_task(tasks: Sequence[str], steps: Sequence[int] | None = None) -> Schedule:
    """All tasks from the first step.

    Args:
        tasks: as in `Schedule`.
        steps: how many steps each task gets; default as many as any other.

    Example:

    >>> multi_task(["masked_lm", "sentence_order"], [10, 30]).counts(40)
    [10, 30]
    """
    return Schedule(tasks, [[1] * len(tasks) if steps is None else steps])


def sequential(tasks: Sequence[str], steps: Sequence[int]) -> Schedule:
    """One task after another, each trained once.

    Args:
        tasks, steps: as in `multi_task`.

    Example:

    >>> schedule = sequential(["masked_lm", "sentence_order"], [2, 3])
    >>> [int(schedule.at(step)) for step in range(5)]
    [0, 0, 1, 1, 1]
    """
    _check_one_each(tasks, steps)
    return Schedule(tasks, [[0] * number + [n] for number, n in enumerate(steps)])


def continual(tasks: Sequence[str], steps: Sequence[int]) -> Schedule:
    """In each stage one more task, and all that were there go on.

    A task's steps are dealt evenly to the stages from its own to the last, which gets what is left
    over. For other numbers, such as those of the paper's table, make a `Schedule` of them.

    Args:
        tasks, steps: as in `multi_task`.

    Example:

    >>> continual(["a", "b", "c"], [30, 20, 10]).get_config()["stages"]
    [[10], [10, 10], [10, 10, 10]]
    """
    _check_one_each(tasks, steps)
    stages: list[list[int]] = [[] for _ in tasks]
    for task, total in enumerate(steps):
        share = total // (len(tasks) - task)
        for stage in range(task, len(tasks) - 1):
            stages[stage].append(share)
        stages[-1].append(total - share * (len(tasks) - 1 - task))
    return Schedule(tasks, stages)


def _check_one_each(tasks, steps) -> None:
    if len(tasks) != len(steps):
        raise ValueError(f"There are {len(tasks)} tasks, but steps of {len(steps)}.")


def _stage(number: int, steps, tasks) -> Stage:
    if len(steps) > len(tasks) or any(n < 0 for n in steps) or not sum(steps):
        raise ValueError(
            f"Stage {number} has the steps {list(steps)}. It takes a number of steps, none "
            f"negative and not all 0, for each of the first of {len(tasks)} tasks."
        )
    divisor = math.gcd(*steps)
    return Stage(sum(steps), _spread([n // divisor for n in steps]))


def _spread(counts: Sequence[int]) -> np.ndarray:
    """(sum of counts,) int64: each number as often as its count, as evenly as can be."""
    task = np.repeat(np.arange(len(counts)), counts)
    # The k-th of n steps of a task lies in the middle of the k-th of n parts.
    place = np.concatenate([(np.arange(n) + 0.5) / n for n in counts if n])
    return task[np.argsort(place, kind="stable")].astype("int64")
