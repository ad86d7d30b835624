"""Streams on Apache Flink: kvec's engine as a keyed process function, and the job around it."""

import sys

# Flink's Python workers put a print of their own in the place of Python's. Numba, which counting visible items needs,
# looks for it by name in its module while it is imported, and must find it there.
if not hasattr(home := sys.modules[print.__module__], print.__name__):
    home.print = print  # type: ignore[attr-defined]
