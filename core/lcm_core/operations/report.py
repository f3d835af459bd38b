"""What a bug report needs to say of a machine, settings, a database and the log, and nothing of the content.

Everything is left out unless it is a number, on a list of this module, or proven to be of the program itself
(docs/spec/hostile-files.md, "Reports"). No text of a database, no title, key, path or name of a user gets in;
of the log stay times, names of errors and places in code that exists.
"""

from __future__ import annotations

import builtins
import os
import platform
import re
import sqlite3
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import lcm_core
from lcm_core.base.errors import LcmError
from lcm_core.base.findings import Report
from lcm_core.base.setting_values import Json, JsonObject
from lcm_core.base.settings import Settings
from lcm_core.base.settings_listed import config_view, sourced_settings
from lcm_core.base.text import counted
from lcm_core.base.times import iso_z
from lcm_core.store.database import Database, Reader
from lcm_core.store.rows import row_count
from lcm_core.store.schema import BASE, ESSENTIAL, FEATURES, JOURNAL

FORMAT: Final = "lcm-tui report"
VERSION: Final = 1
#: The end of the log that is read, in bytes, and entries of it that are kept.
LOG_BYTES: Final = 200_000
LOG_ENTRIES: Final = 50

_PACKAGES: Final = ("textual", "rich", "aiosqlite", "click", "rapidfuzz", "anthropic", "openai", "jinja2")
#: Variables whose presence matters; their values are left out.
_VARIABLES: Final = (
    *("LCM_DATABASE_PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH"),
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("NO_COLOR", "COLORTERM", "TERM", "LANG", "TMUX", "SSH_TTY"),
)
#: Words that a setting may hold and that say nothing of anybody.
_WORDS: Final = frozenset(
    {
        *("anthropic", "openai", "openrouter", "ollama", "extractive", "json", "table", "dark", "light"),
        *("auto", "full"),
    }
)
_TABLES: Final = tuple(dict.fromkeys((*ESSENTIAL, *BASE, *(table for _, table, _ in FEATURES), JOURNAL)))
_ENTRY: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ \d+ (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
)
_FRAME: Final = re.compile(
    r'\s+File "(?P<path>[^"\n]+)", line (?P<line>\d{1,6}), in (?P<name>[\w<>]{1,100})\s*'
)
_RAISED: Final = re.compile(r"(?:[a-z_]\w*\.)*(?P<name>[A-Z]\w{0,80})(?::|$)")


def machine() -> JsonObject:
    """Versions of the program, of what it depends on, and of the system."""
    return {
        "lcm-tui": lcm_core.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "encoding": sys.getfilesystemencoding(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "variables": [name for name in _VARIABLES if os.environ.get(name)],
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def settings_masked(settings: Settings) -> JsonObject:
    """Every setting that applies, by name, with where it came from; texts only when they say nothing."""
    view = config_view(settings)
    return {
        "values": {
            name: {"value": _masked(_at(view.effective, name.split("."))), "from": kind}
            for name, kind in sorted(_kinds(settings).items())
        },
        "complaints": len(view.diagnostics),
    }


def _kinds(settings: Settings) -> Mapping[str, str]:
    """Names of settings with the kind of their source; the name of it may be a path."""
    return {name: str(sourced.source) for name, sourced in sourced_settings(settings).items()}


def _at(value: Json, steps: Iterable[str]) -> Json:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _masked(value: Json) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if value in _WORDS else "(a text)"
    return f"({counted(len(value), 'value')})"


async def database_facts(database: Database) -> JsonObject:
    """How large the file is, which engine wrote it, how it is read, and how many rows there are."""
    schema, state = database.schema, database.state
    known = [table for table in _TABLES if schema.has(table)]
    return {
        "engine": schema.version,
        "missing": list(schema.missing),
        "access": str(database.access),
        "bytes": None if state is None else state.size,
        "walBytes": None if state is None else state.wal_size,
        "rows": await database.read(_counts, known),
        "otherTables": len(schema.tables) - len(known),
        "pages": await database.read(_pages),
    }


async def _counts(reader: Reader, tables: Iterable[str]) -> JsonObject:
    return {table: await row_count(reader, table) for table in tables}


async def _pages(reader: Reader) -> JsonObject:
    return {
        name: await reader.value(f"PRAGMA {name}")
        for name in ("page_size", "page_count", "freelist_count", "user_version", "encoding")
    }


def findings_counted(report: Report) -> JsonObject:
    """How often each check found something, and which were not run; no sentence of either."""
    return {
        "findings": {one.check.id: one.finding_count for one in report.results if one.finding_count},
        "notRun": [one.check.id for one in report.not_run],
        "checks": len(report.results),
    }


def failure(error: LcmError) -> JsonObject:
    """Why something could not be looked at: the code alone, for the sentence may name a path."""
    return {"failed": error.code, "exitCode": int(error.exit_code)}


def log_entries(path: Path) -> list[Json]:
    """The last entries of the log: when, how bad, what kinds of errors, and where in known code."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(descriptor).st_size - LOG_BYTES))
            text = file.read(LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    entries: list[list[str]] = []
    for line in text.splitlines():
        if _ENTRY.match(line):
            entries.append([line])
        elif entries:
            entries[-1].append(line)
    return [_entry(lines) for lines in entries[-LOG_ENTRIES:]]


def _entry(lines: list[str]) -> JsonObject:
    head = _ENTRY.match(lines[0])
    assert head is not None
    frames = [place for line in lines[1:] if (match := _FRAME.fullmatch(line)) and (place := _place(match))]
    raised = [match["name"] for line in lines[1:] if (match := _RAISED.match(line))]
    return {
        "at": head["time"],
        "level": head["level"],
        "errors": [name if name in _errors() else "(another error)" for name in raised][:10],
        "places": frames[-30:],
    }


def _place(match: re.Match[str]) -> str | None:
    """A place in code that is there: of this program, of a package it depends on, or of Python."""
    found = _source(match["path"])
    if found is None:
        return None
    shown, names = found
    name = match["name"]
    return f"{shown}:{match['line']} {name if name in names else '?'}"


@cache
def _source(path: str) -> tuple[str, frozenset[str]] | None:
    """How a source file is named in a report, and the names in it; None when it is no file of the program."""
    roots = [Path(lcm_core.__file__).parent.parent, *map(Path, _installed())]
    if program := sys.modules.get("lcm_tui"):
        roots.insert(0, Path(str(program.__file__)).parent.parent)
    whole = Path(os.path.abspath(path))
    for root in roots:
        if root in whole.parents and whole.suffix == ".py":
            try:
                text = whole.read_text("utf-8", "replace")
            except OSError:
                return None
            special = {"<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}
            return whole.relative_to(root).as_posix(), frozenset(
                re.findall(r"\b(?:def|class) (\w+)", text)
            ) | special
    return None


def _installed() -> list[str]:
    paths = sysconfig.get_paths()
    return list(dict.fromkeys(paths[name] for name in ("purelib", "platlib", "stdlib")))


@cache
def _errors() -> frozenset[str]:
    """Names of errors that are in Python, SQLite or this program."""
    ours = {
        name
        for folder in (Path(lcm_core.__file__).parent, _beside("lcm_tui"))
        if folder is not None
        for file in folder.rglob("*.py")
        for name in re.findall(r"^class (\w+)", file.read_text("utf-8", "replace"), re.M)
    }
    return frozenset(ours | set(vars(builtins)) | set(vars(sqlite3)))


def _beside(name: str) -> Path | None:
    module = sys.modules.get(name)
    return None if module is None or module.__file__ is None else Path(module.__file__).parent


def report_document(parts: Mapping[str, Json], now: datetime | None = None) -> JsonObject:
    """The report as one document."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "madeAt": iso_z(now or datetime.now(UTC)),
        **parts,
    }
