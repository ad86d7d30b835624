"""Deciding: the model with its heads, halting, explanation and the model folder."""
