"""Encoding: input embedding, attention blocks and gated fusion (§IV-B)."""
