"""Of the last encoder block only what heads read: `[CLS]`, masked tokens.

Nothing stands on the block's other outputs, so that these need not be computed: of a classifier's
last block one position a row, of a masked LM's one in seven.
"""

from keras import ops


def encoded_where_read(backbone, inputs, reads):
    """A backbone's outputs at the positions that a head reads.

    Args:
        backbone: a `BertBackbone`.
        inputs: dict of the model's inputs.
        reads: names of inputs that hold positions, (batch, slots) int: `"cls_positions"`, which is
            the first of each row where there is no such input, and `"mask_positions"`.

    Returns:
        encoded: dict of `sequence_output`, (batch, slots of all, hidden_dim), and with
            `"cls_positions"` `pooled_output`, as the backbone's.
        inputs: the same, but that positions are counted in `sequence_output`.
    """
    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    given = {"cls_positions": 0 * inputs["token_ids"][:, :1], **inputs}
    positions = [ops.cast(given[name], "int32") for name in reads]
    ids = {name: x for name, x in inputs.items() if name not in ("mask_positions", "num_examples")}
    x = backbone({**ids, "read_positions": ops.concatenate(positions, axis=1)})["sequence_output"]
    start, counted = 0, {}
    for name, of_row in zip(reads, positions, strict=True):
        slots = ops.shape(of_row)[1]
        counted[name] = 0 * of_row + ops.arange(start, start + slots, dtype="int32")
        start += slots
    encoded = {"sequence_output": x}
    if "cls_positions" in reads:
        cls = counted["cls_positions"] if "cls_positions" in inputs else None
        encoded["pooled_output"] = backbone.pooler(x, cls)
    return encoded, {**inputs, **{name: counted[name] for name in reads if name in inputs}}
