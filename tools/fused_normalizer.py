"""A mapping of characters as the model that tensorflow-text's FastBertNormalizer reads.

The model is a flatbuffer of a double-array trie from each character's UTF-8 bytes to a place in a
pool of strings (tensorflow_text/core/kernels/fast_bert_normalizer.h, darts_clone_trie_wrapper.h).
"""

from collections.abc import Mapping

import flatbuffers
import numpy as np

# A value in the trie: this flag, 24 bits of offset into the pool, 6 bits of length.
IS_DIFFERENT = 1 << 30
LENGTH_BITS = 6
MAX_LENGTH = (1 << LENGTH_BITS) - 1
# A unit of the trie: 8 bits of label, then these, then the offset to the children; or a value.
HAS_VALUE = 1 << 8
OFFSET_SHIFT = 10
MAX_OFFSET = 1 << 21
IS_VALUE = 1 << 31
BLOCK = 256


def normalizer_model(mapping: Mapping[str, str]) -> np.ndarray:
    """The model of a mapping; characters that are not in it stay.

    Args:
        mapping: single characters to strings of at most 63 bytes.

    Returns:
        (bytes,) uint8.
    """
    pool = bytearray()
    places: dict[bytes, int] = {}
    values = {}
    for char, text in mapping.items():
        encoded = text.encode()
        assert len(encoded) <= MAX_LENGTH, f"U+{ord(char):04X} becomes {len(encoded)} bytes"
        if encoded not in places:
            places[encoded] = len(pool)
            pool += encoded
        values[char.encode()] = IS_DIFFERENT | places[encoded] << LENGTH_BITS | len(encoded)
    of_zero = values.pop(b"\0", 0)  # the trie has no place for it

    builder = flatbuffers.Builder()
    pool_vector = builder.CreateNumpyVector(np.frombuffer(bytes(pool) or b"\0", np.uint8))
    trie_vector = builder.CreateNumpyVector(double_array(values))
    builder.StartObject(4)
    # Field 0 says whether the normalizer lowercases; nothing reads it.
    builder.PrependUOffsetTRelativeSlot(1, trie_vector, 0)
    builder.PrependInt32Slot(2, of_zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_vector, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def double_array(values: Mapping[bytes, int]) -> np.ndarray:
    """A trie in one array: from a unit, `index ^ offset ^ byte` leads to the byte's child.

    Args:
        values: value by key, none empty and none with a zero byte, which is the label of values.

    Returns:
        (units,) uint32, a multiple of 256, so that no step leads outside.
    """
    root: dict = {}
    for key, value in values.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value

    units = np.zeros(BLOCK, np.uint32)
    taken = np.zeros(BLOCK, bool)
    taken[0] = True
    # Two nodes with one base would take each other's children for their own.
    bases: set[int] = set()
    first_free = 1
    nodes = [(0, 0, root)]  # (index, label, children)
    while nodes:
        index, label, children = nodes.pop()
        labels = np.array(sorted(children))
        while taken[first_free]:
            first_free += 1
            units, taken = _grown(units, taken, first_free)
        # Many children fit nowhere but near the end; to try all places before it takes long.
        start = first_free if len(labels) == 1 else max(first_free, len(units) - 8 * BLOCK)
        base = start ^ int(labels[0])
        while True:
            units, taken = _grown(units, taken, base | (BLOCK - 1))
            if base not in bases and not taken[base ^ labels].any():
                break
            base += 1
        bases.add(base)
        taken[base ^ labels] = True
        offset = index ^ base
        assert offset < MAX_OFFSET
        has_value = HAS_VALUE if 0 in children else 0
        units[index] = label | has_value | offset << OFFSET_SHIFT
        for byte, child in children.items():
            if byte == 0:
                units[base] = child | IS_VALUE
            else:
                nodes.append((base ^ byte, byte, child))
    return units


def _grown(units, taken, index):
    """Both arrays with whole blocks added until they hold an index."""
    more = max(0, index + 1 - len(units))
    more = -(-more // BLOCK) * BLOCK
    return (np.pad(units, (0, more)), np.pad(taken, (0, more))) if more else (units, taken)
