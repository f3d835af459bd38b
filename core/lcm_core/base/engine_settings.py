"""The engine's settings, and the rules by which another compaction threshold replaces the configured one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lcm_core.base.host_config import HostVariables, PluginConfig, unread_value
from lcm_core.base.setting_values import (
    Diagnostic,
    Json,
    SettingSource,
    Sourced,
    boolean,
    integer,
    invalid_value,
    is_unset,
    one_of,
    plain_text,
    provider_models,
    real_number,
    switched_on,
    text_list,
    time_zone,
)
from lcm_core.base.values import Record, T, field, to_json

# -- threshold rules -------------------------------------------------------------------------------------
# As they are written down (docs/spec/thresholds.md, "The rules"). Which rule applies is decided in
# `lcm_core.engine.sessions`.


class ThresholdRule(Record, frozen=True):
    """One entry of ``contextThresholdOverrides``; every matcher that is given has to fit."""

    threshold: float = field(name="contextThreshold")  #: share of the budget
    model: str | None = None  #: ``provider/model`` or the model alone
    session_pattern: str | None = None
    window_min: int | None = field(name="modelContextWindowMin", default=None)  #: tokens
    window_max: int | None = field(name="modelContextWindowMax", default=None)
    fresh_tail_count: int | None = None  #: messages; None: the configured one
    leaf_chunk_tokens: int | None = None  #: None: the configured one
    name: str | None = None

    @property
    def specificity(self) -> int:
        """How much it asks for: the highest of the rules that fit holds."""
        return sum(_WEIGHTS[name] for name in self.document()["match"])

    def document(self) -> dict[str, Any]:
        """The rule as it is written in the configuration."""
        given = {name: value for name, value in to_json(self).items() if value is not None}
        match = {name: given.pop(name) for name in _WEIGHTS if name in given}
        named = {"name": given.pop("name")} if "name" in given else {}
        return {**named, "match": match, **given}


#: How much each matcher of a rule asks for.
_WEIGHTS: Final = {
    "model": 100,
    "sessionPattern": 50,
    "modelContextWindowMin": 20,
    "modelContextWindowMax": 20,
}


def threshold_rules(value: Json) -> tuple[ThresholdRule, ...]:
    """The rules of a configuration.

    Raises:
        ValueError: one of them is wrong, at the path that the reason names; then none counts.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("which is not a list of rules")
    return tuple(_rule(one, f"[{at}]") for at, one in enumerate(value))


def _rule(value: Json, path: str) -> ThresholdRule:
    if not isinstance(value, Mapping):
        raise ValueError(f"in which {path} is not an object")
    match = value.get("match")
    if not isinstance(match, Mapping):
        raise ValueError(f"in which {path}.match is not an object")
    within = f"{path}.match."
    smallest = _given(match, "modelContextWindowMin", within, integer(1))
    largest = _given(match, "modelContextWindowMax", within, integer(1))
    model = _given(match, "model", within, _words)
    pattern = _given(match, "sessionPattern", within, _words)
    if all(one is None for one in (smallest, largest, model, pattern)):
        raise ValueError(f"in which {path}.match has no condition")
    if smallest is not None and largest is not None and smallest > largest:
        raise ValueError(f"in which {within}modelContextWindowMin is larger than modelContextWindowMax")
    threshold = _given(value, "contextThreshold", f"{path}.", real_number(0, 1))
    if threshold is None:
        raise ValueError(f"in which {path}.contextThreshold is missing")
    return ThresholdRule(
        threshold,
        model,
        pattern,
        smallest,
        largest,
        _given(value, "freshTailCount", f"{path}.", integer(1)),
        _given(value, "leafChunkTokens", f"{path}.", integer(1)),
        _given(value, "name", f"{path}.", plain_text),
    )


def _given(value: Mapping[str, Json], name: str, path: str, parse: Callable[[Json], T]) -> T | None:
    given = value.get(name)
    if given is None:
        return None
    try:
        return parse(given)
    except ValueError as error:
        raise ValueError(f"in which {path}{name} cannot be used: it is one {error}") from None


def _words(value: Json) -> str:
    words = plain_text(value)
    if not words:
        raise ValueError("which is empty")
    return words


# -- the table of settings -------------------------------------------------------------------------------
# One declarative table, one line per key (docs/spec/settings.md).
#
# Precedence is environment, plugin config, default. A value that does not fit is a diagnostic, and the next
# source applies. Defaults are those of the newest engine; rules that depend on the version that wrote a
# file (a fresh tail of 32 before 0.5.3) look at ``Sourced.is_set`` and decide by schema.

#: In the place of the names of variables: the configuration alone has it.
NO_VARIABLE = "-"

#: Markup that memory plugins inject and the engine strips (docs/spec/texts.md, "Injected elements").
INJECTED_TAGS = ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories")


#: Groups that engines accept and no longer use, and since when.
_RETIRED: Mapping[str, str] = {
    "autoRotateSessionFiles": "1.0.0",
    "cacheAwareCompaction": "0.10.0",
    "dynamicLeafChunkTokens": "0.10.0",
}


class Key(Record, frozen=True):
    """The names under which a setting is found, and how it is read."""

    plugin: tuple[str, ...]  #: dotted keys of the plugin's config, preferred first
    env: tuple[str, ...]  #: variables, preferred first
    parse: Callable[[Json], object]  #: raises ValueError when the value does not fit
    otherwise: str | None = None  #: what the engine takes for a text that does not fit; None: it looks on
    has_effect: bool = True  #: on anything that is done here; else it is shown, and that is all
    retired: str = ""  #: the engine that uses it no longer, by its tag; empty: all do

    @property
    def name(self) -> str:
        """The name that ``config show`` prints."""
        return self.plugin[0]


#: What `_setting` was given, in the order of the attributes.
_ROWS: list[tuple[Any, ...]] = []


def _setting(
    default: T,
    parse: Callable[[Json], object],
    *,
    plugin: str = "",
    env: str = "",
    otherwise: str | None = None,
    has_effect: bool = True,
    retired: str = "",
) -> Sourced[T]:
    """A row of the table. Names separated by blanks; left out, they follow from the attribute's name."""
    _ROWS.append((parse, plugin.split(), env.split(), otherwise, has_effect and not retired, retired))
    return Sourced(default)


def _within(
    group: str, name: str, default: T, parse: Callable[[Json], object], *, env: str = ""
) -> Sourced[T]:
    """A row of a *group* of the engine's own, which nothing here goes by."""
    dotted, retired = f"{group}.{name}", _RETIRED.get(group, "")
    env = env or _variable(dotted)
    return _setting(default, parse, plugin=dotted, env=env, has_effect=False, retired=retired)


def _of_cache(name: str, default: T, parse: Callable[[Json], object], *, env: str = "") -> Sourced[T]:
    """A row about the provider's cache; its variable does not name the group."""
    return _within("cacheAwareCompaction", name, default, parse, env=env or _variable(name))


def _variable(dotted: str) -> str:
    return "LCM_" + re.sub("[.A-Z]", lambda match: f"_{match[0].strip('.')}", dotted).upper()


class EngineSettings(Record, frozen=True):
    """What the engine is given by environment or plugin config. Tokens are estimates, ``_ms`` milliseconds.

    ``fresh_tail_count`` is the name of ``LCM_FRESH_TAIL_COUNT`` and ``freshTailCount``; a row names only what
    departs from that. A default of None means unset, or derived from other values where it is used.
    """

    enabled: Sourced[bool] = _setting(True, boolean, has_effect=False)
    host_fallback_mode: Sourced[str] = _setting("error", one_of("error", "capture-only"), has_effect=False)
    #: One that is not known counts as UTC (docs/spec/texts.md, "Stamps").
    timezone: Sourced[str | None] = _setting(None, time_zone, env="TZ", otherwise="UTC")

    # What the model sees.
    fresh_tail_count: Sourced[int] = _setting(64, integer(1))
    fresh_tail_max_tokens: Sourced[int | None] = _setting(None, integer(1))
    max_assembly_token_budget: Sourced[int | None] = _setting(None, integer(1000))
    prompt_aware_eviction: Sourced[bool] = _setting(
        False, boolean, env="LCM_PROMPT_AWARE_EVICTION_ENABLED", has_effect=False
    )
    stub_large_tool_payloads: Sourced[bool] = _setting(False, boolean)

    # When and how far the engine compacts.
    context_threshold: Sourced[float] = _setting(0.75, real_number(0, 1))
    #: One that is wrong makes the engine refuse its whole configuration.
    context_threshold_overrides: Sourced[tuple[ThresholdRule, ...]] = _setting(
        (), threshold_rules, env=NO_VARIABLE
    )
    leaf_chunk_tokens: Sourced[int] = _setting(20_000, integer(1))
    leaf_target_tokens: Sourced[int] = _setting(2_400, integer(1))
    leaf_min_fanout: Sourced[int] = _setting(8, integer(2))
    condensed_target_tokens: Sourced[int] = _setting(2_000, integer(1))
    condensed_min_fanout: Sourced[int] = _setting(4, integer(2))
    condensed_min_fanout_hard: Sourced[int] = _setting(2, integer(2))
    sweep_max_depth: Sourced[int] = _setting(
        1,
        integer(-1),
        plugin="sweepMaxDepth incrementalMaxDepth",
        env="LCM_SWEEP_MAX_DEPTH LCM_INCREMENTAL_MAX_DEPTH",
    )
    summary_prefix_target_tokens: Sourced[int | None] = _setting(None, integer(1))
    max_sweep_iterations: Sourced[int] = _setting(12, integer(1))
    sweep_deadline_ms: Sourced[int] = _setting(120_000, integer(1))
    compact_until_under_deadline_ms: Sourced[int] = _setting(300_000, integer(1))
    proactive_threshold_compaction_mode: Sourced[str] = _setting(
        "deferred", one_of("deferred", "inline"), has_effect=False
    )

    # Sessions and ingestion.
    ignore_session_patterns: Sourced[tuple[str, ...]] = _setting((), text_list)
    stateless_session_patterns: Sourced[tuple[str, ...]] = _setting((), text_list)
    skip_stateless_sessions: Sourced[bool] = _setting(True, boolean)
    new_session_retain_depth: Sourced[int] = _setting(2, integer(-1))
    bootstrap_max_tokens: Sourced[int | None] = _setting(None, integer(1))
    large_file_token_threshold: Sourced[int] = _setting(
        25_000, integer(1000), plugin="largeFileThresholdTokens largeFileTokenThreshold"
    )
    strip_injected_context_tags: Sourced[tuple[str, ...]] = _setting(INJECTED_TAGS, text_list)
    prune_heartbeat_ok: Sourced[bool] = _setting(False, boolean)
    preserve_heartbeat_poll: Sourced[bool] = _setting(False, switched_on)
    transcript_gc_enabled: Sourced[bool] = _setting(False, boolean, retired="1.0.0")
    replay_flood_threshold_external: Sourced[int] = _setting(3, integer(1))
    replay_flood_threshold_internal: Sourced[int] = _setting(32, integer(1))

    # Models.
    summary_provider: Sourced[str] = _setting("", plain_text)
    summary_model: Sourced[str] = _setting("", plain_text)
    large_file_summary_provider: Sourced[str] = _setting("", plain_text, has_effect=False)
    large_file_summary_model: Sourced[str] = _setting("", plain_text, has_effect=False)
    expansion_provider: Sourced[str] = _setting("", plain_text, has_effect=False)
    expansion_model: Sourced[str] = _setting("", plain_text, has_effect=False)
    fallback_providers: Sourced[tuple[str, ...]] = _setting((), provider_models, has_effect=False)
    custom_instructions: Sourced[str] = _setting("", plain_text)
    summary_max_overage_factor: Sourced[float] = _setting(3.0, real_number(1))
    fallback_max_tokens: Sourced[int] = _setting(512, integer(64))
    max_expand_tokens: Sourced[int] = _setting(4_000, integer(1))
    summary_call_window_ms: Sourced[int] = _setting(600_000, integer(1), has_effect=False)
    summary_max_calls_per_window: Sourced[int] = _setting(24, integer(1), has_effect=False)
    summary_spend_backoff_ms: Sourced[int] = _setting(1_800_000, integer(1), has_effect=False)
    circuit_breaker_threshold: Sourced[int] = _setting(5, integer(1), has_effect=False)
    circuit_breaker_cooldown_ms: Sourced[int] = _setting(1_800_000, integer(1), has_effect=False)
    enable_summary_thinking: Sourced[bool] = _setting(True, boolean, has_effect=False)
    summary_timeout_ms: Sourced[int] = _setting(60_000, integer(1))
    delegation_timeout_ms: Sourced[int] = _setting(120_000, integer(1))

    # The engine's own housekeeping, and what it accepts and no longer uses.
    rotation_enabled: Sourced[bool] = _within("autoRotateSessionFiles", "enabled", True, boolean)
    rotation_create_backups: Sourced[bool] = _within(
        "autoRotateSessionFiles", "createBackups", False, boolean
    )
    rotation_size_bytes: Sourced[int] = _within("autoRotateSessionFiles", "sizeBytes", 2_097_152, integer(1))
    rotation_startup: Sourced[str] = _within("autoRotateSessionFiles", "startup", "rotate", plain_text)
    rotation_runtime: Sourced[str] = _within("autoRotateSessionFiles", "runtime", "rotate", plain_text)
    log_enabled: Sourced[bool] = _within(
        "independentLogFile", "enabled", True, boolean, env="LCM_LOG_FILE_ENABLED"
    )
    log_max_file_bytes: Sourced[int] = _within(
        "independentLogFile", "maxFileBytes", 104_857_600, integer(1), env="LCM_LOG_MAX_FILE_BYTES"
    )
    log_file: Sourced[str | None] = _within(
        "independentLogFile", "file", None, plain_text, env="LCM_LOG_FILE"
    )
    cache_aware_enabled: Sourced[bool] = _within("cacheAwareCompaction", "enabled", True, boolean)
    cache_ttl_seconds: Sourced[int] = _of_cache(
        "cacheTTLSeconds", 300, integer(1), env="LCM_CACHE_TTL_SECONDS"
    )
    cache_catchup_passes: Sourced[int] = _of_cache("maxColdCacheCatchupPasses", 2, integer(1))
    cache_pressure_factor: Sourced[float] = _of_cache("hotCachePressureFactor", 4.0, real_number(1))
    cache_headroom_ratio: Sourced[float] = _of_cache("hotCacheBudgetHeadroomRatio", 0.2, real_number(0, 1))
    cache_observation_threshold: Sourced[int] = _of_cache("coldCacheObservationThreshold", 3, integer(1))
    cache_critical_ratio: Sourced[float] = _of_cache("criticalBudgetPressureRatio", 0.9, real_number(0, 1))
    dynamic_chunk_enabled: Sourced[bool] = _within("dynamicLeafChunkTokens", "enabled", True, boolean)
    #: None: twice the chunk.
    dynamic_chunk_max: Sourced[int | None] = _within("dynamicLeafChunkTokens", "max", None, integer(1))


def _key(
    attribute: str,
    parse: Callable[[Json], object],
    plugin: list[str],
    env: list[str],
    otherwise: str | None,
    has_effect: bool,
    retired: str,
) -> Key:
    head, *rest = attribute.split("_")
    return Key(
        tuple(plugin) or (head + "".join(word.capitalize() for word in rest),),
        () if env == [NO_VARIABLE] else tuple(env) or (f"LCM_{attribute.upper()}",),
        parse,
        otherwise,
        has_effect,
        retired,
    )


#: The table: attribute of `EngineSettings` to its names and parser.
KEYS: Mapping[str, Key] = {
    name: _key(name, *row) for name, row in zip(EngineSettings.__struct_fields__, _ROWS, strict=True)
}


def read_engine(
    variables: HostVariables, plugin: PluginConfig, diagnostics: list[Diagnostic]
) -> EngineSettings:
    """Look every key of the table up in the environment, then in the plugin's config."""
    found: dict[str, Sourced[Any]] = {}
    for attribute, key in KEYS.items():
        value = first_valid(key, variables, plugin, diagnostics)
        if value is not None:
            found[attribute] = value
    return EngineSettings(**found)


def first_valid(
    key: Key, variables: HostVariables, plugin: PluginConfig, diagnostics: list[Diagnostic]
) -> Sourced[object] | None:
    """The first value of *key* that is given and fits; those that do not fit are noted. None: not set."""
    for name in key.env:
        given, file = variables.find(name)
        where = f"{name} in {file}" if file else name
        if found := _valid(key, SettingSource.ENVIRONMENT, where, given, given, diagnostics, quoted=not file):
            return found
    for name in key.plugin:
        written, where = plugin.get(name), plugin.place_of(name)
        try:
            value = variables.filled(written)
        except ValueError as error:
            diagnostics.append(unread_value(where, plugin.file, written, str(error)))
            continue
        if found := _valid(key, SettingSource.PLUGIN_CONFIG, where, value, written, diagnostics, plugin.file):
            return found
    return None


def _valid(
    key: Key,
    source: SettingSource,
    where: str,
    value: Json,
    written: Json,
    diagnostics: list[Diagnostic],
    config: str = "",
    *,
    quoted: bool = True,
) -> Sourced[object] | None:
    """A value that fits, or what the engine takes in its place; else None, and why is noted.

    *written* is what a diagnostic quotes; *config*: the file of the configuration that it is from, if any.
    """
    if is_unset(value):
        return None
    try:
        return Sourced(key.parse(value), source, where)
    except ValueError as error:
        if key.otherwise is not None and isinstance(value, str):
            then = f"{key.otherwise} is used instead, as in the engine"
            diagnostics.append(invalid_value(where, written, str(error), then, quoted=quoted))
            return Sourced(key.otherwise, source, where)
        if config and isinstance(value, str) and "${" in value:
            reason = f"{error}: the host replaces only ${{NAME}}"
            diagnostics.append(unread_value(where, config, written, reason))
            return None
        diagnostics.append(invalid_value(where, written, str(error), quoted=quoted))
        return None
