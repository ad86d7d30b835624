"""Random packets with what a reader must find in them: a payload, wrapped in layer after layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_address

from hypothesis import strategies as st
from tests.read.packets import making_packets as make

IP4, IP6 = 0x0800, 0x86DD


@dataclass(frozen=True)
class Found:
    """What stands in the headers of a packet."""

    source: str
    target: str
    protocol: int
    ports: tuple[int, int] = (0, 0)
    has_ports: bool = True
    flags: int = 0
    sequence: int = 0
    acknowledged: int = 0
    ttl: int = 64
    payload: int = 0
    content: bytes = b""
    tags: tuple[int, ...] = ()
    tunnel: str = ""
    number: int = 0
    outer: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Stack:
    """Bytes from IP upwards (or from a tag), the EtherType that announces them, and what is in them."""

    data: bytes
    kind: int
    inner: Found
    outermost: Found

    def wrapped(self, data: bytes, kind: int) -> Stack:
        return replace(self, data=data, kind=kind)


ports = st.integers(0, 65535).filter(lambda p: p not in (4789, 8472, 2152, 6081, 6635))
addresses4 = st.integers(0, 2**32 - 1).map(lambda n: str(ip_address(n)))
addresses6 = st.one_of(st.integers(2**32, 2**128 - 1), st.sampled_from([2**112, 2**127 + 1])).map(
    lambda n: str(ip_address(n))
)
contents = st.binary(max_size=40)


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, bytes, dict[str, object]]:
    """A transport: its number, its bytes, and what stands in it."""
    kind = draw(st.sampled_from(["tcp", "udp", "sctp", "icmp", "error", "esp"]))
    first, second, data = draw(ports), draw(ports), draw(contents)
    plain: dict[str, object] = {"ports": (first, second), "payload": len(data), "content": data}
    if kind == "tcp":
        flags, sequence, acknowledged = (
            draw(st.integers(0, 255)),
            draw(st.integers(0, 2**32 - 1)),
            draw(st.integers(0, 9)),
        )
        segment = make.tcp(first, second, flags, sequence, acknowledged, data, bytes(4 * draw(st.integers(0, 10))))
        return 6, segment, plain | {"flags": flags, "sequence": sequence, "acknowledged": acknowledged}
    if kind == "udp":
        return 17, make.udp(first, second, data), plain
    if kind == "sctp":
        return 132, make.sctp(first, second, data), plain
    if kind == "icmp":
        return 1, make.icmp(draw(st.sampled_from([0, 8, 13])), 0, first, data), plain | {"ports": (first, first)}
    if kind == "error":
        code = draw(st.integers(0, 15))
        found = {
            "ports": (3 << 8 | code,) * 2,
            "has_ports": False,
            "payload": len(data) + 4,
            "content": bytes(4) + data,
        }
        return 1, make.icmp(3, code, 0, data), found
    return 50, data, plain | {"ports": (0, 0), "has_ports": False}


@st.composite
def datagrams(draw: st.DrawFn, protocol: int, segment: bytes) -> tuple[bytes, int, str, str, int]:
    """An IP packet around a segment: its bytes, EtherType, addresses and TTL."""
    ttl = draw(st.integers(0, 255))
    if draw(st.booleans()):
        source, target = draw(addresses4), draw(addresses4)
        if draw(st.integers(0, 9)) == 0:
            protocol, segment = 51, make.authenticated(protocol, segment)
        options = bytes(4 * draw(st.integers(0, 10)))
        return make.ipv4(source, target, protocol, segment, ttl, options), IP4, source, target, ttl
    source, target = draw(addresses6), draw(addresses6)
    for number in draw(st.lists(st.sampled_from([0, 43, 60, 51, 44]), max_size=4)):
        if number == 51:
            segment = make.authenticated(protocol, segment)
        elif number == 44:
            segment = make.fragment6(protocol, segment, 77)  # an atomic fragment
        else:
            segment = make.extension(protocol, segment, 8 * draw(st.integers(1, 4)))
        protocol = number
    return make.ipv6(source, target, protocol, segment, ttl), IP6, source, target, ttl


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    """A packet with up to three tunnels and several tags."""
    number, segment, plain = draw(segments())
    data, kind, source, target, ttl = draw(datagrams(number, segment))
    inner = Found(source, target, number, ttl=ttl, **plain)  # type: ignore[arg-type]
    stack = Stack(data, kind, inner, inner)
    for level in range(draw(st.integers(0, 3))):
        stack = draw(tunnels(draw(tags(stack)), level == 0))
    return draw(tags(stack))


@st.composite
def tags(draw: st.DrawFn, stack: Stack) -> Stack:
    """VLANs around a packet."""
    for tag in draw(st.lists(st.integers(0, 4095), max_size=2)):
        stack = stack.wrapped(
            make.vlan(tag, stack.kind, stack.data, draw(st.integers(0, 7))),
            draw(st.sampled_from([0x8100, 0x88A8, 0x9100])),
        )
        if tag:
            stack = replace(
                stack,
                inner=replace(stack.inner, tags=(tag, *stack.inner.tags)),
                outermost=replace(stack.outermost, tags=(tag, *stack.outermost.tags)),
            )
    return stack


@st.composite
def tunnels(draw: st.DrawFn, stack: Stack, is_innermost: bool) -> Stack:
    """Another IP packet around all of it."""
    is_ip = stack.kind in (IP4, IP6)
    name = draw(st.sampled_from(["ipip", "gre", "bridged", "vxlan", "gtp", "geneve", "etherip", "mpls"]))
    if not is_ip and name in ("ipip", "gtp", "mpls"):
        name = "gre"
    data, number, first, second = stack.data, 0, 0, 0
    if name == "ipip":
        protocol, segment, tunnel = 4 if stack.kind == IP4 else 41, data, "ipip"
    elif name in ("gre", "bridged"):
        key = draw(st.none() | st.integers(0, 2**32 - 1))
        inside, kind = (data, stack.kind) if name == "gre" else (make.ethernet(stack.kind, data), 0x6558)
        segment = make.gre(kind, inside, key, draw(st.booleans()), draw(st.booleans()))
        protocol, tunnel, number = 47, "gre", key or 0
    elif name == "etherip":
        protocol, segment, tunnel = 97, b"\x30\0" + make.ethernet(stack.kind, data), name
    elif name == "mpls":
        protocol, segment, tunnel = (
            137,
            make.mpls(draw(st.lists(st.integers(16, 9999), min_size=1, max_size=3)), data),
            name,
        )
    else:
        protocol, tunnel, first = 17, name, draw(ports)
        number = 0 if name == "gtp" else draw(st.integers(0, 2**24 - 1))
        if name == "vxlan":
            second, inside = draw(st.sampled_from([4789, 8472])), make.vxlan(number, make.ethernet(stack.kind, data))
        elif name == "geneve":
            second, inside = 6081, make.geneve(number, stack.kind, data, bytes(4 * draw(st.integers(0, 8))))
        else:
            second = 2152
            headers = draw(st.lists(st.sampled_from([bytes(2), bytes(6), bytes(14)]), max_size=3))
            inside = make.gtp(draw(st.integers(0, 2**32 - 1)), data, headers, draw(st.booleans()))
        segment = make.udp(first, second, inside)
    packet, kind, source, target, ttl = draw(datagrams(protocol, segment))
    content = segment[8:] if protocol == 17 else segment
    outermost = Found(
        source, target, protocol, (first, second), protocol == 17, ttl=ttl, payload=len(content), content=content
    )
    inner = replace(stack.inner, tunnel=tunnel, number=number, outer=(source, target)) if is_innermost else stack.inner
    return Stack(packet, kind, inner, outermost)


@st.composite
def frames(draw: st.DrawFn) -> tuple[make.Frame, Found, Found]:
    """A packet on some link; what its innermost and its outermost IP packets say."""
    stack = draw(stacks())
    data, kind = stack.data, stack.kind
    is_ip = kind in (IP4, IP6)
    family, protocol = (2, 0x21) if kind == IP4 else (draw(st.sampled_from([10, 24, 28, 30])), 0x57)
    offered = [
        (1, make.ethernet(kind, data) + bytes(draw(st.sampled_from([0, 6])))),
        (1, make.ethernet(len(data) % 1500, make.llc(kind, data))),
        (113, make.cooked(kind, data)),
        (276, make.cooked2(kind, data)),
        (104, make.hdlc(kind, data)),
        (105, make.wifi(kind, data, draw(st.booleans()), draw(st.sampled_from([1, 2, 3])))),
        (127, make.radiotap(make.wifi(kind, data), draw(st.integers(8, 40)))),
    ]
    if is_ip:
        labels = draw(st.lists(st.integers(0, 2**20 - 1), min_size=1, max_size=4))
        offered += [
            (101, data),
            (0, make.loopback(family, data, draw(st.sampled_from("<>")))),
            (108, make.loopback(family, data, ">")),
            (9, make.ppp(protocol, data, draw(st.booleans()), draw(st.booleans()))),
            (204, b"\x01" + make.ppp(protocol, data)),
            (1, make.ethernet(0x8864, make.pppoe(make.ppp(protocol, data, is_framed=False)))),
            (1, make.ethernet(0x8847, make.mpls(labels, data))),
        ]
    link, whole = draw(st.sampled_from(offered))
    return make.Frame(whole, link=link), stack.inner, stack.outermost
