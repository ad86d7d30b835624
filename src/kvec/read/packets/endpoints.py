"""The ends of flows in one spelling: addresses, ports and protocols, whoever wrote them."""

from __future__ import annotations

from ipaddress import ip_address

import polars as pl

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "ipip": 4, "tcp": 6, "egp": 8, "igp": 9, "udp": 17, "dccp": 33, "ipv6": 41, "rsvp": 46,
    "gre": 47, "esp": 50, "ah": 51, "icmpv6": 1, "icmp6": 1, "ipv6-icmp": 1, "eigrp": 88, "ospf": 89, "etherip": 97,
    "pim": 103, "vrrp": 112, "l2tp": 115, "sctp": 132, "udplite": 136, "mpls": 137, "unknown_transport": -1,
    "unknown": -1,
}  # fmt: skip
ICMP = 1  # of both kinds: exports do not tell them apart, and write type and code, or nothing, for ports


def protocol_numbers(texts: pl.Series) -> pl.Series:
    """Protocols by number, from names or numbers; None for what is neither.

    >>> protocol_numbers(pl.Series(["TCP", "17", "ICMPv6", "x"])).to_list()
    [6, 17, 1, None]
    """
    plain = texts.cast(pl.String).str.strip_chars().str.to_lowercase().str.replace(r"\.0$", "")
    named = plain.replace_strict(PROTOCOLS, default=None, return_dtype=pl.Int64)
    found = plain.cast(pl.Int64, strict=False).fill_null(named).replace(58, ICMP)
    return found.set((found > 255).fill_null(False), None)


def ends(
    client: pl.Series, client_port: pl.Series, server: pl.Series, server_port: pl.Series, no_ports: pl.Series
) -> tuple[pl.Expr, pl.Expr]:
    """The two ends as text, the lower one first."""
    texts = []
    for address, port in ((client, client_port), (server, server_port)):
        ports = pl.when(pl.lit(no_ports)).then(0).otherwise(pl.lit(port.cast(pl.Int64)))
        texts.append(pl.format("{} {}", pl.lit(addresses(address)), ports))
    a, b = texts
    return pl.when(a <= b).then(a).otherwise(b).alias("low"), pl.when(a <= b).then(b).otherwise(a).alias("high")


def addresses(texts: pl.Series) -> pl.Series:
    """Addresses in their one usual spelling; None for what is no address."""
    unique = texts.unique()
    plain = pl.Series([_address(text) for text in unique], dtype=pl.String)
    return texts.replace_strict(unique, plain, default=None, return_dtype=pl.String)


def _address(text: str | None) -> str | None:
    """One address: without a zone, without brackets, short.

    >>> _address("2001:DB8:0:0::1"), _address("[fe80::1%eth0]"), _address("10.0.0.1")
    ('2001:db8::1', 'fe80::1', '10.0.0.1')
    """
    try:
        return str(ip_address((text or "").strip().strip("[]").partition("%")[0]))
    except ValueError:
        return None
