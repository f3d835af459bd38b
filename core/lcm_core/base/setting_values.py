"""The small types of the settings: a value with its source, diagnostics, parsers of single values."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from lcm_core.base.values import Record, T

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]

T_co = TypeVar("T_co", covariant=True)

#: A config file is read whole; one beyond this size is not a config file.
MAX_CONFIG_BYTES = 16 * 1024 * 1024

#: The largest number of ours: what is counted with it is exact in every program.
LARGEST_NUMBER = 2**53 - 1

#: Values longer than this are cut in diagnostics.
_SHOWN_CHARACTERS = 60


class SettingSource(StrEnum):
    """Where a value came from, strongest first."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    PLUGIN_CONFIG = "plugin config"
    USER_CONFIG = "config file"
    DEFAULT = "default"


class Sourced(Record, Generic[T_co], frozen=True):
    """A value and where it came from; ``name`` is the option, variable or dotted config path."""

    value: T_co
    source: SettingSource = SettingSource.DEFAULT
    name: str = ""

    @property
    def is_set(self) -> bool:
        """Whether somebody chose this value; a default may be overruled by what a schema implies."""
        return self.source is not SettingSource.DEFAULT


class Problem(StrEnum):
    """What kind of thing a diagnostic is about."""

    INVALID_VALUE = "invalid-value"
    UNKNOWN_KEY = "unknown-key"
    UNREADABLE_FILE = "unreadable-file"
    MISSING_FILE = "missing-file"
    RELATIVE_PATH = "relative-path"
    UNREAD_VALUE = "unread-value"  #: one with a variable that is not known here, or that is not read
    LOGIN_SHELL = "login-shell"  #: the host starts a shell for variables, and lcm-tui does not


class Diagnostic(Record, frozen=True):
    """Something in the configuration that was skipped; browsing continues.

    ``message`` is one sentence. It may quote what a file or variable holds, so it is shown through
    ``lcm_core.base.text`` like any other foreign text.
    """

    problem: Problem
    where: str  #: the variable, the dotted config path, or the file
    message: str


class OutputFormat(StrEnum):
    """How commands print (`--format`)."""

    JSON = "json"
    TABLE = "table"


def is_unset(value: Json) -> bool:
    """Whether a value counts as not given: null, an empty string, only white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def object_or_empty(value: Json) -> JsonObject:
    """An object as it is; anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def invalid_value(
    where: str, value: Json, reason: str, then: str = "it is ignored", *, quoted: bool = True
) -> Diagnostic:
    """The diagnostic for a value that does not fit; *reason* continues "X is Y, ...", *then* ends it."""
    if not quoted:
        shown = "a text"  # of a file with secrets in it
    elif isinstance(value, Mapping):
        shown = "an object"  # not quoted: there may be a secret in it
    elif isinstance(value, Sequence) and not isinstance(value, str):
        shown = "a list"
    elif (
        isinstance(value, int) and abs(value) >= 10**_SHOWN_CHARACTERS
    ):  # Python writes out no number of any length
        shown = "a number of very many digits"
    else:
        import json

        shown = json.dumps(value, ensure_ascii=False, default=str)  # a date of TOML
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[: _SHOWN_CHARACTERS - 1] + "…"
    return Diagnostic(Problem.INVALID_VALUE, where, f"{where} is {shown}, {reason}; {then}.")


def unusable_file(kind: str, path: Path, reason: str) -> Diagnostic:
    """The diagnostic for a file that is there and of which nothing is used."""
    message = f"The {kind} {path} cannot be used: {reason}; nothing of it counts, and the defaults apply."
    return Diagnostic(Problem.UNREADABLE_FILE, str(path), message)


def parsed(
    where: str,
    value: Json,
    parse: Callable[[Json], T],
    source: SettingSource,
    diagnostics: list[Diagnostic],
) -> Sourced[T] | None:
    """A value with its source; None when it is not given or does not fit, and then that is noted."""
    if is_unset(value):
        return None
    try:
        return Sourced(parse(value), source, where)
    except ValueError as error:
        diagnostics.append(invalid_value(where, value, str(error)))
        return None


# Parsers: each takes a JSON value or the string of a variable and raises ValueError with a reason that
# continues the sentence "X is Y, ...".


def _range_words(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f"between {minimum:,} and {maximum:,}"
    return f"of at least {minimum:g}" if minimum is not None else "that is finite"


def integer(minimum: int | None = None, maximum: int | None = None) -> Callable[[Json], int]:
    """A whole number in a closed range; numeric text is accepted, as in the variables."""

    def parse(value: Json) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,15}", value.strip()):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("which is not a whole number")
        if minimum is not None and value < minimum:
            raise ValueError(f"but must be a number {_range_words(minimum, None)}")
        if maximum is not None and value > maximum:
            raise ValueError(f"but must be a number {_range_words(minimum, maximum)}")
        return value

    return parse


def real_number(minimum: float, maximum: float | None = None) -> Callable[[Json], float]:
    """A finite number in a closed range; numeric text is accepted."""

    def parse(value: Json) -> float:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise ValueError("which is not a number") from None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError("which is not a number")
        if isinstance(value, int) and abs(value) >= 10**300:
            value = math.inf
        if not math.isfinite(value) or value < minimum or (maximum is not None and value > maximum):
            raise ValueError(f"but must be a number {_range_words(minimum, maximum)}")
        return float(value)

    return parse


def boolean(value: Json) -> bool:
    """``true`` or ``false``, also as text."""
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    if isinstance(value, bool):
        return value
    raise ValueError("which is neither true nor false")


def switched_on(value: Json) -> bool:
    """A boolean; of texts ``true`` and ``1``, and no other, are true."""
    return value.strip().lower() in {"true", "1"} if isinstance(value, str) else boolean(value)


def plain_text(value: Json) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise ValueError("which is not text")
    return value.strip()


def one_of(*words: str) -> Callable[[Json], str]:
    """One of a few words."""

    def parse(value: Json) -> str:
        if not isinstance(value, str) or value.strip().lower() not in words:
            raise ValueError(f"but must be {' or '.join(words)}")
        return value.strip().lower()

    return parse


def text_list(value: Json) -> tuple[str, ...]:
    """A list of texts; one text is split at commas, as in the variables."""
    items: Sequence[Json] = value.split(",") if isinstance(value, str) else _sequence(value)
    return tuple(stripped for item in items if (stripped := plain_text(item)))


def provider_models(value: Json) -> tuple[str, ...]:
    """``provider/model`` pairs: a comma list, or one of ``{provider, model}`` (docs/spec/settings.md)."""
    if isinstance(value, str):
        pairs = text_list(value)
    else:
        pairs = tuple(_provider_model(item) for item in _sequence(value))
    if not all(re.fullmatch(r"[^/\s]+/\S+", pair) for pair in pairs):
        raise ValueError("but every entry must name a provider and a model")
    return pairs


def _provider_model(item: Json) -> str:
    if isinstance(item, Mapping):
        return f"{plain_text(item.get('provider'))}/{plain_text(item.get('model'))}"
    return plain_text(item)


def _sequence(value: Json) -> Sequence[Json]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise ValueError("which is not a list")


def local_zone_name() -> str:
    """The IANA name of this machine's time zone, as its clock is linked; UTC where that does not say."""
    name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    return "UTC" if name in ("", "Etc/UTC") else name


def time_zone(value: Json) -> str:
    """The IANA name of a time zone that this machine knows; a leading colon (POSIX) is dropped.

    Upper and lower case are one, as for the engine.
    """
    name = plain_text(value).removeprefix(":")
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        found = next((one for one in available_timezones() if one.lower() == name.lower()), None)
        if found is None:
            raise ValueError("which is not a time zone known on this machine") from None
        return found
    return name
