r"""Pretraining side by side: BERT, without next sentences, left to right, GPT, ULMFiT, ELMo.

    python recipes/compare.py --output=runs/compare

BERT's paper compares these in table 5 (section 5.1) and in section 5.3; here at a small size, on
one text, for the same number of steps, on the same tasks, with several seeds. Without flags text
and tasks are made of the Bible as in quickstart.py; --input, --vocabulary, --train and --dev take
others. Each way and seed is pretrained once and fine-tuned on each task; with several
--learning_rates, --batch_sizes or --epochs the best on dev of each way is told, as the paper does.
Interrupt it whenever you like: run the same command, it goes on with what is missing.
"""

import functools
import operator
import pathlib
import time
from typing import Any

import fine_tuning
import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from bible_text import write_testaments, write_texts
from elmo_classifier import MAX_CHARACTERS, elmo_classifier, elmo_inputs, words_apart
from train_once import train_causal_lm, train_once

import keras_bert_impl as kbi

NUM_PIECES = 4000

# What sets a way apart: what it was pretrained on, options of its classifier, flags of its training.
CAUSAL = {"pretraining": "causal_lm", "lm_weight": 0.0}
ULMFIT = {"schedule": "slanted_triangle", "layer_decay": 1 / 2.6, "gradual_unfreezing": True}
WAYS: dict[str, dict[str, Any]] = {
    "none": {"label": "BERT, not pretrained", "pretraining": "none"},
    "bert": {"label": "masked LM & next sentence (BERT)", "pretraining": "pairs"},
    "no_nsp": {"label": "masked LM, no next sentence", "pretraining": "masked_lm"},
    "ltr": {"label": "left to right, no next sentence", **CAUSAL},
    "ltr_bilstm": {"label": "left to right + BiLSTM", **CAUSAL, "pooling": "bilstm"},
    "gpt": {"label": "left to right + auxiliary LM (GPT)", **CAUSAL, "lm_weight": 0.5},
    "ulmfit": {"label": "ULMFiT's stages", **CAUSAL, "pooling": "concat", "flags": ULMFIT},
    "elmo": {"label": "ELMo, frozen", "pretraining": "words"},
}

_WAYS = flags.DEFINE_list("ways", list(WAYS), f"Of {', '.join(WAYS)}.")
_INPUT = flags.DEFINE_list("input", [], "Text files to pretrain on, as in pretrain.py.")
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "WordPiece vocabulary; default: trained.")
_TRAIN = flags.DEFINE_list("train", [], "A table for each task: label, and one text or two.")
_DEV = flags.DEFINE_list("dev", [], "A table for each task to measure on, in the same order.")
_TRAIN_ROWS = flags.DEFINE_integer("train_rows", 3000, "Rows of a task to train on; 0: all.")

_SIZE = flags.DEFINE_enum("size", "tiny", list(kbi.SIZES), "Size of the models, by name.")
_NUM_LAYERS = flags.DEFINE_integer("num_layers", None, "Overrides the size's layers.")
_NUM_HEADS = flags.DEFINE_integer("num_heads", 4, "Attention heads.")
_DROPOUT = flags.DEFINE_float("dropout", 0.0, "Dropout, of pretraining and fine-tuning.")
_NUM_STEPS = flags.DEFINE_integer("num_steps", 1000, "Steps of pretraining.")
_BATCH_SIZE = flags.DEFINE_integer("pretraining_batch_size", 32, "Rows of each of these steps.")
_RATE = flags.DEFINE_float("pretraining_rate", 3e-3, "Peak learning rate of pretraining.")
_LSTM_RATE = flags.DEFINE_float("lstm_rate", 3e-3, "The same of ELMo's.")
_TARGET_EPOCHS = flags.DEFINE_integer("target_epochs", 2, "ULMFiT's, of the task's texts.")

fine_tuning.set_defaults(
    model="",  # there is none to start from
    learning_rates=[5e-4],
    batch_sizes=[32],
    epochs=[4],
    seeds=3,
    sequence_length=64,
    distribution="none",
)
FLAGS = fine_tuning.FLAGS


def main(_):
    unknown = [way for way in _WAYS.value if way not in WAYS]
    if unknown:
        raise app.UsageError(f"Unknown ways {', '.join(unknown)}. There are {', '.join(WAYS)}.")
    if len(_TRAIN.value) != len(_DEV.value):
        raise app.UsageError("Name as many tables in --dev as in --train.")
    output = pathlib.Path(FLAGS.output)
    runs = fine_tuning.finished_runs(output, also_free=["ways"])
    own_flags = {name: FLAGS[name].value for name in ULMFIT}
    text = prepare_text(output)
    tasks = read_tasks(output, text["tokenizer"])
    for setting in fine_tuning.settings():
        for way in _WAYS.value:
            for flag, value in {**own_flags, **WAYS[way].get("flags", {})}.items():
                setattr(FLAGS, flag, value)
            for name, task in tasks.items():
                key = {"way": way, "task": name, **setting}
                if any(run["setting"] == key for run in runs):
                    continue
                preset, cost = pretrain(way, setting["seed"], text, name, task, output)
                print(f"\n--- {way}, {name}, {fine_tuning.name_of(setting)}", flush=True)
                start = time.time()
                accuracy = measure(way, preset, task, setting)
                seconds = round(time.time() - start, 1)
                run = {
                    "setting": key,
                    "accuracy": accuracy,
                    "seconds": seconds,
                    "pretraining": cost,
                }
                fine_tuning.add_run(output, run)
                runs.append(run)
                print(f"{way}, {name}: accuracy {accuracy:.4f}", flush=True)
    report(output, runs, tasks)


# Text and tasks


def prepare_text(output):
    """Files, WordPiece vocabulary and its tokenizer."""
    folder = output / "text"
    folder.mkdir(exist_ok=True)
    files = _INPUT.value
    if not files:
        write_texts(folder)
        files = [str(folder / "train.txt")]
    vocabulary = _VOCABULARY.value or str(folder / "vocab.txt")
    if not pathlib.Path(vocabulary).exists():
        tokens = kbi.train_vocabulary(tf.data.TextLineDataset(files), NUM_PIECES)
        kbi.save_vocabulary(tokens, vocabulary)
    return {"files": files, "tokenizer": kbi.BertTokenizer(vocabulary)}


def read_tasks(output, tokenizer):
    """By name: train and dev, (x, y) of texts; ids, the same of rows; class names; whether pairs."""
    folder = output / "text"
    files = list(zip(_TRAIN.value, _DEV.value, strict=True))
    if not files:
        write_texts(folder)
        write_testaments(folder)
        names = ("pairs", "testament")
        files = [(folder / f"{name}_train.tsv", folder / f"{name}_held_out.tsv") for name in names]
    tasks = {}
    for train, dev in files:
        columns = columns_of(train)
        *texts, _ = columns
        tables = [kbi.read_table(path, columns) for path in (train, dev)]
        class_names = sorted(set(tables[0].columns["label"]))
        parts = [(texts_of(t, texts), labels_of(t, class_names)) for t in tables]
        name = pathlib.Path(train).name.split(".")[0].removesuffix("_train")
        task = {"train": drawn(parts[0], _TRAIN_ROWS.value), "dev": parts[1]}
        pair = len(texts) == 2
        # Once for all ways, and in one shape, for which a step is compiled once.
        preprocessor = kbi.BertPreprocessor(tokenizer, FLAGS.sequence_length, pair=pair)
        ids = {part: (as_arrays(preprocessor(x)), y) for part, (x, y) in task.items()}
        tasks[name] = {**task, "ids": ids, "class_names": class_names, "pair": pair}
    return tasks


def columns_of(path):
    """The columns of a TSV file: one text or two, and label."""
    with open(path, encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split("\t")
    texts = [name for name in names if name != "label"]
    if "label" not in names or len(texts) not in (1, 2):
        raise ValueError(f"{path}: has the columns {names}, not label and one text or two.")
    return [*texts, "label"]


def texts_of(table, columns):
    texts = [np.array(table.columns[column], object) for column in columns]
    return {"text_a": texts[0], "text_b": texts[1]} if len(texts) == 2 else texts[0]


def as_arrays(rows):
    return {name: np.array(row) for name, row in rows.items()}


def labels_of(table, class_names):
    return np.array(kbi.check_labels(table, "label", class_names=class_names))


def drawn(part, count):
    """So many rows, the same for all ways and seeds."""
    x, y = part
    if not 0 < count < len(y):
        return part
    rows = np.sort(np.random.default_rng(0).choice(len(y), count, replace=False))
    return {k: v[rows] for k, v in x.items()} if isinstance(x, dict) else x[rows], y[rows]


# Pretraining


def pretrain(way, seed, text, task_name, task, output):
    """(preset, its cost) of a way's pretraining; ways that share one share its preset."""
    kind = WAYS[way]["pretraining"]
    folder = output / "pretrained" / f"{kind}-{seed}"
    tokenizer, length = text["tokenizer"], FLAGS.sequence_length
    documents = kbi.read_documents(text["files"])
    schedule = kbi.WarmupLinearDecay(_RATE.value, _NUM_STEPS.value, round(0.1 * _NUM_STEPS.value))
    rows: dict[str, Any] = {"batch_size": _BATCH_SIZE.value, "seed": seed}
    sizes = {} if _NUM_LAYERS.value is None else {"num_layers": _NUM_LAYERS.value}
    keras.utils.set_random_seed(seed)

    def backbone():
        return kbi.BertBackbone.from_size(
            _SIZE.value,
            tokenizer.vocabulary_size(),
            num_heads=_NUM_HEADS.value,
            dropout=_DROPOUT.value,
            causal=kind == "causal_lm",
            **sizes,
        )

    def causal_lm():
        return kbi.BertCausalLM(backbone(), kbi.BertCausalLMPreprocessor(tokenizer, length))

    def pretrainer():
        return kbi.BertPretrainer(backbone(), kbi.BertPretrainerPreprocessor(tokenizer, length))

    def masked_lm():
        return kbi.BertMaskedLM(backbone(), kbi.BertMaskedLMPreprocessor(tokenizer, length))

    def masked(step):
        return kbi.pretraining_dataset(
            documents,
            tokenizer,
            sequence_length=length,
            max_predictions=round(0.15 * length),
            next_sentence=kind == "pairs",
            start_step=step,
            **rows,
        )

    if kind == "words":
        return pretrain_elmo(documents, folder, seed)
    if kind == "none":
        return train_once(pretrainer, None, folder, None, rows)
    if kind != "causal_lm":
        model = pretrainer if kind == "pairs" else masked_lm
        return train_once(model, masked, folder, schedule, rows, beta_2=0.98)
    preset, cost = train_causal_lm(
        causal_lm, documents, tokenizer, folder, schedule, length=length, beta_2=0.98, **rows
    )
    if way == "ulmfit":
        return adapt(preset, cost, task_name, task, tokenizer, rows)
    return preset, cost


def adapt(general, cost, task_name, task, tokenizer, rows):
    """ULMFiT's second stage: the language model reads the task's texts."""
    x, y = task["train"]
    texts = list(zip(*x.values(), strict=True)) if task["pair"] else [(text,) for text in x]
    num_steps = max(_TARGET_EPOCHS.value * len(y) // _BATCH_SIZE.value, 1)
    preset, more = train_causal_lm(
        lambda: kbi.BertCausalLM.from_preset(general),
        texts,
        tokenizer,
        general.parent.with_name(f"{general.parent.name}-{task_name}"),
        kbi.SlantedTriangle(_RATE.value / 3, num_steps),
        length=FLAGS.sequence_length,
        layer_decay=1 / 2.6,
        **rows,
    )
    return preset, {name: cost[name] + more[name] for name in cost}


def pretrain_elmo(documents, folder, seed):
    """As many words a step as the others have pieces, states as wide as theirs."""
    documents = documents.map(words_apart)
    hidden_dim = kbi.SIZES[_SIZE.value][1]
    # As many as WordPiece has pieces; read from the text only where it is needed.
    vocabulary = functools.cache(
        lambda: kbi.WordVocabulary.of_documents(documents, max_words=NUM_PIECES)
    )

    def model():
        elmo = kbi.ElmoBackbone(
            lstm_units=2 * hidden_dim,
            projection_dim=hidden_dim // 2,
            filters=((1, 16), (2, 16), (3, 32), (4, 32), (5, 64)),
            dropout=_DROPOUT.value,
            max_characters=MAX_CHARACTERS,
        )
        return kbi.BidirectionalLM(elmo, vocabulary_size=len(vocabulary()))

    def of_rows(batch_size, step=0):
        return kbi.bidirectional_pretraining_dataset(
            documents,
            vocabulary(),
            max_words=FLAGS.sequence_length // 2,
            max_characters=MAX_CHARACTERS,
            batch_size=batch_size,
            seed=seed,
            start_step=step,
        )

    @functools.cache
    def batch_size():
        """Rows of sentences with as many words as the others' rows have pieces."""
        count = 16 * _BATCH_SIZE.value
        x, *_ = next(of_rows(count).as_numpy_iterator())
        places = _BATCH_SIZE.value * FLAGS.sequence_length
        return round(places * count / x["padding_mask"].sum())

    def batches(step):
        return of_rows(batch_size(), step)

    schedule = kbi.WarmupLinearDecay(
        _LSTM_RATE.value, _NUM_STEPS.value, round(0.1 * _NUM_STEPS.value)
    )
    settings = {"batch_size": _BATCH_SIZE.value, "seed": seed}
    backbone = operator.attrgetter("backbone")
    return train_once(model, batches, folder, schedule, settings, keep=backbone, beta_2=0.98)


# Fine-tuning


def measure(way, preset, task, setting):
    """Train on a task once. Returns the accuracy on dev."""
    if WAYS[way]["pretraining"] == "words":
        logits = elmo_answers(preset, task, setting)
    else:
        options = {k: WAYS[way][k] for k in ("lm_weight", "pooling") if k in WAYS[way]}
        cls = kbi.BertCausalClassifier if options else kbi.BertTextClassifier

        def make_task():
            return fine_tuning.load(
                cls,
                preset=preset,
                num_classes=len(task["class_names"]),
                class_names=task["class_names"],
                **options,
            )

        ids = task["ids"]
        dev = None if FLAGS.patience is None else ids["dev"]
        model, _ = fine_tuning.train_once(make_task, ids["train"], dev, setting, None)
        logits = model.predict(ids["dev"][0], verbose=0)
    y = task["dev"][1]
    return kbi.measure_answers(["accuracy"], logits.argmax(axis=-1), y)["accuracy"]


def elmo_answers(preset, task, setting):
    """Logits for dev of a small network on frozen features, trained on the task."""
    keras.utils.set_random_seed(setting["seed"])
    num_texts = 2 if task["pair"] else 1
    train, dev = (
        elmo_inputs(task[part][0], FLAGS.sequence_length // num_texts) for part in ("train", "dev")
    )
    backbone = kbi.ElmoBackbone.from_preset(str(preset))
    model = elmo_classifier(backbone, len(task["class_names"]), num_texts)
    y, size, epochs = task["train"][1], setting["batch_size"], setting["epochs"]
    num_steps = -(-len(y) // size) * epochs
    schedule = fine_tuning.make_schedule(setting["learning_rate"], num_steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(kbi.BertAdamW(schedule), loss)
    model.fit(train, y, batch_size=size, epochs=epochs)
    return model.predict(dev, verbose=0)


# What came out


def report(output, runs, tasks):
    """results.json, table.md and chart.png of all runs in the folder."""
    results = []
    for way, about in WAYS.items():
        by_task = {name: best_setting(runs, way, name) for name in tasks}
        if None not in by_task.values():
            results.append({"way": way, "label": about["label"], "tasks": by_task})
    majority = {
        name: float(np.bincount(t["dev"][1]).max()) / len(t["dev"][1]) for name, t in tasks.items()
    }
    fine_tuning.write_json(output / "results.json", {"majority": majority, "ways": results})
    table = table_of(results, majority)
    fine_tuning.write_text(output / "table.md", table)
    draw(output / "chart.png", results, majority)
    print(f"\n{table}\n{output / 'results.json'}, {output / 'chart.png'}")


def best_setting(runs, way, task):
    """Mean and spread over seeds of a way's best setting on a task; None if it has no run."""
    by_setting: dict[tuple, list] = {}
    for run in runs:
        setting = run["setting"]
        if (setting["way"], setting["task"]) == (way, task):
            kept = {k: v for k, v in setting.items() if k not in ("way", "task", "seed")}
            by_setting.setdefault(tuple(kept.items()), []).append(run)
    if not by_setting:
        return None

    def mean(rows, name="accuracy"):
        return float(np.mean([row[name] for row in rows]))

    setting, rows = max(by_setting.items(), key=lambda item: mean(item[1]))
    return {
        "accuracies": [row["accuracy"] for row in rows],
        "mean": mean(rows),
        "spread": float(np.std([row["accuracy"] for row in rows])),
        "setting": dict(setting),
        "tokens": mean([row["pretraining"] for row in rows], "tokens"),
        "pretraining_seconds": mean([row["pretraining"] for row in rows], "seconds"),
        "seconds": mean(rows, "seconds"),
    }


def table_of(results, majority):
    """A table in Markdown: accuracy, mean and standard deviation over seeds, in percent."""
    names = list(majority)
    lines = [
        ["", *names, "tokens read", "pretraining, s", "fine-tuning, s"],
        ["---", *["---:"] * (len(names) + 3)],
    ]
    for result in results:
        told = list(result["tasks"].values())
        cells = [f"{100 * t['mean']:.1f} ± {100 * t['spread']:.1f}" for t in told]
        cells.append(f"{np.mean([t['tokens'] for t in told]) / 1e6:.2f} M")
        for name in ("pretraining_seconds", "seconds"):
            cells.append(f"{np.mean([t[name] for t in told]):.0f}")
        lines.append([result["label"], *cells])
    lines.append(["most frequent class", *(f"{100 * majority[n]:.1f}" for n in names), "", "", ""])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw(path, results, majority):
    """Bars of the means with their spread, a dot for each seed, a line at the frequent class."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1,
        len(majority),
        figsize=(2 + 4.5 * len(majority), 1 + 0.45 * len(results)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    labels = [result["label"] for result in results]
    for axis, name in zip(axes[0], majority, strict=True):
        told = [result["tasks"][name] for result in results]
        means, spreads = [t["mean"] for t in told], [t["spread"] for t in told]
        axis.barh(labels, means, xerr=spreads, color="lightsteelblue", capsize=3)
        for label, one in zip(labels, told, strict=True):
            axis.plot(one["accuracies"], [label] * len(one["accuracies"]), ".", color="navy")
        axis.axvline(majority[name], color="gray", linestyle=":")
        lowest = min([majority[name], *(a for t in told for a in t["accuracies"])])
        axis.set(title=name, xlabel="accuracy", xlim=(max(lowest - 0.05, 0), 1))
    axes[0][0].invert_yaxis()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    app.run(main)
