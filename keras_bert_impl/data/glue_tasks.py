"""GLUE's tasks as one table: files, columns, labels, metrics.

Wang et al. 2018 (arXiv:1804.07461); paper, section 4.1 and appendix B.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# google-research/bert, run_classifier.py, MnliProcessor: the order that its checkpoints have.
_NLI_CLASSES = ("contradiction", "entailment", "neutral")
_ENTAILMENT_CLASSES = ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")

# Microsoft's own file of MRPC: the training and the development set together.
MRPC_RAW = "msr_paraphrase_train.txt"


@dataclass(frozen=True)
class GlueTask:
    """One of the benchmark's tasks.

    Attributes:
        name: as the benchmark spells it; so is its folder called.
        texts: columns of the text, or of both texts of a pair.
        label: column of the label.
        class_names: labels in the order of the model's classes; none where they are scores.
        metrics: names that `measure_answers` takes. The first is the one that the paper
            reports (table 1), by which runs are compared.
        files: by name of a set, such as `"train"` or `"test_matched"`, where its file lies below
            the data's folder; the first of them that is there counts.
        submissions: by name of a test set, the name of the file to submit.
        header: names of the columns of the training and development files where these have no
            first line with names (CoLA), else None.
        skips_malformed: whether rows with too few or too many fields, which the training and
            development files have (QQP), are left out.
        unlabeled: label of rows to leave out: annotators did not agree (MNLI).
        score_range: lowest and highest score, where labels are scores (STS-B).
    """

    name: str
    texts: tuple[str, ...]
    label: str
    class_names: tuple[str, ...]
    metrics: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]
    submissions: Mapping[str, str]
    header: tuple[str, ...] | None = None
    skips_malformed: bool = False
    unlabeled: str | None = None
    score_range: tuple[float, float] | None = None

    @property
    def pair(self) -> bool:
        """Whether a row is two texts."""
        return len(self.texts) == 2

    @property
    def regression(self) -> bool:
        """Whether labels are scores."""
        return not self.class_names


def _task(name, texts, label, class_names, metrics, **options) -> GlueTask:
    files = {split: (f"{name}/{split}.tsv",) for split in ("train", "dev", "test")}
    options = {"files": files, "submissions": {"test": name}, **options}
    return GlueTask(name, texts, label, class_names, metrics, **options)


GLUE_TASKS: dict[str, GlueTask] = {
    task.name: task
    for task in (
        _task(
            "CoLA",
            ("sentence",),
            "label",
            ("0", "1"),
            ("matthews",),
            header=("source", "label", "star", "sentence"),
        ),
        _task("SST-2", ("sentence",), "label", ("0", "1"), ("accuracy",)),
        _task(
            "MRPC",
            ("#1 String", "#2 String"),
            "Quality",
            ("0", "1"),
            ("f1", "accuracy"),
            files={
                "train": ("MRPC/train.tsv", f"MRPC/{MRPC_RAW}"),
                "dev": ("MRPC/dev.tsv", f"MRPC/{MRPC_RAW}"),
                "test": ("MRPC/test.tsv", "MRPC/msr_paraphrase_test.txt"),
            },
        ),
        _task("STS-B", _SENTENCES, "score", (), ("spearman", "pearson"), score_range=(0.0, 5.0)),
        _task(
            "QQP",
            ("question1", "question2"),
            "is_duplicate",
            ("0", "1"),
            ("f1", "accuracy"),
            skips_malformed=True,
        ),
        _task(
            "MNLI",
            _SENTENCES,
            "gold_label",
            _NLI_CLASSES,
            ("accuracy",),
            files={
                "train": ("MNLI/train.tsv",),
                "dev_matched": ("MNLI/dev_matched.tsv",),
                "dev_mismatched": ("MNLI/dev_mismatched.tsv",),
                "test_matched": ("MNLI/test_matched.tsv",),
                "test_mismatched": ("MNLI/test_mismatched.tsv",),
                # The diagnostic set, a test set of the same task with nothing to train on.
                "test_diagnostic": (
                    "diagnostic/diagnostic.tsv",
                    "AX/AX.tsv",
                    "AX/test.tsv",
                    "AX.tsv",
                ),
            },
            submissions={
                "test_matched": "MNLI-m",
                "test_mismatched": "MNLI-mm",
                "test_diagnostic": "AX",
            },
            unlabeled="-",
        ),
        _task("QNLI", ("question", "sentence"), "label", _ENTAILMENT_CLASSES, ("accuracy",)),
        _task("RTE", _SENTENCES, "label", _ENTAILMENT_CLASSES, ("accuracy",)),
        _task("WNLI", _SENTENCES, "label", ("0", "1"), ("accuracy",)),
    )
}


def glue_task(name: str) -> GlueTask:
    """The task of a name.

    Raises:
        ValueError: for an unknown name, the known ones listed.
    """
    if name == "AX":
        raise ValueError(
            "AX, the diagnostic set, has nothing to train on: it is MNLI's set test_diagnostic."
        )
    if name not in GLUE_TASKS:
        raise ValueError(f"Unknown GLUE task {name!r}. Known tasks: {', '.join(GLUE_TASKS)}.")
    return GLUE_TASKS[name]
