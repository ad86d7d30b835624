"""kvec names each sequence of a tangled stream as early as it can, and says how sure it is."""

__version__ = "0.1.0"
