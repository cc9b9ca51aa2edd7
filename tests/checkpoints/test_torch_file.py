"""PyTorch's files, written by PyTorch (tests/golden/make_golden.py), and files that mean harm."""

import pickle
import zipfile

import numpy as np
import pytest

from keras_bert_impl.checkpoints.parts import CheckpointError
from keras_bert_impl.checkpoints.torch_file import STREAM_MAGIC, read_torch_file
from tests.checkpoints import toys

NUMBERS = np.arange(12, dtype="float32").reshape(3, 4) / 4


@pytest.mark.parametrize("kind", ["zip", "stream"])
def test_every_kind_of_tensor(kind):
    tensors = read_torch_file(toys.GOLDEN / f"kinds_{kind}.bin")
    expected = {
        "float32": NUMBERS,
        "transposed": NUMBERS.T,
        "row": NUMBERS[1],
        "float64": NUMBERS.astype("float64"),
        "float16": NUMBERS.astype("float16"),
        "bfloat16": NUMBERS,
        "int64": NUMBERS.astype("int64"),
        "bool": NUMBERS > 1,
        "scalar": np.float32(2.5),
        "parameter": NUMBERS + 1,
    }
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        read = tensors[name].read()
        assert tensors[name].shape == np.shape(value), name
        if name != "bfloat16":
            assert read.dtype == np.asarray(value).dtype, name
        np.testing.assert_array_equal(read.astype("float64"), value, err_msg=name)


class Harm:
    """Unpickled as usual, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def write_zip(path, payload):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", "3")


def write_stream(path, payload):
    head = b"".join(pickle.dumps(value, 2) for value in (STREAM_MAGIC, 1001, {}))
    path.write_bytes(head + payload)


@pytest.mark.parametrize("write", [write_zip, write_stream])
def test_a_pickle_that_would_make_a_file_makes_none(tmp_path, write):
    victim = tmp_path / "made"
    payload = pickle.dumps({"bert.pooler.dense.bias": Harm(victim)}, 2)
    write(tmp_path / "harm.bin", payload)
    with pytest.raises(CheckpointError, match=r"harm.bin: the file asks for (io|_io)\.open"):
        read_torch_file(tmp_path / "harm.bin")
    assert not victim.exists()
    pickle.loads(payload)  # The test can fail: unpickled as usual, it does make one.
    assert victim.exists()


def test_the_first_pickle_of_a_stream_is_guarded_too(tmp_path):
    victim = tmp_path / "made"
    (tmp_path / "harm.bin").write_bytes(pickle.dumps(Harm(victim)))
    with pytest.raises(CheckpointError, match="harm.bin"):
        read_torch_file(tmp_path / "harm.bin")
    assert not victim.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("os", "system"), ("builtins", "eval"), ("builtins", "getattr")),
        *(("torch", "load"), ("torch._utils", "_rebuild_tensor_v2.__globals__")),
    ],
)
def test_nothing_but_tensors_may_be_named(tmp_path, module, name):
    payload = b"\x80\x02" + f"c{module}\n{name}\n".encode() + b"."
    write_zip(tmp_path / "harm.bin", payload)
    with pytest.raises(CheckpointError, match="asks for"):
        read_torch_file(tmp_path / "harm.bin")


def test_what_is_allowed_cannot_be_changed(tmp_path):
    # BUILD: set the dtype of every later FloatStorage.
    payload = b"\x80\x02ctorch\nFloatStorage\nN}X\x05\x00\x00\x00dtypeX\x03\x00\x00\x00<f8s\x86b."
    write_zip(tmp_path / "harm.bin", payload)
    with pytest.raises(CheckpointError, match="AttributeError"):
        read_torch_file(tmp_path / "harm.bin")
    tensors = read_torch_file(toys.GOLDEN / "kinds_zip.bin")
    np.testing.assert_array_equal(tensors["float32"].read(), NUMBERS)


@pytest.mark.parametrize("kind", ["zip", "stream"])
def test_truncated_files(tmp_path, kind):
    whole = (toys.GOLDEN / f"kinds_{kind}.bin").read_bytes()
    path = tmp_path / "cut.bin"
    for length in (0, 10, len(whole) // 2, len(whole) - 40):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="cut.bin"):
            for tensor in read_torch_file(path).values():
                tensor.read()


def test_a_flipped_bit_in_a_tensor_is_found(tmp_path):
    whole = bytearray((toys.GOLDEN / "toy_2019.bin").read_bytes())
    with zipfile.ZipFile(toys.GOLDEN / "toy_2019.bin") as archive:
        entry = max(archive.infolist(), key=lambda info: info.file_size)
    whole[entry.header_offset + 400] ^= 1
    (tmp_path / "flipped.bin").write_bytes(whole)
    with pytest.raises(CheckpointError, match="flipped.bin: tensor '.*' is corrupt"):
        for tensor in read_torch_file(tmp_path / "flipped.bin").values():
            tensor.read()


def test_a_pickled_model_is_no_state_dict(tmp_path):
    write_zip(tmp_path / "list.bin", pickle.dumps([1, 2], 2))
    with pytest.raises(CheckpointError, match="expected a state_dict"):
        read_torch_file(tmp_path / "list.bin")
