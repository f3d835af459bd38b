"""Our own config file, ``config.toml``; the host's is read in `lcm_core.settings.host_config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import platformdirs

from lcm_core.budget import LARGEST as LARGEST_BUDGET
from lcm_core.private_files import read_limited, reason_of
from lcm_core.settings.values import (
    LARGEST_NUMBER,
    MAX_CONFIG_BYTES,
    Diagnostic,
    Json,
    OutputFormat,
    Problem,
    SettingSource,
    Sourced,
    boolean,
    integer,
    invalid_value,
    one_of,
    parsed,
    plain_text,
    real_number,
    unusable_file,
)

T = TypeVar("T")


APP_NAME = "lcm-tui"
_KNOWN = (
    "backup_offer_mb",
    "budget",
    "check_seconds",
    "format",
    "keys",
    "search_cache",
    "summary",
    "theme",
    "write_unknown_schema",
)

budget_tokens = integer(1, LARGEST_BUDGET)
megabytes = integer(0, LARGEST_NUMBER)
seconds = real_number(0, 86_400)


def output_format(value: Json) -> OutputFormat:
    """``json`` or ``table``."""
    return OutputFormat(one_of(*OutputFormat)(value))


@dataclass(frozen=True, slots=True)
class UserFile:
    """What the user wrote into our config file; None is "not given"."""

    budget: Sourced[int] | None = None
    output_format: Sourced[OutputFormat] | None = None
    theme: Sourced[str] | None = None
    backup_offer_mb: Sourced[int] | None = None
    write_unknown_schema: Sourced[bool] | None = None
    check_seconds: Sourced[float] | None = None
    search_cache: Sourced[bool] | None = None
    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    summary: Json = None  #: the table as it is written


def default_user_file(environ: Mapping[str, str], home: Path) -> Path:
    """Where our config file is on this platform, for the user whose home this is."""
    given = environ.get("XDG_CONFIG_HOME", "").strip()
    if given and Path(given).is_absolute():
        return Path(given) / APP_NAME / "config.toml"
    folder = platformdirs.user_config_path(APP_NAME, appauthor=False)
    try:
        return home / folder.relative_to(Path.home()) / "config.toml"
    except ValueError:  # this process has an XDG_CONFIG_HOME that *environ* does not have
        return home / ".config" / APP_NAME / "config.toml"


def read_user_file(path: Path, *, expected: bool, diagnostics: list[Diagnostic]) -> UserFile:
    """Read our config file; a broken one is a diagnostic, a missing one too when it was *expected*."""
    try:
        content = read_limited(path, MAX_CONFIG_BYTES).decode("utf-8-sig")
        import tomllib  # most have no such file, and every start would pay for it

        document: dict[str, Json] = tomllib.loads(content)
    except FileNotFoundError:
        if expected:
            message = f"LCM_TUI_CONFIG names {path}, which does not exist; the defaults apply."
            diagnostics.append(Diagnostic(Problem.MISSING_FILE, str(path), message))
        return UserFile()
    except (OSError, ValueError, RecursionError) as error:
        diagnostics.append(unusable_file("config file", path, reason_of(error)))
        return UserFile()
    for unknown in sorted(set(document) - set(_KNOWN)):
        message = f"{path} has a key {unknown!r}, which lcm-tui does not know; known are {', '.join(_KNOWN)}."
        diagnostics.append(Diagnostic(Problem.UNKNOWN_KEY, unknown, message))

    def given(key: str, parse: Callable[[Json], T]) -> Sourced[T] | None:
        return parsed(key, document.get(key), parse, SettingSource.USER_CONFIG, diagnostics)

    return UserFile(
        given("budget", budget_tokens),
        given("format", output_format),
        given("theme", plain_text),
        given("backup_offer_mb", megabytes),
        given("write_unknown_schema", boolean),
        given("check_seconds", seconds),
        given("search_cache", boolean),
        _keys(document.get("keys"), diagnostics),
        document.get("summary"),
    )


def _keys(table: Json, diagnostics: list[Diagnostic]) -> Mapping[str, str]:
    """The ``[keys]`` table: action id to a key, or to several separated by commas."""
    if table is None:
        return MappingProxyType({})
    if not isinstance(table, Mapping):
        diagnostics.append(invalid_value("keys", table, "which is not a table"))
        return MappingProxyType({})
    keys: dict[str, str] = {}
    for action, value in table.items():
        if isinstance(value, str) and value.strip():
            keys[action] = value.strip()
        else:
            diagnostics.append(invalid_value(f"keys.{action}", value, "which is not the name of a key"))
    return MappingProxyType(keys)
