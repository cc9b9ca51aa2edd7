r"""Fine-tune a tagger of named entities on CoNLL files (paper, section 5.3).

    python recipes/finetune_ner.py --model=cased_L-12_H-768_A-12 --output=runs/ner \
        --train=eng.train --dev=eng.testa --test=eng.testb

A word stands in a line with its columns, its tag in the last of them; a blank line ends a
sentence. Tags are IOB1, IOB2 or BIOES, in all files alike. Names are told by their capitals, so
start from a cased model. More than one value for --learning_rates, --batch_sizes, --epochs, and
--seeds above 1, try all combinations and keep the best on --dev by the F1 of whole entities; the
defaults are the paper's grid, six runs.
"""

import pathlib

import fine_tuning
from absl import app, flags

import keras_bert_impl as kbi

_TRAIN = flags.DEFINE_string("train", None, "CoNLL file to train on.", required=True)
_DEV = flags.DEFINE_string("dev", None, "CoNLL file to choose the best run on.", required=True)
_TEST = flags.DEFINE_string("test", None, "CoNLL file to measure the best run on.")
_WORD_COLUMN = flags.DEFINE_integer("word_column", 0, "Column of the words, from 0.")
_TAG_COLUMN = flags.DEFINE_integer("tag_column", -1, "Column of the tags; -1 is the last.")

fine_tuning.set_defaults(
    learning_rates=[5e-5, 3e-5, 2e-5], batch_sizes=[16, 32], epochs=[3], sequence_length=128
)


def main(_):
    paths = {"train": _TRAIN.value, "dev": _DEV.value, "test": _TEST.value}
    files = {
        name: kbi.read_conll(path, _WORD_COLUMN.value, _TAG_COLUMN.value)
        for name, path in paths.items()
        if path is not None
    }
    class_names = class_names_of(files["train"])
    for sentences in files.values():
        check_tags(sentences, class_names, _TRAIN.value)
    train, dev = files["train"], files["dev"]

    def make_task():
        return fine_tuning.load(
            kbi.BertTokenClassifier, num_classes=len(class_names), class_names=class_names
        )

    def measure(predictions):
        scores = kbi.entity_scores(dev.tags, predictions)
        return {name: getattr(scores, name) for name in ("f1", "precision", "recall", "accuracy")}

    task, predictions = fine_tuning.fine_tune(
        make_task,
        train=(train.words, train.tags),
        dev=(dev.words, dev.tags),
        measure=measure,
        metric="f1",
    )
    fine_tuning.warn_if_collapsed([tag for tags in predictions for tag in tags])
    report("dev", dev, predictions)
    if "test" in files:
        report("test", files["test"], task.predict(files["test"].words))


def class_names_of(sentences):
    """The tags of the training file, O first."""
    tags = {tag for row in sentences.tags for tag in row}
    return ["O", *sorted(tags - {"O"})]


def check_tags(sentences, class_names, train_path):
    """Stop at the first tag that marks no entity, or that the training file does not have."""
    for i, row in enumerate(sentences.tags):
        for j, tag in enumerate(row):
            try:
                kbi.split_tag(tag)
            except ValueError as error:
                raise ValueError(f"{sentences.where(i, j)}: {error}") from None
            if tag not in class_names:
                raise ValueError(
                    f"{sentences.where(i, j)}: the tag {tag!r} is nowhere in {train_path}, which "
                    f"has {', '.join(class_names)}. Write all files in one notation."
                )


def report(name, sentences, predictions):
    """Predictions beside the true tags, as conlleval reads them, and scores by type."""
    output = pathlib.Path(fine_tuning.FLAGS.output)
    kbi.write_conll(
        output / f"{name}_predictions.conll",
        sentences.words,
        sentences.tags,
        predictions,
        separator=sentences.separator,
    )
    scores = kbi.entity_scores(sentences.tags, predictions)
    header, rows = kbi.entity_table(scores)
    fine_tuning.write_table(output / f"{name}_types.tsv", header, rows)
    print(f"\n{name}:\n{''.join(f'{title:>12}' for title in header)}")
    for kind, *shares, support in rows:
        print(f"{kind:>12}{''.join(f'{share:>12.4f}' for share in shares)}{support:>12}")


if __name__ == "__main__":
    app.run(main)
