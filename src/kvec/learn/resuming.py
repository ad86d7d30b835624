"""Runs that go on: kept in a file after every epoch, and resumed from it by the same settings and data alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvec.decide.checkpoint import load_progress, save_progress
from kvec.learn.run import Run, restore_run, run_state
from kvec.tangle.tangles import Tangles
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.errors import ModelError, SettingError
from kvec.words.processes import is_restarted


def keep_run(run: Run, path: Path, facts: Mapping[str, Any]) -> None:
    """Write the run into a file, with the facts by which it is known again."""
    save_progress(path, run_state(run), {**facts, "history": run.history, "done": run.is_finished})


def begin_run(run: Run, path: Path | None, facts: Mapping[str, Any], resume: bool) -> None:
    """Begin, or go on where the file says; all processes go on from what the furthest of them has kept.

    So each host may have its own file, and a host that is new needs none. Where torchrun had to start processes again,
    which not every host need know, they go on if anything was kept. So what an older run has left goes where nobody
    goes on with it: else processes that are started again within their first epoch would take it for their own. Who may
    be started again even before (`kvec train` under torchrun) has cleared it away already.
    """
    together = run.together
    has_file = path is not None and path.is_file()
    told = together.gathered((resume or is_restarted(), has_file))
    goes_on, is_kept = any(each for each, _ in told), any(each for _, each in told)
    if (goes_on and has_file) or (resume and not is_kept):
        resume_run(run, path, facts)
    if path is not None and not goes_on and together.keeps:
        path.unlink(missing_ok=True)
    if together.size > 1:
        state = {name: tensor.cpu() for name, tensor in run_state(run).items()}
        restore_run(run, *together.of_furthest((state, run.history, run.is_finished), run.epoch))


def resume_run(run: Run, path: Path | None, facts: Mapping[str, Any]) -> None:
    """Put a new run where the kept one was; one with other facts is refused."""
    if path is None:
        raise SettingError("resume needs progress, the file that the stopped run was kept in")
    tensors, saved = load_progress(path)
    for what, now in facts.items():
        if (then := saved.get(what)) != now:
            detail = _difference(then, now) if what in ("settings", "schema") else ""
            raise ModelError(
                f"{path} belongs to a run with other {'data' if what == 'about' else what}{detail}; "
                "repeat that run's command with --resume added (and --set, where defaults have changed), or train anew "
                "without --resume"
            )
    try:
        restore_run(run, tensors, saved["history"], saved["done"])
    except (RuntimeError, KeyError, ValueError):
        raise ModelError(f"{path} does not fit this network; train again without --resume") from None


def fingerprint(vocabulary: Vocabulary, *parts: Tangles) -> str:
    """A name for all that a run reads: the same only for the same values, sequences and labels."""
    digest = hashlib.blake2b(json.dumps(vocabulary.to_dict()).encode(), digest_size=16)
    for part in parts:
        for array in (part.codes, part.numbers, part.gaps, part.sequences.sequence, part.session, part.labels):
            digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()


def _difference(then: Any, now: Any) -> str:
    """The first entry, by its full name, that two mappings do not agree on."""
    name: list[str] = []
    while isinstance(then, Mapping) and isinstance(now, Mapping):
        name.append(next(entry for entry in {**now, **then} if then.get(entry) != now.get(entry)))
        then, now = then.get(name[-1]), now.get(name[-1])
    before, after = ("not set" if value is None else repr(value) for value in (then, now))
    return f": {'.'.join(name)} was {before} and is now {after}"
