"""The folder that keeps a stream: its newest snapshot, the journals behind it, and a lock so that one process has it.

A snapshot may be written while the stream goes on: a new journal begins where the stream was copied, and the ones
before go when the copy is on the disk. Until then the snapshot before it stands, and all journals from its own on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kvec.decide.snapshot import go_on, write_state
from kvec.decide.stream import Stream, resume
from kvec.doors.journal import Entry, Journal
from kvec.words.errors import ModelError, SettingError

SNAPSHOT = "stream.state"
LOCK = "lock"
JOURNALS = "journal.*"
NICE = 10  # how much the thread that writes copies gives way: items go first where they share a core
SHARE = 0.1  # of the time it works: while it does, nothing else of this process can
SPELL = 0.002  # seconds that it works before it rests


class Leisure:
    """Lets a thread that calls it often work for a share of the time only, until somebody waits for it."""

    def __init__(self, hurry: threading.Event) -> None:
        self._hurry, self._since = hurry, time.thread_time()

    def __call__(self) -> None:
        """Rest, if it has worked for a while."""
        spent = time.thread_time() - self._since
        if spent >= SPELL:
            self._hurry.wait(spent / SHARE - spent)
            self._since = time.thread_time()


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
        self._number = 0  # of the newest journal
        self.journal = Journal(folder / _name(0))
        self._writer = ThreadPoolExecutor(1, "kvec-snapshot", _give_way)
        self._written: Future[None] | None = None
        self._hurry = threading.Event()

    def resume(self) -> Stream | None:
        """The stream as its snapshot has it, with the note beside it; None where nothing was saved yet."""
        path = self.folder / SNAPSHOT
        if not self.has_snapshot:
            return None
        stream = resume(path)
        number = stream.note.get("journal")
        if not isinstance(number, int):
            raise ModelError(f"{path} was not written by kvec stream; name another folder with --state")
        self._forget_journals(number)
        self._begin_journal(max([number, *map(_number, self._journals())]))
        return stream

    def entries(self) -> Iterator[Entry]:
        """What was taken since the snapshot, as `resume` found it."""
        for path in self._journals():
            is_last = path == self.journal.path
            yield from (self.journal if is_last else Journal(path)).entries(is_last)

    def save(self, stream: Stream, note: Mapping[str, Any], spare: Sequence[Path] = ()) -> None:
        """Save the stream; it is on the disk when this returns, and `spare` files are gone."""
        self._write(*self._copied(stream, note), spare)
        self.has_snapshot = True

    def save_apart(self, stream: Stream, note: Mapping[str, Any], spare: Sequence[Path] = ()) -> None:
        """Copy the stream, and let a thread of its own write the copy; one save at a time."""
        copied = self._copied(stream, note)
        self._hurry.clear()
        self._written = self._writer.submit(lambda: self._write(*copied, spare, Leisure(self._hurry)))

    @property
    def is_saving(self) -> bool:
        """Whether a copy is being written."""
        return self._written is not None and not self._written.done()

    def settle(self, waits: bool = False) -> None:
        """Take note of a copy that was written, or could not be; of one that is being written only where it waits."""
        if self._written is not None and (waits or self._written.done()):
            written, self._written = self._written, None
            self._hurry.set()
            written.result()
            self.has_snapshot = True

    def close(self) -> None:
        """Let others have the folder, once nothing more is written."""
        self._hurry.set()
        self._writer.shutdown()
        self.journal.close()
        self._lock.close()

    def _copied(self, stream: Stream, note: Mapping[str, Any]) -> tuple[int, dict[str, Any], dict[str, Any]]:
        """The stream as it is now; what is taken from here on goes to the journal of this number."""
        self.settle(waits=True)
        number = self._number + 1
        facts, arrays = stream.noted({**note, "journal": number})
        self._begin_journal(number)
        return number, facts, arrays

    def _write(
        self, number: int, facts: dict[str, Any], arrays: dict[str, Any], spare: Sequence[Path],
        rest: Callable[[], None] = go_on,
    ) -> None:  # fmt: skip
        write_state(self.folder / SNAPSHOT, facts, arrays, rest)
        self._forget_journals(number)
        for file in spare:
            file.unlink(missing_ok=True)

    def _journals(self) -> list[Path]:
        return sorted(self.folder.glob(JOURNALS), key=_number)

    def _forget_journals(self, before: int) -> None:
        for file in self._journals():
            if _number(file) < before:
                file.unlink()

    def _begin_journal(self, number: int) -> None:
        self.journal.close()
        self._number = number
        self.journal = Journal(self.folder / _name(number))


def _name(number: int) -> str:
    return f"journal.{number:06}"


def _number(journal: Path) -> int:
    return int(journal.suffix[1:])


def _locked(folder: Path) -> IO[bytes]:
    """Hold the lock of a folder as long as the file is open."""
    lock = (folder / LOCK).open("ab")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SettingError(f"{folder}: another process keeps its state here; name another --state") from None
    return lock


def _give_way() -> None:
    """Let this thread run where others leave room; elsewhere than on Linux that would hold for the whole process."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # where processes are not allowed to be kind
            os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + NICE, 19))
