"""What test_language_models_jax.py runs with KERAS_BACKEND=jax, in a process of its own.

python -m tests.end_to_end.language_models_under_jax FOLDER
"""

import json
import pathlib
import sys

import keras
import numpy as np

import keras_bert_impl as kbi
from keras_bert_impl.data.batches import with_known_length
from tests import small

LABELS = np.array([0, 1, 1, 0])
DOCUMENTS = [["the cat sat .", "a dog ran"], ["unaffable cat", "the mat"]] * 4
PROMPTS = ["the cat", "", "unaffable dog"]


def causal_batches():
    """Prepared ids and targets, four batches."""
    data = kbi.causal_pretraining_dataset(
        DOCUMENTS, small.tokenizer(), sequence_length=12, batch_size=4, seed=1
    )
    return with_known_length(data.take(4))


def word_batches():
    vocabulary = kbi.WordVocabulary.of_documents(DOCUMENTS)
    data = kbi.bidirectional_pretraining_dataset(
        DOCUMENTS, vocabulary, max_words=4, max_characters=8, batch_size=4, seed=1
    )
    return with_known_length(data.take(4))


def fit(models):
    """The losses of a few steps of each, on either backend the same."""
    data = {
        "causal_lm": (causal_batches(), None),
        "causal_classifier": (small.prepared(), LABELS),
        "bidirectional_lm": (word_batches(), None),
    }
    losses = {}
    for name, (x, y) in data.items():
        model = models[name]
        model.compile(kbi.BertAdamW(1e-2))
        losses[name] = model.fit(x, y, epochs=2, shuffle=False, verbose=0).history["loss"]
    return losses


def logits(models):
    """What each classifier that pools in another way says of some rows."""
    return {
        name: np.array(models[name](small.prepared())).tolist() for name in ("concat", "bilstm")
    }


def main(folder):
    paths = {path.stem: path for path in sorted(folder.glob("*.keras"))}
    models = {name: keras.saving.load_model(path) for name, path in paths.items()}
    result = {"backend": keras.backend.backend()}
    result["written"] = models["causal_lm"].generate(PROMPTS, max_length=12)
    drawn = [
        models["causal_lm"].generate(PROMPTS, max_length=12, sampler="top_k", seed=seed)
        for seed in (1, 2, 1)
    ]
    result["seeds"] = [drawn[0] == drawn[2], drawn[0] != drawn[1]]
    result["logits"] = logits(models)
    result["losses"] = fit(models)
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
