"""A real `kvec serve` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

PATIENCE = 180.0  # seconds that a busy machine is given


class Serving:
    """A process that serves; its standard error output is read along."""

    def __init__(self, *arguments: str | Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "kvec", "serve", *map(str, arguments), "--port", str(port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        found = self.wait_for(r"at (http://127\.0\.0\.1:(\d+))")
        self.url, self.port = found[1], int(found[2])
        self.address = f"{self.url}/"

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line has been said."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            if self.process.poll() is not None and not self._reading.is_alive():
                break
            time.sleep(0.05)
        raise AssertionError("\n".join(self.lines))

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self._end()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
