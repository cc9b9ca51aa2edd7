import numpy as np
import pytest

from keras_bert_impl.layers.embeddings import BertEmbeddings
from tests.layers.configs import check_every_option_survives


def embeddings(**options):
    layer = BertEmbeddings(20, 8, **{"max_sequence_length": 6, "initializer_range": 0.5, **options})
    layer.build((None, None))
    return layer


def layer_norm(x, epsilon=1e-12):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)


TOKEN_IDS = np.array([[2, 7, 7, 3], [2, 19, 3, 0]])
SEGMENT_IDS = np.array([[0, 0, 1, 1], [0, 1, 1, 0]])


def test_three_tables_are_summed_and_normalized():
    layer = embeddings()
    token, position, segment = (
        np.array(table.embeddings)
        for table in (layer.token_embedding, layer.position_embedding, layer.segment_embedding)
    )
    expected = layer_norm(token[TOKEN_IDS] + position[:4] + segment[SEGMENT_IDS])
    np.testing.assert_allclose(layer(TOKEN_IDS, SEGMENT_IDS), expected, atol=1e-5)


def test_a_tasks_vector_is_added_to_all_tokens_of_its_rows():
    layer = embeddings(num_tasks=3)
    plain = embeddings()
    plain.set_weights([w for w in layer.get_weights() if w.shape != (3, 8)])
    assert len(layer.weights) == len(plain.weights) + 1
    segment, task = (
        np.array(table.embeddings) for table in (layer.segment_embedding, layer.task_embedding)
    )
    found = layer(TOKEN_IDS, SEGMENT_IDS, task_ids=np.array([[2], [1]]))
    for row, task_id in enumerate((2, 1)):
        plain.segment_embedding.embeddings.assign(segment + task[task_id])
        expected = plain(TOKEN_IDS, SEGMENT_IDS)[row]
        np.testing.assert_allclose(found[row], expected, atol=1e-5)
    np.testing.assert_array_equal(
        layer(TOKEN_IDS, SEGMENT_IDS),
        layer(TOKEN_IDS, SEGMENT_IDS, task_ids=np.zeros([2, 1], int)),
    )
    with pytest.raises(ValueError, match="num_tasks=-1"):
        embeddings(num_tasks=-1)


def test_scale_and_shift_follow_the_norm():
    layer = embeddings()
    plain = np.array(layer(TOKEN_IDS, SEGMENT_IDS))
    layer.layer_norm.gamma.assign(np.full(8, 2.0))
    layer.layer_norm.beta.assign(np.full(8, 3.0))
    np.testing.assert_allclose(layer(TOKEN_IDS, SEGMENT_IDS), 2 * plain + 3, atol=1e-5)


def test_positions_restart_where_they_are_given():
    layer = embeddings()
    packed = np.array(
        layer(np.array([[5, 6, 5, 6]]), np.zeros((1, 4), int), np.array([[0, 1, 0, 1]]))
    )
    np.testing.assert_allclose(packed[:, :2], packed[:, 2:], atol=1e-6)
    running = np.array(layer(np.array([[5, 6, 5, 6]]), np.zeros((1, 4), int)))
    np.testing.assert_allclose(packed[:, :2], running[:, :2], atol=1e-6)
    assert np.abs(running[:, :2] - running[:, 2:]).max() > 1e-2


def test_epsilon_is_the_references():
    """Vectors of deviation 1e-5 are still brought to deviation 1, which a larger one would not."""
    layer = embeddings(initializer_range=1e-5)
    deviation = np.array(layer(TOKEN_IDS, SEGMENT_IDS)).std(axis=-1)
    np.testing.assert_allclose(deviation, 1, atol=0.05)
    larger = embeddings(initializer_range=1e-5, layer_norm_epsilon=1e-6)
    assert np.array(larger(TOKEN_IDS, SEGMENT_IDS)).std(axis=-1).max() < 0.1


def test_dropout_is_on_in_training_alone():
    layer = embeddings(dropout=0.5)
    assert (np.array(layer(TOKEN_IDS, SEGMENT_IDS, training=True)) == 0).mean() > 0.2
    assert (np.array(layer(TOKEN_IDS, SEGMENT_IDS)) == 0).mean() < 0.1


def test_rows_longer_than_the_position_table_are_refused():
    with pytest.raises(ValueError, match="rows of 7 tokens, but the position table has 6 rows"):
        embeddings()(np.ones((1, 7), int), np.zeros((1, 7), int))


def test_packed_rows_may_be_longer_than_the_position_table():
    positions = np.arange(8)[None] % 4
    output = embeddings()(np.ones((1, 8), int), np.zeros((1, 8), int), positions)
    assert output.shape == (1, 8, 8)


def test_every_option_survives_the_config():
    check_every_option_survives(
        BertEmbeddings,
        {"vocabulary_size": 20, "hidden_dim": 8},
        {
            "max_sequence_length": 6,
            "num_segments": 3,
            "dropout": 0.3,
            "layer_norm_epsilon": 1e-6,
            "initializer_range": 0.1,
            "num_tasks": 2,
        },
    )
