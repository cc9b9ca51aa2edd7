"""Trained tasks to files that other programs serve."""
