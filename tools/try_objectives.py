"""Does every objective learn from real text? Held-out accuracies, against chance.

    python tools/try_objectives.py table
    python tools/try_objectives.py continual --runs=2

The text is docstring_text.py's, or --input and --held_out; the weights are MiniLM's (6 x 384), or
those of --init_from, but ELMo begins with none. `table` trains for the objectives of tokens
together, for each of those of texts alone, for a causal LM and an ELMo. Those of texts stand still
before they learn: MiniLM was trained without [CLS]. Discourse relations are of the quickstart's
verses, since docstrings have few. `continual` trains three tasks by ERNIE 2.0's schedule, all at
once, and one after another, the same steps of each at a level rate, and tells what is left of the first ones. A
part that is finished is not done again, and one that was stopped goes on where it was.
"""

import functools
import json
import pathlib

import keras
import tensorflow as tf
from absl import app, flags
from objectives_runs import Texts, measure, part, print_table, standard_error, train

import keras_bert_impl as kbi

_OUTPUT = flags.DEFINE_string("output", "runs/objectives", "Folder for all that is made.")
_TOKEN_STEPS = flags.DEFINE_integer("token_steps", 400, "Of the objectives of tokens together.")
_TEXT_STEPS = flags.DEFINE_integer("text_steps", 1000, "Of each objective of texts.")
_CAUSAL_STEPS = flags.DEFINE_integer("causal_steps", 400, "Of the causal LM.")
_ELMO_STEPS = flags.DEFINE_integer("elmo_steps", 500, "Of ELMo.")
_TASK_STEPS = flags.DEFINE_list("task_steps", ["400", "900", "200"], "Of each task, continual.")
_RATE = flags.DEFINE_float(
    "learning_rate", 2e-4, "Peak learning rate of token_steps and causal_steps."
)
_TEXT_RATE = flags.DEFINE_float("text_rate", 5e-5, "The same of text_steps.")
_TASK_RATE = flags.DEFINE_float("task_rate", 1e-4, "The same of task_steps.")
_ELMO_RATE = flags.DEFINE_float("elmo_rate", 1e-3, "The same of ELMo.")
_HELD_OUT_STEPS = flags.DEFINE_integer("held_out_steps", 840, "Batches to measure on, continual.")
_RUNS = flags.DEFINE_integer("runs", 1, "Seeds, continual.")

TASKS = ["masked_lm", "sentence_distance", "capitalization+token_document_relation"]
WAYS = {"multi_task": kbi.multi_task, "continual": kbi.continual, "sequential": kbi.sequential}
# Of what learns late: so many times the steps, and the rate.
LONGER = {"sentence_reordering": (2.5, 2), "discourse_relation": (1, 2)}
MOST_LOST = 0.02  # that a continual schedule may lose of a task against training all at once


# Every objective against chance


def objectives_of(kind):
    return [cls() for cls in kbi.OBJECTIVES.values() if issubclass(cls, kind)]


def tokens(folder, texts):
    """The objectives of tokens, in every batch."""
    objectives = objectives_of(kbi.TokenObjective)
    return pretrained(folder, texts, objectives, _TOKEN_STEPS.value, _RATE.value)


def of_texts(folder, texts):
    """The objective of texts that the folder is named for."""
    objectives = [kbi.OBJECTIVES[folder.name]()]
    times, faster = LONGER.get(folder.name, (1, 1))
    steps, rate = round(times * _TEXT_STEPS.value), faster * _TEXT_RATE.value
    return pretrained(folder, texts, objectives, steps, rate)


def pretrained(folder, texts, objectives, steps, rate):
    model = kbi.BertPretrainer(texts.backbone(), objectives=objectives)
    seconds = train(
        folder,
        model,
        lambda step: texts.rows(texts.train, objectives, start_step=step),
        steps,
        rate,
        {**texts.settings, "objectives": {o.name: o.get_config() for o in objectives}},
    )
    options = {"repeat": False, "drop_remainder": False}
    measured = measure(model, texts.rows(texts.held_out, objectives, **options))
    return {"steps": steps, "seconds": seconds, "measured": measured}


def causal_lm(folder, texts):
    """The next piece."""
    model = kbi.BertCausalLM(texts.backbone(causal=True))

    def batches(documents, **options):
        options = {**texts.row_options, **options}
        return kbi.causal_pretraining_dataset(documents, texts.tokenizer, **options)

    return language_model(folder, texts, model, batches, _CAUSAL_STEPS.value, _RATE.value)


def elmo(folder, texts):
    """The next word from the left and from the right."""
    train_words, held_out_words = (
        documents.map(words_apart) for documents in (texts.train, texts.held_out)
    )
    vocabulary = kbi.WordVocabulary.of_documents(train_words, max_words=5000)
    model = kbi.BidirectionalLM(kbi.ElmoBackbone.from_size("small"), len(vocabulary))

    def batches(documents, **options):
        words = train_words if documents is texts.train else held_out_words
        batch_size = texts.row_options["batch_size"]
        return kbi.bidirectional_pretraining_dataset(
            words, vocabulary, max_words=30, batch_size=batch_size, **options
        )

    return language_model(folder, texts, model, batches, _ELMO_STEPS.value, _ELMO_RATE.value)


def words_apart(sentences):
    """Sentences with spaces around what is no part of a word."""
    return tf.strings.regex_replace(sentences, r"([^\pL\pN\s'])", r" \1 ")


def language_model(folder, texts, model, batches, steps, rate):
    seconds = train(
        folder,
        model,
        lambda step: batches(texts.train, start_step=step),
        steps,
        rate,
        {**texts.settings, "model": folder.name},
    )
    data = batches(texts.held_out, repeat=False, drop_remainder=False)
    return {"steps": steps, "seconds": seconds, "measured": measure(model, data)}


PARTS = {
    "tokens": tokens,
    **{objective.name: of_texts for objective in objectives_of(kbi.TextObjective)},
    "causal_lm": causal_lm,
    "elmo": elmo,
}


def table(folder, texts):
    """All objectives, a line each; those trained together share their seconds."""
    of_verses = texts.on_verses(folder)
    lines = []
    for name, make in PARTS.items():
        own = of_verses if name == "discourse_relation" else texts
        found = part(folder / f"{name}.json", functools.partial(make, folder / name, own))
        for output, row in found["measured"].items():
            error = standard_error(row)
            lines.append(
                {
                    "objective": output if output in kbi.OBJECTIVES else f"{name} {output}".strip(),
                    "trained": name,
                    "steps": found["steps"],
                    **row,
                    "error": error,
                    "errors_above": (row["accuracy"] - row["chance"]) / error,
                    "seconds": found["seconds"],
                }
            )
    (folder / "table.json").write_text(json.dumps(lines, indent=2), "utf-8")
    formats = {"accuracy": ".2%", "chance": ".2%", "error": ".2%", "errors_above": "+.1f"}
    formats["seconds"] = ".0f"
    rows = [[format(value, formats.get(name, "")) for name, value in x.items()] for x in lines]
    print_table(list(lines[0]), rows)
    print("Seconds are of all that was trained together.")


# What is left of the first tasks


def scheduled(folder, texts, make_schedule, seed):
    """Three tasks from one start; each measured on its own rows after the last step."""
    keras.utils.set_random_seed(seed)
    objectives = [kbi.OBJECTIVES[name]() for task in TASKS for name in task.split("+")]
    schedule = make_schedule(TASKS, [int(steps) for steps in _TASK_STEPS.value])
    model = kbi.BertPretrainer(texts.backbone(num_tasks=len(objectives)), objectives=objectives)
    options = {"task_embeddings": True, "seed": seed}
    seconds = train(
        folder,
        model,
        lambda step: texts.rows(
            texts.train, objectives, schedule=schedule, start_step=step, **options
        ),
        schedule.num_steps,
        _TASK_RATE.value,
        {**texts.settings, "tasks": schedule.get_config(), "seed": seed},
        # Else a task that begins late would be trained at a lower rate than by the other ways.
        decay_from=round(0.8 * schedule.num_steps),
    )
    options["seed"] = 0  # all ways and seeds are measured on the same rows
    data = texts.rows(
        texts.held_out, objectives, schedule=kbi.multi_task(TASKS), shuffle_buffer=0, **options
    )
    measured = measure(model, data.take(_HELD_OUT_STEPS.value))
    return {"seconds": seconds, "measured": measured}


def continual(folder, texts):
    """Scores after the last stage by each schedule, and what two of them lost against the first."""
    scores: dict[str, dict[str, list[float]]] = {}
    for seed in range(_RUNS.value):
        for way, make in WAYS.items():
            name = f"{way}-{seed}"
            train_it = functools.partial(scheduled, folder / name, texts, make, seed)
            measured = part(folder / f"{name}.json", train_it)["measured"]
            for objective, row in measured.items():
                of_ways = scores.setdefault(objective, {way: [] for way in WAYS})
                of_ways[way].append(row["accuracy"])
    (folder / "continual.json").write_text(json.dumps(scores, indent=2), "utf-8")
    lost, rows = {}, []
    for objective, of_ways in scores.items():
        mean = {way: sum(values) / len(values) for way, values in of_ways.items()}
        lost[objective] = {way: mean["multi_task"] - mean[way] for way in list(WAYS)[1:]}
        row = measured[objective]  # all runs are measured on the same rows
        shares = [row["chance"], standard_error(row), *mean.values()]
        changes = [f"{x:+.2%}" for x in lost[objective].values()]
        rows.append([objective, *(f"{x:.2%}" for x in shares), *changes])
    print(f"\nHeld-out accuracy after the last stage, mean of {_RUNS.value} seeds")
    print_table(["objective", "chance", "error", *WAYS, "continual lost", "sequential lost"], rows)
    first = [name for task in TASKS[:-1] for name in task.split("+")]
    kept = all(lost[name]["continual"] <= MOST_LOST for name in first)
    print(
        f"Continual training {'keeps' if kept else 'DOES NOT KEEP'} {', '.join(first)} within "
        f"{100 * MOST_LOST:.0f} points of training all at once."
    )


MODES = {"table": table, "continual": continual}


def main(argv):
    if len(argv) != 2 or argv[1] not in MODES:
        raise app.UsageError(f"Name one of {', '.join(MODES)}.")
    folder = pathlib.Path(_OUTPUT.value)
    folder.mkdir(parents=True, exist_ok=True)
    MODES[argv[1]](folder, Texts(folder))


if __name__ == "__main__":
    app.run(main)
