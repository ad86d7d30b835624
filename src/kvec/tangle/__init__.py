"""Tangling: sequences, sessions, visibility, vocabulary and batches of tangles."""
