"""kvec names each sequence of a tangled stream as early as it can, and says how sure it is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "KVEC": "kvec.estimator",
    "load": "kvec.estimator",
    "resume": "kvec.decide.stream",
    "Stream": "kvec.decide.stream",
    "AsyncStream": "kvec.decide.aio",
    "Status": "kvec.decide.stream",
    "Client": "kvec.client",
    "Limits": "kvec.words.limits",
    "Config": "kvec.words.config",
    "Schema": "kvec.words.schema",
    "Field": "kvec.words.schema",
    "Outcome": "kvec.words.schema",
    "Tangling": "kvec.words.schema",
    "Item": "kvec.words.items",
    "Decision": "kvec.words.items",
    "Reason": "kvec.words.items",
    "Explanation": "kvec.words.explanation",
    "KvecError": "kvec.words.errors",
    "read_table": "kvec.read.rows",
    "read_captures": "kvec.read.packets.learning",
    "read_movielens": "kvec.read.ratings",
    "read_authors": "kvec.read.authors",
    "datasets": "kvec.read.catalogue",
    "synthetic": "kvec.read.synthetic",
}
__all__ = ["__version__", *sorted(_HOMES)]

if TYPE_CHECKING:
    from kvec.client import Client as Client
    from kvec.decide.aio import AsyncStream as AsyncStream
    from kvec.decide.stream import Status as Status
    from kvec.decide.stream import Stream as Stream
    from kvec.decide.stream import resume as resume
    from kvec.estimator import KVEC as KVEC
    from kvec.estimator import load as load
    from kvec.read import synthetic as synthetic
    from kvec.read.authors import read_authors as read_authors
    from kvec.read.catalogue import datasets as datasets
    from kvec.read.packets.learning import read_captures as read_captures
    from kvec.read.ratings import read_movielens as read_movielens
    from kvec.read.rows import read_table as read_table
    from kvec.words.config import Config as Config
    from kvec.words.errors import KvecError as KvecError
    from kvec.words.explanation import Explanation as Explanation
    from kvec.words.items import Decision as Decision
    from kvec.words.items import Item as Item
    from kvec.words.items import Reason as Reason
    from kvec.words.limits import Limits as Limits
    from kvec.words.schema import Field as Field
    from kvec.words.schema import Outcome as Outcome
    from kvec.words.schema import Schema as Schema
    from kvec.words.schema import Tangling as Tangling


def __getattr__(name: str) -> Any:
    """Fetch a public name from its room when it is first asked for, so that importing kvec is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kvec' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    return home if name == "synthetic" else getattr(home, name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
