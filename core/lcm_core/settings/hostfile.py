"""The host's config file, ``openclaw.json``: where the plugin's block is in it, and what may be kept.

Only the plugin's block leaves this module, and only with its secrets masked: the rest of that file holds
the operator's credentials and is none of our business.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lcm_core.errors import ConfigurationError
from lcm_core.settings.values import Diagnostic, Json, JsonObject, Problem, is_unset, object_or_empty

PLUGIN_ID = "lossless-claw"
MASK = "***"
#: A config file is read whole; one beyond this size is not a config file.
MAX_CONFIG_BYTES = 16 * 1024 * 1024
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


def read_host_config(path: Path, *, named: bool, expected: bool, diagnostics: list[Diagnostic]) -> HostConfig:
    """Read the host's config; a missing file is an empty one.

    Args:
        named: given by ``--config``: then a missing or broken file is an error instead of a diagnostic.
        expected: given by a variable: then a missing file is worth a diagnostic.

    Raises:
        ConfigurationError: the file that ``--config`` names is missing or cannot be used.
    """
    try:
        document = _document(path, regular_only=not named)
    except FileNotFoundError:
        if named:
            raise ConfigurationError(
                f"There is no config file at {path}; check --config, or leave it out to use the default.",
                code="CONFIG_NOT_FOUND",
                details={"path": str(path)},
            ) from None
        if expected:
            message = f"There is no config file at {path}; the defaults apply."
            diagnostics.append(Diagnostic(Problem.MISSING_FILE, str(path), message))
        return HostConfig()
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if named:
            raise ConfigurationError(
                f"The config file {path} cannot be used: {reason}. Mend it, or leave --config out.",
                details={"path": str(path), "reason": reason},
            ) from None
        message = f"The config file {path} cannot be used: {reason}; the defaults apply."
        diagnostics.append(Diagnostic(Problem.UNREADABLE_FILE, str(path), message))
        return HostConfig()
    plugins = object_or_empty(document.get("plugins"))
    engine = object_or_empty(plugins.get("slots")).get("contextEngine")
    slot = engine if isinstance(engine, str) and engine.strip() else None
    return HostConfig(True, _plugin_block(plugins, slot, diagnostics), slot)


def _document(path: Path, *, regular_only: bool) -> JsonObject:
    """The file as an object. A pipe is only opened when the user named it (``--config <(...)``)."""
    if regular_only and not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        content = file.read(MAX_CONFIG_BYTES + 1)
    if len(content) > MAX_CONFIG_BYTES:
        raise ValueError("it is larger than 16 MB")
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    from lcm_core.settings import json5  # every start would pay for it, also without such a file

    document = json5.loads(decoded) if decoded.strip() else {}
    if not isinstance(document, Mapping):
        raise ValueError("it does not hold an object")
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
