"""What the benchmarks of training share: a result is printed, and kept where that is wished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tell(result: dict[str, Any], out: str | None) -> None:
    """Print a result, and write it to a file if one is named."""
    text = json.dumps(result, indent=1)
    print(text)
    if out:
        Path(out).write_text(text + "\n", encoding="utf-8")
