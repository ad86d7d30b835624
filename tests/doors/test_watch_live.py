"""From the wire to the name: real programs are recorded and learnt from, then named while they talk."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.doors.made import TINY
from tests.read.packets import wires
from tests.read.packets.making_packets import Frame, pcap
from tests.read.packets.test_listening import SEND, Ear, send
from tests.read.packets.wires import THERE, Wire, find, needs

from kvec.doors.cli import run

pytest.importorskip("cypcap")

PORTS = {"http": 80, "dns": 53, "ftp-data": 20}
SLOW = 5201  # a port without a name
LEARN = (
    *TINY, "--epochs", "16", "--objective", "expected", "--tangling", "key:4:common",
    "--set", "encoder.dropout=0", "--set", "training.warmup=20",
    "--set", "training.learning_rate=0.01", "--set", "training.patience=16", "--set", "training.settle=0.2",
    "--set", "training.delay=items", "--set", "training.delay_unit=100", "--set", "training.delay_cost=1",
    "--set", "deciding.threshold=0.5", "--set", "encoder.use_time=false",
    "--set", "encoder.use_membership=false", "--quiet",
)  # fmt: skip
NEVER = ("--threshold", "1")
FETCH = """
import sys, urllib.request
for page in sys.argv[2:]:
    urllib.request.urlopen(f"http://{sys.argv[1]}/{page}").read()
"""
BULK = f"iperf3 --client {THERE} --length 8K --bitrate 3M"
KVEC = (sys.executable, "-m", "kvec")


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A wire with three servers at its right end."""
    needs("dnsmasq", "dig", "iperf3", "ss", packages="dnsmasq-base bind9-dnsutils iperf3 iproute2")
    pages = tmp_path_factory.mktemp("pages")
    for i in range(4):
        (pages / f"{i}.html").write_text("a page " * 1000 * (i + 1))
    names = "--keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --pid-file="
    with wires.wire() as made:
        made.serve("right", f"{sys.executable} -m http.server {PORTS['http']} --directory {pages}", PORTS["http"])
        made.serve("right", f"{find('dnsmasq')} {names} --address=/shop.test/10.1.2.3", PORTS["dns"], "udp")
        for port in (PORTS["ftp-data"], SLOW):
            made.serve("right", f"iperf3 --server --port {port}", port)
        yield made


def talk(wire: Wire, n: int, folder: Path) -> None:
    """So many lookups, pages and short transfers, all at once."""
    (folder / "names.txt").write_text("".join(f"host{'s' * (i % 3)}.shop.test\n" for i in range(n)))
    programs = [
        f"dig @{THERE} -f {folder / 'names.txt'} +short +tries=1".split(),
        [sys.executable, "-c", FETCH, THERE, *(f"{i % 4}.html" for i in range(n))],
        f"{BULK} --port {PORTS['ftp-data']} --parallel {n} --bytes {40 * n}K".split(),
    ]
    running = [wire.start("left", words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for words in programs]
    said = [process.communicate(timeout=wires.PATIENCE) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert said[0][0] == b"10.1.2.3\n" * n


class Running:
    """A kvec that listens on the left end."""

    def __init__(self, wire: Wire, *words: str | Path) -> None:
        pipe = subprocess.PIPE
        self.process = wire.start("left", [*KVEC, *map(str, words), "-i", "left"], stdout=pipe, stderr=pipe, text=True)
        said = self.process.stderr.readline()
        assert said.startswith("kvec: listening to left "), said + self.process.stderr.read()

    def stop(self, number: int = signal.SIGINT) -> tuple[str, str]:
        """Ask it to stop; what it said on both outputs."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=wires.PATIENCE)
        assert self.process.returncode == 0, err
        return out, err


def rows(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that grows."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def wait_for(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def model(wire: Wire, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first half: recorded, labelled by port, and learnt from."""
    made = tmp_path_factory.mktemp("live")
    ear = Ear(wire, made)
    flows = Running(wire, "flows", "-o", made / "items.parquet")
    talk(wire, 80, made)
    said = flows.stop()[1]
    heard = ear.stop()
    assert f"kvec: {heard.n:,} packets passed the filter, 0 were lost by the kernel\n" in said
    columns = zip(heard.each, heard.times.tolist(), heard.wire.tolist(), strict=True)
    (made / "first.pcap").write_bytes(pcap([Frame(*column) for column in columns]))
    (made / "kvec.toml").write_text("[packets]\nmin_packets = 2\n")
    labels = str(made / "labels.csv")
    assert run(["label", str(made / "first.pcap"), "--by", "port", "-o", labels]) == 0
    assert run(["train", str(made / "first.pcap"), "--labels", labels, "-o", str(made / "model"), *LEARN]) == 0
    return made / "model"


def test_flows_heard_live_are_those_of_a_capture(model: Path) -> None:
    assert run(["flows", str(model.parent / "first.pcap"), "-o", str(model.parent / "recorded.parquet")]) == 0
    heard, recorded = (pl.read_parquet(model.parent / f"{name}.parquet") for name in ("items", "recorded"))
    assert set(heard["capture"]) == {"left"}
    columns = ["key", "size", "direction", "end"]  # two ears may hear packets of the same moment in another order
    assert heard.sort(columns)[columns].equals(recorded.sort(columns)[columns])
    assert (heard["time"].sort() - recorded["time"].sort()).abs().max() < 0.01  # type: ignore[operator]


def test_flows_are_named_while_they_run(wire: Wire, model: Path, tmp_path: Path) -> None:
    """The second half: most names are right, and that of a long transfer is there before its end."""
    output = tmp_path / "decided.ndjson"
    watch = Running(wire, "watch", model, "-o", output)
    talk(wire, 30, tmp_path)
    transfer = wire.start("left", f"{BULK} --port {SLOW} --cport 40001 --time 3", stdout=subprocess.DEVNULL)

    def named() -> list[dict[str, Any]]:
        return [row for row in rows(output) if row["client"].endswith(":40001")]

    (early,) = wait_for(named)
    assert transfer.poll() is None, "the transfer was over before it had a name"
    assert early["reason"] == "halted"  # how many names are right is counted below
    assert transfer.wait(wires.PATIENCE) == 0
    said = watch.stop()[1]

    decided = rows(output)
    truth = {str(port): label for label, port in PORTS.items()} | {str(SLOW): "ftp-data"}
    pairs = Counter((truth[row["server"].split(":")[1]], row["label"]) for row in decided)
    found = {true: sum(n for (t, _), n in pairs.items() if t == true) for true in PORTS}
    assert (found["http"], found["ftp-data"]) == (30, 31 + 2) and 27 <= found["dns"] <= 30  # ports may come again
    right = {label: pairs[label, label] for label in PORTS}
    assert sum(right.values()) >= 0.9 * len(decided) and min(right.values()) >= 20, pairs
    halted = [row for row in decided if row["reason"] == "halted"]
    assert len(halted) >= 20 and all(row["n_observed"] == row["packets"] for row in halted)
    assert ", 0 were lost by the kernel" in said and f"{len(decided)} flows named" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_open_flows_are_decided_when_someone_stops(wire: Wire, model: Path, number: int) -> None:
    watch = Running(wire, "watch", model, *NEVER, "--filter", "udp port 4001")
    send(wire, 7, port=4001)
    send(wire, 5, port=4002)
    out, err = watch.stop(number)
    (row,) = map(json.loads, out.splitlines())
    assert row["server"] == f"{THERE}:4001" and row["n_observed"] == row["packets"] == 7
    assert row["reason"] == "closed"
    assert "7 packets passed the filter, 0 were lost by the kernel" in err
    assert "7 packets (3,122 bytes) of 1 flow in" in err and "Traceback" not in err


def test_silence_ends_flows(wire: Wire, model: Path, tmp_path: Path) -> None:
    """Nothing comes any more, and still the flow is decided."""
    restless = tmp_path / "model"
    shutil.copytree(model, restless)
    card = json.loads((restless / "kvec.json").read_text())
    card["schema"]["packets"]["idle"] = card["schema"]["expiry"] = 1.0
    (restless / "kvec.json").write_text(json.dumps(card))
    output = tmp_path / "decided.ndjson"
    watch = Running(wire, "watch", restless, *NEVER, "--filter", "udp port 4003", "-o", output)
    send(wire, 4, port=4003)
    began = time.time()
    (row,) = wait_for(lambda: rows(output))
    assert row["reason"] == "expired" and row["n_observed"] == 4
    assert 0.9 < time.time() - began < 10
    watch.stop()
    assert len(rows(output)) == 1


def test_who_may_not_listen_is_told_what_to_do(wire: Wire, model: Path) -> None:
    code = """
import sys
from kvec.doors.cli import run
from kvec.read.packets.rights import _drop_capabilities
_drop_capabilities()
sys.exit(run(sys.argv[1:]))
"""
    words = [sys.executable, "-c", code, "watch", str(model), "-i", "left"]
    done = subprocess.run([*wire.at("left"), *words], capture_output=True, text=True, timeout=wires.PATIENCE)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("kvec: left: listening needs the right CAP_NET_RAW") and "setcap" in done.stderr


def test_a_filter_that_cannot_be(wire: Wire, model: Path) -> None:
    words = [*KVEC, "watch", str(model), "-i", "left", "--filter", "tcp portt 80"]
    done = subprocess.run([*wire.at("left"), *words], capture_output=True, text=True, timeout=wires.PATIENCE)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("kvec: filter 'tcp portt 80': ")


@pytest.mark.parametrize("command", ["watch", "flows", "flows -o"])
def test_an_interface_that_goes_away(wire: Wire, model: Path, tmp_path: Path, command: str) -> None:
    """What was seen until then is decided, or written, and told, then what happened."""
    for change in ("link add going type veth peer name gone", "link set going up", "link set gone up"):
        wire.run("left", f"ip {change}")
    pipe, output = subprocess.PIPE, tmp_path / "items.parquet"
    given = (
        ["watch", str(model), *NEVER]
        if command == "watch"
        else ["flows", *["-o", str(output)][: 2 * ("-o" in command)]]
    )
    words = [*KVEC, *given, "-i", "going", "--filter", "udp"]
    process = wire.start("left", words, stdout=pipe, stderr=pipe, text=True)
    assert process.stderr.readline().startswith("kvec: listening to going ")
    wire.run("left", "ip address add 10.78.0.1/24 dev going")
    wire.run("left", "ip neighbour add 10.78.0.2 lladdr 02:00:00:00:00:02 dev going")
    wire.run("left", [sys.executable, "-c", SEND, "10.78.0.2", "9", "3", "10"])
    time.sleep(0.5)  # what waits in the kernel goes with it
    wire.run("left", "ip link delete going")
    out, err = process.communicate(timeout=wires.PATIENCE)
    assert process.returncode == 2 and "3 packets" in err + out
    assert err.splitlines()[-1].startswith("kvec: going: ") and "Traceback" not in err
    if command == "watch":
        assert json.loads(out)["n_observed"] == 3
    else:
        assert "10.78.0.2:9" in out and output.exists() == ("-o" in command)
        assert not output.exists() or pl.read_parquet(output).height == 3
