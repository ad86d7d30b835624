"""The nats:// addresses of a fleet: servers, streams, what may be said about them, and secrets that lie in files."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kvec.words.errors import SettingError

PORT = 4222
MOST_PARTITIONS = 1024
KNOWN = ("group", "partitions", "create", "replicas", "lease", "creds", "nkey", "login", "token", "tls", "ca", "cert",
         "key")  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Place:
    """A stream of a NATS server, and how workers use it."""

    name: str  # for messages
    servers: tuple[str, ...]
    stream: str
    group: str = "kvec"
    partitions: int | None = None  # None: as the stream says
    create: bool = False
    replicas: int = 1
    lease: float = 15.0  # seconds of silence after which a worker counts as lost
    secrets: Mapping[str, str] = field(default_factory=dict)  # creds, nkey, login, token, tls, ca, cert, key

    @classmethod
    def of(cls, url: str) -> Place:
        """Read a URL such as nats://localhost:4222/items?partitions=4&create=yes.

        >>> Place.of("nats://a,b:4223/items?group=g").servers
        ('nats://a:4222', 'nats://b:4223')
        """
        parts = urlsplit(url)
        stream = parts.path.strip("/")
        name = f"nats://{parts.netloc.rpartition('@')[2]}{parts.path}"
        if "@" in parts.netloc:
            raise SettingError(
                f"{name}: a password in an address can be seen by others; write it into a file, user and password a "
                "line each, and name that with ?login=FILE"
            )
        if not parts.netloc or not _NAME.fullmatch(stream):
            raise SettingError(
                f"{name}: write nats://localhost:4222/items, the last a stream's name of letters, digits, - and _"
            )
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(given.keys() - set(KNOWN)):
            raise SettingError(f"{name}: {unknown[0]} is not known here; known are {', '.join(KNOWN)}")
        group = given.pop("group", "kvec")
        if not _NAME.fullmatch(group):
            raise SettingError(f"{name}: group is {group!r}; it may have letters, digits, - and _")
        create, tls = (_truth(name, word, given.get(word, "no")) for word in ("create", "tls"))
        partitions = None
        if "partitions" in given:
            partitions = int(_number(name, "partitions", given["partitions"], 1, MOST_PARTITIONS))
        replicas = int(_number(name, "replicas", given.get("replicas", "1"), 1, 5))
        lease = _number(name, "lease", given.get("lease", "15"), 1, 3600)
        secrets = {
            word: given[word] for word in ("creds", "nkey", "login", "token", "ca", "cert", "key") if word in given
        }
        return cls(
            name, tuple(_server(name, one) for one in parts.netloc.split(",")), stream, group, partitions, create,
            replicas, lease, secrets | ({"tls": "yes"} if tls else {}),
        )  # fmt: skip

    def options(self) -> dict[str, Any]:
        """What the client needs to be let in, read from the files that were named."""
        found: dict[str, Any] = {}
        if "creds" in self.secrets:
            found["user_credentials"] = str(self._file("creds"))
        if "nkey" in self.secrets:
            found["nkeys_seed"] = str(self._file("nkey"))
        if "login" in self.secrets:
            lines = self._text("login").splitlines()
            if len(lines) != 2:
                raise SettingError(f"{self.secrets['login']}: login=FILE has two lines, the user and the password")
            found |= {"user": lines[0], "password": lines[1]}
        if "token" in self.secrets:
            found["token"] = self._text("token").strip()
        if self.secrets.keys() & {"tls", "ca", "cert"}:
            found["tls"] = self._context()
        return found

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=str(self._file("ca")) if "ca" in self.secrets else None)
            if "cert" in self.secrets:
                key = str(self._file("key")) if "key" in self.secrets else None
                context.load_cert_chain(str(self._file("cert")), key)
        except ssl.SSLError as error:
            raise SettingError(f"{self.name}: the certificates cannot be used: {error.reason or error}") from None
        return context

    def _file(self, word: str) -> Path:
        path = Path(self.secrets[word])
        if not path.is_file():
            raise SettingError(f"{path}: no such file; {word}=FILE names one")
        return path

    def _text(self, word: str) -> str:
        try:
            return self._file(word).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{self.secrets[word]}: cannot be read as text: {error}") from None


def _server(name: str, given: str) -> str:
    try:
        parts = urlsplit(f"nats://{given}")
        host = parts.hostname or ""
        return f"nats://{f'[{host}]' if ':' in host else host}:{parts.port or PORT}"
    except ValueError:
        raise SettingError(f"{name}: {given!r} names no host and port; write localhost:4222") from None


def _truth(name: str, word: str, given: str) -> bool:
    if given not in ("yes", "no"):
        raise SettingError(f"{name}: {word} is {given!r}; it can be yes or no")
    return given == "yes"


def _number(name: str, word: str, given: str, least: float, most: float) -> float:
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not least <= number <= most or (word != "lease" and number != int(number)):
        raise SettingError(f"{name}: {word} is {given!r}; it must be a number from {least:g} to {most:g}")
    return number
