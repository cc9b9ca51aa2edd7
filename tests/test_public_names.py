import pathlib
import re

import keras_bert_impl as kbi

INIT = pathlib.Path(kbi.__file__).read_text(encoding="utf-8")


def test_every_public_name_is_there_and_documented():
    names = re.findall(r" as (\w+)$", INIT, flags=re.MULTILINE) + re.findall(
        r"^    \w+ as (\w+),$", INIT, flags=re.MULTILINE
    )
    assert len(names) > 25
    for name in names:
        value = getattr(kbi, name)
        if callable(value):
            assert value.__doc__, f"{name} has no docstring"


def test_every_public_name_stands_once():
    names = re.findall(r" as (\w+),?$", INIT, flags=re.MULTILINE)
    assert len(names) == len(set(names))


def test_the_main_job_is_reachable_from_the_top():
    for name in (
        "BertTokenizer",
        "BertBackbone",
        "BertMaskedLM",
        "BertNextSentence",
        "BertPretrainer",
        "BertTextClassifier",
        "BertPreprocessor",
        "pretraining_dataset",
        "BertAdamW",
        "WarmupLinearDecay",
        "distribution_scope",
        "export_saved_model",
    ):
        assert hasattr(kbi, name)
