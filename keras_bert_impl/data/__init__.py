"""Ids to batches, as a TensorFlow graph. Knows no model."""
