r"""Fine-tune on SWAG: which of four sentences comes next (paper, section 4.4).

    python recipes/finetune_swag.py --data=swagaf/data --output=runs/swag \
        --model=uncased_L-12_H-768_A-12

--data is the folder with train.csv, val.csv and, to be answered, test.csv. The defaults are the
paper's; more than one value for --learning_rates, --batch_sizes, --epochs, and --seeds above 1,
try all combinations and keep the best on val.csv.
"""

import pathlib

import fine_tuning
import numpy as np
from absl import app, flags

import keras_bert_impl as kbi

_DATA = flags.DEFINE_string("data", None, "Folder with SWAG's files.", required=True)

fine_tuning.set_defaults(learning_rates=[2e-5], batch_sizes=[16], epochs=[3], sequence_length=128)


def main(_):
    data = pathlib.Path(_DATA.value)
    train, dev = (kbi.read_swag(data / name) for name in ("train.csv", "val.csv"))
    has_test = (data / "test.csv").exists()
    test = kbi.read_swag(data / "test.csv", labeled=False) if has_test else None

    def measure(logits):
        return kbi.measure_answers(["accuracy"], logits.argmax(axis=-1), dev.y)

    model, logits = fine_tuning.fine_tune(
        lambda: fine_tuning.load(kbi.BertMultipleChoice),
        train=(train.x, train.y),
        dev=(dev.x, dev.y),
        measure=measure,
        metric="accuracy",
    )
    answers = logits.argmax(axis=-1)
    fine_tuning.warn_if_collapsed(answers.tolist())
    places = [f"ending{i}" for i in range(logits.shape[1])]
    output = pathlib.Path(fine_tuning.FLAGS.output)
    # A model that has learned is as good at each place.
    fine_tuning.write_table(output / "labels.tsv", *kbi.label_table(answers, dev.y, places))
    write_answers(output / "dev_predictions.tsv", model, dev, logits)
    if test is not None:
        write_answers(output / "test_predictions.tsv", model, test, model.predict(test.x))


def write_answers(path, model, examples, logits):
    """For each row its line in the file, its label if it has one, the answer, probabilities."""
    answer = {name: np.asarray(value) for name, value in model.answer(logits).items()}
    labels = [""] * len(logits) if examples.y is None else examples.y.tolist()
    rows = zip(
        examples.table.lines,
        labels,
        answer["best"].tolist(),
        *answer["probabilities"].T.tolist(),
        strict=True,
    )
    header = ["line", "label", "prediction", *(f"p{i}" for i in range(logits.shape[1]))]
    fine_tuning.write_table(path, header, rows)


if __name__ == "__main__":
    app.run(main)
