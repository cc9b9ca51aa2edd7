"""Strings to ids, as a TensorFlow graph. Knows no model."""
