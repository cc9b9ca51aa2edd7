"""The tasks that test_saving.py saves, and a program that loads them in a process of its own.

python -m tests.models.saved_tasks FOLDER
"""

import pathlib
import sys

import keras
import numpy as np

import keras_bert_impl as kbi
from tests import small, unoptimized  # noqa: F401 - compared bit by bit with pytest's process

LABELS = np.array([0, 1, 1, 0])
PAIRS = {"text_a": small.TEXTS, "text_b": small.TEXTS[::-1]}
WAYS = ("keras", "preset")


def _backbone(**changes):
    return small.backbone(num_layers=1, **changes)


# Options other than the defaults, which must come back too.
MAKERS = {
    "classifier": lambda: kbi.BertTextClassifier(
        _backbone(),
        num_classes=2,
        preprocessor=kbi.BertPreprocessor(small.tokenizer(lowercase=False), 16),
        class_names=["no", "yes"],
        dropout=0.2,
    ),
    "masked_lm": lambda: kbi.BertMaskedLM(
        _backbone(),
        kbi.BertMaskedLMPreprocessor(small.tokenizer(), 16, max_predictions=4, seed=7),
    ),
    "next_sentence": lambda: kbi.BertNextSentence(
        _backbone(),
        kbi.BertPreprocessor(small.tokenizer(), 16, pair=True, truncation="only_first"),
    ),
    "pretrainer": lambda: kbi.BertPretrainer(
        _backbone(),
        kbi.BertPretrainerPreprocessor(small.tokenizer(), 16, mask_rate=0.3, whole_word=True),
    ),
    "causal_lm": lambda: kbi.BertCausalLM(
        _backbone(causal=True), kbi.BertCausalLMPreprocessor(small.tokenizer(), 14)
    ),
    "causal_classifier": lambda: kbi.BertCausalClassifier(
        _backbone(causal=True),
        num_classes=2,
        preprocessor=kbi.BertPreprocessor(small.tokenizer(), 16, pair=True),
        class_names=["no", "yes"],
        lm_weight=0.3,
        dropout=0.2,
    ),
}


def make():
    """Each task, no weight at its start, and the classifier with an optimizer that has run."""
    tasks = {name: make() for name, make in MAKERS.items()}
    tasks["classifier"].fit(small.TEXTS, LABELS, verbose=0)
    draw = np.random.default_rng(0)
    for task in tasks.values():
        for weight in task.weights:
            weight.assign(np.array(weight) + draw.normal(0, 0.1, weight.shape))
    return tasks


def predictions(task) -> dict[str, np.ndarray]:
    """By output; of raw text too, where no masks are drawn."""
    x = small.prepared()
    if "mask_positions" in task.input:
        x["mask_positions"] = np.array([[1, 2, 3]] * 4, "int32")
    outputs = task.predict(x, verbose=0)
    outputs = dict(outputs) if isinstance(outputs, dict) else {"logits": outputs}
    if not task.draws_targets:
        raw = PAIRS if task.preprocessor.pair else small.TEXTS
        outputs["of_text"] = task.predict(raw, verbose=0)
    return outputs


def main(folder):
    arrays = {}
    for name in MAKERS:
        archived = keras.saving.load_model(folder / f"{name}.keras")
        preset = type(archived).from_preset(str(folder / f"{name}_preset"))
        for way, task in zip(WAYS, (archived, preset), strict=True):
            for key, array in predictions(task).items():
                arrays[f"{name}/{way}/{key}"] = array
    np.savez(folder / "predictions.npz", **arrays)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
