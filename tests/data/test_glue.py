"""Files as GLUE's download lays them out, with the oddities of each."""

import doctest

import numpy as np
import pytest

from keras_bert_impl.data import glue
from keras_bert_impl.data.glue import glue_splits, read_glue, write_glue_submission
from keras_bert_impl.data.glue_tasks import GLUE_TASKS, glue_task

BOM = "\ufeff"
MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
QQP_HEADER = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
MNLI_HEADER = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)


def write(folder, name, *lines, end="\n", encoding="utf-8"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def columns_of(examples):
    """Texts, or pairs of texts, and labels as lists."""
    x = examples.x
    texts = list(zip(x["text_a"], x["text_b"], strict=True)) if isinstance(x, dict) else list(x)
    return texts, None if examples.y is None else examples.y.tolist()


# Each task's own files


def test_cola_has_no_header_but_in_its_test_set(tmp_path):
    write(tmp_path, "CoLA/train.tsv", "gj04\t1\t\tHe ate.", 'gj04\t0\t*\t"He" ate a.')
    write(tmp_path, "CoLA/test.tsv", "index\tsentence", "0\tShe ran.", "1\tShe ran a.")
    train = read_glue(tmp_path, "CoLA", "train")
    assert columns_of(train) == (["He ate.", '"He" ate a.'], [1, 0])
    assert train.table.lines == [1, 2]
    assert columns_of(read_glue(tmp_path, "CoLA", "test")) == (["She ran.", "She ran a."], None)


def test_cola_rows_of_other_widths_are_named(tmp_path):
    path = write(tmp_path, "CoLA/train.tsv", "gj04\t1\t\tHe ate.", "", "gj04\t1\tHe ate.")
    with pytest.raises(ValueError, match=f"{path}:3: 3 fields, but 4 columns"):
        read_glue(tmp_path, "CoLA", "train")


def test_sst(tmp_path):
    write(tmp_path, "SST-2/dev.tsv", "sentence\tlabel", "a fine film \t1", "bland \t0")
    assert columns_of(read_glue(tmp_path, "SST-2", "dev")) == (["a fine film ", "bland "], [1, 0])


def test_mrpc_with_its_byte_order_mark_and_loose_quotes(tmp_path):
    write(
        tmp_path,
        "MRPC/train.tsv",
        BOM + MRPC_HEADER,
        '1\t1\t2\tHe said "yes.\tHe agreed.',
        end="\r\n",
    )
    write(tmp_path, "MRPC/test.tsv", "index" + MRPC_HEADER[len("Quality") :], "0\t1\t2\ta\tb")
    train = read_glue(tmp_path, "MRPC", "train")
    assert columns_of(train) == ([('He said "yes.', "He agreed.")], [1])
    assert train.table.where(0) == f"{tmp_path / 'MRPC/train.tsv'}:2"
    assert columns_of(read_glue(tmp_path, "MRPC", "test")) == ([("a", "b")], None)


def test_mrpc_out_of_microsofts_files(tmp_path):
    rows = ["1\t10\t11\ta\tb", "0\t20\t21\tc\td", "1\t10\t21\te\tf"]
    path = write(tmp_path, "MRPC/msr_paraphrase_train.txt", BOM + MRPC_HEADER, *rows)
    with pytest.raises(FileNotFoundError, match=f"{path} holds MRPC's training and dev.*dev_ids"):
        read_glue(tmp_path, "MRPC", "dev")
    write(tmp_path, "MRPC/msr_paraphrase_test.txt", BOM + MRPC_HEADER, "1\t5\t6\tg\th")
    write(tmp_path, "MRPC/dev_ids.tsv", "10\t11", "99\t98")
    assert columns_of(read_glue(tmp_path, "MRPC", "dev")) == ([("a", "b")], [1])
    train = read_glue(tmp_path, "MRPC", "train")
    assert columns_of(train) == ([("c", "d"), ("e", "f")], [0, 1])
    assert train.table.lines == [3, 4]
    # its labels are known, but not used
    assert columns_of(read_glue(tmp_path, "MRPC", "test")) == ([("g", "h")], None)


def test_stsb_scores_stand_in_the_last_of_ten_columns(tmp_path):
    header = (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    )
    fields = "0\tmain\tMSRvid\t2012\t1\tnone\tnone\t"
    path = write(tmp_path, "STS-B/train.tsv", header, fields + "A\tB\t5.000", fields + "C\tD\t0.25")
    train = read_glue(tmp_path, "STS-B", "train")
    assert columns_of(train) == ([("A", "B"), ("C", "D")], [5.0, 0.25])
    assert train.y.dtype == np.float32
    for score, message in (("5.2", "scores are from 0 to 5"), ("nan", "must be a number")):
        write(
            tmp_path, "STS-B/train.tsv", header, fields + "A\tB\t5.000", fields + f"C\tD\t{score}"
        )
        with pytest.raises(ValueError, match=f"{path}:3: score is '{score}', but {message}"):
            read_glue(tmp_path, "STS-B", "train")


def test_qqp_rows_that_a_line_end_broke_are_skipped_and_counted(tmp_path):
    rows = [
        "1\t2\t3\tWhy?\tHow?\t0",
        "2\t3\t4\tWhat is",
        "it?\tWhich?\t1",
        "",
        "3\t5\t6\tA?\tB?\t1",
    ]
    write(tmp_path, "QQP/train.tsv", QQP_HEADER, *rows)
    train = read_glue(tmp_path, "QQP", "train")
    assert columns_of(train) == ([("Why?", "How?"), ("A?", "B?")], [0, 1])
    assert train.skipped == [3, 4]
    assert train.table.lines == [2, 6]


def test_qqp_test_rows_are_never_skipped(tmp_path):
    """The submission needs an answer to each."""
    path = write(tmp_path, "QQP/test.tsv", "id\tquestion1\tquestion2", "0\tA?\tB?", "1\tA?")
    with pytest.raises(ValueError, match=f"{path}:3: 2 fields, but 3 columns"):
        read_glue(tmp_path, "QQP", "test")


def test_mnli_takes_the_gold_label_and_skips_rows_without_one(tmp_path):
    def row(*ends):
        return "\t".join([*"01234567", *ends])

    dev = "\t".join([MNLI_HEADER, *(f"label{i}" for i in range(1, 6)), "gold_label"])
    votes = ["entailment"] * 5
    write(
        tmp_path,
        "MNLI/dev_mismatched.tsv",
        dev,
        row("a", "b", *votes, "neutral"),
        row("c", "d", *votes, "-"),
        row("e", "f", *votes, "contradiction"),
        row("g", "h", *votes, "entailment"),
        end="\r\n",
    )
    examples = read_glue(tmp_path, "MNLI", "dev_mismatched")
    assert columns_of(examples) == ([("a", "b"), ("e", "f"), ("g", "h")], [2, 0, 1])
    assert (examples.skipped, examples.table.lines) == ([3], [2, 4, 5])
    write(
        tmp_path,
        "MNLI/train.tsv",
        f"{MNLI_HEADER}\tlabel1\tgold_label",
        row("a", "b", "neutral", "entailment"),
    )
    assert columns_of(read_glue(tmp_path, "MNLI", "train")) == ([("a", "b")], [1])
    write(tmp_path, "MNLI/test_matched.tsv", MNLI_HEADER, row("a", "b"))
    assert columns_of(read_glue(tmp_path, "MNLI", "test_matched")) == ([("a", "b")], None)


@pytest.mark.parametrize("name", ["diagnostic/diagnostic.tsv", "AX/AX.tsv", "AX.tsv"])
def test_the_diagnostic_set_is_a_test_set_of_mnli(tmp_path, name):
    write(tmp_path, name, "index\tsentence1\tsentence2", "0\ta\tb")
    assert glue_splits(tmp_path, "MNLI") == ["test_diagnostic"]
    assert columns_of(read_glue(tmp_path, "MNLI", "test_diagnostic")) == ([("a", "b")], None)
    with pytest.raises(ValueError, match="AX, the diagnostic set, .* MNLI's set test_diagnostic"):
        read_glue(tmp_path, "AX", "test")


@pytest.mark.parametrize(
    ("task", "header"),
    [
        ("QNLI", "index\tquestion\tsentence\tlabel"),
        ("RTE", "index\tsentence1\tsentence2\tlabel"),
        ("RTE", "label\tsentence2\tindex\tsentence1"),
    ],
)
def test_columns_are_found_by_name(tmp_path, task, header):
    first, second = GLUE_TASKS[task].texts
    values = [
        {"index": "0", first: "a", second: "b", "label": "not_entailment"},
        {"index": "1", first: "c", second: "d", "label": "entailment"},
    ]
    rows = ["\t".join(row[name] for name in header.split("\t")) for row in values]
    write(tmp_path, f"{task}/dev.tsv", header, *rows)
    assert columns_of(read_glue(tmp_path, task, "dev")) == ([("a", "b"), ("c", "d")], [1, 0])


def test_wnli(tmp_path):
    write(tmp_path, "WNLI/dev.tsv", "index\tsentence1\tsentence2\tlabel", "0\ta\tb\t1")
    assert columns_of(read_glue(tmp_path, "WNLI", "dev")) == ([("a", "b")], [1])


# What all files share


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["whole", "no_last_line_end"])
@pytest.mark.parametrize("bom", ["", BOM], ids=["plain", "bom"])
@pytest.mark.parametrize(
    ("task", "lines", "texts", "labels"),
    [
        ("CoLA", ["s\t1\t\tHe 'ate\" it", 's\t0\t*\t"x'], ["He 'ate\" it", '"x'], [1, 0]),
        ("SST-2", ["sentence\tlabel", 'a "b\t1', "c\t0"], ['a "b', "c"], [1, 0]),
        ("QQP", [QQP_HEADER, '1\t2\t3\t"A?\tB?\t0', "1\t2\t3\tC?\tD?\t1"], None, [0, 1]),
        ("MRPC", [MRPC_HEADER, '1\t1\t2\t"a\tb"', "0\t1\t2\tc\td"], None, [1, 0]),
    ],
)
def test_line_ends_marks_and_quotes_do_not_matter(
    tmp_path, task, lines, texts, labels, bom, last, end
):
    data = (bom + end.join(lines) + (end if last else "")).encode()
    path = tmp_path / task / "train.tsv"
    path.parent.mkdir()
    path.write_bytes(data)
    pairs = {"QQP": [('"A?', "B?"), ("C?", "D?")], "MRPC": [('"a', 'b"'), ("c", "d")]}
    assert columns_of(read_glue(tmp_path, task, "train")) == (texts or pairs[task], labels)


def test_a_label_of_another_task_is_named(tmp_path):
    path = write(tmp_path, "CoLA/dev.tsv", "s\t1\t\ta", "s\t2\t\tb")
    with pytest.raises(ValueError, match=f"{path}:2: label is '2', but must be one of 0, 1"):
        read_glue(tmp_path, "CoLA", "dev")
    path = write(tmp_path, "RTE/dev.tsv", "sentence1\tsentence2\tlabel", "a\tb\tneutral")
    with pytest.raises(ValueError, match=f"{path}:2: label is 'neutral', but must be one of ent"):
        read_glue(tmp_path, "RTE", "dev")


@pytest.mark.parametrize("task", ["QQP", "RTE"])
def test_a_missing_column_is_named(tmp_path, task):
    path = write(tmp_path, f"{task}/dev.tsv", "index\tsentence\tlabel", "0\ta\t1")
    column = GLUE_TASKS[task].texts[0]
    with pytest.raises(ValueError, match=f"{path}:1: no column '{column}'. Columns: index, sent"):
        read_glue(tmp_path, task, "dev")


@pytest.mark.parametrize(("task", "text"), [("QQP", QQP_HEADER + "\n"), ("CoLA", "\n")])
def test_a_file_without_rows_is_refused(tmp_path, task, text):
    path = write(tmp_path, f"{task}/dev.tsv", text)
    with pytest.raises(ValueError, match=f"{path} has no rows"):
        read_glue(tmp_path, task, "dev")


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    path = write(tmp_path, "CoLA/dev.tsv", "s\t1\t\ta", "s\t1\t\tcafé", encoding="latin1")
    with pytest.raises(ValueError, match=f"{path}:2: not UTF-8"):
        read_glue(tmp_path, "CoLA", "dev")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="Unknown GLUE task 'cola'. Known tasks: CoLA, SST-2"):
        read_glue(tmp_path, "cola", "dev")
    with pytest.raises(ValueError, match="MNLI has no set 'dev'. Its sets: train, dev_matched"):
        read_glue(tmp_path, "MNLI", "dev")
    with pytest.raises(FileNotFoundError, match="no file of the set dev in .* Looked for RTE/dev"):
        read_glue(tmp_path, "RTE", "dev")


def test_splits_are_those_whose_files_are_there(tmp_path):
    assert glue_splits(tmp_path, "MRPC") == []
    write(tmp_path, "MRPC/dev.tsv", "")
    assert glue_splits(tmp_path, "MRPC") == ["dev"]
    write(tmp_path, "MRPC/msr_paraphrase_train.txt", "")
    assert glue_splits(tmp_path, "MRPC") == ["train", "dev"]


def test_texts_take_the_room_of_their_own_length(tmp_path):
    """numpy's own strings would give each row the room of the longest, gigabytes for MNLI."""
    write(tmp_path, "SST-2/dev.tsv", "sentence\tlabel", "a\t1", "b" * 10000 + "\t0")
    assert read_glue(tmp_path, "SST-2", "dev").x.dtype == object


# The table of tasks


def test_metrics_are_the_papers_first():
    first = {name: task.metrics[0] for name, task in GLUE_TASKS.items()}
    assert first == {
        "CoLA": "matthews",
        "SST-2": "accuracy",
        "MRPC": "f1",
        "STS-B": "spearman",
        "QQP": "f1",
        "MNLI": "accuracy",
        "QNLI": "accuracy",
        "RTE": "accuracy",
        "WNLI": "accuracy",
    }


def test_only_stsb_is_a_regression_and_two_tasks_are_of_single_sentences():
    assert [name for name, task in GLUE_TASKS.items() if task.regression] == ["STS-B"]
    assert [name for name, task in GLUE_TASKS.items() if not task.pair] == ["CoLA", "SST-2"]


# Submissions


def test_submissions_have_the_benchmarks_names():
    names = {n for task in GLUE_TASKS.values() for n in task.submissions.values()}
    assert names == {
        *("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "AX", "QNLI", "RTE", "WNLI")
    }


@pytest.mark.parametrize(
    ("task", "split", "answers", "name", "written"),
    [
        ("CoLA", "test", np.array([1, 0]), "CoLA.tsv", "1 0"),
        ("WNLI", "test", [0, 1], "WNLI.tsv", "0 1"),
        ("MNLI", "test_matched", [0, 1, 2], "MNLI-m.tsv", "contradiction entailment neutral"),
        ("MNLI", "test_mismatched", [2], "MNLI-mm.tsv", "neutral"),
        ("MNLI", "test_diagnostic", [1], "AX.tsv", "entailment"),
        ("QNLI", "test", [0, 1], "QNLI.tsv", "entailment not_entailment"),
        (
            "STS-B",
            "test",
            np.float32([2.5, -0.3, 5.25, 1.23456]),
            "STS-B.tsv",
            "2.500 0.000 5.000 1.235",
        ),
    ],
)
def test_answers_are_written_as_the_benchmark_takes_them(
    tmp_path, task, split, answers, name, written
):
    path = write_glue_submission(tmp_path / "submission", task, split, answers)
    rows = [f"{i}\t{answer}" for i, answer in enumerate(written.split())]
    assert path == tmp_path / "submission" / name
    assert path.read_bytes().decode() == "\n".join(["index\tprediction", *rows]) + "\n"


@pytest.mark.parametrize(
    ("task", "split", "answers", "message"),
    [
        ("RTE", "test", [0, 2], r"Row 1 is answered with 2, but classes are 0..1"),
        ("RTE", "test", [0.5], r"Row 0 is answered with 0.5, but classes are 0..1"),
        ("STS-B", "test", [1.0, float("nan")], "Row 1 is answered with nan, which is no finite"),
        ("RTE", "dev", [0], "RTE has no test set 'dev', but test"),
    ],
)
def test_answers_that_cannot_be_submitted_are_refused(tmp_path, task, split, answers, message):
    with pytest.raises(ValueError, match=message):
        write_glue_submission(tmp_path, task, split, answers)
    assert list(tmp_path.iterdir()) == []


def test_known_tasks_are_found():
    assert glue_task("QNLI") is GLUE_TASKS["QNLI"]


def test_docstring_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glue_data").mkdir()
    for split in ("train", "dev"):
        write(tmp_path / "glue_data", f"CoLA/{split}.tsv", "s\t1\t\tThey drank the pub dry.")
    result = doctest.testmod(glue)
    assert (result.attempted, result.failed) == (5, 0)
