import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models.pretrainer import BertPretrainer
from keras_bert_impl.models.text_classifier import BertTextClassifier
from keras_bert_impl.training.optimizers import BertAdamW, rates_by_depth
from keras_bert_impl.training.schedules import WarmupLinearDecay
from tests import small

NUM_STEPS, NUM_WARMUP_STEPS, PEAK = 100, 10, 0.05


def quadratic():
    """Named start values, targets and curvatures: the loss is sum(c * (w - t)^2) / 2.

    Its gradient starts longer than 1, so that it is clipped, and ends shorter.
    """
    draw = np.random.default_rng(0)
    shapes = {"dense/kernel": (3, 4), "dense/bias": (4,), "LayerNorm/gamma": (4,)}
    start, target = (
        {name: draw.normal(size=shape).astype("float32") for name, shape in shapes.items()}
        for _ in range(2)
    )
    curvature = {n: draw.uniform(0.2, 1, shape).astype("float32") for n, shape in shapes.items()}
    return start, target, curvature


def by_google():
    """The original's optimizer on the quadratic: (weights, lengths of the gradient)."""
    from bert import optimization

    start, target, curvature = quadratic()
    weights, lengths = [], []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            # The original appends to names, which only get_variable's have.
            name: tf.compat.v1.get_variable(name, initializer=value, use_resource=False)
            for name, value in start.items()
        }
        loss = tf.add_n(
            [tf.reduce_sum(curvature[n] * (v - target[n]) ** 2) / 2 for n, v in variables.items()]
        )
        length = tf.linalg.global_norm(tf.gradients(loss, list(variables.values())))
        step = optimization.create_optimizer(loss, PEAK, NUM_STEPS, NUM_WARMUP_STEPS, False)
        # One after the other: together, the step may be counted before its rate is read.
        update, count = sorted(step.control_inputs, key=lambda op: op.type != "NoOp")
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(NUM_STEPS):
            lengths.append(session.run(length))
            session.run(update)
            session.run(count)
            weights.append(session.run(variables))
    return weights, np.array(lengths)


def by_keras(optimizer):
    start, target, curvature = quadratic()
    variables = {
        name: keras.Variable(value, name=name.split("/")[-1]) for name, value in start.items()
    }
    optimizer.build(list(variables.values()))
    weights = []
    for _ in range(NUM_STEPS):
        gradients = [curvature[n] * (np.array(v) - target[n]) for n, v in variables.items()]
        optimizer.apply(gradients)
        weights.append({name: np.array(v) for name, v in variables.items()})
    return weights


def by_numpy(peak, weight_decay, clipnorm, epsilon=1e-6, beta_1=0.9, beta_2=0.999):
    """Kingma and Ba's Adam in float64, with decay of the kernel alone."""
    weights, target, curvature = quadratic()
    weights = {name: value.astype("float64") for name, value in weights.items()}
    mean = dict.fromkeys(weights, 0.0)
    square = dict.fromkeys(weights, 0.0)
    history = []
    for step in range(1, NUM_STEPS + 1):
        gradients = {n: curvature[n] * (w - target[n]) for n, w in weights.items()}
        length = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        for name, gradient in gradients.items():
            gradient = gradient * min(1, clipnorm / length)
            mean[name] = beta_1 * mean[name] + (1 - beta_1) * gradient
            square[name] = beta_2 * square[name] + (1 - beta_2) * gradient**2
            update = (mean[name] / (1 - beta_1**step)) / (
                np.sqrt(square[name] / (1 - beta_2**step)) + epsilon
            )
            decay = weight_decay if name.endswith("kernel") else 0
            weights[name] = weights[name] - peak * (update + decay * weights[name])
        history.append(dict(weights))
    return history


def assert_same_steps(ours, theirs, tolerance):
    for step, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        for name in their:
            np.testing.assert_allclose(
                our[name], their[name], rtol=0, atol=tolerance, err_msg=f"{name} at step {step}"
            )


def test_100_steps_are_the_originals_without_bias_correction():
    theirs, lengths = by_google()
    assert (lengths > 1).any(), "the gradient was to be clipped at some steps"
    assert (lengths < 1).any(), "the gradient was not to be clipped at some steps"
    schedule = WarmupLinearDecay(PEAK, NUM_STEPS, NUM_WARMUP_STEPS)
    assert_same_steps(by_keras(BertAdamW(schedule, bias_correction=False)), theirs, 1e-6)

    start = quadratic()[0]
    assert all(np.abs(theirs[-1][name] - start[name]).max() > 0.1 for name in start)


def test_100_steps_are_adams_with_bias_correction():
    ours = by_keras(BertAdamW(0.01, weight_decay=0.1))
    assert_same_steps(ours, by_numpy(0.01, weight_decay=0.1, clipnorm=1.0), 1e-5)


def test_bias_correction_changes_the_first_step():
    corrected = by_keras(BertAdamW(0.01, bias_correction=True))[0]
    original = by_keras(BertAdamW(0.01, bias_correction=False))[0]
    start = quadratic()[0]["dense/bias"]
    np.testing.assert_allclose(np.abs(corrected["dense/bias"] - start), 0.01, rtol=1e-3)
    # (1 - 0.9) / sqrt(1 - 0.999) times as far
    np.testing.assert_allclose(np.abs(original["dense/bias"] - start), 0.0316228, rtol=1e-3)


def test_decay_pulls_matrices_alone():
    """With gradients of zero nothing but decay moves a variable."""
    pretrainer = BertPretrainer(small.backbone(num_layers=1))
    for variable in pretrainer.trainable_variables:
        variable.assign(np.ones(variable.shape))
    optimizer = BertAdamW(1.0, weight_decay=0.25)
    variables = pretrainer.trainable_variables
    optimizer.apply([np.zeros(v.shape, "float32") for v in variables], variables)
    moved, kept = set(), set()
    for variable in variables:
        values = np.unique(np.array(variable))
        assert values.tolist() in ([0.75], [1.0]), variable.path
        (moved if values[0] == 0.75 else kept).add(variable.path)

    dense = [
        "encoder_layer_0/attention/query_key_value",
        "encoder_layer_0/attention/output_dense",
        "encoder_layer_0/intermediate_dense",
        "encoder_layer_0/output_dense",
        "pooler/dense",
        "masked_lm_head/transform_dense",
        "next_sentence_head/dense",
    ]
    tables = ["token_embedding", "position_embedding", "segment_embedding"]
    norms = [
        "embeddings/layer_norm",
        "encoder_layer_0/attention_layer_norm",
        "encoder_layer_0/output_layer_norm",
        "masked_lm_head/transform_layer_norm",
    ]
    assert moved == {f"{name}/kernel" for name in dense} | {
        f"embeddings/{name}/embeddings" for name in tables
    }
    assert kept == (
        {f"{name}/bias" for name in dense}
        | {f"{name}/{part}" for name in norms for part in ("gamma", "beta")}
        | {"masked_lm_head/output_bias"}
    )


def test_a_bias_of_higher_rank_is_not_decayed():
    """As of Keras's own attention layers, which have one bias for each head and dimension."""
    bias = keras.Variable(np.ones((2, 3)), name="bias")
    optimizer = BertAdamW(1.0, weight_decay=0.25)
    optimizer.apply([np.zeros((2, 3), "float32")], [bias])
    assert (np.array(bias) == 1).all()


def test_no_decay_at_a_weight_decay_of_none():
    kernel = keras.Variable(np.ones((2, 3)), name="kernel")
    BertAdamW(1.0, weight_decay=None).apply([np.zeros((2, 3), "float32")], [kernel])
    assert (np.array(kernel) == 1).all()


def test_more_variables_can_be_excluded_from_decay():
    kernels = [keras.Variable(np.ones((2, 3)), name="kernel") for _ in range(2)]
    optimizer = BertAdamW(1.0, weight_decay=0.25)
    optimizer.exclude_from_weight_decay(var_list=kernels[:1])
    optimizer.apply([np.zeros((2, 3), "float32")] * 2, kernels)
    assert [np.array(kernel).mean() for kernel in kernels] == [1, 0.75]


def test_name_patterns_are_refused():
    with pytest.raises(ValueError, match="takes no name patterns"):
        BertAdamW().exclude_from_weight_decay(var_names=["LayerNorm"])


def test_the_norm_is_of_the_summed_rows_of_a_table():
    """A table's gradient comes as rows, one for each lookup; equal rows add up first."""
    table = keras.Variable(np.ones((3, 2)), name="embeddings")
    rows = tf.IndexedSlices(
        values=tf.constant([[3.0, 0.0], [1.0, 0.0]]),
        indices=tf.constant([1, 1]),
        dense_shape=tf.constant([3, 2]),
    )
    optimizer = BertAdamW(
        1.0, weight_decay=None, epsilon=1.0, bias_correction=False, global_clipnorm=1.0
    )
    optimizer.apply([rows], [table])
    # The gradient (4, 0) in row 1 is clipped to (1, 0).
    step = 0.1 / (np.sqrt(0.001) + 1)
    expected = [[1, 1], [1 - step, 1], [1, 1]]
    np.testing.assert_allclose(np.array(table), expected, atol=1e-6)


def test_accumulated_gradients_are_one_large_batch():
    gradients = np.random.default_rng(0).normal(size=(4, 2, 3)).astype("float32")
    one, two = (keras.Variable(np.ones((2, 3)), name="kernel") for _ in range(2))
    whole, accumulating = BertAdamW(0.1), BertAdamW(0.1, gradient_accumulation_steps=2)
    for pair in (gradients[:2], gradients[2:]):
        whole.apply([pair.mean(axis=0)], [one])
        for gradient in pair:
            accumulating.apply([gradient], [two])
    np.testing.assert_allclose(np.array(one), np.array(two), atol=1e-6)
    assert np.abs(np.array(one) - 1).max() > 0.1


def test_slots_and_step_survive_a_saved_model(tmp_path):
    x, y = small.prepared(rows=8), np.arange(8) % 2
    classifier = BertTextClassifier(small.backbone(dropout=0.0), num_classes=2)
    schedule = WarmupLinearDecay(1e-2, num_steps=10, num_warmup_steps=2)
    classifier.compile(BertAdamW(schedule, weight_decay=0.1, bias_correction=False))
    classifier.fit(x, y, batch_size=2, shuffle=False, verbose=0)
    classifier.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")

    assert again.optimizer.get_config() == classifier.optimizer.get_config()
    assert int(again.optimizer.iterations) == 4
    for ours, theirs in zip(classifier.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(np.array(ours), np.array(theirs), err_msg=ours.path)
    for model in (classifier, again):
        model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
    for ours, theirs in zip(classifier.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.array(ours), np.array(theirs), err_msg=ours.path)


def test_trains_in_half_precision():
    """Keras wraps the optimizer then, to scale the loss."""
    classifier = BertTextClassifier(small.backbone(dtype="mixed_float16"), num_classes=2)
    classifier.compile(BertAdamW(1e-2))
    before = np.array(classifier.output_dense.kernel)
    history = classifier.fit(small.prepared(), np.arange(4) % 2, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert np.abs(np.array(classifier.output_dense.kernel) - before).max() > 1e-3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("learning_rate", 0.25),
        ("weight_decay", 0.5),
        ("beta_1", 0.5),
        ("beta_2", 0.5),
        ("epsilon", 0.5),
        ("bias_correction", False),
        ("global_clipnorm", 0.5),
        ("layer_decay", 0.5),
        ("name", "another"),
    ],
)
def test_every_option_survives_the_config(option, value):
    optimizer = BertAdamW(**{option: value})
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is BertAdamW
    assert again.get_config()[option] == value != BertAdamW().get_config()[option]


def test_the_rate_falls_layer_by_layer():
    paths = [
        "backbone/embeddings/token_embedding/embeddings",
        "backbone/encoder_layer_0/attention/query_key_value/kernel",
        "backbone/encoder_layer_1/output_dense/bias",
        "backbone/encoder_layer_10/output_dense/bias",
        "backbone/pooler/dense/kernel",
        "output_dense/bias",
    ]
    decay = 1 / 2.6
    expected = [decay**12, decay**11, decay**10, decay, 1, 1]
    assert rates_by_depth(paths, decay) == pytest.approx(expected)


def test_a_step_with_layer_decay_moves_each_layer_by_its_rate():
    classifier = BertTextClassifier(small.backbone(dropout=0.0), num_classes=2)
    classifier.compile(BertAdamW(1e-3, weight_decay=0, epsilon=1e-30, layer_decay=0.5))
    before = {v.path: np.array(v) for v in classifier.trainable_variables}
    classifier.train_on_batch(small.prepared(), np.array([0, 1, 0, 1]))
    # The first step of Adam moves every entry that has a gradient by the rate.
    moved = {
        v.path: np.abs(np.array(v) - before[v.path]).max()
        for v in classifier.variables
        if v.path in before
    }
    for path, size in moved.items():
        depth = 0
        if "embeddings/" in path:
            depth = 3
        elif "encoder_layer_" in path:
            depth = 2 - int(path.split("encoder_layer_")[1][0])
        assert size == pytest.approx(1e-3 * 0.5**depth, rel=1e-2), path


def test_layer_decay_without_layers_is_refused():
    with pytest.raises(ValueError, match="no variable's path has encoder_layer_0.*'dense/kernel'"):
        rates_by_depth(["dense/kernel"], 0.9)
    with pytest.raises(ValueError, match="layer_decay=0: expected above 0"):
        BertAdamW(layer_decay=0)
