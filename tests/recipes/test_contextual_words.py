"""One word in many sentences: where it stands, how alike its vectors are, what is drawn of them."""

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.recipes.in_process import recipe, run

TEXTS = ["the unaffable cat", "Unaffable dog , unaffable cat", "a cat sat unaffable"]


@pytest.fixture(scope="module")
def words():
    with recipe("contextual_words") as module:
        yield module


def test_the_word_is_found_whole_in_any_case_and_where_it_stands_first(words):
    tokenizer = small.tokenizer()
    places = [words.word_pieces(tokenizer, text, "unaffable").tolist() for text in TEXTS]
    assert places == [[1, 2, 3], [0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="'aff' does not stand in 'the unaffable cat'"):
        words.word_pieces(tokenizer, TEXTS[0], "aff")  # a piece is no word


def test_vectors_are_means_over_the_words_pieces(words):
    backbone, tokenizer = small.backbone(), small.tokenizer()
    vectors = words.word_vectors(backbone, tokenizer, TEXTS, "unaffable")
    assert vectors.shape == (3, 3, 16)
    ids = [tokenizer.token_to_id(piece) for piece in ("un", "##aff", "##able")]
    table = np.array(backbone.token_embedding.embeddings)
    for row in vectors[0]:
        np.testing.assert_allclose(row, table[ids].mean(axis=0), atol=1e-6)
    alone = kbi.BertPreprocessor(tokenizer)(TEXTS[2:])
    last = np.array(backbone(alone)["sequence_output"])[0]
    np.testing.assert_allclose(vectors[2, 2], last[4:7].mean(axis=0), atol=1e-5)
    with pytest.raises(ValueError, match="stands beyond the model's 32 tokens"):
        words.word_vectors(backbone, tokenizer, ["cat " * 31 + "dog"], "dog")


def test_cosines_are_of_pairs_of_one_sense_and_of_two(words):
    vectors = np.array([[1.0, 0], [2, 0], [0, 3]])
    assert words.mean_cosines(vectors, ["a", "a", "b"]) == [1, 0]
    within, between = words.mean_cosines(vectors, ["1", "2", "3"])
    assert np.isnan(within)
    assert between == pytest.approx(1 / 3)


def test_the_plane_keeps_what_lies_in_a_plane(words):
    flat = np.random.default_rng(0).normal(size=(6, 2)) @ np.eye(2, 5) + 7
    two = words.plane(flat)
    distances = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (flat, two)]
    np.testing.assert_allclose(*distances, atol=1e-6)
    assert not words.plane(np.ones([3, 4])).any()


def test_sentences_of_a_table_are_measured_and_drawn(words, tmp_path):
    preprocessor = kbi.BertPreprocessor(small.tokenizer(), 32)
    kbi.BertTextEmbedder(small.backbone(), preprocessor).save_to_preset(str(tmp_path / "model"))
    (tmp_path / "table.tsv").write_text("sense\ttext\n" + "".join(f"x\t{t}\n" for t in TEXTS))
    given = {"model": tmp_path / "model", "input": tmp_path / "table.tsv", "output": tmp_path}
    run(words, word="unaffable", **given)
    lines = (tmp_path / "cosines.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["vectors", "table", "layer 0", "layer 1"]
    assert lines[1] == "table\t1.000\tnan"
    assert (tmp_path / "words.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="'bank' does not stand in"):
        run(words, **given)


def test_the_sentences_that_come_along_have_their_word(words):
    vocabulary = [*kbi.SPECIAL_TOKENS, "bank", "[x]"]
    tokenizer = kbi.BertTokenizer(vocabulary)
    for sense, text in words.SENTENCES:
        assert len(words.word_pieces(tokenizer, text, "bank")) == 1, (sense, text)
