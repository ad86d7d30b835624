"""How packets become flows: when one ends, what names it, and how many are remembered."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from kvec.words.errors import SettingError
from kvec.words.plain import require_choice

KEYED = ("inner", "outer")


@dataclass(frozen=True)
class FlowSettings:
    """The rules by which packets are told apart as flows."""

    idle: float = 120.0  # seconds of silence after which the same endpoints are a new flow
    active: float | None = None  # seconds after which a flow is cut, however busy it is
    keyed: str = "inner"  # by the packet inside a tunnel, or by the tunnel's own (`outer`)
    max_flows: int = 200_000  # pairs of endpoints that are remembered; the one whose last packet is oldest goes first
    min_packets: int = 10  # labelled flows of fewer packets are left out of training

    def __post_init__(self) -> None:
        """Check every setting."""
        require_choice(self.keyed, KEYED, "keyed")
        for name in ("idle", "active"):
            given = getattr(self, name)
            if given is None and name == "active":
                continue
            if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
                raise SettingError(f"{name} is {given!r}; it must be a number of seconds above 0")
        for name in ("max_flows", "min_packets"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
                raise SettingError(f"{name} is {given!r}; it must be a whole number of at least 1")
