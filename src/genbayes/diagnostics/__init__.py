"""Diagnostics: whether the answer is right, from runs and their targets."""
