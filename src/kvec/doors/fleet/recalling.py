"""The ids of what a stream holds behind a place: whoever may have sent something before asks this, for any time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from kvec.doors.fleet.link import MSG_ID, Link

PAGE = 1000  # messages that are read together


async def ids_behind(link: Link, stream: str, subjects: Sequence[str], since: int) -> AsyncIterator[str]:
    """The ids of the messages that were added behind a place in the stream, up to now."""
    api = link.api
    reader = await link.ask(link.js.pull_subscribe("", stream=stream, config=api.ConsumerConfig(
        deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=since + 1, headers_only=True,
        ack_policy=api.AckPolicy.NONE, filter_subjects=list(subjects), inactive_threshold=60,
    )))  # fmt: skip
    pending = (await link.ask(reader.consumer_info())).num_pending or 0
    while pending > 0:
        for message in await link.ask(reader.fetch(min(PAGE, pending), timeout=5)):
            pending -= 1
            if message.headers and MSG_ID in message.headers:
                yield message.headers[MSG_ID]
    await link.ask(reader.unsubscribe())
