"""Losses, metrics, optimizers, schedules, distribution, resume."""
