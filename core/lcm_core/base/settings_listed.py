"""What ``config`` prints (docs/spec/command.md, "Settings"), and a setting of the app into our file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from lcm_core.base.engine_settings import KEYS, EngineSettings, ThresholdRule
from lcm_core.base.errors import ConfigurationError, NotFoundError
from lcm_core.base.files import make_private, read_limited, write_private
from lcm_core.base.setting_values import (
    MAX_CONFIG_BYTES,
    Diagnostic,
    Json,
    JsonObject,
    Sourced,
    local_zone_name,
)
from lcm_core.base.settings import ENGINE_ENV_NAMES, Settings, SummarySettings
from lcm_core.base.values import Record, field

#: The engine's name of what has another one here, or an older one besides.
_ALSO_CALLED: Final = MappingProxyType(
    {
        "incrementalMaxDepth": "sweepMaxDepth",
        "largeFileTokenThreshold": "largeFileThresholdTokens",
    }
)
#: In which order the engine's command prints the settings.
_THEIR_ORDER: Final = (
    *("enabled", "hostFallbackMode", "databasePath", "largeFilesDir"),
    *("ignoreSessionPatterns", "statelessSessionPatterns", "skipStatelessSessions"),
    *("contextThreshold", "contextThresholdOverrides", "freshTailCount", "promptAwareEviction"),
    *("stubLargeToolPayloads", "newSessionRetainDepth", "leafMinFanout", "condensedMinFanout"),
    *("condensedMinFanoutHard", "sweepMaxDepth", "incrementalMaxDepth", "leafChunkTokens"),
    *("maxSweepIterations", "sweepDeadlineMs", "compactUntilUnderDeadlineMs", "bootstrapMaxTokens"),
    *("leafTargetTokens", "condensedTargetTokens", "maxExpandTokens", "largeFileTokenThreshold"),
    *("summaryProvider", "summaryModel", "largeFileSummaryProvider", "largeFileSummaryModel"),
    *("expansionProvider", "expansionModel", "delegationTimeoutMs", "summaryTimeoutMs"),
    *("summaryCallWindowMs", "summaryMaxCallsPerWindow", "summarySpendBackoffMs", "timezone"),
    *("pruneHeartbeatOk", "transcriptGcEnabled", "enableSummaryThinking"),
    *("proactiveThresholdCompactionMode", "autoRotateSessionFiles", "independentLogFile"),
    *("summaryMaxOverageFactor", "fallbackMaxTokens", "customInstructions", "circuitBreakerThreshold"),
    *("circuitBreakerCooldownMs", "replayFloodThresholdExternal", "replayFloodThresholdInternal"),
    *("fallbackProviders", "cacheAwareCompaction", "dynamicLeafChunkTokens", "stripInjectedContextTags"),
)


class ConfigView(Record, frozen=True):
    """The settings as a document: what the file says, what applies, and why."""

    raw: JsonObject
    effective: JsonObject  #: under the engine's names and in its order, ours behind them
    sources: Mapping[str, str]  #: dotted key of `effective` to the name of what set it, or "default"
    diagnostics: tuple[Diagnostic, ...] = field(name="problems")
    active_env: tuple[str, ...]
    #: those of them that the engine would go by too
    overriding: tuple[str, ...] = field(name="environmentOverrides")
    without_effect: tuple[str, ...]  #: keys of `effective` that nothing here uses: they are the engine's
    retired: Mapping[str, str]  #: those of them that engines use no longer, and the first that does not


class ConfigValue(Record, frozen=True):
    """One value of the configuration."""

    path: str  #: without the ``raw.`` or ``effective.`` that may have stood before it
    is_set: bool  #: whether the plugin's configuration has it
    raw: Json = field(name="rawValue")  #: its value in the file; None if the file does not set it
    #: what applies; None for what is only in the configuration
    effective: Json = field(name="effectiveValue")
    value: Json
    origin: Literal["effective", "raw"]
    source: str | None  #: what set an effective value; None for raw values and whole branches
    has_effect: bool = True  #: on anything that is done here; raw values and whole branches are not judged
    retired: str | None = None  #: the first engine that uses it no longer; None: all do


def config_view(settings: Settings) -> ConfigView:
    """Everything that ``config`` prints; keys are the plugin's own names."""
    found = sourced_settings(settings)
    found |= {theirs: found[ours] for theirs, ours in _ALSO_CALLED.items()}
    found["databasePath"] = settings.engine_database
    places = {name: at for at, name in enumerate(_THEIR_ORDER)}
    effective: dict[str, Json] = {}
    sources: dict[str, str] = {}
    for dotted in sorted(found, key=lambda name: places.get(name.partition(".")[0], len(places))):
        sourced = found[dotted]
        value = _plain(sourced.value)
        _put(effective, dotted.split("."), _derived(settings.engine, dotted) if value is None else value)
        sources[dotted] = sourced.name or str(sourced.source)
    return ConfigView(
        settings.raw,
        effective,
        MappingProxyType(sources),
        settings.diagnostics,
        settings.active_env,
        tuple(name for name in settings.active_env if name in ENGINE_ENV_NAMES),
        tuple(key.name for key in KEYS.values() if not key.has_effect),
        MappingProxyType({key.name: key.retired for key in KEYS.values() if key.retired}),
    )


def _derived(engine: EngineSettings, name: str) -> Json:
    """What the engine takes for a setting that nobody set and that follows from others; else None."""
    if name == "bootstrapMaxTokens":
        return max(6_000, int(0.3 * engine.leaf_chunk_tokens.value))
    if name == "dynamicLeafChunkTokens.max":
        return 2 * engine.leaf_chunk_tokens.value
    return local_zone_name() if name == "timezone" else None


def config_value(settings: Settings, path: str) -> ConfigValue:
    """One value by dotted path: effective first, then raw; ``raw.`` or ``effective.`` chooses one.

    Raises:
        NotFoundError: no value has that path.
    """
    view, typed = config_view(settings), path
    origins: tuple[Literal["effective", "raw"], ...] = ("effective", "raw")
    for origin in origins:
        if path.startswith(f"{origin}."):
            origins, path = (origin,), path.removeprefix(f"{origin}.")
            break
    is_set, raw = _get(view.raw, path.split("."))
    applies, effective = _get(view.effective, path.split("."))
    for origin, found, value in (("effective", applies, effective), ("raw", is_set, raw)):
        if found and origin in origins:
            source = view.sources.get(path) if origin == "effective" else None
            has_effect = source is None or path not in view.without_effect
            if isinstance(effective, Mapping):  # the engine's command leaves out what nothing sets
                effective = {name: one for name, one in effective.items() if one is not None}
            return ConfigValue(
                path, is_set, raw, effective, value, origin, source, has_effect, view.retired.get(path)
            )
    what = f"The plugin's block does not set '{path}'" if applies else f"There is no setting '{typed}'"
    raise NotFoundError(
        f"{what}; `lcm-tui config` lists the settings.",
        code="CONFIG_KEY_NOT_FOUND",
        details={"path": typed},
    )


def sourced_settings(settings: Settings) -> dict[str, Sourced[object]]:
    """Every setting by its dotted name, with where it came from."""
    paths: dict[str, Sourced[object]] = {
        "stateDir": settings.state_dir,
        "dbPath": settings.database,
        "largeFilesDir": settings.large_files_dir,
        "sessions": settings.sessions,
    }
    engine: dict[str, Sourced[object]] = {
        key.name: getattr(settings.engine, attribute) for attribute, key in KEYS.items()
    }
    names = zip(SummarySettings.__struct_encode_fields__, SummarySettings.__struct_fields__, strict=True)
    summary = [(name, getattr(settings.summary, field)) for name, field in names]
    tui: dict[str, Sourced[object]] = {
        "tui.budget": settings.budget,
        "tui.format": settings.output_format,
        "tui.theme": settings.theme,
        **{f"tui.summary.{name}": value for name, value in summary if isinstance(value, Sourced)},
        "tui.backupOfferMb": settings.backup_offer_mb,
        "tui.writeUnknownSchema": settings.write_unknown_schema,
        "tui.checkSeconds": settings.check_seconds,
        "tui.searchCache": settings.search_cache,
    }
    return {**paths, **engine, **tui}


def _plain(value: object) -> Json:
    if isinstance(value, ThresholdRule):
        return value.document()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # which JSON of the engine's does not tell apart
    return value if isinstance(value, bool | int | float | str) else None


def _put(tree: dict[str, Json], steps: Sequence[str], value: Json) -> None:
    for step in steps[:-1]:
        branch = tree.setdefault(step, {})
        if not isinstance(branch, dict):
            raise ValueError(f"two settings share the name {step}")
        tree = branch
    tree[steps[-1]] = value


def _get(value: Json, steps: Sequence[str]) -> tuple[bool, Json]:
    """Whether there is something at the path, and what; a number steps into a list."""
    for step in steps:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, Sequence) and not isinstance(value, str) and step.isdecimal():
            if int(step) >= len(value):
                return False, None
            value = value[int(step)]
        else:
            return False, None
    return True, value


def write_setting(path: Path, table: str, name: str, value: str) -> None:
    """Set *name* in a *table* of the file (empty: at its top) to a text; comments and order stay.

    Raises:
        ConfigurationError: the file is not TOML, or writes this in a form that is not understood here.
        FileNotWrittenError: it cannot be written.
    """
    try:
        before = read_limited(path, MAX_CONFIG_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        before = ""
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}); nothing was written.") from error
    wanted = _parsed(path, before)
    held = wanted.setdefault(table, {}) if table else wanted
    if not isinstance(held, dict):
        raise ConfigurationError(f"{path} has {table!r}, which is not a table; nothing was written.")
    held[name] = value
    after = _with_setting(before, table, f"{_key(name)} = {json.dumps(value, ensure_ascii=False)}", name)
    if _parsed(path, after) != wanted:
        line = f"[{table}] {name} = {json.dumps(value)}" if table else f"{name} = {json.dumps(value)}"
        raise ConfigurationError(
            f"{path} is written in a form that cannot be changed here. Add to it: {line}"
        )
    make_private(path.parent)
    write_private(path.resolve(), after, replace=True)  # what a link leads to, not the link


def _parsed(path: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML ({error}); nothing was written.") from error


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _with_setting(text: str, table: str, line: str, name: str) -> str:
    """The text with a line in the place of the one that sets *name*, or as the first of its table."""
    lines = text.split("\n")
    headers = [at for at, one in enumerate(lines) if one.lstrip().startswith("[")]
    if not table:
        first, end = 0, headers[0] if headers else len(lines)
    else:
        named = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?")
        found = next((at for at in headers if named.fullmatch(lines[at].rstrip("\r"))), None)
        if found is None:
            return "\n".join([*([text.rstrip("\n"), ""] if text.strip() else []), f"[{table}]", line, ""])
        first, end = found + 1, next((at for at in headers if at > found), len(lines))
    setting = re.compile(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=")
    for at in range(first, end):
        if setting.match(lines[at]):
            lines[at] = line
            return "\n".join(lines)
    lines.insert(first, line)
    return "\n".join(lines)
