"""What we write, opened by transformers: no complaint, the same numbers, the same ids."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from keras_bert_impl import (  # noqa: E402
    BertBackbone,
    BertMaskedLM,
    BertMultipleChoice,
    BertNextSentence,
    BertPretrainer,
    BertQuestionAnswering,
    BertTextClassifier,
    BertTokenClassifier,
)
from keras_bert_impl.checkpoints import loading  # noqa: E402
from tests.checkpoints import toys  # noqa: E402

pytestmark = pytest.mark.oracle
SCRIPT = pathlib.Path(__file__).with_name("run_transformers.py")
TEXTS = ["the cat", "unaffable the", "", "The CAT! [MASK]"]
CLASSES = {
    "BertModel": BertBackbone,
    "BertForMaskedLM": BertMaskedLM,
    "BertForPreTraining": BertPretrainer,
    "BertForNextSentencePrediction": BertNextSentence,
    "BertForSequenceClassification": BertTextClassifier,
    "BertForTokenClassification": BertTokenClassifier,
    "BertForQuestionAnswering": BertQuestionAnswering,
    "BertForMultipleChoice": BertMultipleChoice,
}


def run(folder, architecture, tmp_path, **inputs):
    np.savez(tmp_path / "inputs.npz", **inputs)
    paths = [tmp_path / "inputs.npz", tmp_path / "outputs.npz"]
    subprocess.run([sys.executable, SCRIPT, folder, architecture, *paths], check=True)
    return dict(np.load(paths[1]))


def answers(model, inputs):
    if hasattr(model, "masked_lm_head"):
        rows, length = inputs["token_ids"].shape
        everywhere = np.tile(np.arange(length, dtype="int32"), (rows, 1))
        outputs = model({**inputs, "mask_positions": everywhere})
        if isinstance(outputs, dict):
            return {
                "prediction_logits": outputs["masked_lm"],
                "seq_relationship_logits": outputs["next_sentence"],
            }
        return {"logits": outputs}
    outputs = model(inputs)
    if isinstance(model, BertQuestionAnswering):
        return {"start_logits": outputs[:, 0], "end_logits": outputs[:, 1]}
    if isinstance(outputs, dict):
        return {
            "last_hidden_state": outputs["sequence_output"],
            "pooler_output": outputs["pooled_output"],
        }
    return {"logits": outputs}


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "relu", "silu"])
@pytest.mark.parametrize("architecture", CLASSES)
def test_transformers_opens_it(tmp_path, architecture, hidden_act):
    start = toys.write_hugging_face(
        tmp_path / "in", architecture, hidden_act=hidden_act, layer_norm_eps=1e-3
    )
    if architecture in ("BertForSequenceClassification", "BertForTokenClassification"):
        start = toys.write_hugging_face(
            start, architecture, id2label={"0": "a", "1": "b", "2": "c"}, layer_norm_eps=1e-3
        )
    model = CLASSES[architecture].from_preset(start)
    checkpoint = loading.read_checkpoint(start)  # a backbone has no tokenizer
    loading.save_checkpoint(checkpoint, tmp_path / "out", "hugging_face")
    inputs = toys.inputs()
    if architecture == "BertForMultipleChoice":  # each row with itself, turned around
        inputs = {name: np.stack([x, x[::-1]], axis=1) for name, x in inputs.items()}
    theirs = run(tmp_path / "out", architecture, tmp_path, texts=TEXTS, **inputs)
    assert theirs["complaints"].tolist() == []
    for name, ours in answers(model, inputs).items():
        # Heads of the toys have weights about 1, so their logits are large.
        toys.assert_close(ours, theirs[name], 1e-5 * max(1.0, np.abs(theirs[name]).max()))
    expected = [[2, 8, 9, 3], [2, 5, 6, 7, 8, 3], [2, 3], [2, 8, 9, 1, 4, 3]]
    for row, want in zip(theirs["tokenizer_ids"].tolist(), expected, strict=True):
        assert [id for id in row if id >= 0] == want
