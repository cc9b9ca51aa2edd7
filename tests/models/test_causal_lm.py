import doctest

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models import causal_lm
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.causal_lm import BertCausalLM
from keras_bert_impl.models.causal_lm_preprocessor import BertCausalLMPreprocessor
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

TEXTS = small.TEXTS
CLS, SEP = 2, 3


def make(preprocessor=True, backbone=None, **options):
    options = {"sequence_length": 16, **options}
    if preprocessor:
        preprocessor = BertCausalLMPreprocessor(small.tokenizer(), **options)
    backbone = backbone or small.backbone(num_layers=2, dropout=0.0, causal=True)
    return BertCausalLM(backbone, preprocessor or None)


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@pytest.fixture(scope="module")
def model():
    return make()


# Training


def test_the_loss_is_the_mean_of_the_next_tokens_over_all_rows(model):
    x, y, weights = (keras.tree.map_structure(np.array, part) for part in model.preprocessor(TEXTS))
    hidden = np.array(model.backbone(x)["sequence_output"])
    logits = hidden @ np.array(model.backbone.token_embedding.embeddings).T
    np.testing.assert_allclose(model(x), logits, atol=1e-4)
    losses, right = [], []
    for row, mask, scores in zip(
        x["token_ids"], x["padding_mask"], log_softmax(logits), strict=True
    ):
        for i in range(mask.sum() - 1):
            losses.append(-scores[i, row[i + 1]])
            right.append(scores[i].argmax() == row[i + 1])
    assert len(losses) < weights.size - len(TEXTS), "padding was to be there"
    for result in (
        model.evaluate(TEXTS, verbose=0, return_dict=True),
        model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True),
        model.test_on_batch(x, y, weights, return_dict=True),
    ):
        assert result["loss"] == pytest.approx(np.mean(losses), abs=1e-4)
        assert result["accuracy"] == pytest.approx(np.mean(right), abs=1e-6)


def test_no_position_sees_its_own_future(model):
    """d h[i] / d (the token at j) is 0 for j > i, and is not for j <= i; all tokens differ."""
    ids = np.array([[CLS, 6, 7, 8, 9, 10, SEP]])
    x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    # Not the plain sum, which a layer norm makes constant.
    direction = np.random.default_rng(0).normal(size=16).astype("float32")
    table = model.backbone.token_embedding.embeddings
    with tf.GradientTape(persistent=True) as tape:
        hidden = model.backbone(x)["sequence_output"][0] @ direction[:, None]  # (length, 1)
        sums = [hidden[i, 0] for i in range(7)]
    for i, value in enumerate(sums):
        gradient = np.array(tf.convert_to_tensor(tape.gradient(value, table.value)))
        moved = np.abs(gradient[ids[0]]).max(axis=-1)
        assert (moved[i + 1 :] == 0).all()
        assert (moved[: i + 1] > 1e-6).all()


def test_learns_its_texts_and_writes_them():
    keras.utils.set_random_seed(0)
    model = make()
    model.compile(BertAdamW(1e-2))
    texts = ["the cat sat on the mat .", "a dog ran , unaffable"]
    history = model.fit(texts * 50, epochs=3, batch_size=10, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    assert model.generate(["The cat", "a dog"]) == [
        "The cat sat on the mat .",
        "a dog ran , unaffable",
    ]


def test_short_and_empty_texts_train():
    model = make()
    history = model.fit(["", "a", "unaffable cat"], batch_size=3, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    x = {name: np.zeros_like(rows) for name, rows in small.prepared().items()}
    zeros = np.zeros(x["token_ids"].shape)
    assert model.evaluate(x, zeros.astype(int), sample_weight=zeros, verbose=0)[0] == 0
    assert np.isfinite(model.predict(x, verbose=0)).all()


def test_predicts_logits_over_the_vocabulary(model):
    assert model.predict(TEXTS, verbose=0).shape == (4, 9, len(small.VOCABULARY))


def test_labels_are_refused(model):
    with pytest.raises(ValueError, match="makes its own targets"):
        model.fit(TEXTS, np.zeros(4, int))


def test_a_backbone_that_sees_the_future_is_refused():
    with pytest.raises(ValueError, match="BertCausalLM needs a backbone.*has causal=False"):
        BertCausalLM(small.backbone())


def test_survives_its_config(model):
    again = BertCausalLM.from_config(model.get_config())
    assert again.preprocessor.get_config() == model.preprocessor.get_config()
    assert again.backbone.get_config() == model.backbone.get_config()
    assert again.backbone.causal is True


# Writing


def written_step_by_step(model, prompt, max_length, next_token):
    """The ids after a prompt, each from all logits computed anew."""
    ids = [CLS, *model.preprocessor.tokenizer([prompt]).to_list()[0]]
    start = len(ids)
    while len(ids) < max_length:
        row = np.array([ids])
        x = {"token_ids": row, "segment_ids": 0 * row, "padding_mask": row >= 0}
        ids.append(next_token(np.array(model(x))[0, -1]))
        if ids[-1] == SEP:
            break
    return ids[start:]


def likeliest(logits):
    logits = logits.copy()
    logits[[0, 1, CLS, 4]] = -np.inf  # never written
    return int(logits.argmax())


def test_greedy_is_the_argmax_step_by_step(model):
    prompts = ["the cat", "", "unaffable dog , a"]
    written = model.generate(prompts, max_length=14)
    expected = [written_step_by_step(model, prompt, 14, likeliest) for prompt in prompts]
    assert len({tuple(ids) for ids in expected}) == 3, "the prompts were to matter"
    assert written == [
        model.preprocessor.continued(prompt, ids)
        for prompt, ids in zip(prompts, expected, strict=True)
    ]
    # Alone as in company, and a string for a string.
    assert [model.generate(prompt, max_length=14) for prompt in prompts] == written


def biased(towards, by=50.0):
    """A model whose every logit of one token is far above the others."""
    model = make()
    table = np.array(model.backbone.token_embedding.embeddings)
    norm = model.backbone.encoder_layers[-1].output_layer_norm
    norm.gamma.assign(np.zeros(16))
    norm.beta.assign(by * table[towards] / np.square(table[towards]).sum())
    logits = np.array(model(small.prepared(1)))[0, 0]
    assert logits.argmax() == towards
    return model


def test_writing_stops_at_the_end_mark():
    model = biased(SEP)
    assert model.generate(["the cat", "a"], max_length=12) == ["the cat", "a"]
    ids = np.array([[CLS, 5, 6, 7] + [0] * 8])
    rows = model.generate_ids(ids, np.arange(12)[None] < 4, stop_id=SEP)
    assert rows[0, :5].tolist() == [CLS, 5, 6, 7, SEP]
    assert (rows[0, 5:] == 0).all(), "nothing was to be written after the end"


@pytest.mark.parametrize("token", [0, 1, CLS, 4])
def test_no_special_token_is_written(token):
    written = biased(token).generate("the cat", max_length=8)
    assert "[" not in written


def test_samplers_draw_by_the_seed(model):
    def write(seed, sampler="random"):
        return model.generate(["the", "a dog"] * 3, max_length=12, sampler=sampler, seed=seed)

    first = write(1)
    assert write(1) == first
    assert write(2) != first
    assert write(1) == first
    for sampler in ("top_k", keras_hub.samplers.TopPSampler(p=0.9)):
        assert write(1, sampler) == write(1, sampler) != write(2, sampler)
    greedy = write(0, "greedy")
    assert greedy == write(1, "greedy")
    # With one token to choose from, and with next to no probability to fill, it is the likeliest.
    assert write(1, keras_hub.samplers.TopKSampler(k=1)) == greedy
    assert write(1, keras_hub.samplers.TopPSampler(p=1e-6)) == greedy


def test_top_k_draws_among_the_likeliest():
    model = make()
    table = np.array(model.backbone.token_embedding.embeddings)
    norm = model.backbone.encoder_layers[-1].output_layer_norm
    norm.gamma.assign(np.zeros(16))  # the same logits everywhere
    norm.beta.assign(0.5 * table[10])
    logits = np.array(model(small.prepared(1)))[0, 0]
    logits[[0, 1, CLS, 4]] = -np.inf
    best = set(np.argsort(-logits)[:5].tolist())
    ids = np.zeros([20, 12], int)
    ids[:, 0] = CLS
    allowed = np.isfinite(logits)
    rows = model.generate_ids(
        ids, np.arange(12) < np.ones([20, 1]), "top_k", seed=0, allowed=allowed
    )
    assert set(rows[:, 1:].flatten().tolist()) == best


def test_tokens_beyond_the_vocabulary_are_not_written():
    """A table padded to a round number of rows."""
    size = len(small.VOCABULARY) + 20
    model = make(backbone=small.backbone(vocabulary_size=size, num_layers=1, causal=True))
    table = np.array(model.backbone.token_embedding.embeddings)
    table[len(small.VOCABULARY) :] *= 100
    model.backbone.token_embedding.embeddings.assign(table)
    assert model.generate("the cat", max_length=10).startswith("the cat ")


def test_new_weights_write_anew(model):
    model = make()
    before = model.generate("the", max_length=12)
    model.backbone.set_weights(make().backbone.get_weights())
    assert model.generate("the", max_length=12) != before


def test_impossible_prompts_are_refused(model):
    assert model.generate([]) == []
    with pytest.raises(ValueError, match="leaves no room after it"):
        model.generate("the cat sat", max_length=4)
    with pytest.raises(ValueError, match="max_length=40, but the position table has 32 rows"):
        model.generate("the cat", max_length=40)
    with pytest.raises(ValueError, match="no preprocessor to read prompts with"):
        make(preprocessor=False).generate("the cat")
    with pytest.raises(ValueError, match="Row 1 has no token to begin with"):
        model.generate_ids([[2, 0], [0, 0]], [[True, False], [False, False]])
    with pytest.raises(ValueError, match="Unknown sampler 'beam'. Choose one of greedy, random"):
        model.generate("the cat", sampler="beam")


def test_docstring_examples():
    names = {"tokenizer": small.tokenizer(), "BertBackbone": BertBackbone}
    assert doctest.testmod(causal_lm, extraglobs=names) == (0, 4)
