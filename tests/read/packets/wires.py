"""A wire between two hosts that are not there: a veth pair and two network namespaces, gone when their holders end.

Needs iproute2 and util-linux, and root or user namespaces for everybody. Where it cannot be made tests are skipped with
the reason, unless KVEC_WIRES=must says that they have to run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

HERE, THERE = "10.77.0.1", "10.77.0.2"  # of the ends `left` and `right`
PATIENCE = 60.0  # seconds for any program


class NoWire(Exception):
    """Says what is missing."""


class Wire:
    """Runs programs at either end; `left` and `right` are hosts, and their interfaces are called so too."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[Any]] = []
        if missing := [name for name in ("ip", "unshare", "nsenter") if not shutil.which(name)]:
            raise NoWire(f"{', '.join(missing)} not found: apt-get install iproute2 util-linux")
        self._user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self._holders: dict[str, int] = {}
        self._hold("left", ["unshare", *(["--user", "--map-root-user"] if self._user else []), "--net"])
        self._hold("right", [*self.at("left"), "unshare", "--net"])
        link = "ip link add left mtu 1500 gso_max_segs 1 type veth peer name right mtu 1500 gso_max_segs 1"
        self.run("left", f"{link} netns {self._holders['right']}")
        for side, address in (("left", HERE), ("right", THERE)):
            self.run(side, f"ip link set {side} addrgenmode none")  # IPv6 would speak up by itself
            self.run(side, f"ip address add {address}/24 dev {side}")
            self.run(side, f"ip link set {side} up")
            self.run(side, "ip link set lo up")

    def at(self, side: str) -> list[str]:
        """What to put before a command that shall run at that end."""
        return ["nsenter", "--target", str(self._holders[side]), *self._user, "--net"]

    def run(self, side: str, command: str | Sequence[str], **more: Any) -> str:
        """Run a program to its end; returns what it says."""
        words = command.split() if isinstance(command, str) else list(command)
        done = subprocess.run([*self.at(side), *words], capture_output=True, text=True, timeout=PATIENCE, **more)
        assert done.returncode == 0, f"{' '.join(words)[:200]}: {done.stderr}"
        return done.stdout

    def start(self, side: str, command: str | Sequence[str], **more: Any) -> subprocess.Popen[Any]:
        """Start a program that is ended with the wire at the latest."""
        words = command.split() if isinstance(command, str) else list(command)
        process = subprocess.Popen([*self.at(side), *words], **more)
        self._running.append(process)
        return process

    def serve(self, side: str, command: str | Sequence[str], port: int, kind: str = "tcp") -> subprocess.Popen[Any]:
        """Start a server, and wait until it listens."""
        process = self.start(side, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while not self.run(side, f"ss --no-header --listening --numeric --{kind} sport = :{port}"):
            assert process.poll() is None and time.monotonic() < until, f"{command} does not listen"
            time.sleep(0.05)
        return process

    def python(self, side: str, code: str, *given: object, **more: Any) -> subprocess.Popen[Any]:
        """Start a Python program."""
        return self.start(side, [sys.executable, "-c", code, *map(str, given)], **more)

    def close(self) -> None:
        """End what still runs; the namespaces and the wire between them go with the last of it."""
        for process in reversed(self._running):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _hold(self, side: str, words: list[str]) -> None:
        """A process that does nothing but keep a namespace."""
        code = "echo; exec sleep 600"  # its word comes when the namespace is there
        pipe = subprocess.PIPE
        process = subprocess.Popen([*words, "sh", "-c", code], stdout=pipe, stderr=pipe, text=True)
        self._running.append(process)
        assert process.stdout is not None and process.stderr is not None
        if not process.stdout.readline():
            said = process.stderr.read().strip()
            self.close()
            raise NoWire(f"a network namespace cannot be made: {said}")
        self._holders[side] = process.pid


@contextmanager
def wire() -> Iterator[Wire]:
    """A wire for a test, which is skipped where there can be none."""
    try:
        made = Wire()
    except NoWire as reason:
        lacking(str(reason))
    try:
        yield made
    finally:
        made.close()


def needs(*programs: str, packages: str) -> None:
    """Skip a test that needs programs of these Debian packages."""
    if missing := [name for name in programs if not find(name)]:
        lacking(f"{', '.join(missing)} not found: apt-get install {packages}")


def find(program: str) -> str | None:
    """Where a program is; servers live where ordinary users do not look."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def lacking(reason: str) -> Any:
    """Skip a test for a reason that is no fault of the code, or fail where it has to run."""
    if os.environ.get("KVEC_WIRES") == "must":
        pytest.fail(reason)
    pytest.skip(reason)


def counted(wire: Wire, side: str) -> int:
    """Packets that the kernel has sent and received on that end."""
    lines = wire.run(side, f"ip -s link show {side}").splitlines()
    numbers = [line.split() for line in lines if line.split() and line.split()[0].isdecimal()]
    return sum(int(row[1]) for row in numbers[-2:])
