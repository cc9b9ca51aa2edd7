"""The tokenizer files of a Hugging Face folder: vocabulary and the options that change ids."""

import json
import pathlib

from keras_bert_impl.checkpoints.casing import VOCABULARY, capitals, looks_cased
from keras_bert_impl.checkpoints.checkpoint import TokenizerFiles, warn
from keras_bert_impl.checkpoints.hugging_face_config import read_json
from keras_bert_impl.checkpoints.parts import CheckpointError
from keras_bert_impl.text.vocabulary import (
    CLS_TOKEN,
    CONTINUATION,
    MASK_TOKEN,
    PAD_TOKEN,
    SEP_TOKEN,
    SPECIAL_TOKENS,
    UNK_TOKEN,
    read_vocabulary,
    save_vocabulary,
)

OPTIONS = "tokenizer_config.json"
WHOLE = "tokenizer.json"
ADDED = "added_tokens.json"
# transformers' limit; ours and the reference's is 200 characters.
MAX_CHARS_PER_WORD = 100


def read_tokenizer(folder: pathlib.Path, lowercase: bool | None = None) -> TokenizerFiles | None:
    """What the folder says about its tokenizer, or None where it holds no vocabulary.

    tokenizer_config.json counts before tokenizer.json, as in transformers.

    Args:
        folder: path.
        lowercase: bool, optional. Counts before both.

    Raises:
        CheckpointError: for files that are no such JSON, or ids that leave gaps.
    """
    whole = read_json(folder / WHOLE) if (folder / WHOLE).is_file() else {}
    options = read_json(folder / OPTIONS) if (folder / OPTIONS).is_file() else {}
    tokens = _read_tokens(folder, whole)
    if tokens is None:
        return None
    normalizer = _bert_normalizer(whole.get("normalizer"), folder / WHOLE)

    def option(name, fast_name, default):
        return options.get(name, normalizer.get(fast_name, default))

    files = TokenizerFiles(
        tokens,
        lowercase=bool(option("do_lower_case", "lowercase", True)),
        strip_accents=option("strip_accents", "strip_accents", None),
        split_on_cjk=bool(option("tokenize_chinese_chars", "handle_chinese_chars", True)),
    )
    if lowercase is not None:
        files.lowercase = lowercase
    elif files.lowercase and looks_cased(tokens):
        warn(
            f"{folder}: the tokenizer lowercases, but {capitals(tokens)} tokens of the vocabulary "
            "have capitals and can never be met. The model is cased, it seems: pass "
            "lowercase=False."
        )
    return files


def _read_tokens(folder: pathlib.Path, whole: dict) -> list[str] | None:
    if (folder / VOCABULARY).is_file():
        tokens = read_vocabulary(folder / VOCABULARY)
    elif whole:
        model = whole.get("model", {})
        if model.get("type", "WordPiece") != "WordPiece" or not isinstance(
            model.get("vocab"), dict
        ):
            raise CheckpointError(
                f"{folder / WHOLE}: expected a WordPiece model with a vocabulary, as BERT has, but "
                f"found {model.get('type')!r}."
            )
        tokens = _by_id(model["vocab"], [], folder / WHOLE)
    else:
        return None
    added = {token["content"]: token["id"] for token in whole.get("added_tokens", ())}
    if (folder / ADDED).is_file():
        added |= read_json(folder / ADDED)
    known = set(tokens)
    new = {token: id for token, id in added.items() if token not in known}
    return _by_id(new, tokens, folder / WHOLE)


def _by_id(ids: dict[str, int], before: list[str], path) -> list[str]:
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(before), len(before) + len(tokens))):
        raise CheckpointError(f"{path}: the ids of the vocabulary leave gaps or meet twice.")
    return [*before, *tokens]


def _bert_normalizer(normalizer: dict | None, path) -> dict:
    """The options of the BertNormalizer, alone or in a sequence."""
    if not normalizer:
        return {}
    steps = normalizer.get("normalizers", [normalizer])
    for step in steps:
        if step.get("type") == "BertNormalizer":
            return step
    raise CheckpointError(
        f"{path}: the normalizer is {normalizer.get('type')!r}, not BERT's: its ids would differ."
    )


def write_tokenizer(files: TokenizerFiles, folder: pathlib.Path, max_length: int) -> None:
    """Write vocab.txt, tokenizer_config.json and tokenizer.json."""
    tokens = files.tokens()
    save_vocabulary(tokens, folder / VOCABULARY)
    options = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": files.lowercase,
        "strip_accents": files.strip_accents,
        "tokenize_chinese_chars": files.split_on_cjk,
        "model_max_length": max_length,
        "unk_token": UNK_TOKEN,
        "sep_token": SEP_TOKEN,
        "pad_token": PAD_TOKEN,
        "cls_token": CLS_TOKEN,
        "mask_token": MASK_TOKEN,
    }
    (folder / OPTIONS).write_text(json.dumps(options, indent=2, sort_keys=True) + "\n", "utf-8")
    whole = _whole_tokenizer(files, tokens)
    (folder / WHOLE).write_text(json.dumps(whole, ensure_ascii=False, indent=1) + "\n", "utf-8")


def _whole_tokenizer(files: TokenizerFiles, tokens: list[str]) -> dict:
    """A tokenizer.json, as the tokenizers library reads it."""
    ids = {token: id for id, token in enumerate(tokens)}

    def special(token, type_id):
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    single = [special(CLS_TOKEN, 0), {"Sequence": {"id": "A", "type_id": 0}}, special(SEP_TOKEN, 0)]
    second = [{"Sequence": {"id": "B", "type_id": 1}}, special(SEP_TOKEN, 1)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[token], "content": token, **flags, "special": True}
            for token in sorted(SPECIAL_TOKENS, key=ids.__getitem__)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": files.split_on_cjk,
            "strip_accents": files.strip_accents,
            "lowercase": files.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, *second],
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]}
                for token in (CLS_TOKEN, SEP_TOKEN)
            },
        },
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": UNK_TOKEN,
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": MAX_CHARS_PER_WORD,
            "vocab": ids,
        },
    }
