"""The command tools/convert_checkpoint.py, and the memory that converting takes."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
from absl import flags
from absl.testing import flagsaver

from keras_bert_impl import BertMaskedLM
from tests.checkpoints import toys

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "convert_checkpoint.py"
if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()
# What converting may hold at most, in sizes of the checkpoint.
MOST_MEMORY = 2.5


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("convert_checkpoint", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_converts_and_names_what_it_did(tool, tmp_path, capsys):
    vocabulary = [*toys.VOCABULARY, "w1", "w2"]  # as many as the table has rows
    toys.write_hugging_face(tmp_path / "in", vocabulary=vocabulary)
    (tmp_path / "tokens").write_text("unaffable\nthecat\n")
    options = {
        "source": str(tmp_path / "in"),
        "target": str(tmp_path / "out"),
        "format": "google",
        "new_tokens": str(tmp_path / "tokens"),
        "max_sequence_length": 24,
        "position_method": "repeat",
        "pad_vocabulary_to": 64,
    }
    with flagsaver.flagsaver(**options):
        tool.main([])
    assert "wrote 46 tensors: bert/embeddings/word_embeddings, " in capsys.readouterr().out
    model = BertMaskedLM.from_preset(tmp_path / "out")
    assert model.backbone.vocabulary_size == 64  # 63, padded
    assert model.backbone.max_sequence_length == 24
    assert model.preprocessor.tokenizer("unaffable").numpy().tolist() == [61]
    logits = model(toys.inputs("mask_positions"))[..., :61]
    toys.assert_close(logits, toys.golden("toy_erf")["masked_lm"])


def test_heads_can_be_left_behind(tool, tmp_path, capsys):
    toys.write_hugging_face(tmp_path / "in")
    options = {"source": str(tmp_path / "in"), "target": str(tmp_path / "out"), "heads": False}
    with flagsaver.flagsaver(**options):
        tool.main([])
    written = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert written.keys() == toys.heads_of("BertModel").keys()
    assert "left over" in capsys.readouterr().out


def test_an_error_is_one_line(tool, tmp_path):
    options = {"source": str(tmp_path / "nothing"), "target": str(tmp_path / "out")}
    with flagsaver.flagsaver(**options), pytest.raises(SystemExit) as error:
        tool.main([])
    assert str(error.value).startswith(f"error: {tmp_path / 'nothing'}: there is no such folder")
    assert "\n" not in str(error.value)


MEASURE = """
import re, sys
from keras_bert_impl.checkpoints import loading
from keras_bert_impl import BertPretrainer, BertBackbone
BertPretrainer(BertBackbone(8, 1, 1, 2, 4))  # what TensorFlow needs for its own start
# Not getrusage: a child's figure there begins at what its parent held.
def peak(): return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
start = peak()
source, target, how = sys.argv[1:]
checkpoint = loading.read_checkpoint(source)
if how == "model":
    model = BertPretrainer.from_preset(source)
    loading.save_checkpoint(model, target, "hugging_face")
else:
    loading.save_checkpoint(checkpoint, target, how)
print("PEAK", peak() - start)
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A BertForPreTraining of base size: 440 MB."""
    sizes = {
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
    }
    from keras_bert_impl.checkpoints import parts
    from keras_bert_impl.checkpoints.hugging_face import _their_shape, hugging_face_name
    from keras_bert_impl.checkpoints.hugging_face_config import checkpoint_of_config

    config = checkpoint_of_config({**toys.CONFIG, **sizes}, pathlib.Path("base")).config
    shapes = parts.encoder_shapes(config)
    for head in (parts.POOLER, parts.MASKED_LM, parts.NEXT_SENTENCE):
        shapes |= parts.head_shapes(head, config)
    tensors = {
        hugging_face_name(part): np.full(_their_shape(part, shape), 0.01, "float32")
        for part, shape in shapes.items()
    }
    folder = tmp_path_factory.mktemp("base")
    toys.write_hugging_face(folder, tensors=tensors, **sizes)
    return folder


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.thorough
@pytest.mark.parametrize("how", ["google", "model"])
def test_memory_while_converting_base_size(base, tmp_path, how):
    size = (base / "model.safetensors").stat().st_size
    assert size > 435e6
    command = [sys.executable, "-c", MEASURE, str(base), str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout.split("PEAK")[-1])
    print(f"{how}: peak {peak / size:.2f} x the checkpoint of {size / 1e6:.0f} MB")
    assert peak <= MOST_MEMORY * size
