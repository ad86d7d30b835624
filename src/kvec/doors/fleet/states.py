"""The states of partitions in an object store: whole snapshots under names of their own, never one over another."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from typing import Any

from kvec.decide.folder import as_damage
from kvec.decide.snapshot import pack, unpack
from kvec.decide.stream import Stream
from kvec.doors.fleet.link import Link
from kvec.words.errors import ModelError

ORPHAN = 600.0  # seconds after which parts of a state that was never finished are cleared away


def packed(stream: Stream, note: Mapping[str, Any]) -> bytes:
    """A stream with a note, as it would be saved in a file."""
    return pack(*stream.noted(note), "the stream")


def resumed(content: bytes, name: str) -> Stream:
    """Go on with a stream that was packed; `name` is for messages."""
    facts, arrays = unpack(content, name)
    with as_damage(name):
        return Stream.from_plain(facts, arrays)


class States:
    """The bucket of a group's states."""

    def __init__(self, link: Link, bucket: Any, group: str) -> None:
        self._link, self._bucket, self._group = link, bucket, group

    async def load(self, name: str) -> bytes:
        """A whole state."""
        content = io.BytesIO()
        errors = self._link.js_errors
        try:
            await self._link.ask(self._bucket.get(name, writeinto=content), patience=None)
        except (errors.ObjectNotFoundError, errors.DigestMismatchError, errors.BadObjectMetaError) as error:
            raise ModelError(
                f"state {name} of group {self._group} is damaged or gone ({type(error).__name__}); begin with another "
                "group and another --sink"
            ) from None
        return content.getvalue()

    async def save(self, name: str, content: bytes) -> None:
        """Keep a state; it counts when a lease names it."""
        await self._link.ask(self._bucket.put(name, content), patience=None)  # each part is waited for

    async def forget(self, name: str) -> None:
        """Let go of a state that no lease names any more, and of the mark that the bucket leaves for it."""
        try:
            await self._link.ask(self._bucket.delete(name))
        except self._link.js_errors.ObjectNotFoundError:
            return
        mark = f"$O.{self._group}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
        await self._link.ask(self._link.js.purge_stream(f"OBJ_{self._group}", subject=mark))

    async def tidy(self, partition: int, kept: str) -> None:
        """Clear away what earlier owners of a partition have left: states without a lease, and parts of none."""
        link, stream = self._link, f"OBJ_{self._group}"
        try:
            held = await link.ask(self._bucket.list(ignore_deletes=True))
        except link.js_errors.NotFoundError:
            held = []
        for one in held:
            if one.name.startswith(f"{partition}.") and one.name != kept:
                await self.forget(one.name)
        info = await link.ask(link.js.stream_info(stream, subjects_filter=f"$O.{self._group}.C.>"))
        whole = {one.nuid for one in held}
        since = await link.moment(stream) - ORPHAN
        for subject in set(info.state.subjects or ()):
            if subject.rpartition(".")[2] not in whole and await self._newest(stream, subject) < since:
                await link.ask(link.js.purge_stream(stream, subject=subject))

    async def _newest(self, stream: str, subject: str) -> float:
        """When the server took the newest message of a subject; for ever in the future where it does not say."""
        try:
            newest = await self._link.ask(self._link.js.get_last_msg(stream, subject))
        except self._link.js_errors.NotFoundError:
            return math.inf
        return math.inf if newest.time is None else newest.time.timestamp()
