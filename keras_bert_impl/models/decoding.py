"""Writing token by token, with the keys and values of what is written kept."""

from keras import ops


def empty_cache(backbone, batch, length):
    """Keys and values of no position yet.

    Args:
        backbone: a `BertBackbone`.
        batch: int or scalar tensor.
        length: int. Positions that there will be.

    Returns:
        For each encoder layer two (batch, length, num_heads, head_dim) tensors of zeros.
    """
    shape = (batch, length, backbone.num_heads, backbone.hidden_dim // backbone.num_heads)
    zeros = ops.zeros(shape, backbone.compute_dtype)
    return [(zeros, zeros) for _ in backbone.encoder_layers]


def step(backbone, token_ids, cache, index):
    """The vectors of new tokens, which see those before them by the cache.

    Args:
        backbone: a `BertBackbone` with `causal=True`.
        token_ids: (batch, new) int. Tokens at positions index to index + new - 1.
        cache: as `empty_cache` makes it, with the positions before index filled. What stands
            from index on counts for nothing.
        index: int or scalar int32 tensor.

    Returns:
        (batch, new, hidden_dim), and the cache with the new positions in it.
    """
    position_ids = index + ops.arange(ops.shape(token_ids)[1], dtype="int32")  # (new,)
    x = backbone.embeddings(
        token_ids, ops.zeros_like(token_ids), position_ids=position_ids[None], training=False
    )  # (batch, new, hidden_dim)
    columns = ops.arange(ops.shape(cache[0][0])[1], dtype="int32")
    mask = (columns[None, :] <= position_ids[:, None])[None, None]  # (1, 1, new, length)
    filled = []
    for layer, kept in zip(backbone.encoder_layers, cache, strict=True):
        x, kept = layer.with_cache(x, kept, index, mask)
        filled.append(kept)
    return x, filled


def generate(backbone, token_ids, prompt_mask, *, allowed, sampler, stop_ids=None, model=None):
    """Fill the columns after each prompt.

    Args:
        backbone: a `BertBackbone` with `causal=True`.
        token_ids: (batch, length) int32. Prompts from column 0 on, at least one token each.
        prompt_mask: (batch, length) bool, true on the prompts, which stay as they are.
        allowed: (vocabulary_size,) bool. The ids that may be written.
        sampler: of `keras_hub.samplers`.
        stop_ids: sequence of int, optional. Stop once each row has one of them.
        model: the model whose weights the loop reads; under JAX they are part of its state.

    Returns:
        (batch, length) int32.
    """
    batch, length = ops.shape(token_ids)
    # All columns at once. Those after a prompt are wrong, but nobody sees a column before it is
    # written, and then it is put in anew.
    _, cache = step(backbone, token_ids, empty_cache(backbone, batch, length), 0)

    def next_logits(tokens, cache, index):
        last = ops.slice(tokens, [0, index - 1], [batch, 1])
        x, cache = step(backbone, last, cache, index - 1)
        logits = ops.cast(backbone.token_embedding(x, reverse=True)[:, 0], "float32")
        return ops.where(allowed, logits, -1e30), None, cache  # (batch, vocabulary_size)

    prompt_lengths = ops.sum(ops.cast(prompt_mask, "int32"), axis=1)
    return sampler(
        next=next_logits,
        prompt=token_ids,
        cache=cache,
        index=ops.min(prompt_lengths),
        mask=prompt_mask,
        stop_token_ids=stop_ids,
        model=model,
    )
