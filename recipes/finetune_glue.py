r"""Fine-tune on the tasks of GLUE, measure, and write the files to submit (paper, section 4.1).

    python recipes/finetune_glue.py --task=MRPC,RTE --data=glue_data --output=runs/glue \
        --model=uncased_L-12_H-768_A-12

--data is the folder of the benchmark's download, with a folder for each task. --task=all trains
all nine (the paper leaves WNLI out). Each task is tried with the paper's four learning rates, and
the best on the development set is kept; for more seeds or other values see the flags. Everything
of a task goes to a folder of its name below --output, the answers to all test sets that are there
to submission/. The diagnostic set, AX, is answered by MNLI's model.
"""

import pathlib

import fine_tuning
from absl import app, flags

import keras_bert_impl as kbi

flags.DEFINE_list("task", None, "Names of GLUE's tasks, or all.", required=True)
flags.DEFINE_string("data", None, "Folder with a folder for each task.", required=True)

# Appendix A.3; 128 tokens as google-research/bert, README.md.
fine_tuning.set_defaults(
    learning_rates=[5e-5, 4e-5, 3e-5, 2e-5], batch_sizes=[32], epochs=[3], sequence_length=128
)
FLAGS = fine_tuning.FLAGS


def main(_):
    names = list(kbi.GLUE_TASKS) if FLAGS.task == ["all"] else FLAGS.task
    for name in names:  # before the hours that a task takes
        check_files(kbi.glue_task(name))
    output = pathlib.Path(FLAGS.output)
    metrics = {}
    for name in names:
        print(f"\n=== {name}", flush=True)
        # A task is a run of its own, which goes on where it was whatever the others are.
        FLAGS.task, FLAGS.output = [name], str(output / name)
        metrics[name] = fine_tune(kbi.glue_task(name), output)
    print()
    for name, by_split in metrics.items():
        for split, values in by_split.items():
            print(name, split, *(f"{metric} {value:.4f}" for metric, value in values.items()))


def fine_tune(task, output):
    """Train on one task and write its answers. Returns the metrics of its development sets."""
    splits = ["train", *dev_splits(task)]
    examples = {split: kbi.read_glue(FLAGS.data, task.name, split) for split in splits}
    for split, part in examples.items():
        note = f", {len(part.skipped)} lines skipped" if part.skipped else ""
        print(f"{split}: {len(part.table.lines)} rows{note}")
    first, *others = dev_splits(task)

    def make_task():
        return fine_tuning.load(
            kbi.BertTextClassifier,
            num_classes=len(task.class_names) or 1,
            class_names=task.class_names or None,
            regression=task.regression,
            pair=task.pair,
        )

    model, predictions = fine_tuning.fine_tune(
        make_task,
        train=(examples["train"].x, examples["train"].y),
        dev=(examples[first].x, examples[first].y),
        measure=lambda logits: kbi.measure_answers(
            task.metrics, answers_of(task, logits), examples[first].y
        ),
        metric=task.metrics[0],
    )
    predictions = {first: predictions}
    predictions |= {split: model.predict(examples[split].x) for split in others}
    metrics = {
        split: report(task, split, examples[split], answers_of(task, logits))
        for split, logits in predictions.items()
    }
    there = kbi.glue_splits(FLAGS.data, task.name)
    for split in [split for split in task.submissions if split in there]:
        answers = answers_of(task, model.predict(kbi.read_glue(FLAGS.data, task.name, split).x))
        path = kbi.write_glue_submission(output / "submission", task.name, split, answers)
        print(f"{split}: {len(answers)} answers in {path}")
    return metrics


def check_files(task):
    """Stop if a set that training needs is not there."""
    missing = {"train", *dev_splits(task)} - set(kbi.glue_splits(FLAGS.data, task.name))
    if missing:
        files = [" or ".join(task.files[split]) for split in sorted(missing)]
        raise app.UsageError(f"{task.name}: {FLAGS.data} lacks {', '.join(files)}.")


def dev_splits(task):
    """Names of the development sets: one, for MNLI two, of which the first chooses the run."""
    return [split for split in task.files if split.startswith("dev")]


def answers_of(task, logits):
    """What the model says: class numbers, or scores."""
    return logits[:, 0] if task.regression else logits.argmax(axis=-1)


def report(task, split, examples, answers):
    """Write metrics, answers beside labels, and which class was taken for which."""
    folder = pathlib.Path(FLAGS.output)
    labels = examples.table.columns[task.label]
    written = answers.tolist()
    if not task.regression:
        written = [task.class_names[answer] for answer in answers]
        fine_tuning.warn_if_collapsed(written)
        table = kbi.confusion_table(answers, examples.y, task.class_names)
        fine_tuning.write_table(folder / f"{split}_confusion.tsv", *table)
        table = kbi.label_table(answers, examples.y, task.class_names)
        fine_tuning.write_table(folder / f"{split}_labels.tsv", *table)
    fine_tuning.write_table(
        folder / f"{split}_predictions.tsv",
        ["line", "label", "prediction"],
        zip(examples.table.lines, labels, written, strict=True),
    )
    metrics = kbi.measure_answers(task.metrics, answers, examples.y)
    fine_tuning.write_json(folder / f"{split}_metrics.json", metrics)
    return metrics


if __name__ == "__main__":
    app.run(main)
