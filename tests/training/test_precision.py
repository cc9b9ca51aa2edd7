import keras
import pytest

from keras_bert_impl.training import precision


@pytest.fixture(autouse=True)
def policy():
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({"float32": 0.030, "bfloat16": 0.010}, "mixed_bfloat16"),
        ({"float32": 0.010, "bfloat16": 0.010}, "float32"),
        ({"float32": 0.012, "bfloat16": 0.010}, "float32"),  # too little to pay for the casts
        ({"float32": 0.010, "bfloat16": 0.900}, "float32"),  # without such units it is emulated
    ],
)
def test_auto_takes_what_is_faster_and_says_why(monkeypatch, capsys, seconds, expected):
    monkeypatch.setattr(precision, "_seconds", seconds.__getitem__)
    assert precision.set_precision("auto") == expected
    assert keras.config.dtype_policy().name == expected
    said = capsys.readouterr().out
    assert f"Precision {expected}" in said
    assert f"{1000 * seconds['float32']:.1f} ms in float32" in said


def test_what_is_asked_is_taken(capsys):
    assert precision.set_precision("mixed_float16") == "mixed_float16"
    assert keras.config.dtype_policy().name == "mixed_float16"
    assert "as asked" in capsys.readouterr().out


def test_auto_runs_on_this_machine():
    policy, reason = precision.choose_precision()
    assert policy in ("float32", "mixed_bfloat16")
    assert "1024 x 768 x 3072" in reason
