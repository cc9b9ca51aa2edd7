"""Frozen weights stay bit for bit, the others move, and each layer joins when it should.

python -m tests.training.test_unfreezing FILE    records a run, as JSON, on any backend
"""

import doctest
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert_impl as kbi
from keras_bert_impl.training import unfreezing
from keras_bert_impl.training.unfreezing import GradualUnfreezing, freeze
from tests import small

ROOT = pathlib.Path(__file__).parents[2]
LABELS = np.array([0, 1, 1, 0] * 2)
HEAD, LAYERS, EMBEDDINGS = {"output_dense"}, ["encoder_layer_0", "encoder_layer_1"], {"embeddings"}
TOP = {"pooler", "encoder_layer_1"}


def make_classifier(**changes):
    keras.utils.set_random_seed(0)
    backbone = small.backbone(hidden_dim=8, intermediate_dim=8, dropout=0.0, **changes)
    return kbi.BertTextClassifier(backbone, num_classes=2)


class Record(keras.callbacks.Callback):
    """After each epoch: the parts of which any, and of which all weights have moved in it; those of
    which any, and of which all have a moment that is not zero; the loss."""

    def __init__(self, task):
        super().__init__()
        self.weights = {w.path: np.array(w) for w in task.weights}
        self.epochs = []

    def on_epoch_end(self, epoch, logs=None):
        weights = {w.path: np.array(w) for w in self.model.weights}
        moved = {path: (w != self.weights[path]).any() for path, w in weights.items()}
        slots = {v.name: np.array(v) for v in self.model.optimizer.variables}
        momentum = {
            path: slots[f"{path.replace('/', '_')}_momentum"].any() for path in self.weights
        }
        velocity = {
            path: slots[f"{path.replace('/', '_')}_velocity"].any() for path in self.weights
        }
        self.weights = weights
        self.epochs.append(
            {
                "moved": parts(moved, any),
                "all moved": parts(moved, all),
                "slots": parts(momentum, any) + parts(velocity, any),
                "loss": logs["loss"],
            }
        )


def parts(of_weights, quantifier):
    """The layers of which any or all weights are true, by name."""
    names = sorted({path.split("/")[0] for path in of_weights})
    return [
        name
        for name in names
        if quantifier(true for path, true in of_weights.items() if path.split("/")[0] == name)
    ]


def record():
    """Three epochs of a run whose layers join one by one, and one more that continues it."""
    task = make_classifier()
    draw = np.random.default_rng(0)  # the backends' own draws differ
    task.set_weights([draw.normal(0, 0.3, w.shape) for w in task.weights])
    task.compile(kbi.BertAdamW(1e-2))
    recorded = Record(task)
    callbacks = [GradualUnfreezing(), recorded]
    x = small.prepared(rows=8)
    options = {"batch_size": 4, "shuffle": False, "verbose": 0, "callbacks": callbacks}
    task.fit(x, LABELS, epochs=3, **options)
    assert len(task.trainable_weights) == len(task.weights)
    task.fit(x, LABELS, initial_epoch=3, epochs=4, **options)
    return recorded.epochs


def check(epochs):
    expected = [HEAD, HEAD | TOP, HEAD | TOP | {LAYERS[0]}, HEAD | TOP | {LAYERS[0]} | EMBEDDINGS]
    for epoch, learning in zip(epochs, expected, strict=True):
        assert set(epoch["moved"]) == learning
        assert set(epoch["all moved"]) == learning
        assert set(epoch["slots"]) == learning


@pytest.fixture(scope="module")
def recorded():
    return record()


def test_layers_join_epoch_by_epoch_from_the_top(recorded):
    check(recorded)


@pytest.mark.thorough
def test_the_same_on_jax(recorded, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "tests.training.test_unfreezing", tmp_path / "epochs.json"],
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compiles faster
        },
        check=True,
        cwd=ROOT,
    )
    result = json.loads((tmp_path / "epochs.json").read_text())
    assert result["backend"] == "jax"
    check(result["epochs"])
    losses = [epoch["loss"] for epoch in result["epochs"]]
    np.testing.assert_allclose(losses, [epoch["loss"] for epoch in recorded], atol=2e-3)


def began(task, epoch, **options):
    """The callback as `fit` leaves it at the beginning of an epoch."""
    callback = GradualUnfreezing(**options)
    callback.set_model(task)
    callback.on_train_begin()
    callback.on_epoch_begin(epoch)
    return callback


def learning(task):
    return {w.path.split("/")[0] for w in task.trainable_weights}


def test_several_layers_may_join_at_once():
    task = make_classifier(num_layers=5)
    names = [f"encoder_layer_{i}" for i in range(5)]
    for epoch, joined in enumerate([[], names[3:], names[1:], names, names]):
        callback = began(task, epoch, layers_per_epoch=2)
        pooler = {"pooler"} if epoch else set()
        embeddings = EMBEDDINGS if epoch == 4 else set()
        assert learning(task) == HEAD | pooler | set(joined) | embeddings
        callback.on_train_end()
        assert len(task.trainable_weights) == len(task.weights)
    with pytest.raises(ValueError, match="layers_per_epoch must be at least 1, but is 0"):
        GradualUnfreezing(layers_per_epoch=0)


def test_an_interrupted_run_can_be_taken_back_or_begun_anew():
    task = make_classifier()
    callback = began(task, 0)
    assert learning(task) == HEAD
    callback.on_train_begin()
    callback.on_epoch_begin(1)
    assert learning(task) == HEAD | TOP
    callback.unfreeze()
    assert len(task.trainable_weights) == len(task.weights)


def test_what_was_frozen_before_stays_frozen():
    task = make_classifier()
    freeze(task, 1)
    began(task, 9)
    assert learning(task) == HEAD | TOP
    adapted = make_classifier()
    adapted.backbone.enable_lora(rank=2)
    before = [w.path for w in adapted.trainable_weights]
    began(adapted, 9)
    assert [w.path for w in adapted.trainable_weights] == before


def test_the_masked_lms_table_waits_with_the_embeddings():
    task = kbi.BertMaskedLM(small.backbone())
    began(task, 0)
    assert learning(task) == {"masked_lm_head"}
    assert "embeddings/token_embedding/embeddings" not in {w.path for w in task.trainable_weights}


def test_the_half_precision_optimizer_steps_on_what_has_joined():
    task = make_classifier(num_layers=1, dtype="mixed_float16")
    task.compile(kbi.BertAdamW(1e-2))
    assert isinstance(task.optimizer, keras.optimizers.LossScaleOptimizer)
    before = {w.path: np.array(w) for w in task.weights}
    task.fit(small.prepared(), LABELS[:4], verbose=0, callbacks=[GradualUnfreezing()])
    moved = {w.path: (np.array(w) != before[w.path]).any() for w in task.weights}
    assert set(parts(moved, any)) == HEAD


def test_a_task_without_a_head_is_refused():
    pretrainer = kbi.BertPretrainer(small.backbone(num_layers=1))
    began(pretrainer, 0)
    task = make_classifier()
    task.output_dense.trainable = False
    with pytest.raises(ValueError, match="BertTextClassifier has no head that could learn first"):
        began(task, 0)


def test_an_optimizer_built_for_fewer_weights_is_refused():
    task = make_classifier()
    freeze(task, 2)
    task.optimizer.build(task.trainable_variables)
    task.backbone.embeddings.trainable = True
    with pytest.raises(ValueError, match="no slots for embeddings/.*Compile the task"):
        began(task, 0)


def test_freeze_keeps_embeddings_and_the_lowest_layers():
    task = make_classifier(num_layers=3)
    freeze(task, 2)
    assert learning(task) == HEAD | {"pooler", "encoder_layer_2"}
    task.compile(kbi.BertAdamW(1e-2))
    task.optimizer.build(task.trainable_variables)
    slots = [v.name for v in task.optimizer.variables]
    assert any("encoder_layer_2" in name for name in slots)
    assert not any("encoder_layer_1" in name or "embedding" in name for name in slots)


def test_freeze_after_training_holds_in_the_next_fit():
    task = make_classifier(num_layers=1)
    x = small.prepared()
    task.fit(x, LABELS[:4], verbose=0)
    freeze(task, 1, embeddings=False)
    before = {w.path: np.array(w) for w in task.weights}
    task.fit(x, LABELS[:4], verbose=0)
    moved = {w.path: (np.array(w) != before[w.path]).any() for w in task.weights}
    assert set(parts(moved, any)) == HEAD | {"pooler"} | EMBEDDINGS


def test_freeze_refuses_more_layers_than_there_are():
    for count in (-1, 3):
        with pytest.raises(ValueError, match=rf"num_layers={count}, but the encoder has 0\.\.2"):
            freeze(make_classifier(), count)


def test_docstring_examples():
    globs = {**vars(unfreezing), "classifier": make_classifier()}
    tests = [t for t in doctest.DocTestFinder().find(unfreezing, globs=globs) if t.examples]
    assert len(tests) == 2
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0


if __name__ == "__main__":
    result = {"backend": keras.backend.backend(), "epochs": record()}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result))
