import ast
import collections
import importlib.util
import json
import math
import pathlib
import types

import numpy as np
import pytest
import six

from keras_bert_impl.data.answer_spans import answer_list
from keras_bert_impl.data.best_answers import NO_SPAN_DIFFERENCE, best_answers
from keras_bert_impl.data.windows import is_best_window
from tests import small
from tests.data.windowed import FIRST, windowed


def no_logits(examples, room=100):
    """(windows, 2, length), everything equally unlikely."""
    return np.full((len(examples.first), 2, FIRST + room + 1), -9.0, "float32")


def answers(logits, examples, **options):
    return answer_list(best_answers(logits, examples, **options))


def listed(answer):
    return [each[0] for each in answer.n_best]


# Against the original


@pytest.fixture(scope="module")
def reference():
    """`write_predictions` of the original, whose module itself needs TensorFlow 1."""
    folder = pathlib.Path(importlib.util.find_spec("bert").submodule_search_locations[0])
    tree = ast.parse((folder / "run_squad.py").read_text())
    names = {"write_predictions", "get_final_text", "_get_best_indexes", "_compute_softmax"}
    tree.body = [node for node in tree.body if getattr(node, "name", "") in names]
    namespace = {
        "collections": collections,
        "json": json,
        "math": math,
        "six": six,
        # Contexts here are lower case words and spaces.
        "tokenization": types.SimpleNamespace(
            BasicTokenizer=lambda do_lower_case: types.SimpleNamespace(tokenize=str.split)
        ),
        "tf": types.SimpleNamespace(
            logging=types.SimpleNamespace(info=lambda *_: None),
            gfile=types.SimpleNamespace(GFile=open),
        ),
    }
    exec(compile(tree, "run_squad.py", "exec"), namespace)
    return namespace


def reference_answer(reference, folder, logits, context, pieces, windows_of_it, **options):
    """Prediction, n-best list and score difference for one context."""
    reference["FLAGS"] = types.SimpleNamespace(
        version_2_with_negative=options["with_no_answer"],
        null_score_diff_threshold=options["null_threshold"],
        verbose_logging=False,
    )
    words = np.cumsum([not piece.startswith("##") for piece in pieces]) - 1
    features, results = [], []
    for w, (start, length, best) in enumerate(windows_of_it):
        features.append(
            types.SimpleNamespace(
                unique_id=w,
                example_index=0,
                tokens=["x"] * FIRST + pieces[start : start + length] + ["x"],
                token_to_orig_map={FIRST + j: words[start + j] for j in range(length)},
                token_is_max_context={FIRST + j: best[j] for j in range(length)},
            )
        )
        # Rows end with their windows: in the original padding takes places among the best.
        starts, ends = logits[w, :, : FIRST + length + 1].astype(float).tolist()
        results.append(types.SimpleNamespace(unique_id=w, start_logits=starts, end_logits=ends))
    files = [folder / name for name in ("predictions", "n_best", "differences")]
    reference["write_predictions"](
        [types.SimpleNamespace(qas_id="id", doc_tokens=context.split())],
        features,
        results,
        options["n_best"],
        options["max_answer_length"],
        True,
        *map(str, files),
    )
    return [json.loads(f.read_text())["id"] if f.exists() else None for f in files]


ROOM, STRIDE = 24, 7
# Few different words, so that the same text stands at several places.
REPEATED = ["the", "cat", "dog", "unaffable", "mat"]


@pytest.mark.parametrize(
    ("n_best", "max_answer_length", "with_no_answer"),
    [(20, 30, False), (20, 30, True), (20, 3, True), (5, 30, True), (40, 1, False)],
)
def test_answers_are_the_references(reference, tmp_path, with_no_answer, n_best, max_answer_length):
    options = {
        "with_no_answer": with_no_answer,
        "n_best": n_best,
        "max_answer_length": max_answer_length,
        "null_threshold": 0.7,
    }
    draw = np.random.default_rng(n_best + max_answer_length)
    contexts = [" ".join(draw.choice(REPEATED, n)) for n in [1, 2, 3, 8, 15, 40, 80, 120] * 2]
    examples = windowed(contexts, ROOM, STRIDE)
    row, *made = (x.numpy() for x in examples.windows)
    made.append(is_best_window(examples.windows, examples.starts.row_lengths()).to_list())
    pieces = small.tokenizer(dtype="string").tokenize(contexts).to_list()
    logits = draw.normal(0, 3, (len(row), 2, FIRST + ROOM + 1)).astype("float32")
    # In half of the examples no answer is good, in the others it is bad.
    logits[:, :, 0] += np.where(row % 2, 6, -2)[:, np.newaxis]

    num_compared = 0
    ours = answers(logits, examples, **options)
    for i, (context, answer) in enumerate(zip(contexts, ours, strict=True)):
        assert answer.text == context_text(context, answer.start, answer.end)
        try:
            text, n_best_list, difference = reference_answer(
                reference,
                tmp_path,
                logits[row == i],
                context,
                [piece.decode() for piece in pieces[i]],
                [x for r, *x in zip(row, *made, strict=True) if r == i],
                **options,
            )
        except AttributeError:  # where it finds no span, and so no best span
            n_best_list = [{"text": "empty"}]
        if n_best_list[0]["text"] == "empty":
            assert answer.text == ""
            assert answer.null_score_difference == NO_SPAN_DIFFERENCE
            continue
        num_compared += 1
        assert answer.text == text
        assert listed(answer) == [x["text"] for x in n_best_list]
        np.testing.assert_allclose(
            [x[3] for x in answer.n_best], [x["probability"] for x in n_best_list], atol=1e-6
        )
        scores = {x["text"]: x["start_logit"] + x["end_logit"] for x in n_best_list}
        assert answer.score == pytest.approx(scores[text], abs=1e-5)
        for text, start, end, _ in answer.n_best:
            assert text == context_text(context, start, end)
        if with_no_answer:
            assert answer.null_score_difference == pytest.approx(difference, abs=1e-5)
    assert num_compared > 10
    assert with_no_answer <= ({answer.text == "" for answer in ours} == {True, False})


def context_text(context, start, end):
    return "" if (start, end) == (-1, -1) else context[start:end]


# By hand


def test_the_best_start_and_end_make_the_answer():
    context = "the cat sat on the mat ."
    examples = windowed([context])
    logits = no_logits(examples)
    logits[0, 0, FIRST + 1], logits[0, 1, FIRST + 2] = 2, 3
    logits[0, 0, FIRST + 4], logits[0, 1, FIRST + 5] = 1, 2.5
    answer = answers(logits, examples)[0]
    assert answer[:4] == ("cat sat", 4, 11, 5.0)
    assert answer.null_score_difference == -23
    assert answer.n_best[:3] == [
        ("cat sat", 4, 11, pytest.approx(answer.n_best[0][3])),
        ("cat sat on the mat", 4, 22, pytest.approx(answer.n_best[0][3] * math.exp(-0.5))),
        ("the mat", 15, 22, pytest.approx(answer.n_best[0][3] * math.exp(-1.5))),
    ]
    assert sum(x[3] for x in answer.n_best) == pytest.approx(1)


def test_what_is_no_span_of_the_context_is_no_answer():
    """The question, the separators, an end before the start, too long a span."""
    examples = windowed(["the cat sat on"])
    logits = no_logits(examples)
    for place in (0, 2, FIRST - 1, FIRST + 4):
        logits[0, :, place] = 9
    logits[0, 0, FIRST + 3], logits[0, 1, FIRST] = 8, 7
    logits[0, 0, FIRST], logits[0, 1, FIRST + 3] = 6, 6
    answer = answers(logits, examples)[0]
    assert (answer.text, answer.score) == ("on", 14)
    assert listed(answer)[1:3] == ["the", "the cat sat on"]
    assert "the cat sat on" not in listed(answers(logits, examples, max_answer_length=3)[0])


def test_a_start_counts_in_the_window_with_most_context_alone():
    """Windows 0-3 and 2-5: "on", token 3, is better off in the second."""
    examples = windowed(["the cat sat on the mat"], room=4, stride=2)
    logits = no_logits(examples, room=4)
    logits[0, :, FIRST + 3] = 5
    logits[1, :, FIRST + 2] = 1
    answer = answers(logits, examples)[0]
    assert answer[:4] == ("the", 15, 18, 2.0)


def test_of_equal_texts_the_best_counts():
    examples = windowed(["cat the cat the cat"])
    logits = no_logits(examples)
    for token, logit in ((0, 1), (2, 3), (4, 2)):
        logits[0, :, FIRST + token] = logit
    answer = answers(logits, examples)[0]
    assert answer[:3] == ("cat", 8, 11)
    assert len(set(listed(answer))) == len(answer.n_best)


def test_no_answer_beats_a_span_by_more_than_the_threshold():
    examples = windowed(["the cat"])
    logits = no_logits(examples)
    logits[0, :, 0] = 1
    logits[0, :, FIRST + 1] = 0.5
    options = {"with_no_answer": True}
    for threshold, text in ((0.5, ""), (1.0, "cat"), (1.5, "cat")):
        answer = answers(logits, examples, null_threshold=threshold, **options)[0]
        assert answer.text == text
        assert answer.null_score_difference == 1
        assert answer.score == (2 if text == "" else 1)
        assert (answer.start, answer.end) == ((-1, -1) if text == "" else (4, 7))
        assert listed(answer)[0] == ""
    assert answers(logits, examples)[0].text == "cat"


def test_the_least_null_score_of_all_windows_counts():
    examples = windowed(["the cat sat on the mat"], room=4, stride=2)
    logits = no_logits(examples, room=4)
    logits[0, :, 0], logits[1, :, 0] = 5, 2
    logits[1, :, FIRST + 2] = 1
    answer = answers(logits, examples, with_no_answer=True)[0]
    assert answer.null_score_difference == 2


@pytest.mark.parametrize("with_no_answer", [False, True])
def test_without_any_span_the_answer_is_empty(with_no_answer):
    """Nothing to read; and the best places all taken by what is no span."""
    contexts = ["", "  \t ", "\u200d\x00\u0301", "the cat sat"]
    examples = windowed(contexts)
    logits = no_logits(examples)
    logits[:, :, 0] = 2
    logits[3, :, 1:FIRST] = 1.5
    for answer in answers(logits, examples, with_no_answer=with_no_answer, n_best=4):
        assert answer == ("", -1, -1, 4.0, NO_SPAN_DIFFERENCE, [("", -1, -1, 1.0)])


@pytest.mark.parametrize("with_no_answer", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0])
def test_a_diverged_model_is_answered(value, with_no_answer):
    contexts = ["the cat sat " * 5, "", "cat"]
    examples = windowed(contexts, room=8, stride=4)
    logits = np.full((len(examples.first), 2, FIRST + 9), value, "float32")
    for context, answer in zip(
        contexts, answers(logits, examples, with_no_answer=with_no_answer), strict=True
    ):
        assert answer.text == context_text(context, answer.start, answer.end)
        assert np.isfinite([answer.score, *(x[3] for x in answer.n_best)]).all()


def test_padding_takes_none_of_the_best_places():
    examples = windowed(["cat", "the cat sat on the mat"])
    logits = no_logits(examples)
    logits[0, :, FIRST], logits[0, :, FIRST + 2 :] = 5, 9
    assert answers(logits, examples, n_best=3)[0].text == "cat"


def test_bytes_that_are_not_utf8_are_skipped():
    examples = windowed([b"cat \xff\xfe dog"])
    logits = no_logits(examples)
    logits[0, :, FIRST + 1] = 5
    assert answers(logits, examples)[0][:3] == ("dog", 5, 8)


def test_a_batch_of_none_has_no_answers():
    examples = windowed([])
    assert answers(no_logits(examples), examples, with_no_answer=True) == []
