r"""Fine-tune on SQuAD: answers to questions as spans of a text (paper, sections 4.2 and 4.3).

    python recipes/finetune_squad.py --model=uncased_L-12_H-768_A-12 --output=runs/squad \
        --train=train-v1.1.json --dev=dev-v1.1.json

With --version_2 a question may have no answer, as in SQuAD 2.0; the threshold above which none is
given is chosen on --dev and saved with the model. The defaults are the paper's; more than one value
for --learning_rates, --batch_sizes, --epochs, and --seeds above 1, try all combinations and keep
the best on --dev by F1. --output gets predictions.json, null_odds.json and nbest.json of --dev:

    python evaluate-v2.0.py dev-v2.0.json runs/squad/predictions.json
"""

import pathlib

import fine_tuning
import numpy as np
from absl import app, flags

import keras_bert_impl as kbi

_TRAIN = flags.DEFINE_string("train", None, "SQuAD file to train on.", required=True)
_DEV = flags.DEFINE_string("dev", None, "SQuAD file to measure on.", required=True)
_VERSION_2 = flags.DEFINE_bool("version_2", False, "Some questions have no answer (SQuAD 2.0).")
_DOC_STRIDE = flags.DEFINE_integer("doc_stride", 128, "Tokens from one window to the next.")
_MAX_QUESTION_LENGTH = flags.DEFINE_integer("max_question_length", 64, "Longest, in tokens.")
_MAX_ANSWER_LENGTH = flags.DEFINE_integer("max_answer_length", 30, "Longest, in tokens.")
_N_BEST = flags.DEFINE_integer("n_best", 20, "Answers to list for each question.")

fine_tuning.set_defaults(
    learning_rates=[5e-5, 3e-5, 2e-5], batch_sizes=[32], epochs=[3], sequence_length=384
)


def main(_):
    if _VERSION_2.value:  # what the command line does not say
        fine_tuning.set_defaults(learning_rates=[5e-5], batch_sizes=[48], epochs=[2])
    train, dev = kbi.read_squad(_TRAIN.value), kbi.read_squad(_DEV.value)
    training = kbi.squad_training(train, with_no_answer=_VERSION_2.value)
    if training.skipped:
        print(
            f"{len(training.skipped)} of {len(train)} questions are skipped: their answers do not "
            f"stand where {_TRAIN.value} says, as that of {training.skipped[0]!r}."
        )
    golds = {question.id: question.answers for question in dev}

    def make_task():
        return fine_tuning.load(
            kbi.BertQuestionAnswering,
            doc_stride=_DOC_STRIDE.value,
            max_question_length=_MAX_QUESTION_LENGTH.value,
            with_no_answer=_VERSION_2.value,
            n_best=_N_BEST.value,
            max_answer_length=_MAX_ANSWER_LENGTH.value,
        )

    def measure(answers):
        texts = {id: answer.text for id, answer in zip(golds, answers, strict=True)}
        if not _VERSION_2.value:
            return kbi.squad_1_scores(golds, texts)
        spans = {id: best_span(answer) for id, answer in zip(golds, answers, strict=True)}
        differences = {
            id: answer.null_score_difference for id, answer in zip(golds, answers, strict=True)
        }
        return {
            **kbi.squad_2_scores(golds, texts),
            **kbi.best_thresholds(golds, spans, differences),
        }

    dev_x = kbi.squad_inputs(dev)
    task, answers = fine_tuning.fine_tune(
        make_task,
        train=(training.x, training.y),
        dev=(dev_x, dev_labels(dev)),
        measure=measure,
        metric="best_f1" if _VERSION_2.value else "f1",
    )
    fine_tuning.warn_if_collapsed([answer.text for answer in answers])
    output = pathlib.Path(fine_tuning.FLAGS.output)
    if _VERSION_2.value:
        task.null_threshold = measure(answers)["best_f1_thresh"]
        fine_tuning.save_model(task, output / "model")
        answers = task.predict(dev_x)
        scores = kbi.squad_2_scores(
            golds, {id: answer.text for id, answer in zip(golds, answers, strict=True)}
        )
        fine_tuning.write_json(output / "dev_metrics.json", scores)
        print(f"\nWith the threshold {task.null_threshold:.4f}: F1 {scores['f1']:.2f}")
    kbi.write_squad_answers(output, list(golds), answers)


def best_span(answer):
    """The text that a threshold above all differences would answer."""
    return next((text for text, *_ in answer.n_best if text), "")


def dev_labels(questions):
    """Characters for the loss on dev, where what does not stand in its place is no answer."""
    training = kbi.squad_training(questions, with_no_answer=_VERSION_2.value)
    is_there = ~np.isin([question.id for question in questions], training.skipped)
    labels = {name: np.full(len(questions), -1) for name in training.y}
    for name, characters in training.y.items():
        labels[name][is_there] = characters
    return labels


if __name__ == "__main__":
    app.run(main)
