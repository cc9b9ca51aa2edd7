import zlib

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.packing import pack
from keras_bert_impl.data.phrase_table import PhraseTable
from keras_bert_impl.data.randomness import fold_in
from keras_bert_impl.data.sentence_pairs import texts_from_documents
from keras_bert_impl.data.shuffled_rows import tokenized
from keras_bert_impl.objectives.base import TextObjective
from keras_bert_impl.objectives.capitalization import Capitalization
from keras_bert_impl.objectives.dataset import objectives_dataset
from keras_bert_impl.objectives.discourse_relation import DiscourseRelation
from keras_bert_impl.objectives.masked_lm import MaskedLM
from keras_bert_impl.objectives.next_sentence import NextSentence
from keras_bert_impl.objectives.schedule import continual, multi_task
from keras_bert_impl.objectives.sentence_order import SentenceOrder
from keras_bert_impl.objectives.sentence_reordering import SentenceReordering
from keras_bert_impl.objectives.table import OBJECTIVES
from keras_bert_impl.objectives.token_document_relation import TokenDocumentRelation
from tests import small
from tests.objectives.lines import documents

LENGTH = 24
TOKENIZER = small.tokenizer()
TEXT_OBJECTIVES = [name for name, cls in OBJECTIVES.items() if issubclass(cls, TextObjective)]


def dataset(objectives, texts=None, **options):
    options = {
        "sequence_length": LENGTH,
        "batch_size": 4,
        "seed": 3,
        "shuffle_buffer": 20,
    } | options
    return objectives_dataset(
        documents() if texts is None else texts, TOKENIZER, objectives, **options
    )


def batches(objectives, number, texts=None, **options):
    return list(dataset(objectives, texts, **options).take(number).as_numpy_iterator())


def in_order(objectives, texts=None, **options):
    """All rows once, in the order in which they are made."""
    options = {"shuffle_buffer": 0, "repeat": False, "drop_remainder": False, **options}
    parts = list(dataset(objectives, texts, **options).as_numpy_iterator())
    return tf.nest.map_structure(lambda *batch: np.concatenate(batch), *parts)


def assert_equal(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, a, b)


def to_pieces(texts):
    if isinstance(texts, tf.RaggedTensor):
        return tokenized(texts, TOKENIZER)
    return TOKENIZER.tokenize(texts)


@pytest.mark.parametrize("name", TEXT_OBJECTIVES)
def test_rows_and_labels_are_the_makers(name):
    objective = OBJECTIVES[name]()
    x, y, weights = in_order([objective])
    seed = fold_in((fold_in((3, zlib.crc32(name.encode())), 0)[0], 0), 0)  # of epoch 0
    first, second, label = objective.rows(
        tf.ragged.constant(documents()),
        to_pieces,
        max_tokens=lambda num_texts: LENGTH - 1 - num_texts,
        short_sequence_probability=0.1,
        seed=fold_in(seed, 0),  # of its only window
    )
    packed = pack(first, second, sequence_length=LENGTH, tokenizer=TOKENIZER, pad_to="max_length")
    assert_equal([x], [tf.nest.map_structure(lambda t: t.numpy(), packed)])
    assert len(set(label.numpy())) > 1
    np.testing.assert_array_equal(y[name], label)
    assert (weights[name] == 1).all()


def test_without_an_objective_that_makes_rows_they_are_plain_texts():
    x, _, _ = in_order([Capitalization()])
    seed = fold_in(fold_in((fold_in((3, zlib.crc32(b"")), 0)[0], 0), 0), 0)
    texts = texts_from_documents(
        to_pieces(tf.ragged.constant(documents())), max_tokens=LENGTH - 2, seed=seed
    )
    packed = pack(texts, sequence_length=LENGTH, tokenizer=TOKENIZER, pad_to="max_length")
    np.testing.assert_array_equal(x["token_ids"], packed["token_ids"])


@pytest.mark.parametrize("maker", [[], [SentenceOrder()], [DiscourseRelation(["however", "so"])]])
def test_capitals_come_through(maker):
    texts = [["The cat sat", "However, Cat the Dog", "ran on", "So Mat"]] * 3
    x, y, weights = in_order([Capitalization(), *maker], texts)
    found = set()
    for ids, labels, asked in zip(
        x["token_ids"], y["capitalization"], weights["capitalization"], strict=True
    ):
        words = [small.VOCABULARY[i] for i in ids]
        for i, word in enumerate(words):
            if word in ("[CLS]", "[SEP]", "[PAD]"):
                assert asked[i] == 0
                continue
            assert asked[i] == 1
            if word in ("dog", "mat"):  # always with a capital
                assert labels[i] == 1
            if word in ("sat", "ran", "on"):  # never
                assert labels[i] == 0
            found.add((word, int(labels[i])))
    assert {("cat", 0), ("cat", 1), ("the", 0)} <= found


def test_a_token_comes_again_in_its_document():
    texts = [["the cat", "dog"], ["the mat", "the sat"]]
    x, y, weights = in_order([TokenDocumentRelation(), NextSentence()], texts)
    seen = 0
    for ids, segments, labels, asked in zip(
        x["token_ids"],
        x["segment_ids"],
        y["token_document_relation"],
        weights["token_document_relation"],
        strict=True,
    ):
        words = np.array([small.VOCABULARY[i] for i in ids])
        is_word = np.char.isalpha(words)
        np.testing.assert_array_equal(asked, is_word)
        for segment in (0, 1):
            of_text = words[is_word & (segments == segment)]
            document = next(d for d in texts if set(of_text) <= set(" ".join(d).split()))
            # "the" alone tells no document
            if set(of_text) != {"the"}:
                document = " ".join(document).split()
                expected = [document.count(w) > list(of_text).count(w) for w in of_text]
                assert labels[is_word & (segments == segment)].tolist() == expected
                seen += sum(expected)
    assert seen > 0


def test_a_discourse_row_knows_no_document():
    _, _, weights = in_order([TokenDocumentRelation(), DiscourseRelation()])
    assert weights["token_document_relation"].sum() == 0
    assert weights["discourse_relation"].sum() > 0


@pytest.mark.parametrize("kind", ["marked", "listed"])
def test_phrases_are_masked_whole_beside_other_marks(kind):
    phrase, source = "the cat sat on", {"marked_text": True}
    if kind == "listed":
        source = {"phrases": PhraseTable(TOKENIZER, phrases=[phrase])}
    shown = f"[[{phrase}]]" if kind == "marked" else phrase
    texts = [[f"mat mat {shown} mat mat", "dog dog"]] * 20
    masked_lm = MaskedLM(unit="phrase", mask_rate=0.5, **source)
    objectives = [masked_lm, Capitalization(), TokenDocumentRelation(), SentenceOrder()]
    _, y, weights = in_order(objectives, texts, short_sequence_probability=0.0)
    of_phrase = [TOKENIZER.tokenize([phrase]).to_list()[0]]
    whole = 0
    for ids, asked in zip(y["masked_lm"], weights["masked_lm"], strict=True):
        targets = [int(i) for i in ids[asked > 0] if i in of_phrase[0]]
        assert targets in ([], *of_phrase)
        whole += targets == of_phrase[0]
    assert 0 < whole < len(y["masked_lm"])


def test_masks_hide_what_they_ask_and_other_labels_are_of_the_text():
    plain = in_order([Capitalization(), SentenceOrder()])
    x, y, weights = in_order([MaskedLM(mask_rate=0.5), Capitalization(), SentenceOrder()])
    restored = x["token_ids"].copy()
    rows, slots = np.nonzero(weights["masked_lm"])
    restored[rows, x["mask_positions"][rows, slots]] = y["masked_lm"][rows, slots]
    np.testing.assert_array_equal(restored, plain[0]["token_ids"])
    assert (x["token_ids"] == TOKENIZER.mask_token_id).sum() > 10
    np.testing.assert_array_equal(y["capitalization"], plain[1]["capitalization"])


def test_a_batch_has_no_weight_of_other_objectives():
    objectives = [MaskedLM(), SentenceOrder(), SentenceReordering(), NextSentence()]
    turns = ["sentence_order", "sentence_reordering", "next_sentence"]
    for step, (_, y, weights) in enumerate(batches(objectives, 9)):
        assert weights["masked_lm"].sum() > 0
        for name in turns:
            expected = name == turns[step % 3]
            assert (weights[name] == expected).all()
            assert y[name].max() < OBJECTIVES[name]().num_classes
            assert expected or not y[name].any()


def test_a_schedule_trains_its_task_alone():
    objectives = [MaskedLM(), SentenceOrder(), Capitalization()]
    schedule = continual(["masked_lm", "sentence_order+masked_lm", "capitalization"], [6, 3, 2])
    for step, (_, _, weights) in enumerate(batches(objectives, 14, schedule=schedule)):
        trained = {name for name, weight in weights.items() if weight.any()}
        assert trained == set(schedule.tasks[int(schedule.at(step))].objectives)


def test_to_start_at_a_step_of_a_schedule_is_to_skip_the_steps_before():
    schedule = continual(["masked_lm", "sentence_order"], [5, 3])
    objectives = [MaskedLM(), SentenceOrder()]
    whole = batches(objectives, 9, schedule=schedule)
    part = batches(objectives, 4, schedule=schedule, start_step=5)
    assert_equal(part, whole[5:])


def test_the_rest_of_an_evaluation():
    objectives = [SentenceOrder(), NextSentence()]
    options = {"repeat": False, "drop_remainder": False}
    whole = batches(objectives, -1, **options)
    assert {name for _, _, w in whole for name in w if w[name].any()} == {
        "sentence_order",
        "next_sentence",
    }
    assert_equal(batches(objectives, -1, start_step=3, **options), whole[3:])


def test_the_rows_of_an_objective_do_not_depend_on_the_others():
    alone = batches([SentenceOrder()], 3)
    among = batches([NextSentence(), SentenceOrder()], 6)[1::2]
    for (x, y, _), (among_x, among_y, _) in zip(alone, among, strict=True):
        np.testing.assert_array_equal(x["token_ids"], among_x["token_ids"])
        np.testing.assert_array_equal(y["sentence_order"], among_y["sentence_order"])


def test_shapes_are_static():
    spec = dataset([MaskedLM(max_predictions=5), Capitalization(), SentenceOrder()]).element_spec
    x, y, weights = tf.nest.map_structure(lambda s: (tuple(s.shape), s.dtype.name), spec)
    assert x == {
        "token_ids": ((4, LENGTH), "int32"),
        "segment_ids": ((4, LENGTH), "int32"),
        "padding_mask": ((4, LENGTH), "bool"),
        "mask_positions": ((4, 5), "int32"),
    }
    shapes = {"masked_lm": (4, 5), "capitalization": (4, LENGTH), "sentence_order": (4,)}
    assert y == {name: (shape, "int32") for name, shape in shapes.items()}
    assert weights == {name: (shape, "float32") for name, shape in shapes.items()}


def test_rows_tell_the_task_they_are_of():
    objectives = [Capitalization(), SentenceReordering(), SentenceOrder()]
    tasks = multi_task(["capitalization", "capitalization+sentence_order"])
    data = dataset(objectives, schedule=tasks, task_embeddings=True)
    assert data.element_spec[0]["task_ids"] == tf.TensorSpec([4, 1], tf.int32)
    for (x, _, weights), task_id in zip(data.take(4).as_numpy_iterator(), [0, 2] * 2, strict=True):
        assert (x["task_ids"] == task_id).all()
        assert weights["sentence_order"].any() == (task_id == 2)


def test_impossible_arguments():
    with pytest.raises(ValueError, match="start_step=-1"):
        dataset([MaskedLM()], start_step=-1)
    with pytest.raises(ValueError, match="none of the objectives masked_lm"):
        dataset([MaskedLM()], schedule=multi_task(["next_sentence"]))
    with pytest.raises(ValueError, match="2 objectives that make rows"):
        pair = [NextSentence(), SentenceOrder()]
        dataset(pair, schedule=multi_task(["next_sentence+sentence_order"]))
    with pytest.raises(ValueError, match="repeat=False"):
        dataset([MaskedLM()], schedule=multi_task(["masked_lm"]), repeat=False)
    with pytest.raises(ValueError, match="needs to know the phrases"):
        dataset([MaskedLM(unit="phrase")])
