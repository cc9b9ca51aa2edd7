import pathlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.text import tokenizer as tokenizer_module
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS, read_vocabulary

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tools import fuzz_tokenizer  # noqa: E402

SYLLABLE = ["\u1112", "##\u1161", "##\u11ab"]  # 한, decomposed


def tokens(text, pieces, **options):
    """The tokens of one text."""
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, *pieces], dtype="string", **options)
    return [token.decode() for token in tokenizer.tokenize(text).numpy()]


# The kinds of text that other tokenizers get wrong.


@pytest.mark.parametrize("character", ["\u200d", "\u00ad", "\u200b"])
def test_format_characters_are_deleted_cased(character):
    got = tokens(f"foo{character}bar", ["foo", "bar", "##bar"], lowercase=False)
    assert got == ["foo", "##bar"]


@pytest.mark.parametrize("character", ["\x97", "\x0b"])
def test_controls_but_tab_and_line_ends_are_no_spaces(character):
    got = tokens(f"hello{character}world", ["hello", "world", "##world"])
    assert got == ["hello", "##world"]


@pytest.mark.parametrize("character", ["\t", "\n", "\r"])
def test_tab_and_line_ends_are_spaces(character):
    got = tokens(f"hello{character}world", ["hello", "world", "##world"])
    assert got == ["hello", "world"]


def test_nul_byte_is_dropped():
    assert tokens("foo\0bar", ["foo", "bar", "##bar"]) == ["foo", "##bar"]


def test_replacement_character_is_dropped():
    assert tokens("foo\ufffdbar", ["foo", "bar", "##bar"]) == ["foo", "##bar"]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("character", ["\u00a0", "\u2028", "\u2029", "\u3000"])
def test_unicode_spaces_part_words(character, lowercase):
    got = tokens(f"hello{character}world", ["hello", "world"], lowercase=lowercase)
    assert got == ["hello", "world"]


@pytest.mark.parametrize("text", ["Caf\u00e9 na\u00efve", "Cafe\u0301 nai\u0308ve"])
def test_accents_are_stripped_where_lowercase(text):
    assert tokens(text, ["cafe", "na", "##ive"]) == ["cafe", "na", "##ive"]


def test_accents_may_be_kept_beside_lowercase():
    pieces = ["möchte", "mochte"]
    assert tokens("MÖCHTE", pieces, strip_accents=False) == ["möchte"]
    assert tokens("MÖCHTE", pieces) == ["mochte"]


def test_accents_may_be_stripped_without_lowercase():
    assert tokens("Élan", ["Elan"], lowercase=False, strip_accents=True) == ["Elan"]


@pytest.mark.parametrize("text", ["Straße", "STRAẞE"])
def test_sharp_s_is_lowercased_not_folded(text):
    assert tokens(text, ["straße", "strasse"]) == ["straße"]


def test_hangul_is_left_decomposed():
    assert tokens("한", ["한", *SYLLABLE]) == SYLLABLE
    assert tokens("한", ["한", *SYLLABLE], lowercase=False) == ["한"]


def test_fullwidth_letters_are_not_folded():
    assert tokens("ＡＢ", ["a", "##b"]) == ["[UNK]"]
    assert tokens("ＡＢ", ["ａ", "##ｂ"]) == ["ａ", "##ｂ"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ΟΔΟΣ", ["οδος"]),
        ("ΟΔΟΣ.", ["οδος", "."]),
        ("ΟΔΟΣ ΟΔΟΣ", ["οδος", "οδος"]),
        ("Σ", ["σ"]),
        ("ΣΟ", ["σο"]),
        ("Ο.ΣΟ", ["ο", ".", "σο"]),
    ],
)
def test_final_sigma_follows_its_word(text, expected):
    assert tokens(text, ["οδος", "οδοσ", "σ", "ς", "σο", "ο", "."]) == expected


def test_special_tokens_in_text_are_plain_text_by_default():
    got = tokens("hello [MASK] world", ["hello", "world", "[", "]", "mask"])
    assert got == ["hello", "[", "mask", "]", "world"]


def test_special_tokens_in_text_are_kept_where_asked():
    pieces = ["hello", "world", "[", "]", "mask", "##world"]
    options = {"special_tokens_in_strings": True}
    assert tokens("Hello [MASK] World", pieces, **options) == ["hello", "[MASK]", "world"]
    assert tokens("Hello[MASK]World[SEP]", pieces, **options) == [
        "hello",
        "[MASK]",
        "world",
        "[SEP]",
    ]
    assert tokens("[mask]", pieces, **options) == ["[", "mask", "]"]


def test_unused_tokens_are_kept_where_asked():
    pieces = ["[unused1]", "[", "]", "unused", "##1", "a"]
    plain = ["[", "unused", "##1", "]"]
    assert tokens("[unused1]", pieces) == plain
    kept = {"preserve_unused_tokens": True}
    assert tokens("a [unused1] [unu\u200dsed1]", pieces, **kept) == ["a", *["[unused1]"] * 2]
    assert tokens("a[unused1]", pieces, **kept) == ["a", *plain]


def test_private_use_characters_are_words():
    assert tokens("\uf059 hello", ["hello"]) == ["[UNK]", "hello"]


def test_cjk_extension_e_is_split_from_its_first_character():
    pieces = ["a", "b", "\U0002b820", "##b", "##\U0002b820"]
    assert tokens("a\U0002b820b", pieces) == ["a", "\U0002b820", "b"]


def test_cjk_is_not_split_where_told():
    pieces = ["中", "文", "中文"]
    assert tokens("中文", pieces) == ["中", "文"]
    assert tokens("中文", pieces, split_on_cjk=False) == ["中文"]


@pytest.mark.parametrize(
    ("word", "known"),
    [("a" * 101, True), ("ø" * 51, True), ("a" * 200, True), ("ø" * 200, True)]
    + [("a" * 201, False), ("ø" * 201, False), ("中ø" + "ø" * 200, False)],
)
def test_long_words_are_counted_in_characters(word, known):
    got = tokens(word, ["a", "##a", "ø", "##ø", "中"])
    word = word.removeprefix("中")
    expected = [word[0]] + [f"##{word[0]}"] * (len(word) - 1) if known else ["[UNK]"]
    assert got[-len(expected) :] == expected
    assert len(got) <= len(expected) + 1


def test_longest_word_is_an_option():
    assert tokens("aaaa aaa", ["a", "##a"], max_chars_per_word=3) == ["[UNK]", "a", "##a", "##a"]
    assert tokens("øøøø øøø", ["ø", "##ø"], max_chars_per_word=3) == ["[UNK]", "ø", "##ø", "##ø"]


def test_emoji_url_money_and_apostrophe():
    assert tokens("ok🙂", ["ok", "##🙂"]) == ["ok", "##🙂"]
    assert tokens("👩\u200d👧", ["👩", "##👧"]) == ["👩", "##👧"]
    url = ["http", ":", "/", "foo", ".", "bar", "a", "?", "b", "=", "1"]
    got = tokens("http://foo.bar/a?b=1", url)
    assert got == ["http", ":", "/", "/", "foo", ".", "bar", "/", "a", "?", "b", "=", "1"]
    assert tokens("$1 €2", ["$", "1", "€", "##2"]) == ["$", "1", "€", "##2"]
    assert tokens("don't", ["don", "'", "t"]) == ["don", "'", "t"]


@pytest.mark.parametrize("text", ["", " ", "\u0301", "\u200d", "\0", b"\xff\xc3"])
def test_text_without_words_gives_no_token(text):
    assert tokens(text, ["a"]) == []


def test_bytes_that_are_no_utf8_are_skipped():
    data = b"foo\xff\xc3 b\xe4\xb8ar\xed\xa0\x80"
    assert tokens(data, ["foo", "bar"]) == ["foo", "bar"]
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "foo", "bar"])
    got = tokenizer.tokenize_with_offsets([data])
    assert got.byte_starts.to_list() == [[0, 6]]
    assert got.byte_ends.to_list() == [[3, 11]]
    assert got.starts.to_list() == [[0, 4]]
    assert got.ends.to_list() == [[3, 7]]


# Equality with google-research/bert's own tokenizer.


@pytest.mark.parametrize("chunk", range(2))
def test_random_text_gives_the_ids_of_the_original(chunk):
    texts = fuzz_tokenizer.string_texts(seed=1, chunk=chunk, size=1000)
    rng = fuzz_tokenizer.random.Random(chunk)
    for lowercase in (True, False):
        assert list(fuzz_tokenizer.differences(texts, lowercase, rng, missing=0.02)) == []


def test_code_points_give_the_ids_of_the_original():
    rng = fuzz_tokenizer.random.Random(0)
    points = [*range(0x600), *rng.sample(range(0x600, 0x20000), 2500)]
    texts = fuzz_tokenizer.code_point_texts(points)
    for lowercase in (True, False):
        assert list(fuzz_tokenizer.differences(texts, lowercase, rng, missing=0)) == []


def test_offsets_are_those_of_the_original_spelling():
    texts = [data.decode(errors="ignore") for data in fuzz_tokenizer.string_texts(2, 0, 1000)]
    rng = fuzz_tokenizer.random.Random(0)
    assert list(fuzz_tokenizer.offset_errors(texts, rng)) == []


# Offsets


def test_offsets_of_accents_emoji_and_double_spaces():
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "cafe", "ok", "##🙂", ",", *SYLLABLE])
    text = "  Cafe\u0301,  OK🙂\u200d 한"
    got = tokenizer.tokenize_with_offsets(text)
    spans = zip(got.starts.numpy(), got.ends.numpy(), strict=True)
    assert [text[s:e] for s, e in spans] == ["Cafe\u0301", ",", "OK", "🙂", "한", "한", "한"]
    data = text.encode()
    spans = zip(got.byte_starts.numpy(), got.byte_ends.numpy(), strict=True)
    assert [data[s:e].decode() for s, e in spans][:4] == ["Cafe\u0301", ",", "OK", "🙂"]
    assert got.word_ids.numpy().tolist() == [0, 1, 2, 2, 3, 3, 3]


def test_offsets_agree_in_a_graph_and_count_each_text_from_its_start():
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "a", "b"])
    signature = [tf.TensorSpec([None], tf.string)]
    in_graph = tf.function(tokenizer.tokenize_with_offsets, input_signature=signature)
    got = in_graph(tf.constant(["a b", "", "é b"]))
    assert got.starts.to_list() == [[0, 2], [], [0, 2]]
    assert got.byte_starts.to_list() == [[0, 2], [], [0, 3]]
    assert got.word_ids.to_list() == [[0, 1], [], [0, 1]]


# The same graph everywhere


@pytest.mark.parametrize("options", [{}, {"lowercase": False, "special_tokens_in_strings": True}])
def test_eager_tf_data_and_tf_function_agree(options):
    pieces = ["foo", "##bar", "café", "cafe", "ο", "##ς", "##σ", "中", "a", "##a", "[", "]"]
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, *pieces], **options)
    texts = [
        "foo\0bar [MASK]",
        "plain a",
        "Café",
        "ΟΣ",
        "中foo\u2028foo",
        b"\xfffoo",
        "",
        "ø" * 201,
    ]
    texts += ["foo\u200dbar", "a" * 200, "a" * 201, "中" * 201]
    eager = tokenizer(texts).to_list()
    assert eager == [tokenizer(text).numpy().tolist() for text in texts]
    for batch in (1, 5, len(texts)):
        dataset = tf.data.Dataset.from_tensor_slices(texts).batch(batch).map(tokenizer)
        assert [row for rows in dataset for row in rows.to_list()] == eager
    in_function = tf.function(tokenizer.tokenize)
    assert in_function(tf.constant(texts)).to_list() == eager
    assert in_function(tf.constant(texts[0])).numpy().tolist() == eager[0]


# Shapes


@pytest.fixture(scope="module")
def small():
    return BertTokenizer([*SPECIAL_TOKENS, "un", "##aff", "##able", "é"], strip_accents=False)


def test_ranks(small):
    assert small("unaffable").numpy().tolist() == [5, 6, 7]
    assert small(["unaffable", ""]).to_list() == [[5, 6, 7], []]
    assert small([["un", "é"], ["unaffable", ""]]).to_list() == [[[5], [8]], [[5, 6, 7], []]]
    assert small([["un"], ["un", "é"], []]).to_list() == [[[5]], [[5], [8]], []]
    assert small(np.array(["un"])).to_list() == [[5]]
    assert small([]).to_list() == []
    assert small([""]).to_list() == [[]]
    assert small("un").dtype == tf.int32


def test_dtype():
    vocabulary = [*SPECIAL_TOKENS, "a"]
    assert BertTokenizer(vocabulary, dtype="int64")("a é").dtype == tf.int64
    assert BertTokenizer(vocabulary, dtype="string")(["a"]).to_list() == [[b"a"]]
    with pytest.raises(ValueError, match="dtype='float32'"):
        BertTokenizer(vocabulary, dtype="float32")


def test_ids_in_place_of_text_are_refused(small):
    with pytest.raises(ValueError, match="Expected strings, but received int32"):
        small([1, 2])


def test_detokenize(small):
    assert small.detokenize([5, 6, 7, 5]).numpy() == b"unaffable un"
    assert small.detokenize([[5, 6], [5, 5]]).numpy().tolist() == [b"unaff", b"un un"]
    assert small.detokenize([[5, 6], []]).numpy().tolist() == [b"unaff", b""]
    assert small.detokenize(small(["unaffable", ""])).numpy().tolist() == [b"unaffable", b""]
    with pytest.raises(tf.errors.InvalidArgumentError):
        small.detokenize([99])


# Vocabulary and config


def test_special_token_ids(small):
    ids = [getattr(small, f"{name}_token_id") for name in ("pad", "unk", "cls", "sep", "mask")]
    assert ids == [0, 1, 2, 3, 4]
    assert sorted(small.special_token_ids) == [0, 1, 2, 3, 4]
    assert small.mask_token == "[MASK]"


def test_vocabulary_lookups(small):
    assert small.vocabulary_size() == 9
    assert small.id_to_token(5) == "un"
    assert small.token_to_id("un") == 5
    with pytest.raises(ValueError, match="Id 9 is outside of the vocabulary: 0 to 8"):
        small.id_to_token(9)
    with pytest.raises(ValueError, match="Token 'x' is not among"):
        small.token_to_id("x")
    with pytest.raises(ValueError, match="no vocabulary yet"):
        BertTokenizer().tokenize("x")


def test_vocabulary_without_mask_is_refused():
    with pytest.raises(ValueError, match="special token '\\[MASK\\]' is missing"):
        BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])


def test_every_option_survives_the_config():
    options = {
        "lowercase": False,
        "strip_accents": True,
        "split_on_cjk": False,
        "special_tokens_in_strings": True,
        "preserve_unused_tokens": True,
        "max_chars_per_word": 7,
    }
    config = BertTokenizer(**options, dtype="string").get_config()
    again = BertTokenizer.from_config(config)
    assert {name: again.get_config()[name] for name in options} == options
    assert again.compute_dtype == "string"
    assert BertTokenizer.from_config(BertTokenizer().get_config()).strip_accents is None


def test_other_unicode_version_is_refused():
    config = BertTokenizer().get_config() | {"unicode_version": "9.0.0"}
    with pytest.raises((TypeError, ValueError), match="made with Unicode 9.0.0"):
        BertTokenizer.from_config(config)


def test_assets(small, tmp_path):
    small.save_assets(str(tmp_path))
    assert read_vocabulary(tmp_path / "vocab.txt") == small.get_vocabulary()
    other = BertTokenizer.from_config(small.get_config())
    other.load_assets(str(tmp_path))
    assert other("é").numpy().tolist() == [8]


def test_path_is_refused_in_safe_mode(small, tmp_path):
    small.save_assets(str(tmp_path))
    path = str(tmp_path / "vocab.txt")
    assert BertTokenizer(path).vocabulary_size() == 9
    config = keras.saving.serialize_keras_object(small)
    config["config"]["vocabulary"] = path
    with pytest.raises((TypeError, ValueError), match="Refused to read the vocabulary file"):
        keras.saving.deserialize_keras_object(config, safe_mode=True)


@keras.saving.register_keras_serializable(package="test_tokenizer")
class Holder(keras.Model):
    def __init__(self, tokenizer, **kwargs):
        super().__init__(**kwargs)
        self.tokenizer = tokenizer

    def call(self, x):
        return x

    def get_config(self):
        return {"tokenizer": keras.saving.serialize_keras_object(self.tokenizer)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["tokenizer"]))


def test_keras_archive_carries_the_vocabulary(small, tmp_path):
    holder = Holder(small)
    holder(np.zeros([1]))
    holder.save(tmp_path / "holder.keras")
    again = keras.saving.load_model(tmp_path / "holder.keras")
    assert again.tokenizer(["É unaffable"]).to_list() == [[8, 5, 6, 7]]


def test_saved_model_gives_the_same_ids_and_stays_small(small, tmp_path):
    module = tf.Module()
    module.tokenizer = small
    signature = [tf.TensorSpec([None], tf.string)]
    module.serve = tf.function(
        lambda texts: small.tokenize(texts).to_tensor(), input_signature=signature
    )
    tf.saved_model.save(module, str(tmp_path))
    texts = tf.constant(["É unaffable", "un", b"un\xff", "ＵΣ"])
    expected = small.tokenize(texts).to_tensor().numpy().tolist()
    served = tf.saved_model.load(str(tmp_path)).serve(texts)
    assert served.numpy().tolist() == expected
    assert sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file()) < 3_000_000


def test_without_tensorflow_text_only_construction_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    tokenizer = tokenizer_module.BertTokenizer()
    with pytest.raises(ImportError, match="pip install tensorflow-text"):
        tokenizer.set_vocabulary([*SPECIAL_TOKENS, "a"])


def test_a_token_with_white_space_is_never_found_across_words():
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "two words", "two", "words"])
    for text in ("two words", "two words \u00e9"):
        assert tokenizer.tokenize(text).numpy().tolist()[:2] == [6, 7]
    assert tokenizer.id_to_token(5) == "two words"
