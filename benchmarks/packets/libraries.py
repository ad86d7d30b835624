"""Packet libraries side by side in one run, over a folder of captures: `python benchmarks/packets/libraries.py FOLDER`.

For each: captures that raise, crash or hang; packets and bytes per five-tuple against tshark (its inner or its outer
five-tuple, whichever is nearer); packets for each second of the processor (with all processes that take part, on one
core) on some captures and a made one of few long flows, repeated until they take a second; what it hears of datagrams
on the loopback interface. Libraries may live in an environment of their own (--python).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import platform
import queue
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
NAMES = "kvec nfstream dpkt scapy pcapy-ng cypcap pypcap python-libpcap python-pcapng tshark".split()
LIVE = "kvec nfstream scapy pcapy-ng cypcap pypcap python-libpcap tshark".split()
READERS = "kvec dpkt scapy pcapy-ng cypcap pypcap python-libpcap".split()
WANTED, MOST_BYTES = 1.2, 250_000_000  # seconds of work for a timing, and what a repeated capture may take on disk


class Worker:
    """A candidate in a process of its own, asked line by line; one that dies or hangs is started anew."""

    def __init__(self, python: str, name: str, what: str) -> None:
        self.words = [python, str(HERE / "candidates.py"), name, what]
        self.process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self.words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self.answers: queue.Queue[str] = queue.Queue()
        answers, lines = self.answers, process.stdout
        assert lines is not None
        threading.Thread(target=lambda: [answers.put(line) for line in chain(lines, [""])], daemon=True).start()
        return process

    def ask(self, path: Path, patience: float = 60) -> dict[str, Any]:
        """What the candidate says of a capture; an error where it dies, or says nothing for so many seconds."""
        if self.process is None:
            self.process = self._start()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{path}\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=patience)
        except (queue.Empty, BrokenPipeError):
            line = "hung"
        if line in ("", "hung"):
            said = "hangs" if line else f"crashes with code {self.process.wait()}"
            print(f"{self.words[-2]} {said} on {path.name}", file=sys.stderr)
            self.close()
            return {"error": said}
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # with the processes that it has started itself
            self.process.wait()
            self.process = None


def installed(python: str, names: list[str]) -> dict[str, str]:
    """The versions of those candidates that are there."""
    found = {}
    for name in names:
        words = [interpreter(python, name), str(HERE / "candidates.py"), name, "version"]
        answer = subprocess.run(words, capture_output=True, text=True)
        if answer.returncode == 0:
            found[name] = json.loads(answer.stdout)
        else:
            print(f"{name} is not installed", file=sys.stderr)
    return found


def interpreter(python: str, name: str) -> str:
    return sys.executable if name == "kvec" else python


def unlike(one: dict[str, list[int]], other: dict[str, list[int]], at: int = 0) -> int:
    """Packets (or bytes) that the two put under different five-tuples."""
    nothing = [0, 0]
    both = one.keys() | other.keys()
    return sum(abs(one.get(key, nothing)[at] - other.get(key, nothing)[at]) for key in both)


def correctness(python: str, names: list[str], captures: list[Path]) -> dict[str, Any]:
    asked = list(dict.fromkeys([*names, "tshark"]))
    said: dict[str, list[dict[str, Any]]] = {}
    for name in asked:
        clock, worker = time.monotonic(), Worker(interpreter(python, name), name, "count")
        said[name] = [worker.ask(path) for path in captures]
        worker.close()
        n_failed = sum("error" in one for one in said[name])
        print(f"{name}: {n_failed} of {len(captures)} fail, {time.monotonic() - clock:.0f} s", file=sys.stderr)
    told = {}
    for name in names:
        failed, different, n_equal, n_bytes, n_unlike, n_packets = {}, {}, 0, 0, 0, 0
        set_aside: Counter[str] = Counter()
        tunnels = {"inner": 0, "outer": 0, "neither": 0}
        for at, path in enumerate(captures):
            one = said[name][at]
            set_aside.update(one.get("set_aside", {}))
            inner, outer = said["tshark"][at].get("counted"), said["tshark"][at].get("outer")
            if "error" in one:
                failed[path.name] = one["error"].replace(str(path), path.name)
            if inner is None or outer is None:
                continue
            counted = one.get("counted", {})
            n_packets += sum(packets for packets, _ in inner.values())
            wrong, nearest = min(((unlike(counted, true), i) for i, true in enumerate((inner, outer))))
            n_unlike += wrong
            if inner != outer:
                tunnels["neither" if wrong else ("inner", "outer")[nearest]] += 1
            n_equal += not wrong
            n_bytes += not wrong and not unlike(counted, (inner, outer)[nearest], at=1)
            if wrong and "error" not in one:
                different[path.name] = wrong
        told[name] = {
            "failed": failed, "captures": len(captures), "equal_packets": n_equal, "equal_packets_and_bytes": n_bytes,
            "packets": n_packets, "packets_unlike": n_unlike, "different": different,
            "captures_with_tunnels": tunnels, "set_aside": dict(set_aside),
        }  # fmt: skip
    return told


def repeated(path: Path, times: int, into: Path) -> int:
    """Write a pcap `times` times over, one after the other on its clock; returns the number of packets."""
    data = np.fromfile(path, np.uint8)
    order = {0xA1B2C3D4: "<", 0xD4C3B2A1: ">"}[struct.unpack_from("<I", data)[0]]
    starts, at = [], 24
    while at + 16 <= len(data):
        size = struct.unpack_from(f"{order}I", data, at + 8)[0]
        if at + 16 + size > len(data):
            break
        starts.append(at)
        at += 16 + size
    body = data[24:at].copy()
    places = np.array(starts)[:, None] - 24 + np.arange(4)
    seconds = body[places].view(f"{order}u4").astype(np.int64).ravel()
    span = int(seconds.max() - seconds.min()) + 1
    with into.open("wb") as file:
        file.write(data[:24].tobytes())
        for turn in range(times):
            body[places] = (seconds + turn * span).astype(f"{order}u4").view(np.uint8).reshape(-1, 4)
            file.write(body.tobytes())
    return times * len(starts)


def made(into: Path, flows: int = 40, packets: int = 500) -> Path:
    """A capture of few and long flows, which no capture of the folder may have."""
    rng = np.random.default_rng(1)
    with into.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at in range(flows * packets):
            flow, turn = at % flows, at // flows
            size, back = int(rng.choice([0, 60, 400, 1400])), bool(rng.integers(2))
            ends = [(bytes([10, 0, 0, flow + 1]), 40000 + flow), (bytes([10, 1, 0, 1]), 443)]
            (source, port), (target, other) = reversed(ends) if back else ends
            flags = 2 if turn == 0 else 16
            tcp = struct.pack(">HHIIBBHHH", port, other, at, at, 5 << 4, flags, 1000, 0, 0)
            head = struct.pack(">BBHHHBBH", 69, 0, 40 + size, at & 0xFFFF, 0, 64, 6, 0) + source + target
            frame = bytes(12) + b"\x08\x00" + head + tcp + bytes(size)
            file.write(
                struct.pack("<IIII", 1_700_000_000 + at // 1000, at % 1000 * 1000, len(frame), len(frame)) + frame
            )
    return into


def speed(python: str, names: list[str], path: Path, repeat: int, what: str) -> dict[str, Any]:
    """Packets a second: the best of some passes by turns, less what a capture of one packet takes."""
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        once, one = Path(folder, "once.pcap"), Path(folder, "one.pcap")
        n_once = repeated(path, 1, once)
        data = once.read_bytes()
        one.write_bytes(data[: 24 + 16 + struct.unpack_from("<I", data, 32)[0]])
        workers, files, passes = {}, {}, {}
        for name in names:
            worker = Worker(interpreter(python, name), name, what)
            if "error" in worker.ask(one, 120) or "error" in worker.ask(once, 120):  # imports, compiling
                worker.close()
                continue
            starts = [worker.ask(one) for _ in range(3)]
            start_up = {clock: min(start[clock] for start in starts) for clock in ("seconds", "cpu")}
            again = max(worker.ask(once)["cpu"] - start_up["cpu"], 1e-3)
            times = max(1, min(int(WANTED / again) + 1, int(MOST_BYTES / once.stat().st_size)))
            if times not in files:
                files[times] = Path(folder, f"{times}.pcap")
                repeated(path, times, files[times])
            workers[name], passes[name] = (worker, times, start_up), []
        for _ in range(repeat):
            for name, (worker, times, _) in workers.items():
                passes[name].append(worker.ask(files[times], 300))
        for name, (worker, times, start_up) in workers.items():
            worker.close()
            taken = [turn for turn in passes[name] if "error" not in turn]
            if not taken:
                continue
            rates = {
                clock: [round(times * n_once / (turn[clock] - start_up[clock])) for turn in taken]
                for clock in ("cpu", "seconds")
            }
            told[name] = {
                "packets": times * n_once, "per_cpu_second": max(rates["cpu"]), "of_passes": rates["cpu"],
                "per_second": max(rates["seconds"]), "start_up_ms": round(1000 * start_up["seconds"], 1),
            }  # fmt: skip
            print(f"{path.name} {what} {name}: {max(rates['cpu']):,} packets/s", file=sys.stderr)
    return told


def live(python: str, name: str, n: int = 2000) -> dict[str, Any]:
    """A few datagrams to nobody on the loopback interface, and what the library hears of them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        words = [interpreter(python, name), str(HERE / "live.py"), name, str(port), str(n)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                return {"error": "cannot listen"}
            if name == "nfstream":
                time.sleep(3)  # it cannot say when it listens
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(n):
                    sender.sendto(struct.pack("<d", time.time()) + bytes(192), ("127.0.0.1", port))
                    time.sleep(0.0005)
            answer = process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            return {"error": "never comes back"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started itself
            process.wait()
            process.stdout.close()
    told: dict[str, Any] = json.loads(answer) if answer else {"error": "said nothing"}
    return told | {"sent": n}


def table(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per library."""
    rows = []
    for name, version in result["versions"].items():
        right, heard = result["correctness"][name], result["live"].get(name, {})
        row: dict[str, Any] = {
            "library": name, "version": version, "captures": right["captures"], "fail": len(right["failed"]),
            "like_tshark": right["equal_packets"], "and_in_bytes": right["equal_packets_and_bytes"],
            "packets_unlike": right["packets_unlike"],
        }  # fmt: skip
        for what in ("speed", "deliver"):
            for capture, found in result[what].items():
                row[f"{what}_{Path(capture).stem}"] = found.get(name, {}).get("per_cpu_second")
        for key in ("heard", "sent", "median_ms", "drops", "descriptor", "wire lengths known", "error"):
            row[f"live_{key.replace(' ', '_')}"] = heard.get(key)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with captures")
    parser.add_argument("--repeat", type=int, default=3, help="passes for each speed")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the libraries")
    parser.add_argument("--only", default=",".join(NAMES), help="libraries, with commas between")
    parser.add_argument("--speed", default="Facetime.pcap,Tinba.pcap", help="pcap files of the folder to time")
    parser.add_argument("--without-live", action="store_true", help="where capturing is not allowed")
    parser.add_argument("-o", "--out", type=Path, default=HERE)
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    versions = installed(given.python, given.only.split(","))
    names = list(versions)
    captures = sorted(
        path for path in given.folder.iterdir() if path.is_file() and path.suffix.startswith((".pcap", ".cap"))
    )
    timed = [given.folder / name for name in given.speed.split(",") if (given.folder / name).is_file()]
    scratch = tempfile.TemporaryDirectory()
    timed.append(made(Path(scratch.name, "made.pcap")))
    result: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, one core",
        "versions": versions,
        "correctness": correctness(given.python, names, captures),
        "speed": {path.name: speed(given.python, names, path, given.repeat, "speed") for path in timed},
        "deliver": {
            path.name: speed(given.python, [n for n in names if n in READERS], path, given.repeat, "deliver")
            for path in timed
        },
        "live": {} if given.without_live else {name: live(given.python, name) for name in names if name in LIVE},
    }
    scratch.cleanup()
    (given.out / "libraries.json").write_text(json.dumps(result, indent=1) + "\n")
    rows = table(result)
    with (given.out / "libraries.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
