"""The packets of a capture that a filter lets through, in the language of libpcap and tcpdump: 'tcp port 443'."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from kvec.read.packets.captures import Packets
from kvec.words.errors import MissingExtra, SettingError

RAW = 101  # the one link type of ours that libpcap calls by another number
TRIED = (1, 127)  # Ethernet and 802.11: a filter must make sense on one of them
SNAP = 1 << 18
UNFIT = "the filter cannot be used on link type"


class Filter:
    """Compiled for every link type that it meets; where it cannot be, no packet passes, and `lost` counts them."""

    def __init__(self, text: str) -> None:
        try:
            import cypcap
        except ImportError:
            raise MissingExtra("--filter needs cypcap; pip install 'kvec[packets]'") from None
        self._cypcap, self._text = cypcap, text
        self.lost: Counter[str] = Counter()
        self._programs = {link: self._compile(link) for link in TRIED}
        if all(isinstance(found, str) for found in self._programs.values()):
            raise SettingError(f"filter {text!r}: {self._programs[TRIED[0]]}; its language: man pcap-filter")

    def passing(self, packets: Packets) -> Packets:
        """The packets of a block that pass."""
        passes, data, head = np.zeros(len(packets), bool), packets.data, self._cypcap.Pkthdr
        columns = (packets.links, packets.starts, packets.sizes, packets.wire)
        for row, (link, start, size, wire) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if link not in self._programs:
                self._programs[link] = self._compile(link)
            program = self._programs[link]
            if isinstance(program, str):
                self.lost[f"{UNFIT} {link}"] += 1
            else:
                passes[row] = program.offline_filter(head(0.0, size, wire), data[start : start + size].tobytes())
        return packets.some(passes)

    def _compile(self, link: int) -> Any:
        """The program for a link type, or what is wrong with it."""
        kind = int(self._cypcap.DatalinkType.RAW) if link == RAW else link
        try:
            return self._cypcap.compile(kind, SNAP, self._text, True, self._cypcap.NETMASK_UNKNOWN)
        except self._cypcap.Error as error:
            return " ".join(str(error.args[-1]).split())
