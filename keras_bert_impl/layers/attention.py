"""Multi-head self-attention (Vaswani et al. 2017, section 3.2) with one fused product."""

import functools

import keras
from keras import ops

from keras_bert_impl.layers.dropout import drop, dropped, seeds_of
from keras_bert_impl.layers.fusion import fused, is_fusing
from keras_bert_impl.layers.initialization import INITIALIZER_RANGE, dense
from keras_bert_impl.layers.positions import gather_positions
from keras_bert_impl.layers.products import dense_result, product


def make_attention_mask(padding_mask=None, sequence_ids=None, causal_length=None):
    """Who may look at whom: the conjunction of the masks given.

    Args:
        padding_mask: (batch, length) bool or int, optional. True on real tokens, which
            alone are looked at.
        sequence_ids: (batch, length) int, optional. Attention stays among tokens of equal
            id: block-diagonal, for several examples packed in one row.
        causal_length: int or scalar tensor, optional. The length of the rows; when given,
            position i looks at 0..i only.

    Returns:
        bool, broadcastable to (batch, num_heads, query length, key length), or None when
        everything may look at everything.
    """
    masks = []
    if padding_mask is not None:
        masks.append(ops.cast(padding_mask, "bool")[:, None, None, :])  # (batch, 1, 1, keys)
    if sequence_ids is not None:
        same = sequence_ids[:, :, None] == sequence_ids[:, None, :]
        masks.append(same[:, None, :, :])  # (batch, 1, queries, keys)
    if causal_length is not None:
        positions = ops.arange(causal_length)
        masks.append((positions[:, None] >= positions[None, :])[None, None])  # (1, 1, q, k)
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        mask = ops.logical_and(mask, other)
    return mask


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class CausalMask(keras.layers.Layer):
    """Position i looks at the real tokens among 0..i.

    A layer, since the length of the rows is known only when they are there.

    Call arguments:
        padding_mask: (batch, length) bool, true on real tokens.

    Returns:
        (batch, 1, length, length) bool, an attention mask.
    """

    def call(self, padding_mask):
        return make_attention_mask(padding_mask, causal_length=ops.shape(padding_mask)[1])

    def compute_output_spec(self, padding_mask):
        batch, length = padding_mask.shape
        return keras.KerasTensor((batch, 1, length, length), "bool")


def attention_probabilities(query, key, mask=None):
    """softmax(q k^T / sqrt(head_dim)), in float32 at least.

    Args:
        query, key: (batch, length, num_heads, head_dim).
        mask: bool, broadcastable to (batch, num_heads, length, length), optional.

    Returns:
        (batch, num_heads, query length, key length). A query that may look at nothing
        gets equal, finite weights.
    """
    scale = query.shape[-1] ** -0.5
    # The product is scaled on the smaller side: length x head_dim, not length x length.
    scores = ops.einsum("bqhd,bkhd->bhqk", query * ops.cast(scale, query.dtype), key)
    scores = ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))
    if mask is not None:
        # Far below any score, far above -inf: a row without a true stays finite.
        scores = ops.where(mask, scores, ops.cast(-1e30, scores.dtype))
    return ops.softmax(scores, axis=-1)


def _mask_at(mask, positions):
    """The rows of an attention mask for the queries at some positions, (batch, slots) int."""
    if mask is None or positions is None or mask.shape[2] == 1:  # the same for all queries
        return mask
    rows = ops.broadcast_to(mask[:, 0], (ops.shape(positions)[0], *ops.shape(mask)[2:]))
    return gather_positions(rows, positions)[:, None]


@functools.cache
def _dropped_probabilities(rate: float):
    """`softmax(scores)` where the mask allows, with dropout, in one loop."""

    def function(scores, mask, *seeds):
        weights = ops.softmax(ops.where(mask, ops.cast(scores, "float32"), -1e30), axis=-1)
        weights = ops.cast(weights, scores.dtype)
        return (dropped(weights, rate, seeds[0]) if seeds else weights), weights, *seeds

    def backward(dy, weights, *seeds):
        dy = dropped(dy, rate, seeds[0]) if seeds else dy
        weights = ops.cast(weights, "float32")
        changes = ops.cast(dy, "float32") * weights
        total = ops.sum(changes, axis=-1, keepdims=True)
        return (ops.cast(changes - weights * total, dy.dtype),)

    return fused(function, backward)


@functools.cache
def _heads(num_heads: int, head_dim: int, parts: str):
    """Parts, each of `"q"`, `"k"`, `"v"`, side by side: (b, l, parts * hidden_dim), and their bias.

    To (parts, b, heads, l, d), the query scaled.
    """

    def function(x, bias):
        batch, length, _ = ops.shape(x)
        scales = [head_dim**-0.5 if part == "q" else 1.0 for part in parts]
        scale = ops.repeat(ops.array(scales), num_heads * head_dim)
        x = (ops.cast(x, "float32") + ops.cast(bias, "float32")) * scale
        x = ops.reshape(ops.cast(x, bias.dtype), (batch, length, len(parts), num_heads, head_dim))
        return ops.transpose(x, (2, 0, 3, 1, 4))

    return fused(function, biases=((1, 0),))


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class SelfAttention(keras.layers.Layer):
    """Each position gathers from the others what its query asks for.

    The query, key and value projections are one matrix product of three times the width:
    columns [0, hidden_dim) are the query, then the key, then the value, each of them
    `num_heads` blocks of `hidden_dim / num_heads`.

    Args:
        num_heads: int. Must divide the input's last dimension.
        dropout: float in [0, 1). Share of attention probabilities dropped while training.
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        x: (batch, length, hidden_dim).
        attention_mask: bool from `make_attention_mask`, optional.
        positions: (batch, slots) int, optional. The positions whose results are wanted.

    Returns:
        (batch, length, hidden_dim), or (batch, slots, hidden_dim).

    Raises:
        ValueError: at build, if `num_heads` does not divide `hidden_dim`.
    """

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.1,
        initializer_range: float = INITIALIZER_RANGE,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout_rate = dropout
        self.initializer_range = initializer_range

    def build(self, x_shape, attention_mask_shape=None, positions_shape=None):
        hidden_dim = x_shape[-1]
        if hidden_dim % self.num_heads:
            raise ValueError(
                f"hidden_dim={hidden_dim} is not divisible by num_heads={self.num_heads}: "
                "each head takes an equal part of the vector."
            )
        self.head_dim = hidden_dim // self.num_heads
        self.query_key_value = dense(self, 3 * hidden_dim, "query_key_value")
        self.output_dense = dense(self, hidden_dim, "output_dense")
        self.dropout = keras.layers.Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        self.query_key_value.build(x_shape)
        self.output_dense.build(x_shape)
        self.built = True

    def call(self, x, attention_mask=None, positions=None, training=None):
        if is_fusing():
            result, bias = self.attend_in_loops(x, attention_mask, training, positions)
            return result if bias is None else result + bias
        query, key, value = self._project(x, positions)
        attention_mask = _mask_at(attention_mask, positions)
        if training and self.dropout_rate > 0:
            # The library's product cannot drop probabilities, as the paper's model does.
            weights = attention_probabilities(query, key, attention_mask)
            weights = drop(self.dropout, ops.cast(weights, value.dtype), training=True)
            return self._join_heads(ops.einsum("bhqk,bkhd->bqhd", weights, value))
        return self._attend(query, key, value, attention_mask)

    def attend_in_loops(self, x, attention_mask, training, positions=None):
        """The same in few passes over memory, as `fit` runs it.

        Args:
            x, attention_mask, training, positions: as in `call`.

        Returns:
            (batch, length or slots, hidden_dim) and the bias still to be added, or None; see
            `product`.
        """
        if positions is None:
            query, key, value = self._in_heads(x, "qkv")
        else:
            (query,) = self._in_heads(gather_positions(x, positions), "q")
            key, value = self._in_heads(x, "kv")
        scores = ops.einsum("bhqd,bhkd->bhqk", query, key)
        attention_mask = _mask_at(attention_mask, positions)
        if attention_mask is None:
            attention_mask = ops.ones((1, 1, 1, 1), "bool")
        weights = _dropped_probabilities(self.dropout_rate)(
            scores, attention_mask, *seeds_of(self.dropout, training)
        )
        context = ops.matmul(weights, value)  # (batch, heads, length, head_dim)
        return product(self.output_dense, self._side_by_side(ops.transpose(context, (0, 2, 1, 3))))

    def with_cache(self, x, cache, index, attention_mask):
        """Attention of new positions to those before them, whose keys and values are kept.

        Args:
            x: (batch, new, hidden_dim). Positions index to index + new - 1.
            cache: keys and values, each (batch, length, num_heads, head_dim).
            index: int or scalar int32 tensor. The first of the new positions.
            attention_mask: bool, broadcastable to (batch, num_heads, new, length).

        Returns:
            (batch, new, hidden_dim), and the cache with the new positions in it.
        """
        query, key, value = self._project(x)  # (batch, new, heads, head_dim)
        start = [0, index, 0, 0]
        keys = ops.slice_update(cache[0], start, key)  # (batch, length, heads, head_dim)
        values = ops.slice_update(cache[1], start, value)
        return self._attend(query, keys, values, attention_mask), (keys, values)

    def _in_heads(self, x, parts: str):
        """Query, key and value, or some of them; heads come first once, and not for each product.

        (batch, heads, length, head_dim) each.
        """
        x, bias = product(self.query_key_value, x, self._columns(parts))
        if bias is None:
            bias = ops.zeros((x.shape[-1],), x.dtype)
        return ops.unstack(_heads(self.num_heads, self.head_dim, parts)(x, bias), len(parts))

    def _project(self, x, positions=None):
        """Query, key and value, each (batch, length, num_heads, head_dim); slots queries."""

        def projected(x, parts):
            batch, length, _ = ops.shape(x)
            x = dense_result(self.query_key_value, x, columns=self._columns(parts))
            x = ops.reshape(x, (batch, length, len(parts), self.num_heads, self.head_dim))
            return [x[:, :, part] for part in range(len(parts))]

        if positions is None:
            return projected(x, "qkv")
        return projected(gather_positions(x, positions), "q") + projected(x, "kv")

    def _columns(self, parts: str) -> slice:
        """Of the fused product: where its `parts` stand."""
        hidden_dim = self.num_heads * self.head_dim
        columns = {"q": slice(hidden_dim), "kv": slice(hidden_dim, None)}
        return columns.get(parts, slice(None))

    def _attend(self, query, key, value, attention_mask):
        if attention_mask is not None:
            batch, queries = ops.shape(query)[:2]
            attention_mask = ops.broadcast_to(
                attention_mask, (batch, self.num_heads, queries, ops.shape(key)[1])
            )
        return self._join_heads(ops.dot_product_attention(query, key, value, mask=attention_mask))

    def _join_heads(self, context):
        return dense_result(self.output_dense, self._side_by_side(context))

    def _side_by_side(self, context):
        """(batch, length, num_heads, head_dim) to (batch, length, hidden_dim)."""
        batch, length = ops.shape(context)[:2]
        return ops.reshape(context, (batch, length, self.num_heads * self.head_dim))

    def compute_output_shape(self, x_shape, attention_mask_shape=None, positions_shape=None):
        return (*(positions_shape or x_shape[:2]), x_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
        }
