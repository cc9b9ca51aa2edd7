r"""Pretrain BERT on text of your own: masked LM and next sentence (paper, section 3.1), or more.

    python recipes/pretrain.py --input=text.txt --vocabulary=vocab.txt --output=runs/mine \
        --size=small --num_steps=100000

The text has one sentence a line and a blank line between documents. A vocabulary is trained by
tools/build_vocabulary.py. Run the same command again and it goes on where it stopped, to the same
weights; --init_from is another thing: a new run, at step 0, from weights that are there. SIGTERM
saves the state and exits with 75. What it is trained for: flags of objectives_flags.py.
"""

import json
import pathlib
from typing import Any

import keras
import numpy as np
import objectives_flags
import tensorflow as tf
from absl import app, flags

import keras_bert_impl as kbi

_INPUT = flags.DEFINE_list("input", [], "Text files to train on.")
_PREPARED = flags.DEFINE_string(
    "prepared", None, "Folder of tools/prepare_pretraining.py, in place of --input."
)
_STREAMS = flags.DEFINE_integer(
    "streams", 1, "Parts that rows come from; each of several machines makes its own of them."
)
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

_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Rows of each step, over all devices.")
_NUM_STEPS = flags.DEFINE_integer(
    "num_steps", 1_000_000, "Steps of the whole run; with --task_steps by default their sum."
)
_WARMUP = flags.DEFINE_float("warmup", 0.01, "Share of steps with rising learning rate.")
_DECAY_FROM = flags.DEFINE_float(
    "decay_from", 0.0, "Share of steps up to which the rate, once it is warm, stays at its peak."
)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_BETA_2 = flags.DEFINE_float("beta_2", 0.999, "Of Adam; short runs take less.")
_ACCUMULATION = flags.DEFINE_integer(
    "accumulation_steps", 1, "Parts that a batch is taken in, to fit into memory: the same step."
)
_RECOMPUTE = flags.DEFINE_bool(
    "recompute", False, "Compute each layer again in the backward pass, to take less memory."
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
    if bool(_INPUT.value) == bool(_PREPARED.value):
        raise app.UsageError("Pass either --input or --prepared.")
    prepared = kbi.RowFiles(_PREPARED.value) if _PREPARED.value else None
    documents: Any = None if prepared else kbi.read_documents(_INPUT.value)
    length = prepared.settings["sequence_length"] if prepared else _SEQUENCE_LENGTH.value
    masking: dict[str, Any] = {
        "mask_rate": _MASK_RATE.value,
        "max_predictions": _MAX_PREDICTIONS.value,
    }
    whole_word = objectives_flags.mask_unit() == "whole_word"
    rows: dict[str, Any] = {
        "sequence_length": length,
        "batch_size": _BATCH_SIZE.value,
    }
    objectives = objectives_flags.chosen_objectives(tokenizer, masking)
    tasks = objectives_flags.chosen_schedule(objectives)
    num_tasks = objectives_flags.num_tasks(objectives)
    num_steps = objectives_flags.num_steps(_NUM_STEPS, tasks)
    if prepared and objectives is not None:
        raise app.UsageError("--prepared has rows for the default objectives alone.")
    streams = _STREAMS.value
    if _BATCH_SIZE.value % streams:
        raise app.UsageError(f"--batch_size={_BATCH_SIZE.value} must divide by --streams.")
    if _EXAMPLES_PER_ROW.value != 1:
        if prepared or objectives is not None:
            raise app.UsageError("--examples_per_row is for text and the default objectives.")
        rows["examples_per_row"] = _EXAMPLES_PER_ROW.value

    def batches(documents, start_step=0, tasks=tasks, **options):
        options = {**rows, "seed": _SEED.value, "start_step": start_step, **options}
        if objectives is None:
            options |= {**masking, "whole_word": whole_word}
            return kbi.pretraining_dataset(documents, tokenizer, **options)
        options |= {"schedule": tasks, "task_embeddings": num_tasks > 0}
        return kbi.objectives_dataset(documents, tokenizer, objectives, **options)

    def stream(number, step):
        options: dict[str, Any] = {"batch_size": _BATCH_SIZE.value // streams, "start_step": step}
        if prepared:
            options |= {"seed": _SEED.value, "stream": number, "num_streams": streams, **masking}
            options["whole_word"] = whole_word
            return kbi.prepared_pretraining_dataset(prepared, tokenizer, **options)
        if streams > 1:
            options |= {"seed": _SEED.value * streams + number}
            return batches(documents.shard(streams, number), **options)
        return batches(documents, **options)

    def training_batches(step):
        worker, workers = kbi.worker_position() if streams > 1 else (0, 1)
        return kbi.dataset_of_streams(
            lambda number: stream(number, step), streams, worker=worker, num_workers=workers
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
            if num_tasks > backbone.num_tasks:
                backbone = kbi.resize(backbone, num_tasks=num_tasks)
            pretrainer = kbi.BertPretrainer(backbone, objectives=objectives)
        else:
            backbone = kbi.BertBackbone.from_size(
                _SIZE.value,
                tokenizer.vocabulary_size(),
                dropout=_DROPOUT.value,
                max_sequence_length=max(512, length),
                num_tasks=num_tasks,
                **overrides,
            )
            pretrainer = kbi.BertPretrainer(backbone, objectives=objectives)
        pretrainer.backbone.recompute = _RECOMPUTE.value
        schedule = kbi.WarmupLinearDecay(
            _LEARNING_RATE.value,
            num_steps,
            num_warmup_steps=round(_WARMUP.value * num_steps),
            decay_from=round(_DECAY_FROM.value * num_steps),
        )
        pretrainer.compile(
            optimizer=kbi.BertAdamW(schedule, beta_2=_BETA_2.value),
            accumulation_steps=_ACCUMULATION.value,
        )

        # What the saved state's continuation depends on.
        # States of models without tasks are older than the number of these.
        config = pretrainer.backbone.get_config().items()
        left_out = {"name", "recompute"}
        config = {k: v for k, v in config if k not in left_out and (k, v) != ("num_tasks", 0)}
        settings = {
            **rows,
            **masking,
            "whole_word": whole_word,
            "input": prepared.fingerprint()
            if prepared
            else [kbi.file_fingerprint(path) for path in _INPUT.value],
            "vocabulary": tokenizer.fingerprint(),
            "init_from": _INIT_FROM.value,
            "backbone": config,
            "beta_2": _BETA_2.value,
            "accumulation_steps": _ACCUMULATION.value,
            "seed": _SEED.value,
            "precision": precision,
            **objectives_flags.settings(objectives, tasks),
            **({"streams": streams} if streams > 1 else {}),
        }
        step = kbi.fit_steps(
            pretrainer,
            training_batches,
            num_steps=num_steps,
            epoch_steps=min(_EPOCH_STEPS.value, num_steps),
            folder=output,
            settings=settings,
            changeable={"schedule": schedule.get_config()},
            allow_changes=_ALLOW_CHANGES.value,
            save_every=_SAVE_EVERY.value,
            keep=_KEEP.value,
            callbacks=[keras.callbacks.TensorBoard(output / "curves")] * _TENSORBOARD.value,
        )
        if step:
            print(f"Went on after step {step} of {num_steps}.")
        metrics = {}
        if _HELD_OUT.value:
            print("Measuring on held-out text")
            measured, not_measured = objectives_flags.held_out_schedule(objectives)
            held_out = batches(kbi.read_documents(_HELD_OUT.value), tasks=measured)
            held_out = held_out.take(_HELD_OUT_STEPS.value)
            metrics = pretrainer.evaluate(held_out, return_dict=True)
            for name in not_measured:
                metrics = {k: v for k, v in metrics.items() if not k.startswith(f"{name}_")}
    if not kbi.is_chief():
        return

    pretrainer.preprocessor = kbi.BertPretrainerPreprocessor(
        tokenizer,
        sequence_length=length,
        whole_word=whole_word,
        **masking,
    )
    pretrainer.save_to_preset(str(output / "model"))
    if _HELD_OUT.value:
        if "masked_lm" in pretrainer.output:
            texts = pieces_of_rows(prepared, tokenizer) if prepared else documents
            metrics["unigram_loss"], metrics["most_frequent_accuracy"] = unigram_baseline(
                token_counts(texts, tokenizer), held_out
            )
        # Tokens that are not padding, over the whole run.
        first = training_batches(0).take(50).as_numpy_iterator()
        sample = [x["padding_mask"].mean() for x, *_ in first]
        metrics["tokens"] = float(np.mean(sample)) * length * _BATCH_SIZE.value * num_steps
        text = json.dumps(metrics, indent=2)
        (output / "metrics.json").write_text(text)
        print(text)


def token_counts(documents, tokenizer):
    """How often each token stands in documents, or in their ids: (vocabulary_size,)."""
    size = tokenizer.vocabulary_size()

    def count(texts):
        ids = tokenizer.tokenize(texts).flat_values if texts.dtype == tf.string else texts
        return tf.math.bincount(ids, minlength=size, maxlength=size)

    counts = documents.map(count, num_parallel_calls=tf.data.AUTOTUNE)
    return counts.reduce(tf.zeros([size], tf.int32), tf.add).numpy()


def pieces_of_rows(prepared, tokenizer):
    """The ids of prepared rows without special ones, some rows at a time."""
    length = prepared.settings["sequence_length"]
    rows = prepared.rows({"token_ids": length}, seed=0, shuffle=False, repeat=False).batch(1024)
    special = tf.constant(tokenizer.special_token_ids)

    def pieces(batch):
        ids = batch["token_ids"][batch["padding_mask"]]
        return ids[~tf.reduce_any(ids[:, None] == special, axis=1)]

    return rows.map(pieces)


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
