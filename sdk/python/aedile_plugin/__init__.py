"""Write maintenance plugins for Aedile in Python.

The host functions are the modules of ``wit_world.imports``, generated from the
contract; ``bindings/`` shows them to people and editors. This package adds what
nearly every plugin needs: a configuration that is checked, failures, pages.

    from aedile_plugin import Number, Plugin, Report, fields

    class Maintenance(Plugin):
        def configure(self, json):
            return fields(json, {"top": Number(1, 100, default=10)})

        def run(self, config):
            return IDLE

The class is called ``Maintenance`` because the contract's export is.

There is no network, no file, no clock and no random number, and nothing
outlives a tick. What a plugin imports has to be there when it is built.
"""

import json as _json
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.maintenance import Failure_Reject, Failure_Retry, Report
from wit_world.exports.maintenance import Retry as _Retry
from wit_world.imports import job, logging, types

__all__ = [
    "IDLE",
    "Bool",
    "Number",
    "PAGE",
    "Plugin",
    "Reject",
    "Report",
    "Retry",
    "Text",
    "accepted",
    "each",
    "fields",
    "own_key",
]

PAGE = 2000
"""Most items that a host gives in one page."""

IDLE = Report(summary="", done=0, failed=0, more=False)
"""The report of a tick that did nothing. It leaves no trace in the run history."""


class Reject(Exception):
    """Only an operator can help; the text says how."""


class Retry(Exception):
    """Try again after a while."""

    def __init__(self, reason: str, after_ms: int = 0):
        """``after_ms``: how long to wait at least; 0 leaves it to the host."""
        super().__init__(reason)
        self.after_ms = after_ms


class Plugin(exports.Maintenance):
    """The two functions that the host calls, from two of yours."""

    def configure(self, json: str) -> Any:
        """Turn the configuration's text into what ``run`` gets. Raise
        ``ValueError`` if the text is wrong, naming the key."""
        return fields(json, {})

    def run(self, config: Any) -> Report:
        """Do one portion of the work. The same tick may run twice, so each step
        must bear to be repeated."""
        raise NotImplementedError("a plugin defines run")

    def validate_config(self, config: str) -> None:
        try:
            self.configure(config)
        except ValueError as error:
            raise Err(str(error)) from error

    def tick(self) -> Report:
        try:
            return self.run(self._configured())
        except Exception as error:
            raise Err(_failure(error)) from error

    def _configured(self) -> Any:
        try:
            return self.configure(job.config())
        except ValueError as error:
            raise Reject(str(error)) from error


def _failure(error: Exception):
    """What the host is told. What nobody expected goes to the log with the place
    where it happened."""
    if isinstance(error, Reject):
        return Failure_Reject(str(error))
    if isinstance(error, Retry):
        return Failure_Retry(_Retry(error.after_ms, str(error)))
    if isinstance(error, Err):
        if isinstance(error.value, types.HostError_InvalidArgument):
            return Failure_Reject(f"invalid argument: {error.value.value}")
        if isinstance(error.value, types.HostError_Unavailable):
            return Failure_Retry(_Retry(0, error.value.value))
    logging.log(logging.Level.ERROR, "".join(traceback.format_exception(error)))
    return Failure_Retry(_Retry(0, f"{type(error).__name__}: {error}"))


@dataclass
class Number:
    """A whole number from ``least`` to ``most``."""

    least: int
    most: int
    default: Optional[int] = None

    def check(self, value: Any) -> Optional[str]:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and self.least <= value <= self.most:
            return None
        return f"a whole number from {self.least} to {self.most}"


@dataclass
class Text:
    """A text."""

    default: Optional[str] = None

    def check(self, value: Any) -> Optional[str]:
        return None if isinstance(value, str) else "a text"


@dataclass
class Bool:
    """True or false."""

    default: Optional[bool] = None

    def check(self, value: Any) -> Optional[str]:
        return None if isinstance(value, bool) else "true or false"


def fields(json: str, known: Dict[str, Any]) -> Dict[str, Any]:
    """Read a configuration: a JSON object with nothing but these keys. A misspelt
    key is an error, not a default."""
    try:
        found = _json.loads(json)
    except ValueError as error:
        raise ValueError(f"configuration: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("configuration: must be a JSON object")
    for key in found:
        if key not in known:
            raise ValueError(f"configuration: unknown key `{key}`")
    config = {}
    for key, field in known.items():
        config[key] = found.get(key, field.default)
        must = field.check(config[key]) if key in found else None
        if must:
            raise ValueError(f"configuration: {key} must be {must}")
    return config


Item = TypeVar("Item")


def each(
    page: Callable[[Optional[Any], int], List[Item]],
    key: Callable[[Item], Any],
    after: Optional[Any] = None,
) -> Iterator[Item]:
    """Every item of a paged list, page by page. ``key`` gives what a page goes on
    after; ``after`` is where to begin.

    for stream in each(state.streams, lambda stream: stream.id): ...
    """
    while items := page(after, PAGE):
        yield from items
        after = key(items[-1])


def own_key(name: str) -> str:
    """A key that this plugin may write: ``aedile/kv/<plugin>/<name>``."""
    return f"aedile/kv/{job.plugin()}/{name}"


def accepted(answers: List[Any]) -> None:
    """Take the answers of commands. Raises if one was rejected; what was redundant
    or is unknown needs nothing done."""
    for answer in answers:
        if isinstance(answer, types.Answer_Rejected):
            raise Reject(answer.value)
