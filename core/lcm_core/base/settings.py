"""Our settings: command line, environment and config files, resolved once into one frozen `Settings`."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final

import platformdirs

from lcm_core.base.engine_settings import KEYS, EngineSettings, Key, first_valid, read_engine
from lcm_core.base.errors import UsageError
from lcm_core.base.files import read_limited, reason_of
from lcm_core.base.host_config import (
    MASK,
    HostConfig,
    HostVariables,
    PluginConfig,
    host_variables,
    masked,
    read_host_config,
)
from lcm_core.base.setting_values import (
    LARGEST_NUMBER,
    MAX_CONFIG_BYTES,
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
    one_of,
    parsed,
    plain_text,
    real_number,
    unusable_file,
)
from lcm_core.base.text import LARGEST as LARGEST_BUDGET
from lcm_core.base.values import Record, T, field, replace

# -- config.toml -----------------------------------------------------------------------------------------
# Our own config file. The host's is read in `lcm_core.base.host_config`.

APP_NAME = "lcm-tui"
budget_tokens = integer(1, LARGEST_BUDGET)
megabytes = integer(0, LARGEST_NUMBER)
seconds = real_number(0, 86_400)


def output_format(value: Json) -> OutputFormat:
    """``json`` or ``table``."""
    return OutputFormat(one_of(*OutputFormat)(value))


#: How each value of the file is read that is no table.
_VALUES: Final[Mapping[str, Callable[[Json], object]]] = {
    "budget": budget_tokens,
    "format": output_format,
    "theme": plain_text,
    "backup_offer_mb": megabytes,
    "write_unknown_schema": boolean,
    "check_seconds": seconds,
    "search_cache": boolean,
}
_KNOWN: Final = sorted((*_VALUES, "keys", "summary"))


class UserFile(Record, frozen=True):
    """What the user wrote into our config file."""

    values: Mapping[str, Sourced[Any]] = field(default_factory=dict)  #: those that are given, by name
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
        import tomllib

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

    source = SettingSource.USER_CONFIG
    values = {
        name: found
        for name, parse in _VALUES.items()
        if (found := parsed(name, document.get(name), parse, source, diagnostics)) is not None
    }
    return UserFile(values, _keys(document.get("keys"), diagnostics), document.get("summary"))


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


# -- the model that summarises ---------------------------------------------------------------------------
# Flags, ``LCM_TUI_SUMMARY_*``, ``LCM_SUMMARY_*``, then the config files.
#
# Only what was said is resolved here. Whether provider and model fit, and which key belongs to them, is
# decided in `lcm_core.writers.request` and `lcm_core.writers.keys`.

#: The table of our config file.
TABLE: Final = "summary"


def address(value: Json) -> str:
    """A URL. What may be a secret in it is masked, since settings are shown; a masked one is never used."""
    masked = re.sub(r"(?<=//)[^/@\s]*@", f"{MASK}@", plain_text(value))
    return re.sub(r"(?<=[?#]).*", MASK, masked).rstrip("/")


_PROVIDER: Final = Key((), ("LCM_TUI_SUMMARY_PROVIDER", "LCM_SUMMARY_PROVIDER"), plain_text)
_MODEL: Final = Key((), ("LCM_TUI_SUMMARY_MODEL", "LCM_SUMMARY_MODEL"), plain_text)
_BASE_URL: Final = Key((), ("LCM_TUI_SUMMARY_BASE_URL", "LCM_SUMMARY_BASE_URL"), address)
#: The operator's own key; it belongs to the provider that ``LCM_TUI_SUMMARY_PROVIDER`` names.
API_KEY_VARIABLE: Final = "LCM_TUI_SUMMARY_API_KEY"
SUMMARY_ENV_NAMES: Final = frozenset((*_PROVIDER.env, *_MODEL.env, *_BASE_URL.env, API_KEY_VARIABLE))
_FIELDS: Final = {
    "provider": plain_text,
    "model": plain_text,
    "base_url": address,
    "input_price": real_number(0),
    "output_price": real_number(0),
    "max_calls": integer(1, LARGEST_NUMBER),
    "max_cost": real_number(0),
    "in_flight": integer(1, 64),
}


class SummarySettings(Record, frozen=True):
    """What was said about the model that summarises; an empty text or None: nothing."""

    provider: Sourced[str] = Sourced("")
    model: Sourced[str] = Sourced("")
    base_url: Sourced[str] = Sourced("")
    input_price: Sourced[float | None] = Sourced(None)  #: USD for a million tokens
    output_price: Sourced[float | None] = Sourced(None)
    max_calls: Sourced[int | None] = Sourced(None)
    max_cost: Sourced[float | None] = Sourced(None)  #: USD
    in_flight: Sourced[int] = Sourced(4)  #: calls of a batch at the same time
    timeout: float = 60.0  #: s, for one call

    def with_flags(
        self,
        *,
        provider: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
    ) -> SummarySettings:
        """These settings under what the command line gave; None is "not given"."""
        flags = {
            "provider": provider,
            "model": model,
            "base_url": base_url if base_url is None else address(base_url),
            "max_calls": max_calls,
            "max_cost": max_cost,
        }
        given: dict[str, Any] = {
            name: Sourced(value, SettingSource.COMMAND_LINE, f"--{name.replace('_', '-')}")
            for name, value in flags.items()
            if value is not None
        }
        return replace(self, **given)


def read_summary(
    environ: Mapping[str, str], table: Json, engine: EngineSettings, diagnostics: list[Diagnostic]
) -> SummarySettings:
    """Resolve what environment, our config file (its table *table*) and the plugin's config say."""
    ours = _table(table, diagnostics)
    found: dict[str, Any] = dict(ours)
    for name, key in (("provider", _PROVIDER), ("model", _MODEL), ("base_url", _BASE_URL)):
        value = first_valid(key, HostVariables(environ), PluginConfig(), diagnostics)
        if value is not None:
            found[name] = value
    if "provider" not in found and engine.summary_provider.is_set:
        found["provider"] = engine.summary_provider
    if "model" not in found and engine.summary_model.is_set:
        found["model"] = engine.summary_model
    return SummarySettings(
        timeout=engine.summary_timeout_ms.value / 1000,
        **found,
    )


def _table(table: Json, diagnostics: list[Diagnostic]) -> Mapping[str, Sourced[Any]]:
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        diagnostics.append(invalid_value(TABLE, table, "which is not a table"))
        return {}
    found: dict[str, Sourced[Any]] = {}
    for name, value in table.items():
        where = f"{TABLE}.{name}"
        parse = _FIELDS.get(name)
        if parse is None:
            known = ", ".join(_FIELDS)
            message = f"{where} is not a known setting; known are {known}."
            diagnostics.append(Diagnostic(Problem.UNKNOWN_KEY, where, message))
        elif one := parsed(where, value, parse, SettingSource.USER_CONFIG, diagnostics):
            found[name] = one
    return found


# -- all of them together --------------------------------------------------------------------------------

_DATABASE = Key(("dbPath", "databasePath"), ("LCM_DATABASE_PATH",), plain_text)
_LARGE_FILES = Key(("largeFilesDir",), ("LCM_LARGE_FILES_DIR",), plain_text)
_BUDGET = "LCM_TUI_BUDGET"
_FORMAT = "LCM_TUI_FORMAT"
#: The host's own setting of where its sessions are, and what stands in it for an agent.
_STORE = "session.store"
_AGENT = "{agentId}"
#: The host's list of its agents, and the one that it has without a list.
_AGENTS = "agents.list"
_DEFAULT_AGENTS = ("main",)
_CONFIG = "openclaw.json"
#: The host's files of variables: in the state folder, and for its gateway in the home folder.
_VARIABLES = ".env"
_GATEWAY_VARIABLES = Path(".config", "openclaw", "gateway.env")
#: What a state folder has beside its database (docs/spec/host.md, "The state folder").
_MARKS_OF_A_STATE_FOLDER = (_CONFIG, "lcm-files", "agents")
_STATE_ENV = ("LCM_OPENCLAW_DIR", "OPENCLAW_STATE_DIR")

#: Files up to this size, in MiB, are offered a backup, unless the user sets another.
BACKUP_OFFER_MB = 512
#: A check of the doctor gives up when it gets no further for so many seconds, unless the user sets another.
CHECK_SECONDS = 30.0

#: Every variable that the engine reads its settings from.
ENGINE_ENV_NAMES = frozenset(name for key in (*KEYS.values(), _DATABASE, _LARGE_FILES) for name in key.env)
#: Every variable that we read, the engine's and our own.
ENV_NAMES = frozenset(
    {*_STATE_ENV, "OPENCLAW_HOME", "OPENCLAW_CONFIG_PATH", "LCM_TUI_CONFIG", _BUDGET, _FORMAT}
).union(SUMMARY_ENV_NAMES, ENGINE_ENV_NAMES)
_KNOWN_PLUGIN_KEYS = frozenset(
    step
    for key in (*KEYS.values(), _DATABASE, _LARGE_FILES)
    for dotted in key.plugin
    for step in dotted.split(".")
)


class Options(Record, frozen=True):
    """What the command line gave; None is "not given"."""

    db: str | PurePath | None = None
    config: str | PurePath | None = None
    openclaw_dir: str | PurePath | None = None
    sessions: str | PurePath | None = None
    budget: int | None = None  #: tokens
    output_format: OutputFormat | None = None
    allow_unknown_schema: bool = False
    utc: bool = False  #: times are shown and typed in UTC


class Settings(Record, frozen=True):
    """What environment, files and command line decide (docs/spec/settings.md, "Settings and defaults").

    Paths are as given, with ``~`` expanded; whether there is something at them is for their users to say.
    """

    state_dir: Sourced[Path]
    credentials_dir: Path  #: the operator's own state folder, whatever database is named
    database: Sourced[Path]
    engine_database: Sourced[Path]  #: the one that the engine uses, whatever the command line says
    large_files_dir: Sourced[Path]
    sessions: Sourced[Path]  #: a sessions folder, an agent's folder or a folder of agents
    config_file: Sourced[Path]  #: the host's ``openclaw.json``
    config_found: bool  #: whether there is such a file
    config_unusable: str  #: why nothing of it is used; empty: it is
    plugin_place: str  #: dotted path of the plugin's block in it; empty when there is none
    agents: Sourced[tuple[str, ...]]  #: ids of the host's agents
    context_engine: str | None  #: the plugin that fills ``plugins.slots.contextEngine``
    user_config_file: Sourced[Path]  #: our own ``config.toml``
    utc: bool  #: whether times are shown in UTC, whatever the engine's zone is
    engine: EngineSettings
    summary: SummarySettings
    budget: Sourced[int | None]  #: tokens; None: the user named none
    output_format: Sourced[OutputFormat]
    theme: Sourced[str | None]
    backup_offer_mb: Sourced[int]  #: smaller files are offered a backup before a day's first change; 0: none
    write_unknown_schema: Sourced[bool]  #: whether files of engines that we do not know may be changed
    check_seconds: Sourced[float]  #: a check of the doctor that gets no further for so long gives up; 0: none
    search_cache: Sourced[bool]  #: whether a search may keep an index and recent searches in the cache folder
    keys: Mapping[str, str]  #: action id to key, or keys separated by commas
    raw: JsonObject  #: the plugin's block as it is in the file, secrets masked
    diagnostics: tuple[Diagnostic, ...]
    active_env: tuple[str, ...]  #: names (never values) of the variables that we read and that are set

    @property
    def unread(self) -> tuple[str, ...]:
        """What of the configuration is there and could not be read: what is shown may not be what applies."""
        kinds = (Problem.UNREADABLE_FILE, Problem.UNREAD_VALUE)
        return tuple(note.message for note in self.diagnostics if note.problem in kinds)

    @property
    def zone(self) -> tzinfo | None:
        """The zone in which the engine writes times for people; None: that of this machine."""
        name = self.engine.timezone.value
        if not name:
            return None
        from zoneinfo import ZoneInfo

        return ZoneInfo(name)

    @property
    def clock(self) -> tzinfo | None:
        """The zone of shown times, and of typed ones that name none (docs/spec/decisions.md, "Times")."""
        return UTC if self.utc else self.zone

    @property
    def knows_state_dir(self) -> bool:
        """Whether the state folder is that of this database: one that was named, or one that holds it."""
        return self.state_dir.is_set or self.state_dir.value in self.database.value.parents

    @property
    def knows_large_files(self) -> bool:
        """Whether the folder of large files is that of this database."""
        return self.large_files_dir.is_set or self.knows_state_dir


def resolve(options: Options, environ: Mapping[str, str], *, home: Path) -> Settings:
    """Resolve all settings. Reads the two config files, what the host's includes, and its files of variables,
    and looks for a state folder's own names beside a database that is named; nothing else.

    Raises:
        ConfigurationError: the file that ``--config`` names is missing or broken.
        UsageError: an option is empty or out of range.
    """
    notes: list[Diagnostic] = []
    usual = state = _state_dir(options, environ, home)
    config = (
        _option("--config", options.config, home)
        or _from_environment("OPENCLAW_CONFIG_PATH", environ, home)
        or Sourced(state.value / _CONFIG)
    )
    files = [state.value / _VARIABLES]
    if state.source is not SettingSource.COMMAND_LINE:
        files.append(home / _GATEWAY_VARIABLES)
    host = _host_config(config, host_variables(environ, files, notes), notes)
    configured = _path(_DATABASE, state.value / "lcm.db", host.variables, host.plugin, home, notes)
    database = _option("--db", options.db, home) or configured
    hosts = _path(_DATABASE, state.value / "lcm.db", host.variables.of_files(), host.plugin, home, [])
    beside = _state_beside(database, state, hosts)
    folders, session_store = host.plugin, host.session_store
    if beside is not None:
        state = beside
        if config.source is SettingSource.DEFAULT and _is_file_or_link(beside.value / _CONFIG):
            config, notes = Sourced(beside.value / _CONFIG, beside.source, beside.name), []
            host = _host_config(config, host_variables(environ, [state.value / _VARIABLES], notes), notes)
            configured = _path(_DATABASE, state.value / "lcm.db", host.variables, host.plugin, home, notes)
            database = _option("--db", options.db, home) or configured
            folders, session_store = host.plugin, host.session_store
        else:  # the config is another installation's: what is beside the database comes before its folders
            folders = PluginConfig() if os.path.isdir(state.value / "lcm-files") else folders
            session_store = None if os.path.isdir(state.value / "agents") else session_store
    user_file = _user_config_file(environ, home)
    user = read_user_file(user_file.value, expected=user_file.is_set, diagnostics=notes)
    engine = read_engine(host.variables, host.plugin, notes)
    if options.budget is not None and options.budget < 1:
        raise UsageError("--budget must be at least 1 token.", details={"budget": options.budget})
    raw = masked(host.plugin.values, known=_KNOWN_PLUGIN_KEYS)

    def of_file(name: str, default: T) -> Sourced[T]:
        return user.values.get(name) or Sourced(default)

    def own(name: str, option: T | None, variable: str, parse: Callable[[Json], T], default: T) -> Sourced[T]:
        """A setting of our own: command line, variable, our config file, default."""
        if option is not None:
            return Sourced(option, SettingSource.COMMAND_LINE, f"--{name}")
        given = parsed(variable, environ.get(variable), parse, SettingSource.ENVIRONMENT, notes)
        return given or of_file(name, default)

    return Settings(
        state_dir=state,
        credentials_dir=usual.value,
        database=database,
        engine_database=configured,
        large_files_dir=_path(_LARGE_FILES, state.value / "lcm-files", host.variables, folders, home, notes),
        sessions=_option("--sessions", options.sessions, home)
        or _session_store(session_store, home, notes)
        or Sourced(state.value / "agents"),
        config_file=config,
        config_found=host.found,
        config_unusable=host.unusable,
        plugin_place=host.plugin.place,
        agents=Sourced(host.agents, SettingSource.PLUGIN_CONFIG, _AGENTS)
        if host.agents
        else Sourced(_DEFAULT_AGENTS),
        context_engine=host.context_engine,
        user_config_file=user_file,
        utc=options.utc,
        engine=engine,
        summary=read_summary(environ, user.summary, engine, notes),
        budget=own("budget", options.budget, _BUDGET, budget_tokens, None),
        output_format=own("format", options.output_format, _FORMAT, output_format, OutputFormat.TABLE),
        theme=of_file("theme", None),
        backup_offer_mb=of_file("backup_offer_mb", BACKUP_OFFER_MB),
        write_unknown_schema=Sourced(True, SettingSource.COMMAND_LINE, "--allow-unknown-schema")
        if options.allow_unknown_schema
        else of_file("write_unknown_schema", False),
        check_seconds=of_file("check_seconds", CHECK_SECONDS),
        search_cache=of_file("search_cache", True),
        keys=user.keys,
        raw=raw if isinstance(raw, Mapping) else {},
        diagnostics=tuple(notes),
        active_env=tuple(
            sorted(
                name
                for name in ENV_NAMES
                if (
                    host.variables.is_set(name) if name in ENGINE_ENV_NAMES else environ.get(name, "").strip()
                )
            )
        ),
    )


def expand(given: str | PurePath, home: Path) -> Path:
    """A path as somebody wrote it, with a leading ``~`` replaced by *home*."""
    path = Path(given)
    return home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path


def is_too_long(path: Path) -> bool:
    """Whether no file can have this path, or a name in it."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    except ValueError:  # a NUL in it
        return False
    return False


def _option(name: str, given: str | PurePath | None, home: Path) -> Sourced[Path] | None:
    """A path of the command line; an empty one (an unset shell variable) must not mean the default."""
    if given is None:
        return None
    if not str(given).strip():
        raise UsageError(f"{name} is empty; give a path or omit it.", details={"option": name})
    path = expand(given, home)
    if is_too_long(path):
        raise UsageError(f"{name} is longer than a path can be; give another one.", details={"option": name})
    return Sourced(path, SettingSource.COMMAND_LINE, name)


def _session_store(given: Json, home: Path, notes: list[Diagnostic]) -> Sourced[Path] | None:
    """Where the host keeps its sessions instead (docs/spec/host.md, "Where the sessions are")."""
    store = parsed(_STORE, given, plain_text, SettingSource.PLUGIN_CONFIG, notes)
    if store is None:
        return None
    from lcm_core.base.paths import HOST_STORES

    path = expand(store.value, home)
    if not path.is_absolute():
        message = f"{_STORE} is a relative path; it is resolved from the current folder."
        notes.append(Diagnostic(Problem.RELATIVE_PATH, _STORE, message))
    of_agents = next((at for at, part in enumerate(path.parts) if _AGENT in part), None)
    if of_agents is not None:
        path = Path(*path.parts[:of_agents])
    elif path.suffix not in HOST_STORES:
        path = path.parent
    return Sourced(path, SettingSource.PLUGIN_CONFIG, _STORE)


def _from_environment(name: str, environ: Mapping[str, str], home: Path) -> Sourced[Path] | None:
    given = environ.get(name, "").strip()
    return Sourced(expand(given, home), SettingSource.ENVIRONMENT, name) if given else None


def _state_dir(options: Options, environ: Mapping[str, str], home: Path) -> Sourced[Path]:
    """--openclaw-dir, LCM_OPENCLAW_DIR, OPENCLAW_STATE_DIR, OPENCLAW_HOME/.openclaw, HOME/.openclaw."""
    if options.openclaw_dir is not None and str(options.openclaw_dir).strip():
        return _option("--openclaw-dir", options.openclaw_dir, home) or Sourced(home)
    for name in _STATE_ENV:
        found = _from_environment(name, environ, home)
        if found is not None:
            return found
    host_home = _from_environment("OPENCLAW_HOME", environ, home)
    if host_home is not None:
        return Sourced(host_home.value / ".openclaw", host_home.source, host_home.name)
    return Sourced(home / ".openclaw")


def _state_beside(
    database: Sourced[Path], state: Sourced[Path], configured: Sourced[Path]
) -> Sourced[Path] | None:
    """The folder of a named database as its state folder, where none is named and that folder looks like one.

    Not so for the database that the host's config names: its folders are those of that config. Source:
    docs/configuration.md, "A database in another state folder".
    """
    named = database.source in (SettingSource.COMMAND_LINE, SettingSource.ENVIRONMENT)
    if not named or state.is_set or configured.value == database.value:
        return None
    folder = database.value.parent
    if folder == state.value or not any(os.path.lexists(folder / one) for one in _MARKS_OF_A_STATE_FOLDER):
        return None
    return Sourced(folder, database.source, database.name)


def _is_file_or_link(path: Path) -> bool:
    """Whether a file is there, or a link to something that is not: that cannot be read, and that is said."""
    return os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))


def _host_config(config: Sourced[Path], variables: HostVariables, notes: list[Diagnostic]) -> HostConfig:
    return read_host_config(
        config.value,
        variables,
        named=config.source is SettingSource.COMMAND_LINE and config.name == "--config",
        expected=config.source is SettingSource.ENVIRONMENT,
        diagnostics=notes,
    )


def _user_config_file(environ: Mapping[str, str], home: Path) -> Sourced[Path]:
    return _from_environment("LCM_TUI_CONFIG", environ, home) or Sourced(default_user_file(environ, home))


def _path(
    key: Key,
    default: Path,
    variables: HostVariables,
    plugin: PluginConfig,
    home: Path,
    notes: list[Diagnostic],
) -> Sourced[Path]:
    found = first_valid(key, variables, plugin, notes)
    if found is None:
        return Sourced(default)
    path = expand(str(found.value), home)
    if found.source is SettingSource.PLUGIN_CONFIG and not path.is_absolute():
        # The host takes it from its own working folder, which nobody can know here.
        message = f"{found.name} is a relative path; it is resolved from the current folder."
        notes.append(Diagnostic(Problem.RELATIVE_PATH, found.name, message))
    return Sourced(path, found.source, found.name)
