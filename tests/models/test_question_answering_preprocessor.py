"""Windows of questions and contexts; and every gold answer, there and back."""

import doctest

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.answer_spans import answer_list, answer_positions
from keras_bert_impl.data.best_answers import best_answers
from keras_bert_impl.models import question_answering_preprocessor
from keras_bert_impl.models.question_answering_preprocessor import BertQuestionAnsweringPreprocessor
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS
from tests import small

CLS, SEP = 2, 3


def preprocessor(sequence_length=12, doc_stride=3, max_question_length=4, **options):
    return BertQuestionAnsweringPreprocessor(
        small.tokenizer(), sequence_length, doc_stride, max_question_length, **options
    )


def rows(inputs):
    return tf.ragged.boolean_mask(inputs["token_ids"], inputs["padding_mask"]).to_list()


def ids(text):
    return small.tokenizer().tokenize(text).numpy().tolist()


def test_docstring_example():
    assert doctest.testmod(
        question_answering_preprocessor, extraglobs={"BertTokenizer": BertTokenizer}
    ) == (0, 5)


def test_rows_are_the_question_and_a_window_of_the_context():
    """8 tokens of context beside one of the question, 5 beside four; longer questions are cut."""
    context = "the cat sat on the mat . a dog ran"
    inputs = preprocessor()(
        {"question": ["cat", "the dog ran on the mat", "cat"], "context": [context, context, ""]}
    )
    first, second, words = ids("cat"), ids("the dog ran on"), ids(context)
    expected = [[CLS, *first, SEP, *words[start : start + 8], SEP] for start in (0, 3)]
    expected += [[CLS, *second, SEP, *words[start : start + 5], SEP] for start in (0, 3, 6)]
    assert rows(inputs) == [*expected, [CLS, *first, SEP, SEP]]
    segments = tf.ragged.boolean_mask(inputs["segment_ids"], inputs["padding_mask"]).to_list()
    assert segments == [
        *([0, 0, 0] + [1] * (len(row) - 3) for row in expected[:2]),
        *([0] * 6 + [1] * (len(row) - 6) for row in expected[2:]),
        [0, 0, 0, 1],
    ]


def test_labels_and_weights_go_to_every_window():
    context = "the cat sat on the mat . a dog ran"
    start = context.index("dog")
    x = {"question": ["cat", "dog", "mat"], "context": [context, "", context]}
    y = {"answer_start": [4, -1, start], "answer_end": [7, -1, start + 7]}
    inputs, positions, weights = preprocessor()(x, y, [0.5, 2.0, 3.0])
    assert len(rows(inputs)) == 5
    assert positions.numpy().tolist() == [[4, 4], [0, 0], [0, 0], [0, 0], [8, 9]]
    assert weights.numpy().tolist() == [0.5, 0.5, 2.0, 3.0, 3.0]


def test_a_question_leaves_the_context_a_token():
    made = preprocessor(sequence_length=6, max_question_length=64)
    inputs = made({"question": ["the cat sat on"], "context": ["a dog"]})
    assert rows(inputs) == [[CLS, *ids("the cat"), SEP, *ids(word), SEP] for word in ("a", "dog")]


def test_a_single_question_and_a_batch_of_none():
    context = "the cat sat on the mat . a dog ran"
    single = preprocessor()({"question": "cat", "context": context})
    assert rows(single) == rows(preprocessor()({"question": ["cat"], "context": [context]}))
    none = tf.zeros([0], tf.string)
    assert preprocessor()({"question": none, "context": none})["token_ids"].shape[0] == 0


def test_rows_are_padded_to_the_full_length_where_asked():
    made = preprocessor(padding="max_length")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    def inputs(questions, contexts):
        x = made({"question": questions, "context": contexts})
        assert {tensor.shape[1] for tensor in x.values()} == {12}
        return x

    assert inputs(tf.constant(["cat"]), tf.constant(["dog"]))["token_ids"].shape == (1, 12)


def test_options_come_back_from_the_config():
    made = preprocessor(20, 5, 7, padding="max_length")
    again = BertQuestionAnsweringPreprocessor.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    for name, value in (
        ("sequence_length", 20),
        ("doc_stride", 5),
        ("max_question_length", 7),
        ("padding", "max_length"),
    ):
        assert getattr(again, name) == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"doc_stride": 0}, "doc_stride=0 must be at least 1"),
        ({"max_question_length": 0}, "max_question_length=0 must be at least 1"),
        ({"sequence_length": 3}, "no room for text"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        preprocessor(**options)


X = {"question": ["cat"], "context": ["the cat"]}


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["cat"], None, r"Questions are asked of contexts.*Received list"),
        ({"question": ["cat"]}, None, r"a dict with keys \['question'\]"),
        ({**X, "context": [3]}, None, "Expected strings, but received int32"),
        (X, {"answer_start": [0]}, r"Answers are .*a dict with keys \['answer_start'\]"),
        (X, [[0, 3]], "Answers are .*Received list"),
        ({**X, "question": ["cat", "dog"]}, None, "Each question needs its own context"),
        (X, {"answer_start": [0], "answer_end": [9]}, "must be characters of the context"),
    ],
)
def test_wrong_questions_and_answers_are_refused(x, y, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=f"(?s){message}"):
        preprocessor()(x, y)


# Every gold answer, there and back

LETTERS = [
    "abcdefghijklmnopqrstuvwxyz",
    "\u00e0\u00e9\u00ee\u00f5\u00fc\u00e7\u00f1\u0142\u00f8\u00df",
    "\u03b1\u03b2\u03b3\u03b4\u03ad\u03c2\u0391\u039f",
    "\u0430\u0431\u0432\u0433\u0439\u0451\u042f",
    "\u05d0\u05d1\u05d2\u05d3\u05dd",
    "\u0627\u0628\u062a\u0623\u0649",
    "\u0915\u0916\u0917\u0918",
    "\u0e01\u0e02\u0e04\u0e07",
    "\ud55c\uae00\uac00\ub098",
    "0123456789",
]
IDEOGRAPHS = "\u65e5\u672c\u8a9e\u4e2d\u6587\U00020000"
EMOJI = [
    "\U0001f642",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f",
    "\U0001f1e9\U0001f1ea",
]
MARKS = ["e\u0301", "o\u0308\u0323", "\u0915\u093f", "\u05d1\u05bc", "\u0e01\u0e34"]
BLANKS = [" ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", " \u200b ", "\x00 ", "\r\n"]


def word(draw):
    kind = draw.integers(8)
    if kind == 0:
        return str(draw.choice(EMOJI))
    if kind == 1:
        return str(draw.choice(list(IDEOGRAPHS)))
    if kind == 2:
        return str(draw.choice(list(".,;:!?()\u2013\u00bf\u3002")))
    letters = draw.choice(list(LETTERS[draw.integers(len(LETTERS))]), draw.integers(1, 7))
    middle = str(draw.choice(["", "", "\x00", "\u200d", *MARKS]))
    cut = draw.integers(1, len(letters) + 1)
    text = "".join(letters[:cut]) + middle + "".join(letters[cut:])
    text = text.rstrip("\x00\u200d")  # at the end of a word they are nothing
    return text.upper() if draw.random() < 0.2 else text


def contexts_and_answers(num_contexts=40, answers_each=15):
    """Contexts of many scripts, and spans of them at the boundaries of words."""
    draw = np.random.default_rng(0)
    contexts, starts, ends = [], [], []
    for i in range(num_contexts):
        text, spans = str(draw.choice(["", "  ", "\n\t", "\u200b", "\ufeff", "\x00"])), []
        for _ in range(draw.integers(1, 120) if i else 400):
            piece = word(draw)
            spans.append((len(text), len(text) + len(piece)))
            text += piece + str(draw.choice(BLANKS))
        for _ in range(answers_each):
            first = int(draw.integers(len(spans)))
            last = min(first + int(draw.integers(0, 4)), len(spans) - 1)
            contexts.append(text)
            starts.append(spans[first][0])
            ends.append(spans[last][1])
        ends[-1] = spans[-1][1]  # the last word of all
        starts[-1] = spans[-1][0]
    return contexts, starts, ends


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("with_no_answer", [True, False])
def test_logits_that_point_at_a_gold_answer_give_its_text(lowercase, with_no_answer):
    contexts, starts, ends = contexts_and_answers()
    characters = sorted({c for c in "".join([*LETTERS, *MARKS]).lower() if c.isalnum()})
    vocabulary = [*SPECIAL_TOKENS, *characters, *(f"##{c}" for c in characters)]
    made = BertQuestionAnsweringPreprocessor(
        BertTokenizer(vocabulary, lowercase=lowercase), 128, doc_stride=24
    )
    questions = tf.constant(["abc \u03b1" * (i % 5) for i in range(len(contexts))])
    inputs, examples = made.windowed(questions, tf.constant(contexts))
    positions = answer_positions(examples, starts, ends)
    length = inputs["token_ids"].shape[1]
    logits = 10 * tf.one_hot(positions, length) - 5  # (windows, 2, length)
    answers = answer_list(
        best_answers(
            logits, examples, n_best=5, max_answer_length=60, with_no_answer=with_no_answer
        )
    )
    assert len(answers) == 600
    assert len(positions) > 1000, "contexts were to have several windows"
    golds = [c[a:b] for c, a, b in zip(contexts, starts, ends, strict=True)]
    for answer, gold, start, end in zip(answers, golds, starts, ends, strict=True):
        assert (answer.text, answer.start, answer.end) == (gold, start, end)
        assert answer.n_best[0][:3] == (gold, start, end)
    everything = "".join(golds)
    assert len(set(golds)) > 400
    for part in ("\u0301", "\U0001f642", "  ", "\x00", "\u200d", "\ufe0f", "\u65e5", "\u00a0"):
        assert part in everything
