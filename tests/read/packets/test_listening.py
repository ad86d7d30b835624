"""Listening to real programs that talk over a wire of our own; the kernel's counts are the truth."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.read.packets import wires
from tests.read.packets.wires import THERE, Wire, counted, find, needs

from kvec.read.packets import listening, rights
from kvec.read.packets.captures import Packets
from kvec.read.packets.listening import Counters, Listener
from kvec.read.packets.rights import drop_rights
from kvec.words.errors import DataError, KvecError, MissingExtra, SettingError

cypcap = pytest.importorskip("cypcap")

EAR = """
import json, sys, threading
import numpy as np
from kvec.read.packets.listening import Listener

path, settings = sys.argv[1], json.loads(sys.argv[2])
heard, calls = [], 0
over = threading.Event()
with Listener(**settings) as listener:
    print("listening", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.is_set() or len(heard[-1]):
        heard.append(listener.packets(0.2))
        calls += 1
    link = listener.link
names = ("data", "sizes", "wire", "times", "links")
parts = {name: np.concatenate([getattr(block, name) for block in heard]) for name in names}
np.savez(path, **parts)
counters = listener.counters()
print(json.dumps([counters.received, counters.dropped, counters.dropped_by_interface, link, calls]))
"""


@pytest.fixture()
def wire() -> Iterator[Wire]:
    with wires.wire() as made:
        yield made


class Ear:
    """A process that listens on the left end until it is told to stop."""

    def __init__(self, wire: Wire, folder: Path, **settings: Any) -> None:
        self.path = folder / "heard.npz"
        given = json.dumps({"interface": "left"} | settings)
        pipe = subprocess.PIPE
        self.process = wire.python("left", EAR, self.path, given, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout.readline() == "listening\n", self.process.stderr.read()

    def stop(self) -> Any:
        """What was heard, and each packet's bytes."""
        out, err = self.process.communicate(timeout=wires.PATIENCE)
        assert self.process.returncode == 0, err
        received, dropped, lost, link, calls = json.loads(out)
        with np.load(self.path) as file:
            parts = dict(file)
        whole, ends = parts.pop("data").tobytes(), np.cumsum(parts["sizes"])
        each = [whole[end - size : end] for end, size in zip(ends, parts["sizes"], strict=True)]
        return SimpleNamespace(
            **parts, each=each, counters=Counters(received, dropped, lost), link=link, calls=calls, n=len(each)
        )


SEND = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for i in range(int(sys.argv[3])):
        sender.sendto(i.to_bytes(4, "big") + bytes(int(sys.argv[4])), (sys.argv[1], int(sys.argv[2])))
"""


def send(wire: Wire, n: int, size: int = 400, port: int = 9) -> None:
    """So many datagrams over the wire, to nobody."""
    wire.run("left", [sys.executable, "-c", SEND, THERE, str(port), str(n), str(size)])


def test_real_programs(wire: Wire, tmp_path: Path) -> None:
    """A page, some names, a bulk transfer: each packet that the kernel counts is heard, in order, with its size."""
    needs("dnsmasq", "dig", "iperf3", "ss", packages="dnsmasq-base bind9-dnsutils iperf3 iproute2")
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "page.html").write_text("a page " * 3000)
    names = (
        f"{find('dnsmasq')} --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --pid-file="
    )
    wire.serve("right", f"{sys.executable} -m http.server 8000 --directory {pages}", 8000)
    wire.serve("right", f"{names} --port=5300 --address=/shop.test/10.1.2.3", 5300, "udp")
    wire.serve("right", "iperf3 --server --port 5201", 5201)
    before, clock = counted(wire, "left"), time.time_ns()
    ear = Ear(wire, tmp_path, snap=128)
    fetch = "import sys, urllib.request as u; print(len(u.urlopen(sys.argv[1]).read()))"
    for _ in range(3):
        assert wire.run("left", [sys.executable, "-c", fetch, f"http://{THERE}:8000/page.html"]) == "21000\n"
        assert wire.run("left", f"dig @{THERE} -p 5300 +short +tries=1 www.shop.test") == "10.1.2.3\n"
    told = json.loads(wire.run("left", f"iperf3 --client {THERE} --json --bytes 2M"))
    heard = ear.stop()
    after = counted(wire, "left")

    assert heard.counters == Counters(heard.n, 0, 0)
    assert after - before == heard.n
    assert heard.link == 1 and set(heard.links) == {1}
    assert clock <= heard.times.min() and heard.times.max() <= time.time_ns()
    assert (np.diff(heard.times) >= 0).all() and not (heard.times % 1000).any()
    assert (heard.sizes == np.minimum(heard.wire, 128)).all() and heard.wire.max() == 1514
    assert sum(b"GET /page.html" in data for data in heard.each) == 3
    assert sum(b"\x03www\x04shop\x04test" in data for data in heard.each) == 6
    ports = [data[34:38] for data in heard.each]
    bulk = np.array([port[2:] == (5201).to_bytes(2, "big") for port in ports])
    assert (
        heard.wire[bulk].sum() > told["end"]["sum_received"]["bytes"] > 1 << 17
    )  # what its end cuts off is never sent
    page = np.array([port[:2] == (8000).to_bytes(2, "big") for port in ports])
    assert heard.wire[page].sum() > 3 * 21000


def test_filter(wire: Wire, tmp_path: Path) -> None:
    ear = Ear(wire, tmp_path, filter="udp dst port 4001")
    for port in (4000, 4001, 4002):
        send(wire, 20, port=port)
    heard = ear.stop()
    assert heard.n == heard.counters.received == 20
    assert [int.from_bytes(data[42:46], "big") for data in heard.each] == list(range(20))
    assert (heard.sizes == 256).all() and (heard.wire == 14 + 20 + 8 + 404).all()


def test_what_is_not_fetched_in_time_is_counted(wire: Wire) -> None:
    """A small buffer that nobody empties: each packet was either kept or counted as dropped."""
    code = """
import json, subprocess, sys
from kvec.read.packets.listening import Listener
with Listener("left", "udp dst port 9", buffer=1 << 16) as listener:
    subprocess.run(sys.argv[1:], check=True)
    n, some = 0, 1
    while some:
        some = len(listener.packets(0.2))
        n += some
    counters = listener.counters()
assert listener.counters() == counters
print(n, counters.received, counters.dropped)
"""
    sending = [sys.executable, "-c", SEND, THERE, "9", "3000", "100"]
    kept, received, dropped = map(int, wire.run("left", [sys.executable, "-c", code, *sending]).split())
    assert (received, kept + dropped) == (3000, 3000)
    assert kept > 10 and dropped > 1000


TAGGED = """
import socket
head = bytes.fromhex("ffffffffffff020000000001" "8100000c" "0800")
packet = bytes.fromhex("450000200000000040110000" "0a4e0002" "0a4e0001" "00090009000c0000") + b"four"
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("right", 0))
    for _ in range(5):
        sender.send(head + packet)
"""


def test_a_vlan_tag_is_kept(wire: Wire, tmp_path: Path) -> None:
    """The kernel takes it out of a packet that arrives; it has to be there when the packet is looked into."""
    ear = Ear(wire, tmp_path, filter="vlan and udp")
    wire.run("right", [sys.executable, "-c", TAGGED])
    heard = ear.stop()
    assert heard.n == heard.counters.received == 5
    assert {data[12:16].hex() for data in heard.each} == {"8100000c"}
    assert {data[-4:] for data in heard.each} == {b"four"} and set(heard.wire.tolist()) == {50}


def test_silence(wire: Wire) -> None:
    """An empty block after the time is up, so that the caller can tick; no time at all asks without waiting."""
    code = """
import time
from kvec.read.packets.listening import Listener
with Listener("left", "udp dst port 9") as listener:
    for timeout in (0.3, 0.0):
        clock = time.monotonic()
        packets = listener.packets(timeout)
        print(len(packets), packets.data.size, time.monotonic() - clock)
"""
    lines = wire.run("left", [sys.executable, "-c", code]).splitlines()
    (n, size, waited), (none, _, at_once) = (line.split() for line in lines)
    assert (n, size, none) == ("0", "0", "0")
    assert 0.29 <= float(waited) < 5 and float(at_once) < 0.29


def test_an_interface_that_goes_away(wire: Wire) -> None:
    code = """
import subprocess
from kvec.read.packets.listening import Listener
from kvec.words.errors import DataError
with Listener("left") as listener:
    subprocess.run(["ip", "link", "delete", "left"], check=True)
    try:
        for _ in range(20):
            listener.packets(0.1)
    except DataError as error:
        print(error)
listener.counters()
"""
    said = wire.run("left", [sys.executable, "-c", code])
    assert said.startswith("left: ") and said.count("\n") == 1, said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"interface": "lefft"}, "no interface 'lefft'; there are: left, "),
        ({"interface": ""}, "no interface ''; there are: left, "),
        ({"filter": "tcp portt 80"}, "filter 'tcp portt 80': "),
        ({"filter": "host no.such.host.invalid"}, "filter 'host no.such.host.invalid': unknown host"),
        ({"interface": "resting"}, "resting: the interface is down; bring it up with: sudo ip link set resting up"),
    ],
)
def test_refusals(wire: Wire, settings: dict[str, str], said: str) -> None:
    wire.run("left", "ip link add resting type veth peer name below")
    code = """
import json, sys
from kvec.read.packets.listening import Listener
from kvec.words.errors import SettingError
try:
    Listener(**json.loads(sys.argv[1]))
except SettingError as error:
    print(error)
"""
    given = json.dumps({"interface": "left"} | settings)
    answer = wire.run("left", [sys.executable, "-c", code, given])
    assert answer.startswith(said) and answer.count("\n") == 1, answer


def test_without_the_right(wire: Wire) -> None:
    """Who may not listen hears which right is missing, and how to get it."""
    code = """
from kvec.read.packets.listening import Listener
from kvec.read.packets.rights import _drop_capabilities
from kvec.words.errors import SettingError
_drop_capabilities()
try:
    Listener("left")
except SettingError as error:
    print(error)
"""
    said = wire.run("left", [sys.executable, "-c", code])
    assert said.startswith("left: listening needs the right CAP_NET_RAW, which this process does not have; ")
    assert "sudo setcap cap_net_raw+ep /" in said and said.count("\n") == 1


DROP = """
import os, subprocess, sys
from kvec.read.packets.listening import Listener
from kvec.read.packets.rights import drop_rights
from kvec.words.errors import SettingError
with Listener("left", "udp dst port 9", promiscuous=True) as listener:
    print(drop_rights(sys.argv[1]))
    print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ.get("USER"))
    try:
        Listener("left")
    except SettingError as error:
        print("CAP_NET_RAW" in str(error))
    sys.stdout.flush()
    sys.stdin.readline()
    print(len(listener.packets(5.0)) > 0, listener.counters().received > 0)
"""


@pytest.mark.parametrize(
    ("user", "environment", "said"),
    [
        ("", {"SUDO_UID": "65534", "SUDO_GID": "65534"}, "as nobody"),
        ("nobody", {}, "as nobody"),
        ("nobody", {"SUDO_UID": "1"}, "as nobody"),
        ("", {}, "as root"),
        ("", {"SUDO_UID": "0"}, "as root"),
    ],
)
def test_rights_are_dropped_and_listening_goes_on(
    wire: Wire, user: str, environment: dict[str, str], said: str
) -> None:
    if os.geteuid() != 0:
        wires.lacking("only root can become somebody else")
    known = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    pipe = subprocess.PIPE
    process = wire.python("left", DROP, user, env=known | environment, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == f"{said}\n"
    ids = process.stdout.readline()
    if said == "as nobody":
        assert ids.startswith("(65534, 65534, 65534) (65534, 65534, 65534) [65534] nobody"), ids
        assert process.stdout.readline() == "True\n"  # it could not open another
    else:
        assert ids.startswith("(0, 0, 0) (0, 0, 0)"), ids
    send(wire, 3)
    assert process.communicate("go on\n", timeout=wires.PATIENCE)[0] == "True True\n"


def test_capabilities_that_cannot_be_given_up_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for code, told in ((0, "without capabilities"), (-1, "with its capabilities, which cannot be given up")):
        library = SimpleNamespace(capset=lambda head, sets, code=code: code)
        made = SimpleNamespace(CDLL=lambda name, library=library: library, c_uint32=ctypes.c_uint32)
        with monkeypatch.context() as patched:
            patched.setattr(rights, "ctypes", made)
            assert drop_rights() == told


def test_nobody_who_is_not_there() -> None:
    if os.geteuid() != 0:
        with pytest.raises(SettingError, match="only root can go on as 'no-such-user'"):
            drop_rights("no-such-user")
    else:
        with pytest.raises(SettingError, match="there is no user 'no-such-user'"):
            drop_rights("no-such-user")


@pytest.mark.parametrize("snap", [0, 63, 1 << 19])
def test_snap(snap: int) -> None:
    with pytest.raises(SettingError, match=f"snap is {snap}; it can be from 64 to 262144"):
        Listener("lo", snap=snap)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cypcap", None)
    with pytest.raises(MissingExtra, match=r"pip install 'kvec\[packets\]'"):
        Listener("lo")


class Told:
    """A handle that tells what it is given, for what no wire can be made to do."""

    def __init__(self) -> None:
        self.packets: list[tuple[Any, bytes]] = []
        self.stats_now = SimpleNamespace(recv=0, drop=0, ifdrop=0)

    def __getattr__(self, name: str) -> Any:
        return lambda *given: None

    def datalink(self) -> int:
        return 12  # raw IP, as Linux calls it

    def get_selectable_fd(self) -> int:
        return os.open(os.devnull, os.O_RDONLY) if not hasattr(os, "eventfd") else os.eventfd(1)

    def dispatch(self, most: int, take: Any) -> None:
        for head, data in self.packets[:most]:
            take(head, data)
        del self.packets[:most]

    def stats(self) -> Any:
        return self.stats_now


@pytest.fixture()
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    handle = Told()
    false = SimpleNamespace(
        create=lambda name: handle, ErrorCode=cypcap.ErrorCode, Error=cypcap.Error, NETMASK_UNKNOWN=0
    )
    monkeypatch.setattr(listening, "_load", lambda: false)
    return handle


def test_blocks_are_bounded_and_carry_the_number_of_files(told: Told) -> None:
    head = SimpleNamespace(len=1 << 33, ts=1_700_000_000.123457)
    told.packets = [(head, b"abc"), (SimpleNamespace(len=1, ts=0.0), b"")] * 12
    with Listener("made", snap=1 << 18) as listener:
        blocks: list[Packets] = [listener.packets(0), listener.packets(0)]
    assert [len(block) for block in blocks] == [16, 8]
    assert listener.link == 101 and set(blocks[0].links.tolist()) == {101}
    assert blocks[0].starts[:3].tolist() == [0, 3, 3] and blocks[0].sizes[:3].tolist() == [3, 0, 3]
    assert blocks[0].wire[:2].tolist() == [2**31 - 1, 1]
    assert blocks[0].times[:2].tolist() == [1_700_000_000_123_457_000, 0]
    assert blocks[0].data.flags.writeable  # as those of files are: one compiled dissector serves both


def test_counters_go_on_where_libpcap_begins_anew(told: Told) -> None:
    with Listener("made") as listener:
        for recv, drop in ((2**32 - 10, 5), (20, 5), (30, 7)):
            told.stats_now = SimpleNamespace(recv=recv, drop=drop, ifdrop=0)
            counters = listener.counters()
        assert counters == Counters(2**32 + 30, 7, 0)
    assert listener.counters() == counters
    with pytest.raises(DataError, match="made: no longer listened to"):
        listener.packets(0)


def test_errors_are_those_of_the_house() -> None:
    assert issubclass(MissingExtra, KvecError)
