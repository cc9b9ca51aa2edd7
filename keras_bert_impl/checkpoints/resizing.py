"""Other sizes of the same model: more tokens, positions or tasks, a table padded for the hardware."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_impl.checkpoints import loading
from keras_bert_impl.checkpoints.checkpoint import (
    Checkpoint,
    TokenizerFiles,
    files_of_tokenizer,
    load_into,
    of_model,
    with_one_task,
)
from keras_bert_impl.checkpoints.parts import TASKS, CheckpointError, Tensor
from keras_bert_impl.text.vocabulary import CONTINUATION, UNK_TOKEN

TABLE = "embeddings/token"
POSITIONS = "embeddings/position"
OUTPUT_BIAS = "masked_lm/bias"
# The masked LM's bias of a row that is no token: far below any logit, and still a number in
# float16. Its probability is exactly 0, and so is its gradient.
PADDING_BIAS = -1e4


def resize(
    model,
    new_tokens: Sequence[str] = (),
    max_sequence_length: int | None = None,
    position_method: str = "interpolate",
    pad_vocabulary_to: int | None = None,
    tokenizer=None,
    num_tasks: int | None = None,
):
    """The same model with more tokens, other positions, a padded token table or other tasks.

    Args:
        model: a `BertBackbone` or a task on one. It stays as it is.
        new_tokens: as in `extend_vocabulary`.
        max_sequence_length, position_method: as in `resize_positions`.
        pad_vocabulary_to: as the multiple in `pad_vocabulary`.
        tokenizer: a `BertTokenizer`; needed for new tokens where the model has no preprocessor.
        num_tasks: as in `resize_tasks`.

    Returns:
        A new model of the same class. A task's preprocessor has the longer vocabulary.

    Raises:
        ValueError: as the four functions.

    Example:

    >>> longer = resize(masked_lm, new_tokens=["covid"], max_sequence_length=1024)
    """
    checkpoint = of_model(model, with_unused=True)
    if tokenizer is not None:
        checkpoint.tokenizer = files_of_tokenizer(tokenizer)
    if new_tokens:
        checkpoint = extend_vocabulary(checkpoint, new_tokens)
    if max_sequence_length is not None:
        checkpoint = resize_positions(checkpoint, max_sequence_length, position_method)
    if pad_vocabulary_to is not None:
        checkpoint = pad_vocabulary(checkpoint, pad_vocabulary_to)
    if num_tasks is not None:
        checkpoint = resize_tasks(checkpoint, num_tasks)
    kwargs: dict = {"dtype": model.dtype_policy}
    if hasattr(model, "backbone"):
        kwargs = {"dtype": model.backbone.dtype_policy, "preprocessor": None}
        if model.preprocessor is not None:
            kwargs["preprocessor"] = _with_tokenizer(
                model.preprocessor, loading.make_tokenizer(checkpoint)
            )
    resized = loading.build(type(model), checkpoint, kwargs)
    load_into(resized, checkpoint)
    return resized


def _with_tokenizer(preprocessor, tokenizer):
    return type(preprocessor).from_config({**preprocessor.get_config(), "tokenizer": tokenizer})


def extend_vocabulary(checkpoint: Checkpoint, new_tokens: Sequence[str]) -> Checkpoint:
    """Add tokens. Each starts as the mean of the pieces that it was cut into so far.

    Tokens take the rows that a padded table has free; beyond these it grows.

    Args:
        checkpoint: an opened checkpoint that brings a vocabulary.
        new_tokens: sequence of str, as they stand in a vocabulary file: `##` before what
            continues a word, lowercase where the tokenizer lowercases.

    Returns:
        A new `Checkpoint`.

    Raises:
        ValueError: for a token that is there already or that the tokenizer could never give.
    """
    files = checkpoint.tokenizer
    if files is None:
        raise CheckpointError(f"{checkpoint.source}: brings no vocabulary to extend.")
    tokens = files.tokens()
    ids = {token: id for id, token in enumerate(tokens)}
    for place, token in enumerate(new_tokens):
        if token in ids or token in new_tokens[:place]:
            raise ValueError(f"The token {token!r} is in the vocabulary already.")
    extended = dataclasses.replace(files, vocabulary=[*tokens, *new_tokens])
    _check_reachable(extended, new_tokens)
    pieces = [_pieces(token, ids) or list(range(len(tokens))) for token in new_tokens]
    count = len(tokens) + len(new_tokens)
    rows = max(count, checkpoint.config["vocabulary_size"])

    def grow(old: np.ndarray) -> np.ndarray:
        new = np.zeros((rows, *old.shape[1:]), "float32")
        new[: len(old)] = old
        for id, its in enumerate(pieces, start=len(tokens)):
            new[id] = np.mean(old[its], axis=0, dtype="float64")
        return new

    grown = _changed(checkpoint, {TABLE: grow, OUTPUT_BIAS: grow}, rows=rows)
    grown.tokenizer = extended
    return grown


def _check_reachable(files: TokenizerFiles, new_tokens) -> None:
    checkpoint = Checkpoint("vocabulary", {}, {}, tokenizer=files)
    tokenizer = loading.make_tokenizer(checkpoint)
    first = len(files.tokens()) - len(new_tokens)
    for id, token in enumerate(new_tokens, start=first):
        reached = token.startswith(CONTINUATION) or tokenizer(token).numpy().tolist() == [id]
        if not reached or token.split() != [token]:
            raise ValueError(
                f"The token {token!r} can never be met: the tokenizer "
                f"{'lowercases and ' if files.lowercase else ''}splits at spaces and punctuation. "
                "Write it as it stands after that."
            )


def _pieces(token: str, ids: dict[str, int]) -> list[int]:
    """Ids of the pieces of a token, longest match first; characters without a piece are left out."""
    text = token.removeprefix(CONTINUATION)
    prefix = CONTINUATION if token.startswith(CONTINUATION) else ""
    found, start = [], 0
    while start < len(text):
        ends = range(len(text), start, -1)
        end = next((end for end in ends if prefix + text[start:end] in ids), None)
        if end is not None:
            found.append(ids[prefix + text[start:end]])
        start = start + 1 if end is None else end
        prefix = CONTINUATION
    return [id for id in found if id != ids[UNK_TOKEN]]


def pad_vocabulary(checkpoint: Checkpoint, multiple: int = 64) -> Checkpoint:
    """Pad the token table to a multiple, for matrix units that like one.

    The added rows are zero and no token: the vocabulary stays as it is, so nothing looks them up or
    draws them as a random replacement, and the masked LM gives each the probability 0.

    Args:
        checkpoint: an opened checkpoint.
        multiple: int. Such as 8 or 64.

    Returns:
        A new `Checkpoint`.

    Raises:
        ValueError: for a multiple below 1.
    """
    if multiple < 1:
        raise ValueError(f"multiple={multiple}: expected 1 or more.")
    rows = -(-checkpoint.config["vocabulary_size"] // multiple) * multiple

    def pad(value: float) -> Callable[[np.ndarray], np.ndarray]:
        def padded(old):
            new = np.full((rows, *old.shape[1:]), value, "float32")
            new[: len(old)] = old
            return new

        return padded

    return _changed(checkpoint, {TABLE: pad(0.0), OUTPUT_BIAS: pad(PADDING_BIAS)}, rows=rows)


def resize_positions(
    checkpoint: Checkpoint, length: int, method: str = "interpolate"
) -> Checkpoint:
    """A position table of another length.

    Args:
        checkpoint: an opened checkpoint.
        length: int. Rows of the new table. A shorter one keeps the first rows.
        method: str. How a longer one is filled: `"interpolate"` stretches the table, so that all
            positions move; `"repeat"` lays it end to end, so that the first stay (Beltagy et al.
            2020, section 5).

    Returns:
        A new `Checkpoint`.

    Raises:
        ValueError: for a length below 1 or an unknown method.
    """
    if length < 1:
        raise ValueError(f"length={length}: expected 1 or more.")
    if method not in ("interpolate", "repeat"):
        raise ValueError(f"Unknown method {method!r}. Choose 'interpolate' or 'repeat'.")

    def fill(old: np.ndarray) -> np.ndarray:
        if length <= len(old):
            return old[:length]
        if method == "repeat":
            return old[np.arange(length) % len(old)]
        places = np.linspace(0, len(old) - 1, length)
        low = np.minimum(places.astype("int64"), max(len(old) - 2, 0))
        high = np.minimum(low + 1, len(old) - 1)
        share = (places - low)[:, None]
        return ((1 - share) * old[low] + share * old[high]).astype("float32")

    return _changed(checkpoint, {POSITIONS: fill}, length=length)


def resize_tasks(checkpoint: Checkpoint, num_tasks: int) -> Checkpoint:
    """A task table of another length, for pretraining that goes on with more tasks.

    Args:
        checkpoint: an opened checkpoint, with or without a task table.
        num_tasks: int. Rows of the new table. A new row is zeros, so that the outputs for its task
            are those without a table. A shorter table keeps the first rows; 0 takes task 0's
            vector into the segments', as in files of other packages.

    Returns:
        A new `Checkpoint`.

    Raises:
        ValueError: for a negative number.
    """
    if num_tasks < 0:
        raise ValueError(f"num_tasks={num_tasks}: expected 0 or more.")
    if num_tasks == 0:
        return with_one_task(checkpoint)
    new = dataclasses.replace(checkpoint, config={**checkpoint.config, "num_tasks": num_tasks})
    if TASKS in checkpoint.tensors:  # otherwise the model's table begins with zeros

        def resized(old: np.ndarray) -> np.ndarray:
            rows = np.zeros((num_tasks, old.shape[1]), "float32")
            rows[: len(old)] = old[:num_tasks]
            return rows

        table = checkpoint.tensors[TASKS]
        new.tensors = {
            **checkpoint.tensors,
            TASKS: table.relaid((num_tasks, table.shape[1]), resized),
        }
    return new


def _changed(checkpoint, changes, rows=None, length=None) -> Checkpoint:
    """A copy of a checkpoint with some tensors computed anew, and the sizes that go with them."""
    new = dataclasses.replace(
        checkpoint, config=dict(checkpoint.config), tensors=dict(checkpoint.tensors)
    )
    if rows is not None:
        new.config["vocabulary_size"] = rows
    if length is not None:
        new.config["max_sequence_length"] = length
    for part, change in changes.items():
        if part in new.tensors:
            tensor: Tensor = new.tensors[part]
            shape = (rows or length or 0, *tensor.shape[1:])
            new.tensors[part] = tensor.relaid(shape, change)
    return new
