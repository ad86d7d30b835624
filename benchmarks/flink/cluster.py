"""A standalone Flink cluster on this machine: a JobManager and TaskManagers as processes of their own, on loopback.

It knows no kvec, and needs the Python in which apache-flink is installed, and Java.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

TRIES = 3  # of starting a JobManager
SETTINGS = {
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "jobmanager.memory.process.size": "1g",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.memory.process.size": "1400m",
    "taskmanager.memory.managed.size": "300m",
    "web.checkpoints.history": "1000",
    "heartbeat.interval": "1s",
    "heartbeat.timeout": "12s",
    "heartbeat.rpc-failure-threshold": "2",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "1s",
}


def missing(python: str) -> str:
    """What is missing for a cluster, and how it is had; empty: nothing."""
    if shutil.which("java") is None:
        return "java not found: apt-get install openjdk-17-jre-headless"
    if not Path(python).exists() or home(python) is None:
        return f"{python} has no apache-flink: make flink"
    return ""


def home(python: str) -> Path | None:
    """Where the pip package keeps Flink."""
    code = "import importlib.util as u; s = u.find_spec('pyflink'); print(s.submodule_search_locations[0] if s else '')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) if done.stdout.strip() else None


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Starts processes, each in a group of its own, and ends them all."""

    def __init__(self, python: str, folder: Path, slots: int = 1, settings: Mapping[str, str] | None = None) -> None:
        found = home(python)
        assert found is not None
        self.python, self.home, self.folder = python, found, folder
        self._conf, self.logs = folder / "conf", folder / "logs"
        self.rest = 0
        self._processes: list[subprocess.Popen[bytes]] = []  # all that were ever started
        self.workers: list[subprocess.Popen[bytes]] = []  # TaskManagers that run
        shutil.copytree(found / "conf", self._conf, dirs_exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        opts = [line for line in (found / "conf" / "config.yaml").read_text().splitlines() if "--add-exports" in line]
        java = opts[0].split("all:", 1)[1].strip()
        self._entries = {
            "env.java.opts.all": java, **SETTINGS, "taskmanager.numberOfTaskSlots": str(slots),
            "io.tmp.dirs": str(folder / "tmp"), **(settings or {}),
        }  # fmt: skip
        (folder / "tmp").mkdir(exist_ok=True)

    @property
    def address(self) -> str:
        """Where jobs are sent."""
        return f"127.0.0.1:{self.rest}"

    def __enter__(self) -> Cluster:
        """Start the JobManager; one whose ports others took meanwhile ends by itself, and is started on others."""
        for _ in range(TRIES):
            rpc, self.rest = free_ports(2)
            ports = {"jobmanager.rpc.port": rpc, "rest.port": self.rest, "rest.bind-port": self.rest}
            entries = self._entries | {name: str(port) for name, port in ports.items()}
            text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in entries.items())
            (self._conf / "config.yaml").write_text(text, encoding="utf-8")
            process = self._start("jobmanager.sh")
            try:
                self.wait("a JobManager", lambda one=process: one.poll() is not None or self.get("/overview"), 300.0)
            except BaseException:
                self.__exit__()
                raise
            if process.poll() is None:
                return self
        raise RuntimeError(f"no JobManager stays; logs are in {self.logs}")

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            self._end(process)

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start another TaskManager."""
        process = self._start("taskmanager.sh")
        self.workers.append(process)
        return process

    def kill_worker(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL a TaskManager's Java; Python workers that outlive it are ended after it, by their group."""
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.workers.remove(process)
        self._end(process)

    def memory(self) -> dict[str, float]:
        """MB in RAM of the TaskManagers' Java, and of their Python workers."""
        found = {"java": 0.0, "python": 0.0}
        groups = {process.pid for process in self.workers}
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError, ValueError, IndexError, KeyError):  # gone meanwhile
                fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                group = int((status.parent / "stat").read_text().rpartition(")")[2].split()[2])
                if group in groups:
                    kind = "java" if int(fields["Pid"]) in groups else "python"
                    found[kind] += int(fields["VmRSS"].split()[0]) / 1024
        return {name: round(value, 1) for name, value in found.items()}

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that the TaskManagers' Java, and their Python workers, have used."""
        found = {"java": 0.0, "python": 0.0}
        groups, tick = {process.pid for process in self.workers}, os.sysconf("SC_CLK_TCK")
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ValueError, IndexError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) in groups:
                    kind = "java" if int(stat.parent.name) in groups else "python"
                    found[kind] += sum(map(int, fields[11:15])) / tick  # with children that have ended
        return {name: round(value, 1) for name, value in found.items()}

    def get(self, path: str) -> Any:
        """What the REST of the JobManager says."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Ask the REST for something."""
        request = urllib.request.Request(
            f"http://{self.address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def wait(self, what: str, is_so: Callable[[], Any], seconds: float = 180.0) -> Any:
        """Look until something is so; what it was then."""
        until, problem = time.monotonic() + seconds, ""
        while time.monotonic() < until:
            try:
                if found := is_so():
                    return found
            except (urllib.error.URLError, OSError, KeyError, ValueError) as error:
                problem = f": {error}"
            time.sleep(0.2)
        raise TimeoutError(f"{what}: not within {seconds:g} seconds{problem}; logs are in {self.logs}")

    def wait_for_workers(self, n: int, seconds: float = 180.0) -> None:
        """Wait until so many TaskManagers are there."""
        self.wait(f"{n} TaskManagers", lambda: len(self.get("/taskmanagers")["taskmanagers"]) >= n, seconds)

    def state(self, job: str) -> str:
        """How a job stands."""
        return str(self.get(f"/jobs/{job}")["state"])

    def checkpoints(self, job: str) -> Any:
        """What is known of a job's checkpoints."""
        return self.get(f"/jobs/{job}/checkpoints")

    def wait_for_checkpoints(self, job: str, n: int, seconds: float = 240.0) -> None:
        """Wait for so many more whole checkpoints, or for the job's end."""
        before = self.checkpoints(job)["counts"]["completed"]
        self.wait(
            f"{n} checkpoints",
            lambda: self.checkpoints(job)["counts"]["completed"] >= before + n or self.state(job) == "FINISHED",
            seconds,
        )

    def stop(self, job: str, folder: Path, seconds: float = 240.0) -> Path:
        """Stop a job with a savepoint; where it is."""
        asked = self.post(f"/jobs/{job}/stop", {"targetDirectory": folder.resolve().as_uri(), "drain": False})

        def done() -> Any:
            found = self.get(f"/jobs/{job}/savepoints/{asked['request-id']}")
            return found["operation"] if found["status"]["id"] == "COMPLETED" else None

        operation = self.wait("a savepoint", done, seconds)
        if "location" not in operation:
            raise RuntimeError(operation["failure-cause"]["stack-trace"][:2000])
        return Path(operation["location"].removeprefix("file:"))

    def _start(self, script: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ, "FLINK_CONF_DIR": str(self._conf), "FLINK_LOG_DIR": str(self.logs),
            "FLINK_PID_DIR": str(self.folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        }  # fmt: skip
        with (self.logs / f"{script}-{len(self._processes)}.out").open("wb") as out:
            process = subprocess.Popen(
                [str(self.home / "bin" / script), "start-foreground"], env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
