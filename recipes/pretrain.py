r"""Pretrain BERT on text of your own: masked LM and next sentence (paper, section 3.1), or more.

    python recipes/pretrain.py --input=text.txt --vocabulary=vocab.txt --output=runs/mine \
        --size=small --num_steps=100000

The text has one sentence a line and a blank line between documents. A vocabulary is trained by
tools/build_vocabulary.py. Run the same command again and it goes on where it stopped, to the same
weights; --init_from is another thing: a new run, at step 0, from weights that are there. SIGTERM
saves the state and exits with 75.
"""

import json
import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import keras_bert_impl as kbi

_INPUT = flags.DEFINE_list("input", None, "Text files to train on.", required=True)
_HELD_OUT = flags.DEFINE_list("held_out", [], "Text files to measure on at the end.")
_HELD_OUT_STEPS = flags.DEFINE_integer(
    "held_out_steps", 100, "Batches to measure on. Short text is read again, with other masks."
)
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "WordPiece vocabulary file.")
_INIT_FROM = flags.DEFINE_string(
    "init_from",
    None,
    "Preset, or checkpoint of another package, whose weights and vocabulary training starts from, "
    "at step 0. Without it: --vocabulary, and random weights of --size.",
)
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Lowercase text and strip accents.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder for states, logs, model.", required=True)

_SIZE = flags.DEFINE_enum("size", "base", list(kbi.SIZES), "Size of the model, by name.")
_NUM_LAYERS = flags.DEFINE_integer("num_layers", None, "Overrides the size's layers.")
_HIDDEN_DIM = flags.DEFINE_integer("hidden_dim", None, "Overrides the size's width.")
_NUM_HEADS = flags.DEFINE_integer("num_heads", None, "Overrides the size's heads.")
_DROPOUT = flags.DEFINE_float("dropout", 0.1, "Dropout.")
_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Tokens of each row.")
_EXAMPLES_PER_ROW = flags.DEFINE_integer(
    "examples_per_row", 1, "Above 1, so many short examples may share a row."
)
_MASK_RATE = flags.DEFINE_float("mask_rate", 0.15, "Share of tokens to predict.")
_MAX_PREDICTIONS = flags.DEFINE_integer("max_predictions", 20, "Most predictions a row.")
_WHOLE_WORD = flags.DEFINE_bool("whole_word", False, "Mask all pieces of a word together.")

_OBJECTIVES = flags.DEFINE_list(
    "objectives",
    ["masked_lm", "next_sentence"],
    f"What to train for, side by side; of {', '.join(kbi.OBJECTIVES)}. Those that make rows take "
    "turns, a batch each.",
)

_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Rows of each step, over all devices.")
_NUM_STEPS = flags.DEFINE_integer("num_steps", 1_000_000, "Steps of the whole run.")
_WARMUP = flags.DEFINE_float("warmup", 0.01, "Share of steps with rising learning rate.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_BETA_2 = flags.DEFINE_float("beta_2", 0.999, "Of Adam; short runs take less.")
_ACCUMULATION = flags.DEFINE_integer(
    "accumulation_steps", 1, "Parts that a batch is taken in, to fit into memory: the same step."
)
_EPOCH_STEPS = flags.DEFINE_integer("epoch_steps", 1000, "Steps between rows of the log.")
_SAVE_EVERY = flags.DEFINE_integer("save_every", 1000, "Steps between saved states.")
_KEEP = flags.DEFINE_integer("keep_states", 2, "How many of the last states stay.")
_ALLOW_CHANGES = flags.DEFINE_bool(
    "allow_changes", False, "Go on with another learning rate or another length of the run."
)
_TENSORBOARD = flags.DEFINE_bool("tensorboard", False, "Write curves for TensorBoard too.")
_PRECISION = flags.DEFINE_enum(
    "precision",
    "float32",
    ["auto", "float32", "mixed_bfloat16", "mixed_float16"],
    "Of computation; auto takes bfloat16 where this machine is faster in it, and says so.",
)
_DISTRIBUTION = flags.DEFINE_enum(
    "distribution",
    "auto",
    ["none", "mirrored", "multi_worker", "tpu", "model_parallel", "auto"],
    "Devices.",
)
_MODEL_DEVICES = flags.DEFINE_integer("model_devices", 2, "Of model_parallel: for each matrix.")
_SEED = flags.DEFINE_integer("seed", 0, "Of weights, dropout, pairs and masks.")


def main(_):
    # First of all: several machines must find each other before TensorFlow starts.
    scope = kbi.distribution_scope(_DISTRIBUTION.value, _MODEL_DEVICES.value)
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(_SEED.value)
    precision = kbi.set_precision(_PRECISION.value)

    if (_VOCABULARY.value is None) == (_INIT_FROM.value is None):
        raise app.UsageError("Pass either --vocabulary or --init_from.")
    if _INIT_FROM.value is not None:
        tokenizer = kbi.load_tokenizer(_INIT_FROM.value)
    else:
        tokenizer = kbi.BertTokenizer(_VOCABULARY.value, lowercase=_LOWERCASE.value)
    documents = kbi.read_documents(_INPUT.value)
    examples: dict[str, Any] = {
        "sequence_length": _SEQUENCE_LENGTH.value,
        "batch_size": _BATCH_SIZE.value,
        "mask_rate": _MASK_RATE.value,
        "max_predictions": _MAX_PREDICTIONS.value,
        "whole_word": _WHOLE_WORD.value,
    }
    objectives = chosen_objectives()
    if _EXAMPLES_PER_ROW.value != 1:
        if objectives is not None:
            raise app.UsageError("--examples_per_row goes with the default objectives alone.")
        examples["examples_per_row"] = _EXAMPLES_PER_ROW.value

    def batches(documents, start_step=0):
        if objectives is None:
            return kbi.pretraining_dataset(
                documents, tokenizer, seed=_SEED.value, start_step=start_step, **examples
            )
        return kbi.objectives_dataset(
            documents,
            tokenizer,
            objectives,
            sequence_length=_SEQUENCE_LENGTH.value,
            batch_size=_BATCH_SIZE.value,
            seed=_SEED.value,
            start_step=start_step,
        )

    overrides: dict[str, Any] = {
        "num_layers": _NUM_LAYERS.value,
        "hidden_dim": _HIDDEN_DIM.value,
        "num_heads": _NUM_HEADS.value,
    }
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if "hidden_dim" in overrides:
        overrides["intermediate_dim"] = 4 * overrides["hidden_dim"]
    with scope:
        if _INIT_FROM.value is not None and objectives is None:
            pretrainer = kbi.BertPretrainer.from_preset(_INIT_FROM.value, init_missing=True)
            pretrainer.preprocessor = None  # the dataset below holds ids
        elif _INIT_FROM.value is not None:  # heads of other objectives begin with random weights
            backbone = kbi.BertBackbone.from_preset(_INIT_FROM.value)
            pretrainer = kbi.BertPretrainer(backbone, objectives=objectives)
        else:
            backbone = kbi.BertBackbone.from_size(
                _SIZE.value,
                tokenizer.vocabulary_size(),
                dropout=_DROPOUT.value,
                max_sequence_length=max(512, _SEQUENCE_LENGTH.value),
                **overrides,
            )
            pretrainer = kbi.BertPretrainer(backbone, objectives=objectives)
        schedule = kbi.WarmupLinearDecay(
            _LEARNING_RATE.value, _NUM_STEPS.value, round(_WARMUP.value * _NUM_STEPS.value)
        )
        pretrainer.compile(
            optimizer=kbi.BertAdamW(schedule, beta_2=_BETA_2.value),
            accumulation_steps=_ACCUMULATION.value,
        )

        # What the saved state's continuation depends on.
        settings = {
            **examples,
            "input": [kbi.file_fingerprint(path) for path in _INPUT.value],
            "vocabulary": tokenizer.fingerprint(),
            "init_from": _INIT_FROM.value,
            "backbone": {k: v for k, v in pretrainer.backbone.get_config().items() if k != "name"},
            "beta_2": _BETA_2.value,
            "accumulation_steps": _ACCUMULATION.value,
            "seed": _SEED.value,
            "precision": precision,
        }
        if objectives is not None:  # the default pair's states are older than this setting
            settings["objectives"] = {o.name: o.get_config() for o in objectives}
        step = kbi.fit_steps(
            pretrainer,
            lambda step: batches(documents, step),
            num_steps=_NUM_STEPS.value,
            epoch_steps=min(_EPOCH_STEPS.value, _NUM_STEPS.value),
            folder=output,
            settings=settings,
            changeable={"schedule": schedule.get_config()},
            allow_changes=_ALLOW_CHANGES.value,
            save_every=_SAVE_EVERY.value,
            keep=_KEEP.value,
            callbacks=[keras.callbacks.TensorBoard(output / "curves")] * _TENSORBOARD.value,
        )
        if step:
            print(f"Went on after step {step} of {_NUM_STEPS.value}.")
        metrics = {}
        if _HELD_OUT.value:
            print("Measuring on held-out text")
            held_out = batches(kbi.read_documents(_HELD_OUT.value)).take(_HELD_OUT_STEPS.value)
            metrics = pretrainer.evaluate(held_out, return_dict=True)
    if not kbi.is_chief():
        return

    pretrainer.preprocessor = kbi.BertPretrainerPreprocessor(
        tokenizer,
        sequence_length=_SEQUENCE_LENGTH.value,
        mask_rate=_MASK_RATE.value,
        max_predictions=_MAX_PREDICTIONS.value,
        whole_word=_WHOLE_WORD.value,
    )
    pretrainer.save_to_preset(str(output / "model"))
    if _HELD_OUT.value:
        if "masked_lm" in pretrainer.output:
            metrics["unigram_loss"], metrics["most_frequent_accuracy"] = unigram_baseline(
                token_counts(documents, tokenizer), held_out
            )
        # Tokens that are not padding, over the whole run.
        first = batches(documents).take(50).as_numpy_iterator()
        sample = [x["padding_mask"].sum() for x, *_ in first]
        metrics["tokens"] = float(np.mean(sample)) * _NUM_STEPS.value
        text = json.dumps(metrics, indent=2)
        (output / "metrics.json").write_text(text)
        print(text)


def chosen_objectives():
    """The flags' objectives, or None for the default pair, which has a dataset of its own."""
    if _OBJECTIVES.value == _OBJECTIVES.default:
        return None
    unknown = [name for name in _OBJECTIVES.value if name not in kbi.OBJECTIVES]
    if unknown:
        raise app.UsageError(
            f"Unknown objectives {', '.join(unknown)}. There are {', '.join(kbi.OBJECTIVES)}."
        )
    masking: dict[str, Any] = {
        "mask_rate": _MASK_RATE.value,
        "max_predictions": _MAX_PREDICTIONS.value,
        "unit": "whole_word" if _WHOLE_WORD.value else "piece",
    }
    return [
        kbi.OBJECTIVES[name](**(masking if name == "masked_lm" else {}))
        for name in _OBJECTIVES.value
    ]


def token_counts(documents, tokenizer):
    """How often each token of the vocabulary stands in the documents: (vocabulary_size,)."""
    size = tokenizer.vocabulary_size()

    def count(sentences):
        ids = tokenizer.tokenize(sentences).flat_values
        return tf.math.bincount(ids, minlength=size, maxlength=size)

    counts = documents.map(count, num_parallel_calls=tf.data.AUTOTUNE)
    return counts.reduce(tf.zeros([size], tf.int32), tf.add).numpy()


def unigram_baseline(counts, dataset):
    """Loss and accuracy of guessing masked tokens by frequency alone, on a dataset's targets."""
    probabilities = (counts + 1) / (counts + 1).sum()
    losses, hits, total = 0.0, 0.0, 0.0
    for _, y, weights in dataset.as_numpy_iterator():
        ids, weights = y["masked_lm"], weights["masked_lm"]
        losses -= (np.log(probabilities[ids]) * weights).sum()
        hits += ((ids == probabilities.argmax()) * weights).sum()
        total += weights.sum()
    return float(losses / total), float(hits / total)


if __name__ == "__main__":
    app.run(main)
