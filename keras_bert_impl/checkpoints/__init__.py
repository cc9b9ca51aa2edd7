"""Foreign formats to the same weights and back: Hugging Face, Google TF1, KerasHub, Model Garden."""
