"""Doors: the command line and the demo."""
