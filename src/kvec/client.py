"""A client of `kvec serve`: items go in, decisions come out, and a retry never doubles an item."""

from __future__ import annotations

import json
import math
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from kvec.words.errors import KvecError, SettingError

BATCH = 256  # items of a request
AGAIN = (429, 502, 503, 504)  # answers after which it is worth to ask again
LONGEST = 10.0  # seconds between two tries


class ServiceError(KvecError):
    """The service refused a request, or could not be reached; `status` is 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.problem = status, dict(problem or {})


class Client:
    """Speaks to one model of a service; for one thread at a time.

    Connection errors, 429 and 503 are tried again for `patience` seconds. Every request of items has an idempotency
    key, so that one whose answer was lost is not taken twice; a service remembers it for 150 seconds at least.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8765", model: str | None = None, token: str | None = None,
        patience: float = 60.0, timeout: float = 30.0,
    ) -> None:  # fmt: skip
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError(f"{url!r} is no address of a service; write http://127.0.0.1:8765")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        if token is not None and not _is_plain(token := token.strip()):
            raise SettingError("the token must be plain characters on one line, as in the file that the service reads")
        self._model, self._token, self._patience, self._timeout = model, token, patience, timeout
        self._name = uuid.uuid4().hex
        self._n = 0
        self._connection: HTTPConnection | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- verbs --------------------------------------------------------------------------------------------------

    def items(self, rows: Iterable[Mapping[str, Any]], batch: int = BATCH) -> Iterator[dict[str, Any]]:
        """Send the rows of a table or an iterator in batches, as answers are read; yields each answer.

        It has `taken`, `decisions` and `refused`, whose `row` counts from the first row of all.
        """
        if batch < 1:
            raise SettingError(f"batch is {batch}; a request has at least 1 item")
        start, all_rows = 0, iter(_rows(rows))
        while some := list(islice(all_rows, batch)):
            answer = self._sent(some, None, start)
            yield {**answer, "refused": [{**one, "row": one["row"] + start} for one in answer["refused"]]}
            start += len(some)

    def send(self, rows: Iterable[Mapping[str, Any]], key: str | None = None) -> dict[str, Any]:
        """Send rows as one request; the answer. The same `key` again gets the first answer, and takes nothing."""
        return self._sent(_rows(rows), key)

    def _sent(self, rows: Iterable[Any], key: str | None, start: int = 0) -> dict[str, Any]:
        """Send rows, of which the first has this number."""
        if key is None:
            self._n += 1
            key = f"{self._name}-{self._n}"
        elif not _is_plain(key):
            raise SettingError(f"the key {key!r} must be plain characters on one line")
        body = _body(rows, start)
        found: dict[str, Any] = self._asked("POST", "/v1/items", body, {"Idempotency-Key": key})
        return found

    def decisions(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Decisions as they fall, those behind number `after` first; goes on after a break. It ends when closed."""
        if after is None:
            after = int(self.model()["counts"]["decisions"])
        while True:
            for decision in self._events(after):
                after = int(decision["n"])
                yield decision

    def key(self, tangle: str | int, key: str | int) -> dict[str, Any] | None:
        """What is known of a key, item by item; None where it was never seen, or is forgotten."""
        try:
            found: dict[str, Any] = self._asked("GET", f"/v1/keys/{_quoted(tangle)}/{_quoted(key)}")
        except ServiceError as error:
            if error.status == 404 and not error.problem.get("field"):
                return None
            raise
        return found

    def labels(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Send true labels: rows of `tangle`, `key`, `label`, and `sequence` where it is not the newest decided one."""
        body = _body(_rows(rows))
        found: dict[str, Any] = self._asked("POST", "/v1/labels", body)
        return found

    def model(self) -> dict[str, Any]:
        """The card of the model."""
        found: dict[str, Any] = self._asked("GET", "/v1/model")
        return found

    # -- parts --------------------------------------------------------------------------------------------------

    def _asked(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Ask until there is an answer, or patience ends."""
        until, n_tries = time.monotonic() + self._patience, 0
        while True:
            wait = None
            try:
                if self._connection is None:
                    self._connection = self._opened()
                response = self._request(self._connection, method, path, body, headers)
                content = response.read()
                if response.status == 200:
                    return json.loads(content)
                error = _error(response, content)
                wait = response.headers.get("Retry-After")
            except (OSError, HTTPException, json.JSONDecodeError, UnicodeDecodeError) as broken:
                error = self._out_of_reach(broken)
            if error.status not in (0, *AGAIN):
                raise error
            self.close()
            n_tries += 1
            self._pause(until, n_tries, wait, error)

    def _events(self, after: int) -> Iterator[dict[str, Any]]:
        """The decisions of one connection, until it breaks."""
        connection, response = self._listening(after)
        name = ""
        try:
            for line in response:
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    data = json.loads(line[6:])
                    if name == "gone":
                        raise ServiceError(f"decisions before {data['oldest']} are gone", 410, data)
                    yield data
        except (OSError, HTTPException, json.JSONDecodeError, UnicodeDecodeError):
            return  # broken, perhaps in the middle of a line; whoever reads goes on behind the last one
        finally:
            response.close()
            connection.close()

    def _listening(self, after: int) -> tuple[HTTPConnection, HTTPResponse]:
        """A connection of its own, over which decisions come."""
        until, n_tries = time.monotonic() + self._patience, 0
        while True:
            connection = self._opened()
            try:
                response = self._request(connection, "GET", "/v1/decisions", None, {"Last-Event-ID": str(after)})
                if response.status == 200:
                    return connection, response
                error = _error(response, response.read())
            except (OSError, HTTPException) as broken:
                error = self._out_of_reach(broken)
            connection.close()
            if error.status not in (0, *AGAIN):
                raise error
            n_tries += 1
            self._pause(until, n_tries, None, error)

    def _opened(self) -> HTTPConnection:
        return self._kind(self._host, self._port, timeout=self._timeout)

    def _request(
        self, connection: HTTPConnection, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> HTTPResponse:
        query = f"?{urlencode({'model': self._model})}" if self._model is not None else ""
        sent = {"Content-Type": "application/json", **(headers or {})}
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        connection.request(method, f"{self._path}{path}{query}", body, sent)
        return connection.getresponse()

    def _out_of_reach(self, broken: Exception) -> ServiceError:
        port = "" if self._port is None else f":{self._port}"
        return ServiceError(f"the service at {self._host}{port} cannot be reached: {_why(broken)}")

    def _pause(self, until: float, n_tries: int, told: str | None, error: ServiceError) -> None:
        """Wait before the next try, each time longer; without patience left, give up."""
        wait = min(0.1 * 2 ** min(n_tries, 10), LONGEST) * random.uniform(0.5, 1.0)
        if told is not None and told.isdigit():
            wait = max(wait, min(float(told), LONGEST))
        if time.monotonic() + wait > until:
            raise error
        time.sleep(wait)


def _rows(rows: Any) -> Iterable[Any]:
    """The rows of a table, or of anything that has rows."""
    if hasattr(rows, "iter_rows"):  # Polars
        found: Iterable[Any] = rows.iter_rows(named=True)
    elif hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # pandas
        found = rows.to_dict("records")
    elif isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise SettingError(
            f"rows are given as {type(rows).__name__}; give a list of dicts, or a table of Polars or pandas"
        )
    else:
        found = rows
    return found


def _body(rows: Iterable[Any], start: int = 0) -> bytes:
    """Rows as JSON, of which the first has this number; numbers that are none are left empty."""
    some = list(rows)
    for i, row in enumerate(some, start):
        if not isinstance(row, Mapping):
            raise SettingError(f"row {i} is of type {type(row).__name__}; a row must be a dict")
    try:
        return _json(some)
    except (TypeError, ValueError):
        return _json([{name: _told(cell, i, name) for name, cell in row.items()} for i, row in enumerate(some, start)])


def _json(found: Any) -> bytes:
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()


def _told(cell: Any, row: int, name: str) -> Any:
    """A cell as JSON knows it: times as text, numbers of NumPy as numbers."""
    if isinstance(getattr(cell, "ndim", None), int) and cell.ndim == 0:  # NumPy, whose finest times would be numbers
        cell = (cell.astype(f"{cell.dtype.kind}8[us]") if cell.dtype.kind in "mM" else cell).item()
    if isinstance(cell, date):  # also a datetime, and pandas' own
        return None if str(cell) == "NaT" else cell.isoformat()
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    try:
        _json(cell)
    except (TypeError, ValueError):
        raise SettingError(
            f"row {row}, column {name!r}: {type(cell).__name__} cannot be sent; make it text or a number"
        ) from None
    return cell


def _is_plain(text: str) -> bool:
    """Whether a header can hold it."""
    return bool(text) and text.isascii() and text.isprintable()


def _error(response: HTTPResponse, content: bytes) -> ServiceError:
    try:
        problem = json.loads(content)
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        problem, detail = {}, response.reason
    return ServiceError(f"the service answered {response.status}: {detail}", response.status, problem)


def _why(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())


def _quoted(name: str | int) -> str:
    return quote(str(name), safe="")
