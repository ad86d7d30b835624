"""Learning: the loss terms and the training loop (§IV-E)."""
