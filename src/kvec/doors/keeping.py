"""The folder that keeps a stream: its newest snapshot, the journal behind it, and a lock so that one process has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from kvec.decide.stream import Stream, resume
from kvec.doors.journal import Journal
from kvec.words.errors import ModelError, SettingError

SNAPSHOT = "stream.state"
LOCK = "lock"


class Keeper:
    """Saves a stream in a folder, again and again; whatever happens in between, the folder can be gone on from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = {file.name for file in folder.iterdir()}
        except OSError as error:
            raise SettingError(f"{folder}: cannot keep a state here: {error.strerror}") from None
        if held and not held & {SNAPSHOT, LOCK}:
            raise SettingError(
                f"{folder}: holds other things, such as {min(held)}, and no state; name an empty or a new folder with "
                "--state"
            )
        self.has_snapshot = SNAPSHOT in held
        self._lock = _locked(folder)
        for draft in folder.glob(f".{SNAPSHOT}.*"):  # of one that was killed while it saved
            draft.unlink()
        self._number = 0  # of the journal behind the snapshot
        self.journal = Journal(folder / "journal.000000")

    def resume(self) -> Stream | None:
        """The stream as its snapshot has it, with the note beside it; None where nothing was saved yet."""
        path = self.folder / SNAPSHOT
        if not self.has_snapshot:
            return None
        stream = resume(path)
        if not isinstance(stream.note.get("journal"), int):
            raise ModelError(f"{path} was not written by kvec stream; name another folder with --state")
        self._begin_journal(stream.note["journal"])
        return stream

    def save(self, stream: Stream, note: Mapping[str, Any]) -> None:
        """Save the stream; a new journal begins, and the one before goes."""
        stream.save(self.folder / SNAPSHOT, {**note, "journal": self._number + 1})
        self.has_snapshot = True
        self._begin_journal(self._number + 1)

    def close(self) -> None:
        """Let others have the folder."""
        self.journal.close()
        self._lock.close()

    def _begin_journal(self, number: int) -> None:
        self.journal.close()
        self._number = number
        self.journal = Journal(self.folder / f"journal.{number:06}")
        for file in self.folder.glob("journal.*"):
            if file != self.journal.path:
                file.unlink()


def _locked(folder: Path) -> IO[bytes]:
    """Hold the lock of a folder as long as the file is open."""
    lock = (folder / LOCK).open("ab")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SettingError(f"{folder}: another kvec stream keeps its state here; name another --state") from None
    return lock
