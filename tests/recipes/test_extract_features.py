"""The recipe beside the original: its tokens, its segments, its JSON; vectors as by hand."""

import gzip
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import keras_bert_impl as kbi
from keras_bert_impl.models.features import BertFeatures
from keras_bert_impl.models.text_embedder import BertTextEmbedder
from tests import small

ROOT = pathlib.Path(__file__).parents[2]
LENGTH = 12
TEXTS = [
    "The cat sat on the mat .",
    "",
    "a dog ||| unaffable cat",
    "a ||| b ||| c",  # the last bars part
    "cat ||| \u200b",  # a second text without tokens is none
    " dog |||  ",
    "the cat sat on the mat , the dog ran on the mat",
    "the cat sat on the mat , ||| the dog ran on the mat , a cat",
    "naïve \u2603\u2028||| snow",  # no line ends inside
    "cat||| dog",
]
# The original's own functions on the file; its modeling.py needs TensorFlow 1, and they do not.
ORIGINAL = """
import json, sys, types
sys.modules["bert.modeling"] = types.ModuleType("modeling")
import bert
bert.modeling = sys.modules["bert.modeling"]
from bert import extract_features, tokenization
extract_features.FLAGS.mark_as_parsed()
tokenizer = tokenization.FullTokenizer(sys.argv[2], do_lower_case=True)
examples = extract_features.read_examples(sys.argv[1])
rows = extract_features.convert_examples_to_features(examples, int(sys.argv[3]), tokenizer)
print(json.dumps([
    {"token_ids": r.input_ids, "segment_ids": r.input_type_ids, "padding_mask": r.input_mask,
     "tokens": r.tokens} for r in rows]))
"""


@pytest.fixture(scope="module")
def backbone():
    return small.backbone(num_layers=4)


@pytest.fixture(scope="module")
def runs(backbone, tmp_path_factory):
    """(folder, what each program wrote and ended with), run side by side."""
    folder = tmp_path_factory.mktemp("features")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    (folder / "texts.txt.gz").write_bytes(gzip.compress((folder / "texts.txt").read_bytes()))
    (folder / "latin.txt").write_bytes(b"cat\n\ncaf\xe9\n")
    kbi.save_vocabulary(small.VOCABULARY, folder / "vocab.txt")
    # Its own choice of layers is taken, unless the flags say otherwise.
    embedder = BertTextEmbedder(
        backbone,
        kbi.BertPreprocessor(small.tokenizer(), 32),
        pooling="max",
        features="sum_last_four",
    )
    embedder.save_to_preset(str(folder / "model"))
    started = {
        "original": start("-c", ORIGINAL, folder / "texts.txt", folder / "vocab.txt", LENGTH),
        # Three batches.
        "recipe": extract(
            model=folder / "model",
            input=folder / "texts.txt.gz",
            output=folder / "made/features.jsonl",
            layers="-1,0,-2",
            matrix=folder / "vectors.npy",
            pooling="mean",
            normalize="true",
            batch_size=4,
        ),
        "latin": extract(
            model=folder / "model", input=folder / "latin.txt", output=folder / "latin.jsonl"
        ),
    }
    outputs = {name: process.communicate() for name, process in started.items()}
    for name, process in started.items():
        assert (process.returncode == 0) == (name != "latin"), outputs[name][1]
    return folder, outputs


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def extract(**flag_values):
    script = ROOT / "recipes/extract_features.py"
    return start(
        script, f"--sequence_length={LENGTH}", *(f"--{k}={v}" for k, v in flag_values.items())
    )


@pytest.fixture(scope="module")
def original(runs):
    return json.loads(runs[1]["original"][0].splitlines()[-1])


@pytest.fixture(scope="module")
def lines(runs):
    return (runs[0] / "made/features.jsonl").read_text().splitlines()


def arrays(original):
    types = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}
    return {name: np.array([r[name] for r in original], dtype) for name, dtype in types.items()}


def test_tokens_are_the_originals(lines, original):
    assert len(lines) == len(TEXTS)
    for index, (line, row) in enumerate(zip(lines, original, strict=True)):
        content = json.loads(line)
        assert list(content) == ["linex_index", "features"]
        assert content["linex_index"] == index
        assert [feature["token"] for feature in content["features"]] == row["tokens"]
    assert original[1]["tokens"] == ["[CLS]", "[SEP]"]
    assert len(original[7]["tokens"]) == LENGTH


def test_layers_have_the_values_of_the_encoder(lines, original, backbone):
    outputs = [np.array(x) for x in BertFeatures(backbone, [-1, 0, -2])(arrays(original))]
    for row, line in enumerate(lines):
        for position, feature in enumerate(json.loads(line)["features"]):
            assert list(feature) == ["token", "layers"]
            assert [layer["index"] for layer in feature["layers"]] == [-1, 0, -2]
            for layer, output in zip(feature["layers"], outputs, strict=True):
                np.testing.assert_allclose(layer["values"], output[row, position], atol=2e-5)
                assert layer["values"] == [round(x, 6) for x in layer["values"]]


def test_the_matrix_has_a_vector_for_each_line(runs, original, backbone):
    matrix = np.load(runs[0] / "vectors.npy")
    assert matrix.dtype == "float32"
    embedder = BertTextEmbedder(backbone, pooling="mean", features="sum_last_four", normalize=True)
    np.testing.assert_allclose(matrix, embedder(arrays(original)), atol=1e-5)


def test_progress_is_shown_and_nothing_half_written_stays(runs):
    folder, outputs = runs
    assert "3/3" in outputs["recipe"][1]
    assert not list(folder.rglob("part-*"))


def test_text_that_is_not_utf_8_is_named_by_line(runs):
    folder, outputs = runs
    assert "latin.txt:3: not UTF-8: byte 0xe9" in outputs["latin"][1]
    assert not list(folder.glob("*latin.jsonl"))
