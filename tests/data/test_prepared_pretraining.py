import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.masking import DynamicMasker
from keras_bert_impl.data.prepared_pretraining import (
    prepare_pretraining,
    prepared_pretraining_dataset,
)
from keras_bert_impl.data.pretraining import pretraining_dataset
from tests.data.fake_tokenizer import NumberTokenizer

DOCUMENTS = [[f"{word} {word + 1}" for word in range(d, d + 8, 2)] for d in range(10, 400, 10)]


class Tokenizer(NumberTokenizer):
    def __init__(self, name="numbers"):
        self.name = name

    def fingerprint(self):
        return self.name


TOKENIZER = Tokenizer()
OPTIONS = {"sequence_length": 16, "num_files": 5, "copies": 2, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("prepared")
    prepare_pretraining(DOCUMENTS, TOKENIZER, path, **OPTIONS)
    return path


def make(folder, **options):
    options = {"batch_size": 4, "max_predictions": 3, "seed": 7, **options}
    return prepared_pretraining_dataset(folder, TOKENIZER, **options)


def flat(batch):
    return [t.numpy() for t in tf.nest.flatten(batch)]


def test_batches_look_as_those_of_text(folder):
    text = pretraining_dataset(
        DOCUMENTS, TOKENIZER, sequence_length=16, batch_size=4, max_predictions=3
    )
    assert make(folder).element_spec == text.element_spec


def test_rows_are_pairs_of_the_documents(folder):
    for x, y, weights in make(folder, shuffle=False, repeat=False).take(20):
        ids = x["token_ids"].numpy()
        rows, slots = np.nonzero(weights["masked_lm"].numpy())
        ids[rows, x["mask_positions"].numpy()[rows, slots]] = y["masked_lm"].numpy()[rows, slots]
        for row, segments, mask in zip(
            ids, x["segment_ids"].numpy(), x["padding_mask"].numpy(), strict=True
        ):
            middle, end = row.tolist().index(3), mask.sum() - 1
            assert row[0] == 2 and row[end] == 3 and not row[~mask].any()
            assert segments.tolist() == [0] * (middle + 1) + [1] * (end - middle) + [0] * (
                len(row) - end - 1
            )
            text = row[1:middle]
            assert (np.diff(text) == 1).all()  # words of a document follow each other


def test_masks_are_the_maskers_at_seed_and_step(folder):
    masker = DynamicMasker.for_tokenizer(TOKENIZER, max_predictions=3)
    batch = make(folder, start_step=2)
    x, y, weights = next(iter(batch))
    ids = x["token_ids"].numpy()
    rows, slots = np.nonzero(weights["masked_lm"].numpy())
    ids[rows, x["mask_positions"].numpy()[rows, slots]] = y["masked_lm"].numpy()[rows, slots]
    expected = masker(ids, x["padding_mask"], seed=(7, 2))
    np.testing.assert_array_equal(x["token_ids"], expected["token_ids"])


def test_a_late_start_is_the_rest(folder):
    whole = [flat(batch) for batch in make(folder).take(40)]
    for start in (1, 19, 33):
        rest = make(folder, start_step=start).take(7)
        for batch, expected in zip(rest, whole[start : start + 7], strict=True):
            for tensor, other in zip(flat(batch), expected, strict=True):
                np.testing.assert_array_equal(tensor, other)


def test_without_next_sentence(tmp_path):
    prepare_pretraining(DOCUMENTS, TOKENIZER, tmp_path, **{**OPTIONS, "next_sentence": False})
    x, y, weights = next(iter(make(tmp_path)))
    assert not x["segment_ids"].numpy().any()
    assert y.shape == weights.shape == (4, 3)


def test_another_vocabulary_is_refused(folder):
    with pytest.raises(ValueError, match="vocabulary: 'numbers', now 'others'"):
        prepared_pretraining_dataset(folder, Tokenizer("others"), batch_size=2)
