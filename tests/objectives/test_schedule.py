import pytest
import tensorflow as tf

from keras_bert_impl.objectives.schedule import Schedule, continual, multi_task, sequential


def tasks_of(schedule, steps, start=0):
    return [int(task) for task in tf.data.Dataset.range(start, steps).map(schedule.at)]


SCHEDULES = {
    "multi_task": multi_task(["a", "b", "c"], [3, 1, 2]),
    "even": multi_task(["a", "b"]),
    "sequential": sequential(["a", "b", "c"], [4, 1, 6]),
    "continual": continual(["a", "b", "c"], [13, 8, 5]),
    "by hand": Schedule(["a", "b"], [[5], [1, 4], [2]]),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_counts_are_those_of_the_steps_one_by_one(schedule):
    tasks = tasks_of(schedule, 60)
    for steps in range(61):
        assert schedule.counts(steps) == [
            tasks[:steps].count(task) for task in range(len(schedule.tasks))
        ]
    assert tasks_of(schedule, 60, start=17) == tasks[17:]
    assert [int(schedule.at(step)) for step in range(60)] == tasks


@pytest.mark.parametrize(
    ("schedule", "stages"),
    [
        (multi_task(["a", "b"], [30, 10]), [[30, 10]]),
        (sequential(["a", "b"], [30, 10]), [[30], [0, 10]]),
        (continual(["a", "b", "c"], [31, 20, 10]), [[10], [10, 10], [11, 10, 10]]),
    ],
)
def test_each_stage_gives_each_task_its_steps(schedule, stages):
    assert schedule.get_config()["stages"] == stages
    begin = 0
    for stage in stages:
        end = begin + sum(stage)
        before, after = schedule.counts(begin), schedule.counts(end)
        given = [b - a for a, b in zip(before, after, strict=True)]
        assert given == stage + [0] * (len(given) - len(stage))
        begin = end
    assert schedule.num_steps == begin
    assert schedule.counts(begin) == [
        sum(s[t] for s in stages if t < len(s)) for t in range(len(before))
    ]


def test_steps_of_a_stage_are_spread_over_it():
    tasks = tasks_of(multi_task(["a", "b"], [400, 100]), 500)
    for begin in range(0, 500, 5):
        assert tasks[begin : begin + 5].count(1) == 1


def test_a_task_can_be_several_objectives():
    schedule = multi_task(["masked_lm+next_sentence", "capitalization"])
    assert [task.objectives for task in schedule.tasks] == [
        ("masked_lm", "next_sentence"),
        ("capitalization",),
    ]


def test_a_schedule_comes_again_from_its_config():
    schedule = SCHEDULES["continual"]
    again = Schedule(**schedule.get_config())
    assert tasks_of(again, 40) == tasks_of(schedule, 40)


def test_impossible_schedules():
    with pytest.raises(ValueError, match="needs a task and a stage"):
        Schedule([], [[1]])
    with pytest.raises(ValueError, match=r"Stage 1 has the steps \[1, -1\]"):
        Schedule(["a", "b"], [[1], [1, -1]])
    with pytest.raises(ValueError, match=r"Stage 0 has the steps \[0\]"):
        Schedule(["a"], [[0]])
    with pytest.raises(ValueError, match="each of the first of 1 tasks"):
        Schedule(["a"], [[1, 2]])
    with pytest.raises(ValueError, match="2 tasks, but steps of 1"):
        continual(["a", "b"], [1])
