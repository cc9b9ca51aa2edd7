import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import pretraining
from keras_bert_impl.data.masking import DynamicMasker
from keras_bert_impl.data.pretraining import pretraining_dataset
from keras_bert_impl.data.sentence_pairs import IS_NEXT
from tests.data.fake_tokenizer import NumberTokenizer

TOKENIZER = NumberTokenizer()
# Document d has the words 10 + d * 21 to 30 + d * 21, one after the other, three a sentence.
DOCUMENTS = [
    [f"{word} {word + 1} {word + 2}" for word in range(start, start + 21, 3)]
    for start in range(10, 10 + 40 * 21, 21)
]


def document_of(word):
    return (word - 10) // 21


def make(documents=DOCUMENTS, **options):
    options = {
        "sequence_length": 16,
        "batch_size": 4,
        "max_predictions": 3,
        "window_documents": 8,
        "shuffle_buffer": 20,
        **options,
    }
    return pretraining_dataset(documents, TOKENIZER, **options)


def evaluation(documents=DOCUMENTS, **options):
    options = {"shuffle_buffer": 0, "repeat": False, "drop_remainder": False, **options}
    return make(documents, **options)


def flat(batch):
    return [x.numpy() for x in tf.nest.flatten(batch)]


def assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        for x, y in zip(flat(a), flat(b), strict=True):
            np.testing.assert_array_equal(x, y)


def unmasked(batch):
    """(batch, length) ids as they were before masking."""
    x, y, weight = batch
    ids = x["token_ids"].numpy().copy()
    mask_ids, weight = (v["masked_lm"] if isinstance(v, dict) else v for v in (y, weight))
    rows, slots = np.nonzero(weight.numpy())
    ids[rows, x["mask_positions"].numpy()[rows, slots]] = mask_ids.numpy()[rows, slots]
    return ids


@pytest.fixture(scope="module")
def batches():
    """The first 150 batches, some epochs."""
    return list(make(seed=5).take(150))


def test_structure_shapes_and_types():
    dataset = make()
    x, y, weight = dataset.element_spec
    assert {k: (v.shape.as_list(), v.dtype) for k, v in x.items()} == {
        "token_ids": ([4, 16], tf.int32),
        "segment_ids": ([4, 16], tf.int32),
        "padding_mask": ([4, 16], tf.bool),
        "mask_positions": ([4, 3], tf.int32),
    }
    assert {k: (v.shape.as_list(), v.dtype) for k, v in y.items()} == {
        "masked_lm": ([4, 3], tf.int32),
        "next_sentence": ([4], tf.int32),
    }
    assert {k: (v.shape.as_list(), v.dtype) for k, v in weight.items()} == {
        "masked_lm": ([4, 3], tf.float32),
        "next_sentence": ([4], tf.float32),
    }


def test_rows_are_pairs_of_the_documents(batches):
    labels = []
    for batch in batches[:60]:
        assert batch[2]["next_sentence"].numpy().tolist() == [1.0] * 4
        ids = unmasked(batch)
        for row, segments, mask, label in zip(
            ids,
            batch[0]["segment_ids"].numpy(),
            batch[0]["padding_mask"].numpy(),
            batch[1]["next_sentence"].numpy(),
            strict=True,
        ):
            assert row[0] == 2 and (row == 3).sum() == 2 and (row[~mask] == 0).all()
            middle = row.tolist().index(3)
            a, b = row[1:middle], row[middle + 1 : mask.sum() - 1]
            assert (
                segments.tolist() == [0] * (middle + 1) + [1] * (len(b) + 1) + [0] * (~mask).sum()
            )
            same_document = document_of(a[0]) == document_of(b[0])
            assert same_document == (label == IS_NEXT)
            labels.append(label)
    assert 0.4 < np.mean(labels) < 0.8  # half, and the chunks of one sentence


def test_masks_are_the_maskers_at_seed_and_step(batches):
    masker = DynamicMasker.for_tokenizer(TOKENIZER, max_predictions=3)
    for step, batch in enumerate(batches[:4]):
        x, y, weight = batch
        expected = masker(unmasked(batch), x["padding_mask"], seed=(5, step))
        np.testing.assert_array_equal(x["token_ids"], expected["token_ids"])
        np.testing.assert_array_equal(x["mask_positions"], expected["mask_positions"])
        np.testing.assert_array_equal(y["masked_lm"], expected["mask_ids"])
        np.testing.assert_array_equal(weight["masked_lm"], expected["mask_weights"])


def test_same_seed_same_batches_whatever_the_global_seed(batches):
    # and a dataset of documents is as good as a list
    documents = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(DOCUMENTS))
    tf.random.set_seed(1)
    assert_same(list(make(documents, seed=5).take(150)), batches)
    other = next(iter(make(seed=6)))
    assert (unmasked(other) != unmasked(batches[0])).any()


def test_started_later_it_equals_the_rest(batches):
    assert_same(list(make(seed=5, start_step=137).take(13)), batches[137:])


def test_epochs_make_other_pairs_of_the_same_text():
    options = {"shuffle_buffer": 0, "batch_size": 1, "short_sequence_probability": 0.5}
    rows_an_epoch = len(list(evaluation(**options)))
    dataset = make(**options)
    batches = [unmasked(batch).tolist() for batch in dataset.take(3 * rows_an_epoch)]
    assert batches[:rows_an_epoch] == [unmasked(b).tolist() for b in evaluation(**options)]
    assert batches[:rows_an_epoch] != batches[rows_an_epoch : 2 * rows_an_epoch]
    # each word of the corpus comes about once an epoch (random B and cut ends apart)
    words = {w for batch in batches for row in batch for w in row if w > 4}
    assert words >= set(range(10, 850))


def test_shuffling_moves_rows_and_documents():
    ordered, shuffled = (
        [unmasked(b).tolist() for b in make(repeat=False, batch_size=1, shuffle_buffer=n)]
        for n in (0, 1000)
    )
    first_document = [document_of(row[0][1]) for row in ordered]
    assert first_document == sorted(first_document)
    first_document = [document_of(row[0][1]) for row in shuffled]
    assert len(set(first_document[:20])) > 10
    assert set(first_document) == set(range(40))


def test_read_twice_it_is_the_same_and_keeps_the_last_small_batch():
    dataset = evaluation(batch_size=7)
    batches = list(dataset)
    assert_same(batches, list(dataset))
    sizes = [len(batch[1]["next_sentence"]) for batch in batches]
    assert set(sizes[:-1]) == {7} and 1 <= sizes[-1] < 7
    dropped = evaluation(batch_size=7, drop_remainder=True)
    assert_same(batches[:-1], list(dropped))


def test_single_texts_for_the_masked_lm_alone():
    for x, y, weight in evaluation(next_sentence=False):
        ids = unmasked((x, y, weight))
        assert ((ids == 3).sum(axis=1) == 1).all()
        assert x["segment_ids"].numpy().max() == 0
        for row in ids:
            text = row[row > 4]
            assert text.tolist() == list(range(text[0], text[0] + len(text)))
        assert y.shape == weight.shape == x["mask_positions"].shape


def test_rows_of_several_examples_are_full_and_resumable(monkeypatch):
    monkeypatch.setattr(pretraining, "POOL_EXAMPLES", 200)

    def made(**options):
        return make(sequence_length=64, examples_per_row=8, seed=3, **options)

    batches = list(made().take(6))
    assert_same(batches[4:], list(made(start_step=4).take(2)))
    share = np.mean([x["padding_mask"] for x, _, _ in batches])
    each = np.mean([x["num_examples"] for x, _, _ in batches])
    assert share > 0.95 > 0.5 > share / each  # of one example a row
    for x, y, weights in batches:
        assert y["next_sentence"].shape == weights["next_sentence"].shape == (4, 8)
        np.testing.assert_array_equal(
            np.sum(weights["next_sentence"], axis=1), np.max(x["sequence_ids"], axis=1)
        )
        assert (np.sum(weights["masked_lm"], axis=1) == 3).all()  # as of any full row
    with pytest.raises(ValueError, match="examples_per_row=0 must be at least 1"):
        make(examples_per_row=0)


def test_each_example_is_in_one_row():
    def examples(data):
        seen = []
        for batch in data:
            ids = unmasked(batch)
            x = batch[0]
            if "sequence_ids" in x:
                sequences = x["sequence_ids"].numpy()
            else:
                sequences = x["padding_mask"].numpy().astype("int32")
            for row, numbers in zip(ids, sequences, strict=True):
                seen += [tuple(row[numbers == k]) for k in range(1, numbers.max() + 1)]
        return sorted(seen)

    options = {"short_sequence_probability": 0.7, "seed": 1}
    assert examples(evaluation(examples_per_row=5, **options)) == examples(evaluation(**options))


def test_whole_words():
    documents = [["10 900 901 20 30", "40 902 50 60 903"], ["70 904 905 906 80", "11 12 13 14 15"]]
    for x, y, weight in make(documents, whole_word=True, mask_rate=0.3, max_predictions=5).take(20):
        ids = unmasked((x, y, weight))
        chosen = np.zeros(ids.shape, bool)
        rows, slots = np.nonzero(weight["masked_lm"].numpy())
        chosen[rows, x["mask_positions"].numpy()[rows, slots]] = True
        inside = (ids[:, 1:] >= 900) & (ids[:, :-1] > 4)
        assert (chosen[:, 1:] == chosen[:, :-1])[inside].all()


@pytest.mark.parametrize("documents", [[], tf.data.Dataset.from_tensors(["a"]).take(0)])
def test_no_documents(documents):
    with pytest.raises(ValueError, match="There are no documents"):
        make(documents)


def test_a_flat_list_is_no_list_of_documents():
    with pytest.raises(ValueError, match="list of strings.*read_documents"):
        make(["some text", "more text"])


def test_endless_epochs_without_a_row_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="make no training row"):
        list(make([["10 11 12"], [" "]]).take(1))
    assert list(evaluation([["10 11 12"], [" "]])) == []


def test_windows_without_a_row_are_passed_over():
    documents = [[" "]] * 9 + DOCUMENTS[:10] + [[""]] * 9
    dataset = make(documents, shuffle_buffer=0, window_documents=3, batch_size=1)
    firsts = [document_of(unmasked(batch)[0, 1]) for batch in dataset.take(150)]
    assert set(firsts) == set(range(10))
    assert sum(a > b for a, b in zip(firsts, firsts[1:], strict=False)) > 1  # epoch after epoch


def test_impossible_options():
    with pytest.raises(ValueError, match="start_step=-1"):
        make(start_step=-1)
    with pytest.raises(ValueError, match="max_tokens=1"):
        make(sequence_length=4)
    with pytest.raises(ValueError, match="mask_rate=2"):
        make(mask_rate=2)
