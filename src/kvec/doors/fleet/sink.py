"""Decisions into a stream, each exactly once: only the owner of the last fence can add, and it has read what is there.

A fence is a message beside the decisions that names who works on a partition. The server refuses a decision that was
sent under an earlier one. Whoever takes over first fences, then reads the ids of what was added since the state it goes
on from: nothing can come behind that, so what has an id among them is not sent again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kvec.doors.fleet.ground import Subjects
from kvec.doors.fleet.leases import LeaseLost
from kvec.doors.fleet.link import EXPECTED, EXPECTED_OF, MSG_ID, Link, Post, Refused
from kvec.doors.fleet.recalling import ids_behind
from kvec.words.errors import SettingError

MOST_ID = 512  # signs of an id; of longer ones a hash stands for the rest
_SAFE = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


class FencedSink:
    """The decisions and letters of one partition."""

    def __init__(self, link: Link, subjects: Subjects, number: int, group: str) -> None:
        self._link, self._subjects, self._number, self._group = link, subjects, number, group
        self._post = Post(link)
        self._headers: dict[str, str] = {}
        self.known: set[str] = set()  # ids that an earlier owner has sent since the state

    @property
    def last(self) -> int:
        """The place in the stream of the newest message that is known to be there."""
        return self._post.last

    async def fence(self, owner: str, epoch: int) -> None:
        """Keep all earlier owners out."""
        subject = self._subjects.fence(self._number)
        last, said = await self._newest_fence(subject)
        if said and said["group"] != self._group:
            raise SettingError(
                f"{self._subjects.sink}: is written by group {said['group']!r}; name another --sink, or that group"
            )
        if said and said["epoch"] >= epoch:
            raise LeaseLost(f"partition {self._number} has a newer owner")
        note = json.dumps({"owner": owner, "epoch": epoch, "group": self._group}).encode()
        try:
            place = await self._link.publish(subject, note, {"Nats-Rollup": "sub", EXPECTED: str(last)})
        except Refused:
            raise LeaseLost(f"partition {self._number} has a newer owner") from None
        self._headers = {EXPECTED: str(place), EXPECTED_OF: subject}
        self._post.last = place
        await self._post.open()

    async def recall(self, since: int) -> None:
        """Read the ids of all that was added behind a place in the stream."""
        wanted = [self._subjects.decisions(self._number), self._subjects.letters(self._number)]
        async for id in ids_behind(self._link, self._subjects.sink, wanted, since):
            self.known.add(id)

    async def send(self, rows: list[tuple[str, bytes]], is_letter: bool = False) -> int:
        """Send rows by id, but for those that are there; how many were."""
        subject = (self._subjects.letters if is_letter else self._subjects.decisions)(self._number)
        n_sent = 0
        for id, content in rows:
            marked = marked_id(id)
            if marked in self.known:
                self.known.discard(marked)
                continue
            try:
                await self._post.send(subject, content, {MSG_ID: marked, **self._headers})
            except Refused:
                raise LeaseLost(f"partition {self._number} has a newer owner") from None
            n_sent += 1
        return n_sent

    async def settle(self) -> None:
        """Wait until all of it is in the stream."""
        try:
            await self._post.settle()
        except Refused:
            raise LeaseLost(f"partition {self._number} has a newer owner") from None

    async def close(self) -> None:
        """Send no more."""
        await self._post.close()

    async def _newest_fence(self, subject: str) -> tuple[int, Mapping[str, Any]]:
        try:
            message = await self._link.ask(self._link.js.get_last_msg(self._subjects.sink, subject))
        except self._link.js_errors.NotFoundError:
            return 0, {}
        return int(message.seq), json.loads(message.data)


def marked_id(id: str) -> str:
    """An id as a message's header can have it: printable signs without any beyond ASCII, and not too long.

    >>> marked_id("link-7/10.0.0.1:443/0"), marked_id("a/bé c/0")
    ('link-7/10.0.0.1:443/0', 'a/b%C3%A9 c/0')
    """
    marked = quote(id, safe=_SAFE, errors="backslashreplace")
    if marked != marked.strip():
        marked = quote(id, safe="", errors="backslashreplace")
    if len(marked) <= MOST_ID:
        return marked
    return f"{marked[: MOST_ID - 40]}#{hashlib.blake2b(marked.encode(), digest_size=16).hexdigest()}"
