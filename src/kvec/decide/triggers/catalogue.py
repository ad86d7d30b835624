"""All triggers by name."""

from __future__ import annotations

from kvec.decide.triggers.base import Trigger
from kvec.decide.triggers.calibrated import Calibrated
from kvec.decide.triggers.calimera import Calimera
from kvec.decide.triggers.economy import Economy
from kvec.decide.triggers.induction import Induction
from kvec.decide.triggers.thresholds import Confidence, Fixed, Sprt

TRIGGERS: dict[str, type[Trigger]] = {
    trigger.name: trigger for trigger in (Fixed, Confidence, Calibrated, Economy, Calimera, Sprt, Induction)
}
