"""Two config files: our own ``config.toml``, and the host's ``openclaw.json`` with the plugin's block in it.

Of the host's only that block leaves this module, with its secrets masked, where its sessions are, and what
its agents are called: the rest of that file holds the operator's credentials and is none of our business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import platformdirs

from lcm_core.errors import ConfigurationError, FileMissingError
from lcm_core.private_files import read_limited, reason_of
from lcm_core.settings.values import (
    Diagnostic,
    Json,
    JsonObject,
    OutputFormat,
    Problem,
    SettingSource,
    Sourced,
    boolean,
    integer,
    invalid_value,
    is_unset,
    object_or_empty,
    one_of,
    parsed,
    plain_text,
    real_number,
)

T = TypeVar("T")
#: A config file is read whole; one beyond this size is not a config file.
MAX_CONFIG_BYTES = 16 * 1024 * 1024


def _unusable(path: Path, reason: str) -> Diagnostic:
    message = f"The config file {path} cannot be used: {reason}; the defaults apply."
    return Diagnostic(Problem.UNREADABLE_FILE, str(path), message)


# -- our own: budget, format, theme, backups, keys, and the summary model --------------------------------

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

budget_tokens = integer(1)
megabytes = integer(0)
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
        diagnostics.append(_unusable(path, reason_of(error)))
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


# -- the host's -------------------------------------------------------------------------------------------

PLUGIN_ID = "lossless-claw"
MASK = "***"
#: What is nested deeper than this is not kept.
MAX_DEPTH = 50

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    {"apikey", "authorization", "bearer", "cookie", "credential", "credentials"}
    | {"passphrase", "passwd", "password", "passwords", "secret", "secrets"}
)


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """The plugin's block of the host's config."""

    place: str = ""  #: dotted path of the block; empty when there is none
    values: JsonObject = field(default_factory=dict)

    def get(self, dotted: str) -> Json:
        """The value under a dotted key, or None."""
        value: Json = self.values
        for step in dotted.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(step)
        return value

    def place_of(self, dotted: str) -> str:
        """The full dotted path of a key, for messages."""
        return f"{self.place}.{dotted}"


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What was read from the host's config file."""

    found: bool = False
    plugin: PluginConfig = field(default_factory=PluginConfig)
    context_engine: str | None = None  #: ``plugins.slots.contextEngine``
    session_store: Json = None  #: ``session.store``, as it is written
    agents: tuple[str, ...] = ()  #: ``agents.list[].id``, in their order


def read_host_config(path: Path, *, named: bool, expected: bool, diagnostics: list[Diagnostic]) -> HostConfig:
    """Read the host's config; a missing file is an empty one.

    Args:
        named: given by ``--config``: then a missing or broken file is an error instead of a diagnostic.
        expected: given by a variable: then a missing file is worth a diagnostic.

    Raises:
        FileMissingError: the file that ``--config`` names is missing.
        ConfigurationError: it cannot be used.
    """
    try:
        document = _document(path, regular_only=not named)
    except FileNotFoundError:
        if named:
            raise FileMissingError(
                "config file",
                path,
                "Check --config, or omit it to use the default.",
                code="CONFIG_NOT_FOUND",
            ) from None
        if expected:
            message = f"There is no config file at {path}; the defaults apply."
            diagnostics.append(Diagnostic(Problem.MISSING_FILE, str(path), message))
        return HostConfig()
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        if named:
            raise ConfigurationError(
                f"The config file {path} cannot be used: {reason}. Fix it, or omit --config.",
                details={"path": str(path), "reason": reason},
            ) from None
        diagnostics.append(_unusable(path, reason))
        return HostConfig()
    plugins = object_or_empty(document.get("plugins"))
    engine = object_or_empty(plugins.get("slots")).get("contextEngine")
    slot = engine if isinstance(engine, str) and engine.strip() else None
    store = object_or_empty(document.get("session")).get("store")
    agents = _agents(object_or_empty(document.get("agents")).get("list"))
    return HostConfig(True, _plugin_block(plugins, slot, diagnostics), slot, store, agents)


def _agents(listed: Json) -> tuple[str, ...]:
    """The ids of a list of agents; what has none is passed over."""
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return ()
    ids = (object_or_empty(one).get("id") for one in listed)
    return tuple(dict.fromkeys(one.strip() for one in ids if isinstance(one, str) and one.strip()))


def _document(path: Path, *, regular_only: bool) -> JsonObject:
    """The file as an object. A pipe is only opened when the user named it (``--config <(...)``)."""
    content = read_limited(path, MAX_CONFIG_BYTES, regular_only=regular_only)
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    from lcm_core.settings import json5  # every start would pay for it, also without such a file

    document = json5.loads(decoded) if decoded.strip() else {}
    if not isinstance(document, Mapping):
        raise ValueError("it does not contain an object")
    return document


def _plugin_block(plugins: JsonObject, slot: str | None, diagnostics: list[Diagnostic]) -> PluginConfig:
    """The first block that exists: ``plugins.entries.<id>.config``, then ``plugins.config.<id>`` (0.1).

    The plugin's own id comes first, then whatever else fills the context engine's slot (a fork or beta).
    """
    entries, config = object_or_empty(plugins.get("entries")), object_or_empty(plugins.get("config"))
    for plugin_id in dict.fromkeys((PLUGIN_ID, slot or PLUGIN_ID)):
        for place, block in (
            (f"plugins.entries.{plugin_id}.config", object_or_empty(entries.get(plugin_id)).get("config")),
            (f"plugins.config.{plugin_id}", config.get(plugin_id)),
        ):
            if isinstance(block, Mapping):
                return PluginConfig(place, block)
            if block is not None:
                message = f"{place} is not an object; it is ignored."
                diagnostics.append(Diagnostic(Problem.INVALID_VALUE, place, message))
    return PluginConfig()


def masked(value: Json, *, known: frozenset[str] = frozenset(), depth: int = 0) -> Json:
    """A copy in which nothing is left under keys that name a secret; *known* keys are never secrets."""
    if depth > MAX_DEPTH:
        return MASK
    if isinstance(value, Mapping):
        return {
            key: MASK if _names_a_secret(key, item, known) else masked(item, known=known, depth=depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [masked(item, known=known, depth=depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value


def _names_a_secret(key: str, value: Json, known: frozenset[str]) -> bool:
    if key in known or is_unset(value):
        return False
    words = [word.lower() for word in _WORD.findall(key)]
    if _SECRET_WORDS.intersection(words) or words[-1:] in (["token"], ["key"], ["auth"]):
        return True
    # `maxTokens: 4000` counts something, `apiKeys: ["..."]` does not.
    return words[-1:] in (["tokens"], ["keys"]) and not isinstance(value, int | float)
