"""Backbone and tasks: the few lines that users write."""
