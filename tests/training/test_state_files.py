import json
import os
import resource
import signal

import ml_dtypes
import numpy as np
import pytest

from keras_bert_impl.training.state_files import DamagedStateError, StateFolder

ARRAYS = [
    np.arange(2000, dtype="float32"),
    np.array(7),
    np.ones((2, 3), ml_dtypes.bfloat16),
    np.zeros(0, "int32"),
]


def written(path, steps=(1, 2), keep=2, scores=()):
    states = StateFolder(path, keep)
    for i, step in enumerate(steps):
        score = scores[i] if i < len(scores) else None
        states.write(step, {"name": f"of {step}"}, ARRAYS, score)
    return states


def test_what_is_written_is_read(tmp_path):
    state = written(tmp_path / "made").read(2)
    assert state.step == 2
    assert state.content == {"name": "of 2"}
    for ours, theirs in zip(state.arrays, ARRAYS, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_the_last_ones_and_the_best_stay(tmp_path):
    states = written(tmp_path, range(1, 7), keep=2, scores=[5.0, 3.0, 4.0, None, 3.5, 3.0])
    assert states.steps() == [2, 5, 6]
    assert states.best_step() == 2
    # Two files each, and nothing half-written beside them.
    assert len(list(tmp_path.iterdir())) == 6


def test_none_is_best_without_scores(tmp_path):
    assert written(tmp_path).best_step() is None


def test_a_folder_that_is_not_there_has_no_states(tmp_path):
    assert StateFolder(tmp_path / "none").steps() == []


def test_keep_must_keep():
    with pytest.raises(ValueError, match="keep=0"):
        StateFolder("unused", keep=0)


@pytest.mark.parametrize("suffix", ["npz", "json"])
@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty", "text"])
def test_damage_is_named(tmp_path, suffix, damage):
    states = written(tmp_path)
    path = tmp_path / f"step-00000002.{suffix}"
    data = bytearray(path.read_bytes())
    if damage == "one bit":
        # In the record: a digit of a number that would still parse.
        place = data.rindex(b"2,") if suffix == "json" else len(data) // 2
        data[place] ^= 1
    path.write_bytes(
        {"truncated": data[:-20], "empty": b"", "text": b"{}"}.get(damage, bytes(data))
    )
    with pytest.raises(DamagedStateError, match=f"step-00000002.{suffix} is not as it was written"):
        states.read(2)
    assert states.read(1).step == 1


def test_missing_arrays_are_named(tmp_path):
    states = written(tmp_path)
    (tmp_path / "step-00000002.npz").unlink()
    with pytest.raises(DamagedStateError, match="step-00000002.npz is missing"):
        states.read(2)


def test_pickled_objects_are_not_loaded(tmp_path):
    states = written(tmp_path)
    path = tmp_path / "step-00000002.npz"
    np.savez(path, **{"00000": np.array([{}], object)})
    record = json.loads((tmp_path / "step-00000002.json").read_text())
    assert record["arrays_sha256"]
    with pytest.raises(DamagedStateError):
        states.read(2)


def test_arrays_without_a_record_are_no_state(tmp_path):
    states = written(tmp_path)
    (tmp_path / "step-00000002.json").unlink()
    assert states.steps() == [1]


def test_a_full_disk_leaves_what_was_there(tmp_path):
    """The system's limit on a file's size stands in for a disk that has no room."""
    states = written(tmp_path, steps=(1,))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with pytest.raises(OSError, match="step 2 cannot be saved .* whole one is of step 1"):
            states.write(2, {}, ARRAYS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert states.steps() == [1]
    assert states.read(1).content == {"name": "of 1"}
    assert not list(tmp_path.glob("part-*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused_at_once(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="States cannot be saved in"):
        StateFolder(tmp_path).check_writable()


def test_a_file_in_the_folders_place_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="States cannot be saved in .*file"):
        StateFolder(tmp_path / "file").check_writable()
