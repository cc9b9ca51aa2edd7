import keras
import pytest

from keras_bert_impl.training.schedules import SlantedTriangle, WarmupLinearDecay


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


def test_stays_at_the_peak_until_the_decay_begins():
    schedule = WarmupLinearDecay(1.0, num_steps=100, num_warmup_steps=10, decay_from=80)
    rates = [float(schedule(step)) for step in (0, 5, 9, 10, 50, 80, 85, 99, 100, 200)]
    assert rates == pytest.approx([0, 0.5, 0.9, 1, 1, 1, 0.75, 0.05, 0, 0], abs=1e-6)


@pytest.mark.parametrize("decay_from", [0, 80])
def test_survives_its_config(decay_from):
    schedule = WarmupLinearDecay(1e-4, 100, num_warmup_steps=10, decay_from=decay_from)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(again) is WarmupLinearDecay
    config = {"peak": 1e-4, "num_steps": 100, "num_warmup_steps": 10}
    # Runs of earlier versions, which knew no decay_from, go on: their states hold this config.
    assert again.get_config() == {**config, **({"decay_from": 80} if decay_from else {})}


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


def test_slanted_triangle_is_the_papers_formula():
    peak, num_steps, cut_frac, ratio = 0.01, 1000, 0.1, 32
    cut = num_steps * cut_frac
    schedule = SlantedTriangle(peak, num_steps)
    for step in (0, 1, 50, 99, 100, 101, 500, 999, 1000):
        share = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
        expected = peak * (1 + share * (ratio - 1)) / ratio
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5)
    assert float(schedule(5000)) == pytest.approx(peak / ratio, rel=1e-5)


def test_slanted_triangle_of_few_steps_has_a_rise_and_a_fall():
    rates = [float(SlantedTriangle(1.0, num_steps=3)(step)) for step in range(4)]
    assert rates == pytest.approx([1 / 32, 1.0, (1 + 31 / 2) / 32, 1 / 32])


def test_slanted_triangle_survives_its_config():
    schedule = SlantedTriangle(0.01, 50, cut_frac=0.2, ratio=8)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(again) is SlantedTriangle
    assert again.get_config() == {"peak": 0.01, "num_steps": 50, "cut_frac": 0.2, "ratio": 8}


@pytest.mark.parametrize("decay_from", [-1, 10])
def test_a_decay_that_begins_outside_of_the_run_is_refused(decay_from):
    with pytest.raises(ValueError, match=rf"decay_from={decay_from} must be at least 0 and below"):
        WarmupLinearDecay(1e-4, 10, decay_from=decay_from)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_steps": 0}, "num_steps must be at least 1"),
        ({"num_steps": 9, "cut_frac": 0.0}, "cut_frac=0.0 must lie between 0 and 1"),
        ({"num_steps": 9, "ratio": 0.5}, "ratio=0.5 must be at least 1"),
    ],
)
def test_what_makes_no_triangle_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SlantedTriangle(1e-3, **options)
