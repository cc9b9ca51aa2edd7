import keras
import pytest

from keras_bert_impl.training.schedules import WarmupLinearDecay


def test_warms_up_from_zero_and_decays_on_the_line_from_step_zero():
    schedule = WarmupLinearDecay(1e-4, num_steps=100, num_warmup_steps=10)
    for step, expected in [
        (0, 0.0),
        (1, 1e-5),
        (9, 9e-5),
        (10, 9e-5),  # the decay line starts at step 0, so it has lost a tenth here
        (50, 5e-5),
        (99, 1e-6),
        (100, 0.0),
        (200, 0.0),
    ]:
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-4, abs=1e-12)


def test_without_warmup_starts_at_the_peak():
    schedule = WarmupLinearDecay(1e-4, num_steps=100)
    assert float(schedule(0)) == pytest.approx(1e-4)
    assert float(schedule(25)) == pytest.approx(7.5e-5)


def test_a_warmup_of_the_whole_run_ends_at_its_end():
    schedule = WarmupLinearDecay(1.0, num_steps=4, num_warmup_steps=4)
    assert [float(schedule(step)) for step in range(5)] == [0, 0.25, 0.5, 0.75, 0]


def test_survives_its_config():
    schedule = WarmupLinearDecay(1e-4, num_steps=100, num_warmup_steps=10)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(again) is WarmupLinearDecay
    assert again.get_config() == {"peak": 1e-4, "num_steps": 100, "num_warmup_steps": 10}


@pytest.mark.parametrize(
    ("num_steps", "num_warmup_steps", "message"),
    [
        (0, 0, "num_steps must be at least 1, but is 0"),
        (10, 11, "num_warmup_steps=11 must lie between 0 and num_steps=10"),
        (10, -1, "num_warmup_steps=-1 must lie between 0 and num_steps=10"),
    ],
)
def test_steps_that_make_no_schedule_are_refused(num_steps, num_warmup_steps, message):
    with pytest.raises(ValueError, match=message):
        WarmupLinearDecay(1e-4, num_steps, num_warmup_steps)
