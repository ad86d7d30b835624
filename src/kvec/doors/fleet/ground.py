"""What a fleet stands on: the streams of items and decisions, and two buckets of its own for leases and states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvec.doors.fleet.link import Link
from kvec.doors.fleet.places import Place
from kvec.words.errors import DataError, SettingError

NOTED = "kvec.partitions"  # where a stream notes how many there are
PARTITIONS = 4  # of a stream that is made here, where nothing else is said
WINDOW = 120.0  # seconds in which a server knows the ids of messages, of streams that are made here


@dataclass(frozen=True)
class Subjects:
    """The subjects of a fleet: items and decisions by partition, beside them fences and letters."""

    source: str
    sink: str

    def items(self, partition: int | str) -> str:
        """Where the items of a partition are."""
        return f"{self.source}.{partition}"

    def decisions(self, partition: int | str) -> str:
        """Where its decisions go."""
        return f"{self.sink}.{partition}"

    def letters(self, partition: int | str) -> str:
        """Where items go that cannot be used."""
        return f"{self.sink}.letters.{partition}"

    def fence(self, partition: int | str) -> str:
        """Where the one who works on it says so."""
        return f"{self.sink}.owner.{partition}"


def tangle_subject(stream: str) -> str:
    """Where anyone may send items, the last word being the tangle; the server sorts them into partitions."""
    return f"{stream}.tangle"


async def source_of(link: Link, place: Place) -> int:
    """The number of partitions of the stream of items; it is made where that was asked for."""
    partitions = place.partitions or PARTITIONS
    made = link.api.StreamConfig(
        name=place.stream, subjects=[f"{place.stream}.*", f"{tangle_subject(place.stream)}.*"],
        subject_transform=link.api.SubjectTransform(
            f"{tangle_subject(place.stream)}.*", f"{place.stream}.{{{{partition({partitions},1)}}}}"
        ),
        metadata={NOTED: str(partitions)},
    )  # fmt: skip
    found = await _stream(link, place, place.stream, made)
    told = (found.metadata or {}).get(NOTED, "")
    noted = int(told) if told.isdecimal() else None
    if noted is None and place.partitions is None:
        raise DataError(f"{place.name}: the stream does not note its partitions; say how many, as in ?partitions=4")
    if None not in (noted, place.partitions) and noted != place.partitions:
        raise SettingError(
            f"{place.name}: has {noted} partitions, not {place.partitions}; leave that out, or make another stream"
        )
    return noted or partitions


async def sink_of(link: Link, place: Place, sink: str) -> None:
    """Require the stream of decisions; it is made where that was asked for."""
    subjects = Subjects(place.stream, sink)
    wanted = [subjects.decisions("*"), subjects.letters("*"), subjects.fence("*")]
    made = link.api.StreamConfig(name=sink, subjects=wanted, allow_rollup_hdrs=True, allow_direct=True)
    found = await _stream(link, place, sink, made)
    if missing := set(wanted) - set(found.subjects or ()):
        if f"{sink}.>" not in (found.subjects or ()):
            raise DataError(f"{place.name}: the stream {sink!r} does not take {min(missing)}; add that subject to it")
    if not found.allow_rollup_hdrs:
        raise DataError(f"{place.name}: the stream {sink!r} must allow rollups; nats stream edit {sink} --allow-rollup")


async def buckets_of(link: Link, place: Place) -> tuple[Any, Any]:
    """The buckets of a group, for leases and for states; they are the fleet's own, and made when they are missing."""
    api, missing = link.api, (link.js_errors.BucketNotFoundError, link.js_errors.NotFoundError)
    try:
        leases = await link.ask(link.js.key_value(place.group))
    except missing:
        config = api.KeyValueConfig(bucket=place.group, replicas=place.replicas)
        leases = await link.ask(link.js.create_key_value(config))
    try:
        states = await link.ask(link.js.object_store(place.group))
    except missing:
        states = await link.ask(link.js.create_object_store(place.group, config=api.ObjectStoreConfig(
            bucket=place.group, replicas=place.replicas,
        )))  # fmt: skip
    return leases, states


async def _stream(link: Link, place: Place, name: str, made: Any) -> Any:
    """The settings of a stream that keeps all its messages until its limits."""
    errors = link.js_errors
    try:
        found = (await link.ask(link.js.stream_info(name))).config
    except errors.ServiceUnavailableError:
        raise DataError(f"{place.name}: JetStream is off; start the server with nats-server -js") from None
    except errors.NotFoundError:
        if not place.create:
            raise DataError(
                f"{place.name}: there is no stream {name!r}; add ?create=yes to the source to make it, or mend the name"
            ) from None
        made.num_replicas, made.duplicate_window, made.discard = place.replicas, WINDOW, link.api.DiscardPolicy.NEW
        try:
            found = (await link.ask(link.js.add_stream(made))).config
        except errors.APIError as error:
            if error.err_code != 10058:  # another worker was faster
                raise DataError(f"{place.name}: the stream {name!r} cannot be made: {error.description}") from None
            found = (await link.ask(link.js.stream_info(name))).config
    if found.retention != "limits":
        raise DataError(
            f"{place.name}: the stream {name!r} keeps messages by {found.retention}; a fleet reads them again after a "
            "loss, so it needs the retention limits"
        )
    return found
