"""The job: rows from a source, keyed by tangle, through the deciding function, into sinks that hold each line once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kvec.doors.flink.places import STARTS, kafka_parts
from kvec.doors.flink.slices import Slices
from kvec.doors.flink.worker import Arriving, Deciding, Reading, Task, bad_rows, pyflink

MOST_PARALLEL = 256  # into so many groups Flink parts the tangles; a savepoint can be restored at up to as many workers
TRANSACTION = "900000"  # milliseconds: the longest that a Kafka broker allows unless it is told otherwise


@dataclass(frozen=True)
class Plan:
    """What the job is made of."""

    task: Task
    source: Slices | str  # slices of files, or a URL
    sink: str  # a folder, a URL, or - for the workers' standard output
    dead_letters: str | None = None  # a folder
    parallelism: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)  # of Flink
    jars: Sequence[Path] = ()


def build(plan: Plan) -> Any:
    """The environment that holds the job, ready to be executed."""
    functions, datastream = pyflink("datastream.functions"), pyflink("datastream")
    for ours in (Reading, Arriving):
        functions.FlatMapFunction.register(ours)
    functions.KeyedProcessFunction.register(Deciding)
    configuration, types = pyflink("common").Configuration(), pyflink("common").Types
    for name, value in plan.settings.items():
        configuration.set_string(name, value)
    jars = [path.resolve() for path in plan.jars]
    if plan.settings.get("execution.target") == "remote":
        made = (
            pyflink("java_gateway")
            .get_gateway()
            .jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
        )
        env = datastream.StreamExecutionEnvironment(made(configuration._j_configuration))
        jars += sorted((Path(pyflink().__file__).parent / "opt").glob("flink-python-*.jar"))
    else:
        env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    if jars:
        env.add_jars(*(path.as_uri() for path in jars))
    env.set_parallelism(plan.parallelism)
    env.set_max_parallelism(MOST_PARALLEL)
    blocks = _blocks(env, plan)
    told = blocks.key_by(lambda block: block[0], types.STRING()).process(Deciding(plan.task), types.STRING())
    told = told.name("kvec: decide").uid(decide_uid(plan.task))
    _sink(told, plan.sink, "decisions")
    if plan.dead_letters is not None:
        _sink(told.get_side_output(bad_rows()), plan.dead_letters, "dead-letters")
    return env


def decide_uid(task: Task) -> str:
    """The name of the deciding state: one that was split in another way is another's, and Flink refuses it."""
    return "kvec-decide" if task.parts == 1 else f"kvec-decide-{task.parts}-{task.by or 'key'}"


def _blocks(env: Any, plan: Plan) -> Any:
    """The source, and its rows put together by tangle. One reader keeps their order."""
    types, without = pyflink("common").Types, pyflink("common").WatermarkStrategy.no_watermarks()
    if isinstance(plan.source, Slices):
        sequences = pyflink("datastream.connectors.number_seq")
        numbers = sequences.NumberSequenceSource(0, plan.source.n)  # the last one marks the end
        slices = env.from_source(numbers, without, "slices", types.LONG())
        slices = slices.uid(plan.source.uid).set_parallelism(1)
        read = slices.flat_map(Reading(plan.task, plan.source)).set_parallelism(1)
        return read.name("kvec: read").uid("kvec-read")
    parts = urlsplit(plan.source)
    if parts.scheme == "socket":
        rows = pyflink("datastream").DataStream(
            env._j_stream_execution_environment.socketTextStream(parts.hostname, parts.port)
        )
        rows = rows.uid("kvec-socket").set_parallelism(1)
    else:
        rows = env.from_source(_kafka_source(plan.source), without, "kafka", types.STRING())
        rows = rows.uid("kvec-kafka")
    parted = rows.flat_map(Arriving(plan.task)).name("kvec: part").uid("kvec-part")
    return parted.set_parallelism(1) if parts.scheme == "socket" else parted


def _sink(lines: Any, where: str, name: str) -> None:
    if where == "-":
        lines.print().name(name)
        return
    sink = _kafka_sink(where) if where.startswith("kafka://") else _folder(where, f"kvec-{name}")
    lines.sink_to(sink).name(name).uid(f"kvec-{name}")


def _folder(path: str, prefix: str) -> Any:
    """NDJSON files, each whole once the checkpoint is that holds its last line."""
    files, encoder = pyflink("datastream.connectors.file_system"), pyflink("common.serialization").Encoder
    return (
        files.FileSink.for_row_format(Path(path).resolve().as_uri(), encoder.simple_string_encoder())
        .with_bucket_assigner(files.BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(files.RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(
            files.OutputFileConfig.builder().with_part_prefix(prefix).with_part_suffix(".ndjson").build()
        )
        .build()
    )


def _kafka_source(url: str) -> Any:
    servers, topic, settings = kafka_parts(url)
    kafka, text = pyflink("datastream.connectors.kafka"), pyflink("common.serialization").SimpleStringSchema()
    resets = kafka.KafkaOffsetResetStrategy
    reset = resets.LATEST if settings.pop("from", STARTS[0]) == "latest" else resets.EARLIEST
    builder = (
        kafka.KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_group_id(settings.pop("group", "kvec"))
        .set_starting_offsets(kafka.KafkaOffsetsInitializer.committed_offsets(reset))
        .set_value_only_deserializer(text)
    )
    for name, value in settings.items():
        builder = builder.set_property(name, value)
    return builder.build()


def _kafka_sink(url: str) -> Any:
    servers, topic, settings = kafka_parts(url)
    kafka, text = pyflink("datastream.connectors.kafka"), pyflink("common.serialization").SimpleStringSchema()
    schema = kafka.KafkaRecordSerializationSchema.builder().set_topic(topic)
    once = pyflink("datastream.connectors.base").DeliveryGuarantee.EXACTLY_ONCE
    settings.setdefault("transaction.timeout.ms", TRANSACTION)
    builder = (
        kafka.KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(schema.set_value_serialization_schema(text).build())
        .set_delivery_guarantee(once)
        .set_transactional_id_prefix(settings.pop("prefix", f"kvec-{topic}"))
    )
    for name, value in settings.items():
        builder = builder.set_property(name, value)
    return builder.build()
