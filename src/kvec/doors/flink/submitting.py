"""`kvec flink`: what was wished for is checked here, so that it does not fail on a worker; then the job is sent."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from kvec.decide.deployed import load_deployed
from kvec.decide.stream import Stream
from kvec.doors.flink.job import Plan, build
from kvec.doors.flink.parquet import FORMS, PREFIX, Turning
from kvec.doors.flink.places import is_folder, newest_state, require_sink, require_source
from kvec.doors.flink.slices import require_same_files, slices_of
from kvec.doors.flink.watching import Manner
from kvec.doors.flink.wishes import FlinkWishes
from kvec.doors.flink.worker import Task, pyflink
from kvec.doors.messages import one_line, say
from kvec.doors.streaming import every
from kvec.doors.succeeding import limits_of, require_same_items
from kvec.words.errors import DataError, SettingError
from kvec.words.plain import require_choice

CHECKPOINTS = "execution.checkpointing.dir"
CONNECT = 10.0  # seconds to reach a cluster
BLOCKS = 16  # slices, or blocks of rows, that go to a worker at once; of single rows it is Flink's own thousand

# Restarts before the job fails and says why: two minutes of them here, twelve on a cluster, where a machine that is
# gone may come back. Flink counts anew after an hour without a failure.
ATTEMPTS_HERE, ATTEMPTS = 10, 20


def submit(wishes: FlinkWishes) -> int:
    """Check, build and send the job; unless detached, wait for its end. The exit code."""
    is_files = require_source(wishes.source)
    require_sink(wishes.sink, "--sink")
    if wishes.dead_letters is not None:
        require_sink(wishes.dead_letters, "--dead-letters")
        if is_folder(wishes.sink) and Path(wishes.dead_letters).resolve() == Path(wishes.sink).resolve():
            raise SettingError("--dead-letters is the folder of --sink; name another, as their files differ")
    if is_files and is_folder(wishes.sink) and Path(wishes.source).resolve() == Path(wishes.sink).resolve():
        raise SettingError(f"--sink is {wishes.sink}, the folder of --source; name another")
    require_choice(wishes.sink_format, FORMS, "--sink-format")
    if wishes.sink_format == "parquet":
        if not is_folder(wishes.sink):
            raise SettingError(f"--sink-format parquet is for a folder of files, and --sink is {wishes.sink}")
        if wishes.detach:
            raise SettingError(
                "--sink-format parquet is this command's to do, and --detach ends it; leave out one of the two"
            )
    require_choice(wishes.event_time, ("items", "wall"), "--event-time")
    for name, given in (("parallelism", wishes.parallelism), ("split-tangles", wishes.split_tangles)):
        if given < 1:
            raise SettingError(f"--{name} is {given}; it must be at least 1")
    if wishes.split_by and wishes.split_tangles == 1:
        raise SettingError("--split-by says how tangles are split; say into how many parts with --split-tangles")
    if wishes.linger < 0:
        raise SettingError(f"--linger is {wishes.linger}; it must be at least 0 seconds")
    if is_files and wishes.linger:
        raise SettingError("--linger is for single rows, of sockets and Kafka; files come in blocks: leave it out")
    if wishes.detach and wishes.cluster == "local":
        raise SettingError(
            "--detach leaves the job to a cluster, but local is one in this process; name it with --cluster host:port"
        )
    limits = limits_of(wishes.limits or {})
    if is_files and (limits.idle is not None or wishes.event_time == "wall"):
        raise SettingError("--idle and --event-time wall go by the wall clock, which files do not have; use --expiry")
    model = load_deployed(wishes.model, wishes.at)
    Stream(model, limits, wishes.threshold)  # what cannot be is refused
    for path in wishes.take_over_from:
        require_same_items(load_deployed(path).schema, model.schema, str(wishes.model), str(path))
    slices = slices_of(wishes.source, model.schema, wishes.split_by) if is_files else None
    if slices is not None and not slices.n:
        raise DataError(f"{wishes.source}: has no rows")
    if slices is not None and wishes.start_from is not None:
        require_same_files(newest_state(wishes.start_from.resolve()), slices)
    task = Task(
        str(wishes.model.resolve()), tuple(str(path.resolve()) for path in wishes.take_over_from), wishes.at,
        wishes.threshold, limits,
        Manner(wishes.linger, by_wall=wishes.event_time == "wall", is_live=not is_files),
        wishes.split_tangles, wishes.split_by, wishes.dead_letters is not None,
    )  # fmt: skip
    with _checkpoints(wishes) as folder:
        settings = settings_of(replace(wishes, checkpoints=folder), is_files)
        pyflink()
        _require_there(wishes)
        plan = Plan(
            task, slices or wishes.source, wishes.sink, wishes.dead_letters, wishes.parallelism, settings, wishes.jars
        )
        return _execute(plan, wishes, model.vocabulary.label_names)


def _require_there(wishes: FlinkWishes) -> None:
    """Refuse at once what Flink would only find out after a while; say what is in the sink already."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else str(Path(home) / "bin" / "java")) is None:
        where = f"and JAVA_HOME is {home}, where none is" if home else "which is not on the path"
        raise SettingError(f"kvec flink needs Java 17, {where}; install it, or set JAVA_HOME to where it is")
    if wishes.cluster != "local":
        host, _, port = wishes.cluster.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT).close()
        except OSError as error:
            raise SettingError(
                f"--cluster {wishes.cluster}: {error.strerror or error}; is the JobManager running there?"
            ) from None
    if is_folder(wishes.sink) and wishes.start_from is None and any(Path(wishes.sink).glob(f"{PREFIX}-*")):
        say(f"{wishes.sink} holds decisions of an earlier job, which stay beside those of this one")


@contextmanager
def _checkpoints(wishes: FlinkWishes) -> Iterator[Path | None]:
    """Where checkpoints go. Without a folder Flink would keep them in memory, and fail where they are large."""
    is_set = any(given.partition("=")[0].strip() == CHECKPOINTS for given in wishes.settings)
    if wishes.checkpoints is not None or is_set:
        yield wishes.checkpoints
    elif wishes.cluster != "local":
        raise SettingError("--cluster needs --checkpoints: a folder that all of its machines reach")
    else:
        with TemporaryDirectory(prefix="kvec-checkpoints-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)


def settings_of(wishes: FlinkWishes, is_files: bool) -> dict[str, str]:
    """The settings of the job in Flink's words; those that were given go before ours."""
    _, seconds = every(wishes.every)
    if seconds is None:
        raise SettingError(f"--every is {wishes.every!r}; write a time, as in 30s")
    python = wishes.python or sys.executable
    settings = {
        "pipeline.name": f"kvec {wishes.model.name}",
        "python.executable": python,
        "python.client.executable": python,
        "python.fn-execution.bundle.size": str(BLOCKS if is_files else 1000),
        "python.fn-execution.bundle.time": str(1000 if is_files else max(int(wishes.linger * 1000), 10)),
        "python.state.cache-size": "100",  # of tangles the workers remember themselves what they need
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": f"{int(seconds * 1000)}ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff": str(
            ATTEMPTS_HERE if wishes.cluster == "local" else ATTEMPTS
        ),
    }
    if wishes.checkpoints is not None:
        settings[CHECKPOINTS] = wishes.checkpoints.resolve().as_uri()
    if wishes.start_from is not None:
        settings["execution.state-recovery.path"] = newest_state(wishes.start_from.resolve()).as_uri()
    if wishes.cluster != "local":
        host, _, port = wishes.cluster.rpartition(":")
        if not host or not port.isdecimal():
            raise SettingError(f"--cluster is {wishes.cluster}; write host:port of the JobManager's REST, or local")
        settings |= {"execution.target": "remote", "rest.address": host, "rest.port": port}
    for given in wishes.settings:
        name, sign, value = given.partition("=")
        if not sign or not name.strip():
            raise SettingError(f"--set is {given!r}; write NAME=VALUE with a setting of Flink")
        settings[name.strip()] = value.strip()
    return settings


def _execute(plan: Plan, wishes: FlinkWishes, label_names: Sequence[str]) -> int:
    is_parquet = wishes.sink_format == "parquet"
    with Turning(Path(wishes.sink), label_names) if is_parquet else nullcontext():
        job = None
        try:
            env = build(plan)
            job = env.execute_async(plan.settings["pipeline.name"])
            say(f"job {job.get_job_id()} runs on {wishes.cluster}; its decisions go to {wishes.sink}")
            if wishes.detach:
                return 0
            job.get_job_execution_result().result()
        except KeyboardInterrupt:
            if job is not None:
                job.cancel().result()
            raise
        except Exception as error:  # py4j's, of whatever the cluster says
            raise DataError(f"Flink: {explained(str(error))}") from None
    say(f"the job has ended; all decisions are in {wishes.sink}")
    return 0


def explained(trace: str) -> str:
    """What a Java trace says, on one line: what kvec refused, else the last cause, and a way out where one is known."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    for line in lines:
        name, sign, rest = line.partition("Error: ")
        if sign and "kvec.words.errors." in name:
            return one_line(rest)
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    cause = one_line((causes or lines or ["no more is known"])[-1])
    if "connector.kafka" in trace and ("Java class" in trace or "ClassNotFound" in trace or "NoClassDef" in trace):
        return "kafka:// needs Flink's connector, which is a jar of its own: --jar flink-sql-connector-kafka-….jar"
    if "Cannot map checkpoint/savepoint state" in trace:
        return (
            "the state of --from is of another --source, of files that have changed, or was split in another way "
            "(--split-tangles, --split-by); name that, or leave out --from"
        )
    if "Connection refused" in trace:
        return f"{cause}; is the JobManager running there?"
    return cause
