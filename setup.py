"""Installs keras_bert_impl: BERT in Keras 3, from raw text to a served model."""

import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent

# What the fine-tuning recipes measure and draw with.
FINETUNE = ["matplotlib>=3.7", "scikit-learn>=1.3", "scipy>=1.11", "seqeval>=1.2.2"]

# Oracles and checkers that only the tests use. bert-tensorflow carries
# google-research/bert's own tokenization.py, create_pretraining_data.py and
# optimization.py: the originals that exactness is tested against.
TEST = [
    *FINETUNE,
    "bert-tensorflow==1.0.4",
    "jax>=0.4.34",
    "mypy>=1.13",
    "pytest>=8.0",
    "pytest-xdist>=3.5",
    "ruff>=0.8",
    "safetensors>=0.4",
]

setuptools.setup(
    name="keras_bert_impl",
    version="0.1.0",
    description="The whole life of a BERT in Keras 3: raw text in, a SavedModel that answers raw text out.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=setuptools.find_packages(include=["keras_bert_impl", "keras_bert_impl.*"]),
    package_data={"keras_bert_impl": ["py.typed"], "keras_bert_impl.text": ["*.npz"]},
    python_requires=">=3.10,<3.14",
    install_requires=[
        "absl-py>=2.0",
        "keras>=3.12,<4",
        "keras-nlp>=0.20,<1",
        "ml_dtypes",
        "numpy>=1.26",
        "tensorflow>=2.19,<2.22",
        "tensorflow-text>=2.19,<2.22",
        "tqdm>=4.60",
    ],
    extras_require={
        "finetune": FINETUNE,
        "quickstart": FINETUNE,
        "test": TEST,
        # Words of Chinese text, which is marked ahead by them; see docs/objectives.md.
        "chinese": ["jieba>=0.42"],
        # The peer that tools/benchmark.py measures beside.
        "benchmark": ["tokenizers>=0.20"],
        # The logits oracle: `make oracle` compares with it live at base size.
        "oracle": ["torch>=2.2,<2.14", "transformers>=4.44", "safetensors>=0.4"],
    },
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
