"""Triggers: ways of halting on a network's class probabilities alone, as rivals of a learned policy."""
