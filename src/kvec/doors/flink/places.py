"""Where rows come from and decisions go, as the command line names them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from kvec.words.errors import SettingError
from kvec.words.plain import require_choice

STARTS = ("earliest", "latest")  # where a group that is new to a topic begins to read it


def kafka_parts(url: str) -> tuple[str, str, dict[str, str]]:
    """Brokers, topic and settings of a URL such as kafka://broker:9092/topic?group=kvec.

    >>> kafka_parts("kafka://a:9092/items?from=latest")
    ('a:9092', 'items', {'from': 'latest'})
    """
    parts = urlsplit(url)
    topic = parts.path.strip("/")
    if not parts.netloc or not topic:
        raise SettingError(f"{url}: write kafka://broker:9092/topic")
    return parts.netloc, topic, dict(parse_qsl(parts.query))


def require_source(given: str) -> bool:
    """Whether a source is files, which end; one that cannot be is refused."""
    scheme = urlsplit(given).scheme if "://" in given else ""
    if not scheme:
        return True
    if scheme == "kafka":
        _, _, settings = kafka_parts(given)
        require_choice(settings.get("from", STARTS[0]), STARTS, f"{given}: from")
        return False
    if scheme != "socket":
        raise SettingError(f"{given}: {scheme}:// is not known; Flink's sources are files, socket:// and kafka://")
    try:
        parts = urlsplit(given)
        is_whole = bool(parts.hostname and parts.port)
    except ValueError:
        is_whole = False
    if not is_whole:
        raise SettingError(f"{given}: write socket://host:port, where lines of JSON can be had")
    return False


def is_folder(sink: str) -> bool:
    """Whether lines go into the files of a folder."""
    return sink != "-" and "://" not in sink


def require_sink(given: str, flag: str) -> None:
    """Refuse a place that lines cannot go to."""
    if given == "-":
        return
    if "://" in given:
        if not given.startswith("kafka://"):
            raise SettingError(f"{flag} is {given}; it can be a folder, kafka://broker:9092/topic, or -")
        kafka_parts(given)
    elif Path(given).exists() and not Path(given).is_dir():
        raise SettingError(f"{flag} is {given}, a file; name a folder: each worker writes files of its own")
    elif (Path(given) / "kvec.json").is_file():
        raise SettingError(f"{flag} is {given}, a model, and nothing else is kept in it; name another folder")


def newest_state(given: Path) -> Path:
    """A savepoint or checkpoint; of a folder of checkpoints the newest that is whole, which one with `_metadata` is."""
    if (given / "_metadata").is_file():
        return given
    whole = [one.parent for one in given.glob("**/chk-*/_metadata")]
    if not whole:
        raise SettingError(f"--from {given}: holds no whole checkpoint or savepoint (none has a file _metadata)")
    return max(whole, key=lambda one: (one / "_metadata").stat().st_mtime_ns)
