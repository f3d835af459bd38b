"""The host's configuration: ``openclaw.json``, what it includes, the variables in it, and ``.env`` beside it.

Only the plugin's block leaves this module, with its secrets masked, where the host's sessions are, and what
its agents are called: the rest of these files holds the operator's credentials and is none of our business.
No program is started for any value. Rules: docs/spec/host.md, "openclaw.json" and "Variables of the host".
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeGuard

from lcm_core.base.errors import ConfigurationError, FileMissingError
from lcm_core.base.files import read_limited, reason_of
from lcm_core.base.setting_values import (
    MAX_CONFIG_BYTES,
    Diagnostic,
    Json,
    JsonObject,
    Problem,
    invalid_value,
    is_unset,
    object_or_empty,
    unusable_file,
)
from lcm_core.base.values import Record, field, replace

PLUGIN_ID: Final = "lossless-claw"
MASK: Final = "***"
#: What is nested deeper than this is not kept.
MAX_DEPTH: Final = 50

INCLUDE: Final = "$include"
#: The host's own limits of an included file, and ours of how many are read for one configuration.
MAX_INCLUDED_BYTES: Final = 2 * 1024 * 1024
MAX_LEVELS: Final = 10
MAX_INCLUDES: Final = 1_000
#: Names that no merged object has, because they mean something else in the host's language.
_LEFT_OUT: Final = frozenset({"__proto__", "constructor", "prototype"})
#: A file of variables beyond this size is none.
MAX_ENV_BYTES: Final = 1024 * 1024

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS: Final = frozenset(
    {"apikey", "authorization", "bearer", "cookie", "credential", "credentials"}
    | {"passphrase", "passwd", "password", "passwords", "secret", "secrets"}
)
_VARIABLE: Final = r"\$(\$?)\{(?:([A-Z_][A-Z0-9_]*)|((?:go)?pass:[^{}]*))\}"


# -- variables --------------------------------------------------------------------------------------------


class _Layer(Record, frozen=True):
    """Variables of one file; *fills_blank*: one that is there and blank counts as missing."""

    UNPRINTED: ClassVar = ("values",)
    place: str
    values: Mapping[str, str]
    fills_blank: bool = False


class HostVariables(Record, frozen=True):
    """The environment of the host as far as it can be known: ours, then what its files add to it.

    What only the service of the gateway sets cannot be known.
    """

    UNPRINTED: ClassVar = ("ours",)
    ours: Mapping[str, str]
    files: tuple[_Layer, ...] = ()

    def find(self, name: str) -> tuple[str | None, str]:
        """The value of a variable, and the file that it comes from; no file: our own environment."""
        value, place = self.ours.get(name), ""
        for layer in self.files:
            if value is None or (layer.fills_blank and not value.strip()):
                added = layer.values.get(name)
                value, place = (value, place) if added is None else (added, layer.place)
        return value, place

    def is_set(self, name: str) -> bool:
        """Whether a variable has a value that is not blank."""
        return bool((self.find(name)[0] or "").strip())

    def of_files(self) -> HostVariables:
        """What the host's files say, whatever is set here."""
        return HostVariables({}, self.files)

    def filled(self, value: Json) -> Json:
        """A value of the configuration with the variables in its texts replaced.

        Raises:
            ValueError: one is not known, or is not read; the reason continues "X is Y, ...".
        """
        try:
            return self._filled(value)
        except RecursionError:
            raise ValueError("which is nested too deeply") from None

    def _filled(self, value: Json) -> Json:
        if isinstance(value, str):
            return re.sub(_VARIABLE, self._text_of, value) if "${" in value else value
        if isinstance(value, Mapping):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, Sequence):
            return [self._filled(one) for one in value]
        return value

    def _text_of(self, match: re.Match[str]) -> str:
        escaped, name, program = match.groups()
        if escaped:
            return match[0][1:]
        if program is not None:
            raise ValueError("which only a program can read, and lcm-tui starts none")
        value = self.find(name)[0]
        if not value:
            raise ValueError(f"in which {name} is not set here (the gateway may have it from its service)")
        if _names_a_secret(name, _as_number(value), frozenset()):
            raise ValueError(f"in which {name} is a secret by its name, which lcm-tui does not read")
        return value


def _as_number(text: str) -> Json:
    try:
        return float(text)
    except ValueError:
        return text


def host_variables(
    environ: Mapping[str, str], files: Sequence[Path], diagnostics: list[Diagnostic]
) -> HostVariables:
    """Our environment, and behind it the host's *files* of variables in their order; blocks."""
    layers = []
    for path in files:
        try:
            content = read_limited(path, MAX_ENV_BYTES)
            layers.append(_Layer(str(path), _dotenv(_decoded(content))))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            diagnostics.append(unusable_file("file of variables", path, reason_of(error)))
    return HostVariables(environ, tuple(layers))


def _dotenv(text: str) -> Mapping[str, str]:
    """The variables of a file in dotenv's format; the last of equal names counts."""
    line = re.compile(
        r"^[^\S\n]*(?:export[^\S\n]+)?([A-Za-z0-9_.-]+)(?:[^\S\n]*=|:[^\S\n])[^\S\n]*"
        r"('(?:\\'|[^'])*'|\"(?:\\\"|[^\"])*\"|`(?:\\`|[^`])*`|[^#\n]*)[^\S\n]*(?:#.*)?$",
        re.MULTILINE,
    )
    found = {}
    for name, written in line.findall(text.replace("\r\n", "\n").replace("\r", "\n")):
        value = written.strip()
        quote = value[:1]
        if len(value) > 1 and quote in "'\"`" and value.endswith(quote):
            value = value[1:-1]
        if quote == '"':
            value = value.replace("\\n", "\n").replace("\\r", "\r")
        found[name] = value
    return found


def _block_layer(document: JsonObject, path: Path) -> _Layer:
    """The configuration's own variables: texts that are not blank, ``env.NAME`` before ``env.vars.NAME``."""
    block = object_or_empty(document.get("env"))
    named = (*object_or_empty(block.get("vars")).items(), *block.items())
    values = {name: one for name, one in named if isinstance(one, str) and one.strip()}
    return _Layer(f"env of {path}", values, fills_blank=True)


def _note_shell(document: JsonObject, variables: HostVariables, diagnostics: list[Diagnostic]) -> None:
    """Say that the host takes variables from a login shell, which is never started here."""
    enabled = object_or_empty(object_or_empty(document.get("env")).get("shellEnv")).get("enabled") is True
    where = "env.shellEnv.enabled" if enabled else "OPENCLAW_LOAD_SHELL_ENV"
    if enabled or (variables.find(where)[0] or "").strip().lower() in {"1", "true", "yes", "on"}:
        message = f"{where} is set: the host adds variables of a login shell, which lcm-tui does not start."
        diagnostics.append(Diagnostic(Problem.LOGIN_SHELL, where, message))


# -- the file ---------------------------------------------------------------------------------------------


class PluginConfig(Record, frozen=True):
    """The plugin's block of the host's config, as it is written: with variables in it."""

    place: str = ""  #: dotted path of the block; empty when there is none
    values: JsonObject = field(default_factory=dict)
    file: str = ""  #: the config file

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


class HostConfig(Record, frozen=True):
    """What was read from the host's config file."""

    found: bool = False  #: whether there is such a file
    unusable: str = ""  #: why nothing of it counts; empty: it counts
    variables: HostVariables = field(default_factory=lambda: HostVariables({}))
    plugin: PluginConfig = field(default_factory=PluginConfig)
    context_engine: str | None = None  #: ``plugins.slots.contextEngine``
    session_store: Json = None  #: ``session.store``, as it is written
    agents: tuple[str, ...] = ()  #: ``agents.list[].id``, in their order


def read_host_config(
    path: Path,
    variables: HostVariables,
    *,
    named: bool,
    expected: bool,
    diagnostics: list[Diagnostic],
) -> HostConfig:
    """Read the host's config and what it includes; a missing file is an empty one.

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
        _note_shell({}, variables, diagnostics)
        return HostConfig(variables=variables)
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        if named:
            raise ConfigurationError(
                f"The config file {path} cannot be used: {reason}. Fix it, or omit --config.",
                details={"path": str(path), "reason": reason},
            ) from None
        diagnostics.append(unusable_file("config file", path, reason))
        return HostConfig(True, reason, variables)
    variables = replace(variables, files=(*variables.files, _block_layer(document, path)))
    _note_shell(document, variables, diagnostics)

    def filled(place: str, value: Json) -> Json:
        try:
            return variables.filled(value)
        except ValueError as error:
            diagnostics.append(unread_value(place, str(path), value, str(error)))
            return None

    plugins = object_or_empty(document.get("plugins"))
    engine = filled("plugins.slots.contextEngine", object_or_empty(plugins.get("slots")).get("contextEngine"))
    slot = engine if isinstance(engine, str) and engine.strip() else None
    store = filled("session.store", object_or_empty(document.get("session")).get("store"))
    agents = object_or_empty(document.get("agents")).get("list")
    return HostConfig(
        True,
        "",
        variables,
        replace(_plugin_block(plugins, slot, diagnostics), file=str(path)),
        slot,
        store,
        _agents(agents, filled),
    )


def unread_value(place: str, file: str, value: Json, reason: str) -> Diagnostic:
    """The diagnostic for a value with a variable that is not read; the value is quoted as it is written."""
    message = invalid_value(f"{place} in {file}", value, reason).message
    return Diagnostic(Problem.UNREAD_VALUE, place, message)


def _agents(listed: Json, filled: Callable[[str, Json], Json]) -> tuple[str, ...]:
    """The ids of a list of agents; what has none is passed over."""
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return ()
    ids = (filled("agents.list", object_or_empty(one).get("id")) for one in listed)
    return tuple(dict.fromkeys(one.strip() for one in ids if isinstance(one, str) and one.strip()))


def _decoded(content: bytes) -> str:
    """The text of a file of the host's.

    Raises:
        ValueError: it is none; why.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("it is UTF-16, not UTF-8; save it as UTF-8")
    if b"\0" in content:
        raise ValueError("it contains NUL bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None


def _parsed(content: bytes) -> Json:
    """The value of a file in JSON5.

    Raises:
        ValueError: it cannot be used; why.
    """
    text = _decoded(content)
    if not text.strip():
        raise ValueError("it is empty")
    from lcm_core.base import json5

    try:
        return json5.loads(text)
    except ValueError as error:
        markers = re.search(r"^(?:<{7}|={7}|>{7})(?:\s|$)", text, re.MULTILINE)
        if markers is None:
            raise
        line = text.count("\n", 0, markers.start()) + 1
        raise ValueError(f"it has the conflict markers of a merge from line {line} on") from error


def _document(path: Path, *, regular_only: bool) -> JsonObject:
    """The configuration with what it includes.

    A pipe is only opened when the user named it (``--config <(...)``).

    Raises:
        OSError: it cannot be read.
        ValueError: it, or a file that it includes, cannot be used; why.
    """
    content = read_limited(path, MAX_CONFIG_BYTES, regular_only=regular_only)
    if not content and not path.is_file():  # `--config /dev/null`: none
        return {}
    document = _parsed(content)
    try:
        whole = _Including(path).resolved(document) if _includes(document) else document
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(whole, Mapping):
        raise ValueError("it does not contain an object")
    return whole


def _includes(value: Json) -> bool:
    """Whether there is an include at any depth."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, Mapping):
            if INCLUDE in one:
                return True
            rest += one.values()
        elif _is_list(one):
            rest += one
    return False


class _Including:
    """Puts the content of files in the place of ``$include``, as the host does."""

    def __init__(self, config: Path) -> None:
        self._folder = os.path.dirname(os.path.abspath(config))
        self._real_folder = os.path.realpath(self._folder)
        self._stack = [os.path.realpath(config)]  #: the real paths of the files that are being read
        self._files = 0
        self._at = os.path.abspath(config)  #: the file that `resolved` is reading

    def resolved(self, value: Json) -> Json:
        """A value of the file that is being read, with everything that it includes."""
        if isinstance(value, Mapping):
            if INCLUDE in value:
                return self._merged(value)
            return {name: self.resolved(one) for name, one in value.items()}
        return [self.resolved(one) for one in value] if _is_list(value) else value

    def _merged(self, value: JsonObject) -> Json:
        given = value[INCLUDE]
        names = [given] if isinstance(given, str) else given
        if not _is_list(names):
            raise self._wrong("is neither a path nor a list of paths")
        included: Json = {}
        for name in names:
            if not isinstance(name, str):
                raise self._wrong("has something in its list that is no path")
            content = self._read(name)
            included = content if isinstance(given, str) else _merge(included, content)
        own = {name: self.resolved(one) for name, one in value.items() if name != INCLUDE}
        if own and not isinstance(included, Mapping):
            raise self._wrong("has keys beside it, and what it includes is no object")
        return _merge(included, own) if own else included

    def _read(self, name: str) -> Json:
        path = os.path.normpath(os.path.join(os.path.dirname(self._at), name))
        try:
            real = os.path.realpath(path)
            self._check(path, real)
            content = _parsed(read_limited(Path(real), MAX_INCLUDED_BYTES))
        except (OSError, ValueError) as error:
            reason = reason_of(error)
            raise ValueError(f"{path}, which {self._at} includes, cannot be used: {reason}") from None
        before, self._at = self._at, path
        self._stack.append(real)
        try:
            return self.resolved(content)
        finally:
            self._stack.pop()
            self._at = before

    def _check(self, path: str, real: str) -> None:
        self._files += 1
        if not (_is_inside(path, self._folder) and _is_inside(real, self._real_folder)):
            raise ValueError(f"it is outside {self._folder}")
        if real in self._stack:
            raise ValueError("it includes itself, in a circle")
        if len(self._stack) > MAX_LEVELS:
            raise ValueError(f"it is more than {MAX_LEVELS} files deep")
        if self._files > MAX_INCLUDES:
            raise ValueError(f"more than {MAX_INCLUDES:,} files are included")
        found = os.stat(real)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_nlink > 1:
            raise ValueError("it has further hard links, which the host refuses")

    def _wrong(self, problem: str) -> ValueError:
        return ValueError(f"an {INCLUDE} in {self._at} {problem}")


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _merge(first: Json, later: Json) -> Json:
    """Objects key by key, lists one behind the other; else what is later wins."""
    if isinstance(first, Mapping) and isinstance(later, Mapping):
        merged = {name: one for name, one in first.items() if name not in _LEFT_OUT}
        for name, one in later.items():
            if name not in _LEFT_OUT:
                merged[name] = _merge(merged[name], one) if name in merged else one
        return merged
    if _is_list(first) and _is_list(later):
        return [*first, *later]
    return later


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


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
