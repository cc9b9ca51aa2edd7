import doctest
import functools

import numpy as np
import tensorflow as tf

from keras_bert_impl.data import word_alignment
from keras_bert_impl.data.word_alignment import (
    align_words,
    at_first_pieces,
    at_words,
    likeliest_classes,
    split_words,
)
from tests import small

TOKENIZER = small.tokenizer()
the, cat, un, aff, able = (
    TOKENIZER.token_to_id(t) for t in ("the", "cat", "un", "##aff", "##able")
)
# Nothing to the tokenizer: a lone accent, a zero width space, no character at all, a space.
NOTHING = ["\u0301", "\u200b", "", "\u3000"]


def align(words, room, stride):
    return align_words(tf.ragged.constant(words, tf.string, ragged_rank=1), TOKENIZER, room, stride)


def plain(aligned):
    return [aligned.ids.to_list()] + [x.numpy().tolist() for x in aligned[1:]]


def test_words_are_read_at_their_first_pieces():
    aligned = align([["the", "unaffable", "cat"], ["Cat"]], room=9, stride=4)
    assert plain(aligned) == [
        [[the, un, aff, able, cat], [cat]],
        [0, 1, 2, 3],
        [0, 0, 0, 1],
        [0, 1, 4, 0],
    ]


def test_words_that_are_nothing_keep_the_alignment_of_the_others():
    aligned = align([["\u0301", "the", "\u200b", "cat"], NOTHING, [], ["the"]], room=9, stride=4)
    assert plain(aligned) == [[[the, cat], [], [], [the]], [1, 3, 8], [0, 0, 3], [0, 1, 0]]


def test_words_are_tokenized_on_their_own():
    # One word with a space in it is one word still, and no piece goes on over a word's end.
    aligned = align([["the cat", "un", "affable"]], room=20, stride=4)
    letters = [TOKENIZER.unk_token_id]
    assert plain(aligned)[0] == [[the, cat, un, *letters]]
    assert plain(aligned)[1:] == [[0, 1, 2], [0, 0, 0], [0, 2, 3]]


def test_a_long_sentence_is_read_where_words_have_most_context():
    aligned = align([["the", "cat", "the", "unaffable", "cat", "the"]], room=5, stride=2)
    # Pieces: the cat the un aff able cat the. Windows start at 0, 2 and 4.
    assert aligned.ids.to_list() == [
        [the, cat, the, un, aff],
        [the, un, aff, able, cat],
        [aff, able, cat, the],
    ]
    # "un", piece 3: one piece on its poorer side in window 0, and one in window 1: the first.
    # "cat", piece 6: none in window 1, one in window 2.
    assert aligned.window.numpy().tolist() == [0, 0, 0, 0, 2, 2]
    assert aligned.position.numpy().tolist() == [0, 1, 2, 3, 2, 3]


@functools.cache
def pieces_of(word):
    return TOKENIZER.tokenize(word).numpy().tolist()


def by_hand(words, room, stride):
    """The same, in plain Python."""
    windows, reads, number = [], [], 0
    for sentence in words:
        pieces = [pieces_of(word) for word in sentence]
        flat = sum(pieces, [])
        spans = [(0, min(room, len(flat)))]
        while spans[-1][1] < len(flat):
            start = spans[-1][0] + stride
            spans.append((start, min(start + room, len(flat))))
        position = 0
        for piece in pieces:
            if piece:
                scores = [
                    min(position - start, end - 1 - position) + 0.01 * (end - start)
                    if start <= position < end
                    else -1
                    for start, end in spans
                ]
                best = int(np.argmax(scores))
                reads.append((number, len(windows) + best, position - spans[best][0]))
            position += len(piece)
            number += 1
        windows += [flat[start:end] for start, end in spans]
    return [windows, *([list(part) for part in zip(*reads, strict=True)] or [[]] * 3)]


def test_random_sentences_align_as_in_plain_python():
    draw = np.random.default_rng(0)
    choices = [*NOTHING, "the", "cat", "unaffable", "Ünaffable", "中文", "un able", "xyz", "\x00a"]
    for room, stride in ((1, 1), (4, 2), (5, 5), (9, 4), (9, 1)):
        words = [
            [str(word) for word in draw.choice(choices, draw.integers(0, 25))] for _ in range(12)
        ]
        assert plain(align(words, room, stride)) == by_hand(words, room, stride)


def test_a_graph_aligns_as_eagerly():
    words = [["the", "\u0301", "unaffable"] * 4, [], ["cat"]]
    spec = tf.RaggedTensorSpec([None, None], tf.string)
    graph = tf.function(lambda words: align_words(words, TOKENIZER, 5, 2), input_signature=[spec])
    assert plain(graph(tf.ragged.constant(words, tf.string))) == by_hand(words, 5, 2)


def test_no_sentences_give_no_windows():
    words = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.string), tf.zeros([1], tf.int64))
    aligned = align_words(words, TOKENIZER, 4, 2)
    assert plain(aligned) == [[], [], [], []]


def test_labels_and_weights_count_once():
    words = [["the", "\u0301", "unaffable", "cat", "the", "unaffable"]]
    aligned = align(words, room=5, stride=2)
    labels = at_first_pieces(aligned, tf.constant([1, 2, 3, 4, 5, 6]))
    # Pieces: the un aff able cat the un aff able.
    assert labels.to_list() == [[1, 3, 0, 0, 0], [0, 0, 4, 5, 0], [0, 0, 6, 0, 0]]
    weights = at_first_pieces(aligned, tf.constant([1.0, 9, 1, 0.5, 0, 1]))
    assert weights.to_list() == [[1, 1, 0, 0, 0], [0, 0, 0.5, 0, 0], [0, 0, 1, 0, 0]]


def test_the_likeliest_class_is_taken_where_the_word_is_read():
    words = tf.ragged.constant([["the", "\u0301"], ["unaffable", "cat"]])
    aligned = align_words(words, TOKENIZER, room=9, stride=4)
    logits = np.full([2, 6, 3], 50.0)  # [CLS] pieces [SEP]
    logits[0, 1] = [0, np.log(2), 0]  # the
    logits[1, 1] = [0, 0, np.log(6)]  # un
    logits[1, 4] = [np.log(2), 0, 0]  # cat
    logits = at_words(logits, aligned)
    assert logits.shape == [3, 3]
    numbers, probabilities = likeliest_classes(logits, aligned, words, unread=2)
    assert numbers.to_list() == [[1, 2], [2, 0]]
    np.testing.assert_allclose(probabilities.values, [0.5, 0, 0.75, 0.5], atol=1e-6)


def test_texts_are_cut_as_by_pythons_split():
    texts = [f" a{chr(point)}b{chr(point)}{chr(point)}c\x00" for point in range(0x4000)]
    cut = split_words(tf.constant(texts)).to_list()
    assert cut == [[word.encode() for word in text.split()] for text in texts]
    assert split_words(tf.constant(["", " \u3000\n"])).to_list() == [[], []]


def test_docstring_examples():
    from keras_bert_impl.text.tokenizer import BertTokenizer
    from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS

    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "a", "b", "##b"])
    assert doctest.testmod(word_alignment, extraglobs={"tokenizer": tokenizer}) == (0, 3)
