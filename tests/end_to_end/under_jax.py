"""What test_jax.py runs with KERAS_BACKEND=jax, in a process of its own.

python -m tests.end_to_end.under_jax FOLDER
"""

import json
import pathlib
import sys

import keras
import numpy as np

import keras_bert_impl as kbi
from tests import small

LABELS = np.array([0, 1, 1, 0])
DOCUMENTS = [["the cat sat .", "a dog ran"], ["unaffable cat", "the mat"]] * 4


def error_of(function):
    try:
        function()
    except ValueError as error:
        return str(error)
    return None


def fit(classifier):
    """Raw text and prepared ids, on either backend the same."""
    classifier.compile(kbi.BertAdamW(kbi.WarmupLinearDecay(1e-2, 20, 2)))
    options = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
    losses = classifier.fit(small.TEXTS, LABELS, **options).history["loss"]
    losses += classifier.fit(small.prepared(), LABELS, **options).history["loss"]
    options |= {"batch_size": 2, "examples_per_row": 3, "epochs": 1}
    return losses + classifier.fit(small.TEXTS * 2, np.tile(LABELS, 2), **options).history["loss"]


def tasks():
    """The other heads, each with prepared ids and its targets."""
    x = small.prepared()
    by_token = x["token_ids"] % 3
    choices = {name: rows.reshape(2, 2, -1) for name, rows in x.items()}

    def backbone():
        return small.backbone(num_layers=1, dropout=0.0)

    return {
        "token_classifier": (
            kbi.BertTokenClassifier(backbone(), num_classes=3),
            x,
            by_token,
            x["padding_mask"].astype("float32"),
        ),
        "question_answering": (
            kbi.BertQuestionAnswering(backbone()),
            x,
            np.array([[1, 2], [0, 0], [2, 2], [1, 3]]),
            None,
        ),
        "multiple_choice": (
            kbi.BertMultipleChoice(backbone()),
            choices,
            np.array([1, 0]),
            None,
        ),
        "text_embedder": (
            kbi.BertTextEmbedder(backbone()),
            x,
            np.random.default_rng(0).normal(size=(4, 16)).astype("float32"),
            None,
        ),
    }


def main(folder):
    result = {"backend": keras.backend.backend()}
    classifier = keras.saving.load_model(folder / "start.keras")
    result["losses"] = fit(classifier)
    result["predictions"] = classifier.predict(small.TEXTS, verbose=0).tolist()
    result["of_ids"] = classifier.predict(small.prepared(), verbose=0).tolist()
    classifier.save(folder / "trained.keras")
    classifier.save_to_preset(str(folder / "trained"))

    pretrainer = kbi.BertPretrainer(small.backbone(num_layers=1))
    data = kbi.pretraining_dataset(
        DOCUMENTS, small.tokenizer(), sequence_length=16, max_predictions=3, batch_size=4
    )
    result["pretraining"] = pretrainer.fit(data, steps_per_epoch=3, verbose=0).history["loss"]
    masked_lm = kbi.BertMaskedLM(
        small.backbone(num_layers=1), kbi.BertMaskedLMPreprocessor(small.tokenizer(), 12)
    )
    result["masked_lm"] = masked_lm.fit(small.TEXTS, verbose=0).history["loss"]

    result["tasks"] = {}
    for name, (task, x, y, weights) in tasks().items():
        task.compile(kbi.BertAdamW(1e-2))
        options = {"sample_weight": weights, "epochs": 4, "batch_size": 4, "verbose": 0}
        result["tasks"][name] = task.fit(x, y, **options).history["loss"]

    result["export"] = error_of(lambda: classifier.export(folder / "exported"))
    result["multi_worker"] = error_of(lambda: kbi.distribution_scope("multi_worker"))
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
