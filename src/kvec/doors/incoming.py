"""From a SOURCE on the command line to rows that arrive: files, the standard input, sockets, Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from kvec.decide.deployed import Deployed
from kvec.read.arriving import RowReader, form_of
from kvec.read.arriving_files import LineFile, ParquetFile
from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.read.arriving_sockets import Listener
from kvec.read.arriving_sources import Source
from kvec.read.arriving_stdin import StandardInput
from kvec.read.broken import twice
from kvec.read.files import ENDINGS, ending
from kvec.read.rows import require_columns
from kvec.words.errors import DataError, SettingError

FORMS = ("ndjson", "csv", "tsv", "parquet")


def open_source(
    given: str, model: Deployed, form: str | None, follow: bool, most_bytes: int
) -> tuple[Source, RowReader]:
    """The source that is meant, not started yet, and what makes items of its rows."""
    if form is not None and form not in FORMS:
        raise SettingError(f"--format is {form!r}; it can be {', '.join(FORMS)}")
    scheme = given.partition("://")[0] if "://" in given else ""
    if follow and (scheme or given in ("", "-")):
        raise SettingError(f"--follow is for files; {given or 'the standard input'} is followed anyway")
    if scheme:
        if form not in (None, "ndjson"):
            raise SettingError(f"{given}: its rows are JSON lines; leave out --format {form}")
        return _remote(given, scheme, most_bytes), RowReader(model.schema)
    if given in ("", "-"):
        form = form or "ndjson"
        if form == "parquet":
            raise SettingError("the standard input cannot be Parquet, which is read from its end; name a file")
        decoder, reader = _decoder(form, "stdin", model, "")
        return StandardInput(decoder, most_bytes), reader
    path = Path(given)
    form = form or _form(path)
    if form == "parquet":
        if follow:
            raise SettingError(f"{path}: a Parquet file does not grow; leave out --follow")
        reader = RowReader(model.schema)
        file = ParquetFile(path, [name for name, _ in reader.columns], reader.names)
        require_columns(str(path), file.columns, reader.columns)
        return file, reader
    decoder, reader = _decoder(form, str(path), model, "\t" if ".tsv" in ending(path) else "")
    return LineFile(path, decoder, follow, most_bytes), reader


def _form(path: Path) -> str:
    """The form of a file by its ending."""
    if path.is_dir():
        raise SettingError(
            f"{path}: is a folder; name one file, or several one after the other: cat … | kvec stream MODEL -"
        )
    if not path.exists():
        raise SettingError(f"{path}: no such file")
    if not path.is_file():
        raise SettingError(f"{path}: is no plain file; read it as the standard input: kvec stream MODEL - < {path}")
    kind = ENDINGS.get(ending(path))
    if kind is None:
        raise SettingError(f"{path}: cannot tell its form by its ending; say it with --format {'|'.join(FORMS)}")
    return kind.lower()


def _decoder(form: str, name: str, model: Deployed, separator: str) -> tuple[JsonLines | CsvLines, RowReader]:
    if form == "ndjson":
        return JsonLines(), RowReader(model.schema)
    reader = RowReader(model.schema, {field.name: form_of(field.values) for field in model.vocabulary.coded})

    has_begun = False

    def check(columns: list[str]) -> None:
        nonlocal has_begun
        try:
            if again := twice(columns):
                raise DataError(f"{name}: {again}")
            require_columns(name, columns, reader.columns)
        except DataError as problem:
            if has_begun:  # of a file that took the place of the first; its lines are told one by one
                raise
            is_json = columns[0].lstrip().startswith("{")
            raise SettingError(f"{problem}{'; if these are JSON lines, say --format ndjson' * is_json}") from None
        has_begun = True

    separator = "\t" if form == "tsv" else separator
    return CsvLines([column for column, _ in reader.columns], separator, check), reader


def _remote(given: str, scheme: str, most_bytes: int) -> Source:
    openers: dict[str, Callable[[], Source]] = {
        "tcp": lambda: Listener(_tcp_address(given), most_bytes),
        "unix": lambda: Listener(_unix_path(given), most_bytes),
        "kafka": lambda: _kafka(given),
    }
    if scheme not in openers:
        raise SettingError(
            f"{given}: {scheme}:// is not known; sources are files, -, tcp://, unix://, kafka:// and nats://"
        )
    return openers[scheme]()


def _tcp_address(given: str) -> tuple[str, int]:
    try:
        parts = urlsplit(given)
        if parts.port is not None:
            return parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        if (port := given.rpartition(":")[2]).isdecimal():
            raise SettingError(f"{given}: {port} is no port; ports are 0 (any that is free) to 65535") from None
    raise SettingError(f"{given}: names no port; write tcp://127.0.0.1:9000, or tcp://:9000")


def _unix_path(given: str) -> Path:
    path = given.removeprefix("unix://")
    if not path:
        raise SettingError(f"{given}: names no path; write unix:///run/kvec.sock")
    return Path(path)


def _kafka(given: str) -> Source:
    from kvec.doors.kafka import KafkaTopic

    return KafkaTopic(given)
