"""Errors that a user can act on: one line that says what was given, where, and the way out."""

from __future__ import annotations


class KvecError(ValueError):
    """Something the user gave cannot be used; the message is one line and names the place."""


class DataError(KvecError):
    """A table that cannot be read as items: names file, column and row where they are known."""


class SettingError(KvecError):
    """A setting or schema entry that does not exist or cannot hold."""


class ModelError(KvecError):
    """A model folder that is damaged, foreign or newer than this kvec."""


class MissingExtra(KvecError):
    """An optional door whose packages are not installed; the message says how to install them."""
