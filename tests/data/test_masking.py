import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.masking import DynamicMasker, choose_groups
from keras_bert_impl.data.randomness import uniform
from keras_bert_impl.data.word_units import ENTITY, PHRASE
from tests.data.fake_tokenizer import NumberTokenizer

CLS, SEP, MASK = 2, 3, 4


def masker(**options):
    return DynamicMasker(
        **{
            "vocabulary_size": 1000,
            "mask_token_id": MASK,
            "special_token_ids": range(5),
            **options,
        }
    )


def rows_of_lengths(lengths, width=None):
    """`[CLS] words [SEP] [PAD]...` of so many tokens each, and their padding mask."""
    width = width or max(lengths)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 900, size=(len(lengths), width))
    mask = np.arange(width) < np.array(lengths)[:, None]
    ids[:, 0] = CLS
    ids[np.arange(len(lengths)), np.array(lengths) - 1] = SEP
    return np.where(mask, ids, 0).astype("int32"), mask


def test_counts_are_the_references_for_every_length():
    lengths = list(range(3, 513))
    ids, mask = rows_of_lengths(lengths)
    for max_predictions in (20, 100):
        masked = masker(max_predictions=max_predictions)(ids, mask, seed=(0, 0))
        expected = [
            min(max_predictions, max(1, int(round(length * 0.15))), length - 2)
            for length in lengths
        ]
        assert masked["mask_weights"].numpy().sum(axis=1).tolist() == expected


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.25, 0.5, 1.0])
def test_counts_at_other_rates_round_half_to_even(rate):
    lengths = list(range(3, 300))
    counts = masker(mask_rate=rate, max_predictions=1000).prediction_counts(lengths)
    assert counts.numpy().tolist() == [max(1, int(round(n * rate))) for n in lengths]


def test_shares_over_100_000_tokens():
    ids, mask = rows_of_lengths([100] * 1100)
    masked = masker()(ids, mask, seed=(1, 0))
    positions = masked["mask_positions"].numpy()
    weights = masked["mask_weights"].numpy()
    assert weights.sum() == 1100 * 15  # of 107,800 words
    chosen = weights > 0
    shown = np.take_along_axis(masked["token_ids"].numpy(), positions, axis=1)[chosen]
    original = masked["mask_ids"].numpy()[chosen]
    shares = {
        0.8: shown == MASK,
        0.1 * 999 / 1000: (shown != MASK) & (shown != original),  # a random token may be the same
    }
    for share, happened in shares.items():
        expected = share + (0.1 / 1000 if share == 0.8 else -0.1 / 1000)
        error = np.sqrt(expected * (1 - expected) / len(shown))
        assert abs(happened.mean() - expected) < 3 * error
    kept = (shown == original).mean()
    assert abs(kept - 0.1001) < 3 * np.sqrt(0.1001 * 0.8999 / len(shown))


def test_every_position_is_as_likely():
    ids, mask = rows_of_lengths([100] * 1100)
    masked = masker()(ids, mask, seed=(2, 0))
    chosen = masked["mask_weights"].numpy() > 0
    counts = np.bincount(masked["mask_positions"].numpy()[chosen], minlength=100)
    assert counts[0] == counts[99] == 0
    share = 15 / 98
    error = np.sqrt(1100 * share * (1 - share))
    deviations = (counts[1:99] - 1100 * share) / error
    assert np.abs(deviations).max() < 4
    assert 0.6 < (deviations**2).mean() < 1.4


def test_random_tokens_come_from_the_whole_vocabulary_unless_told():
    ids, mask = rows_of_lengths([100] * 400)
    options = {
        "vocabulary_size": 20,
        "mask_token_rate": 0.0,
        "random_token_rate": 1.0,
        "mask_rate": 1.0,
        "max_predictions": 100,
    }
    ids = np.where(ids > 4, ids % 15 + 5, ids)
    words = ids > 4
    everything = masker(**options)(ids, mask, seed=(3, 0))["token_ids"].numpy()[words]
    counts = np.bincount(everything, minlength=20)
    np.testing.assert_allclose(counts / len(everything), 1 / 20, atol=0.005)
    words_only = masker(**options, exclude_special_from_random=True)(ids, mask, seed=(3, 0))
    counts = np.bincount(words_only["token_ids"].numpy()[words], minlength=20)
    assert counts[:5].sum() == 0
    np.testing.assert_allclose(counts[5:] / len(everything), 1 / 15, atol=0.005)


def test_special_tokens_and_padding_are_never_chosen_and_the_rest_stays():
    ids, mask = rows_of_lengths([2, 3, 5, 40, 64], width=70)
    ids[4, 30:33] = SEP, MASK, 1  # inside the text too
    for step in range(20):
        masked = masker(mask_rate=1.0, max_predictions=80)(ids, mask, seed=(4, step))
        shown = masked["token_ids"].numpy()
        np.testing.assert_array_equal(shown[ids <= 4], ids[ids <= 4])
        assert masked["mask_weights"].numpy().sum(axis=1).tolist() == [0, 1, 3, 38, 59]
    few = masker()(ids, mask, seed=(4, 0))
    positions, weights = few["mask_positions"].numpy(), few["mask_weights"].numpy()
    touched = np.zeros_like(mask)
    for row in range(5):
        real = positions[row][weights[row] > 0]
        assert list(real) == sorted(set(real))
        np.testing.assert_array_equal(few["mask_ids"][row][: len(real)], ids[row, real])
        assert positions[row][len(real) :].sum() == 0
        assert few["mask_ids"].numpy()[row][len(real) :].sum() == 0
        touched[row, real] = True
    np.testing.assert_array_equal(few["token_ids"].numpy()[~touched], ids[~touched])


def test_padding_tokens_are_spared_without_a_padding_mask():
    ids, _ = rows_of_lengths([6, 6], width=30)
    masked = masker(mask_rate=1.0, max_predictions=30)(ids, seed=(0, 0))
    assert masked["mask_weights"].numpy().sum(axis=1).tolist() == [4, 4]


def test_shapes_and_types():
    ids, mask = rows_of_lengths([5, 6])
    masked = masker(max_predictions=7)(tf.constant(ids, tf.int64), mask, seed=(0, 0))
    assert {name: (x.shape.as_list(), x.dtype) for name, x in masked.items()} == {
        "token_ids": ([2, 6], tf.int32),
        "mask_positions": ([2, 7], tf.int32),
        "mask_ids": ([2, 7], tf.int32),
        "mask_weights": ([2, 7], tf.float32),
    }


@pytest.mark.parametrize("continuation_ids", [None, range(900, 1000)])
def test_eager_graph_and_dataset_agree(continuation_ids):
    the_masker = masker(continuation_ids=continuation_ids)
    ids, mask = rows_of_lengths([12, 40, 64, 128])
    ids[:, 3:9] = 950
    ids[0, 11] = SEP
    eager = [the_masker(ids, mask, seed=(5, step)) for step in range(3)]
    graph = tf.function(
        lambda ids, mask, step: the_masker(ids, mask, seed=(5, step)),
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None], tf.bool),
            tf.TensorSpec([], tf.int64),
        ],
    )
    dataset = tf.data.Dataset.range(3).map(lambda step: the_masker(ids, mask, seed=(5, step)))
    for step, from_dataset in enumerate(dataset):
        in_graph = graph(ids, mask, step)
        for name, value in eager[step].items():
            np.testing.assert_array_equal(value, in_graph[name])
            np.testing.assert_array_equal(value, from_dataset[name])
    assert (eager[0]["mask_positions"].numpy() != eager[1]["mask_positions"].numpy()).any()


@pytest.mark.parametrize("continuation_ids", [None, range(900, 1000)])
def test_wider_padding_changes_no_mask(continuation_ids):
    the_masker = masker(continuation_ids=continuation_ids)
    narrow_ids, narrow_mask = rows_of_lengths([12, 20, 31])
    narrow_ids[:, 4:8] = 950
    more = ((0, 0), (0, 100))
    wide_ids, wide_mask = np.pad(narrow_ids, more), np.pad(narrow_mask, more)
    narrow = the_masker(narrow_ids, narrow_mask, seed=(6, 1))
    wide = the_masker(wide_ids, wide_mask, seed=(6, 1))
    np.testing.assert_array_equal(wide["token_ids"][:, :31], narrow["token_ids"])
    for name in ("mask_positions", "mask_ids", "mask_weights"):
        np.testing.assert_array_equal(wide[name], narrow[name])


def test_whole_words_are_chosen_whole_and_within_the_count():
    rng = np.random.default_rng(1)
    ids, mask = rows_of_lengths([128] * 200)
    ids = np.where((rng.random(ids.shape) < 0.4) & (ids > 4), ids % 100 + 900, ids)
    the_masker = masker(continuation_ids=range(900, 1000))
    masked = the_masker(ids, mask, seed=(7, 0))
    chosen = np.zeros_like(mask)
    for row in range(200):
        weights = masked["mask_weights"].numpy()[row]
        chosen[row, masked["mask_positions"].numpy()[row][weights > 0]] = True
    is_inside = (ids[:, 1:] >= 900) & (ids[:, :-1] > 4)  # the piece before is of the same word
    np.testing.assert_array_equal(chosen[:, 1:][is_inside], chosen[:, :-1][is_inside])
    counts = chosen.sum(axis=1)
    assert counts.max() == 19  # round(128 * 0.15)
    assert counts.mean() > 18.8  # small words fill what large ones leave
    # each piece draws for itself
    hidden = masked["token_ids"].numpy() == MASK
    assert (hidden[:, 1:] != hidden[:, :-1])[is_inside & chosen[:, 1:]].mean() > 0.2


def test_groups_are_taken_as_by_the_references_loop():
    rng = np.random.default_rng(2)
    rows, length = 60, 40
    begins = rng.random((rows, length)) < 0.35
    begins[:, 0] = False
    groups = np.cumsum(begins, axis=1).astype("int32")
    maskable = rng.random((rows, length)) < 0.9
    limit = rng.integers(0, 14, size=rows).astype("int32")
    chosen = choose_groups(tf.constant(groups), tf.constant(maskable), tf.constant(limit), (8, 0))
    order = np.argsort(uniform([rows, length], (8, 0)).numpy(), axis=1, kind="stable")
    for row in range(rows):
        taken = []
        for group in order[row]:
            pieces = [i for i in range(length) if groups[row, i] == group and maskable[row, i]]
            if len(taken) >= limit[row]:
                break
            if len(taken) + len(pieces) <= limit[row]:
                taken += pieces
        assert np.flatnonzero(chosen.numpy()[row]).tolist() == sorted(taken)


def test_a_word_does_not_reach_over_a_separator():
    ids = np.array([[CLS, 50, SEP, 950, SEP]], "int32")
    the_masker = masker(continuation_ids=range(900, 1000))
    seen = set()
    for step in range(30):
        masked = the_masker(ids, seed=(9, step))
        assert masked["mask_weights"].numpy().sum() == 1
        seen.add(int(masked["mask_positions"][0, 0]))
    assert seen == {1, 3}


def test_a_vocabulary_without_continuations_has_words_of_a_piece():
    ids, mask = rows_of_lengths([30, 40])
    by_word = masker(continuation_ids=[])(ids, mask, seed=(1, 1))
    for name, value in masker()(ids, mask, seed=(1, 1)).items():
        np.testing.assert_array_equal(value, by_word[name])


def test_a_word_longer_than_the_count_leaves_the_row_unmasked():
    ids = np.array([[CLS, 50, 950, 951, SEP]], "int32")
    masked = masker(continuation_ids=range(900, 1000))(ids, seed=(0, 0))
    assert masked["mask_weights"].numpy().sum() == 0
    np.testing.assert_array_equal(masked["token_ids"], ids)


def test_for_tokenizer():
    by_piece = DynamicMasker.for_tokenizer(NumberTokenizer(), mask_rate=0.3)
    assert by_piece.get_config() == {
        "vocabulary_size": 1000,
        "mask_token_id": 4,
        "special_token_ids": [0, 1, 2, 3, 4],
        "mask_rate": 0.3,
        "max_predictions": 20,
        "mask_token_rate": 0.8,
        "random_token_rate": 0.1,
        "continuation_ids": None,
        "exclude_special_from_random": False,
        "unit": "piece",
        "max_ngram": 3,
    }
    by_word = DynamicMasker.for_tokenizer(NumberTokenizer(), whole_word=True)
    assert by_word.continuation_ids == list(range(900, 1000))
    again = DynamicMasker.for_tokenizer(NumberTokenizer(), unit="whole_word")
    assert again.get_config() == by_word.get_config()
    by_phrase = DynamicMasker.for_tokenizer(NumberTokenizer(), unit="phrase")
    assert by_phrase.unit == "phrase" and by_phrase.continuation_ids == list(range(900, 1000))
    with pytest.raises(ValueError, match="whole_word=True and unit='ngram' are two units"):
        DynamicMasker.for_tokenizer(NumberTokenizer(), whole_word=True, unit="ngram")


def test_configs_of_before_units_say_what_they_said():
    config = masker(continuation_ids=range(900, 1000)).get_config()
    del config["unit"], config["max_ngram"]
    assert DynamicMasker.from_config(config).unit == "whole_word"
    config["continuation_ids"] = None
    assert DynamicMasker.from_config(config).unit == "piece"


def units_of(rows):
    """Marks of rows of `P` and `p`, `E` and `e` (a unit begins, goes on) and `.`."""
    marks = {".": 0, "p": 2 * PHRASE, "P": 2 * PHRASE + 1, "e": 2 * ENTITY, "E": 2 * ENTITY + 1}
    return np.array([[marks[c] for c in row] for row in rows], "int32")


def chosen_in(masked, shape):
    chosen = np.zeros(shape, bool)
    for row, (positions, weights) in enumerate(
        zip(masked["mask_positions"].numpy(), masked["mask_weights"].numpy(), strict=True)
    ):
        chosen[row, positions[weights > 0]] = True
    return chosen


@pytest.mark.parametrize("unit", ["phrase", "entity"])
def test_marked_units_are_chosen_whole(unit):
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(300):
        row = "."
        while len(row) < 90:
            row += rng.choice(["....", "Ppp", "Pp", "EeeEe", "Ee", "P"])
        rows.append(row[:99].ljust(100, "."))
    units = units_of(rows)
    ids, mask = rows_of_lengths([100] * 300)
    ids = np.where((ids > 4) & (rng.random(ids.shape) < 0.3), ids % 100 + 900, ids)
    the_masker = masker(continuation_ids=range(900, 1000), unit=unit)
    masked = the_masker(ids, mask, units=units, seed=(7, 0))
    chosen = chosen_in(masked, ids.shape)
    goes_on = units[:, 1:] == {"phrase": 2 * PHRASE, "entity": 2 * ENTITY}[unit]
    inside_chosen = goes_on & chosen[:, 1:]
    assert inside_chosen.sum() > 200
    np.testing.assert_array_equal(chosen[:, 1:][goes_on], chosen[:, :-1][goes_on])
    # the other kind is nothing but words
    is_other = units[:, 1:] == {"phrase": 2 * ENTITY, "entity": 2 * PHRASE}[unit]
    apart = is_other & (ids[:, 1:] < 900) & (ids[:, 1:] > 4)
    assert (chosen[:, 1:] != chosen[:, :-1])[apart].mean() > 0.1
    counts = chosen.sum(axis=1)
    assert counts.max() == 15 and counts.mean() > 14.9
    # each piece draws for itself
    hidden = masked["token_ids"].numpy() == MASK
    assert 0.1 < (hidden[:, 1:] != hidden[:, :-1])[inside_chosen].mean() < 0.5


def test_ngrams_are_runs_of_whole_words():
    rng = np.random.default_rng(4)
    ids, mask = rows_of_lengths([512] * 200)
    ids = np.where((rng.random(ids.shape) < 0.3) & (ids > 4), ids % 100 + 900, ids)
    is_inside = (ids[:, 1:] >= 900) & (ids[:, :-1] > 4)
    options = {"continuation_ids": range(900, 1000), "max_predictions": 200}
    adjacent = {}
    for unit in ("whole_word", "ngram"):
        masked = masker(unit=unit, **options)(ids, mask, seed=(7, 0))
        chosen = chosen_in(masked, ids.shape)
        np.testing.assert_array_equal(chosen[:, 1:][is_inside], chosen[:, :-1][is_inside])
        assert chosen.sum(axis=1).max() == 77 and chosen.sum(axis=1).mean() > 76.9
        both = chosen[:, 1:] & chosen[:, :-1] & ~is_inside
        adjacent[unit] = both.sum() / chosen.sum()
    # two words side by side: by chance 15%, and in n-grams every 2nd and 3rd word besides
    assert adjacent["ngram"] > 2 * adjacent["whole_word"]


def test_a_count_of_one_chooses_one_piece_of_any_unit():
    ids = np.array([[CLS, 50, 51, 52, SEP]], "int32")
    for unit, units in (("ngram", None), ("phrase", units_of([".Pp.."]))):
        for step in range(20):
            masked = masker(unit=unit)(ids, units=units, seed=(1, step))
            chosen = chosen_in(masked, ids.shape)[0]
            if unit == "phrase":
                assert np.flatnonzero(chosen).tolist() == [3]  # the phrase has no room
            assert chosen.sum() <= 1


def test_phrases_need_marks_and_other_units_do_not_look_at_them():
    ids, mask = rows_of_lengths([12, 40])
    with pytest.raises(ValueError, match="unit='phrase' needs `units`"):
        masker(unit="phrase")(ids, mask, seed=(0, 0))
    for unit in ("piece", "ngram"):
        plain = masker(unit=unit)(ids, mask, seed=(0, 0))
        marked = masker(unit=unit)(ids, mask, units=np.ones_like(ids), seed=(0, 0))
        for name, value in plain.items():
            np.testing.assert_array_equal(value, marked[name])


@pytest.mark.parametrize("unit", ["ngram", "phrase"])
def test_units_are_the_same_everywhere_and_in_wider_padding(unit):
    ids, mask = rows_of_lengths([12, 20, 31])
    units = units_of(
        [".PpppppPpp.....................", "." * 31, ".PpPpPpPp......................"]
    )
    the_masker = masker(unit=unit, continuation_ids=range(900, 1000), mask_rate=0.4)
    eager = the_masker(ids, mask, units=units, seed=(5, 1))
    (from_dataset,) = tf.data.Dataset.range(1, 2).map(
        lambda step: the_masker(ids, mask, units=units, seed=(5, step))
    )
    more = ((0, 0), (0, 100))
    wide = the_masker(np.pad(ids, more), np.pad(mask, more), units=np.pad(units, more), seed=(5, 1))
    for name, value in eager.items():
        np.testing.assert_array_equal(value, from_dataset[name])
        np.testing.assert_array_equal(value, wide[name][:, : value.shape[1]])


def test_config_round_trip_masks_alike():
    ids, mask = rows_of_lengths([30, 40])
    the_masker = masker(
        mask_rate=0.4,
        max_predictions=9,
        mask_token_rate=0.3,
        random_token_rate=0.3,
        continuation_ids=range(500, 1000),
        exclude_special_from_random=True,
        unit="ngram",
        max_ngram=2,
    )
    again = DynamicMasker.from_config(the_masker.get_config())
    assert again.get_config() == the_masker.get_config()
    for name, value in the_masker(ids, mask, seed=(1, 1)).items():
        np.testing.assert_array_equal(value, again(ids, mask, seed=(1, 1))[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_rate": 0.0}, "mask_rate=0.0"),
        ({"mask_rate": 1.5}, "mask_rate=1.5"),
        ({"max_predictions": 0}, "max_predictions=0"),
        ({"mask_token_rate": 0.8, "random_token_rate": 0.3}, "together at most 1"),
        ({"mask_token_rate": -0.1}, "neither negative"),
        ({"mask_token_id": 1000}, "Id 1000 is outside"),
        ({"special_token_ids": [0, -1]}, "Id -1 is outside"),
        ({"continuation_ids": [2000]}, "Id 2000 is outside"),
        ({"unit": "word"}, "Unknown unit 'word'. Choose one of piece, whole_word, ngram"),
        ({"unit": "whole_word"}, "needs continuation_ids"),
        ({"max_ngram": 0}, "max_ngram=0 must be at least 1"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        masker(**options)


def test_a_vocabulary_of_special_tokens_has_no_random_ones():
    with pytest.raises(ValueError, match="none is left"):
        masker(vocabulary_size=5, exclude_special_from_random=True)
