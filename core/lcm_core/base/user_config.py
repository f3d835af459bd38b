"""Writing a setting that was chosen in the app into our config file, and leaving everything else as it is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from lcm_core.base.errors import ConfigurationError
from lcm_core.base.files import make_private, read_limited, write_private
from lcm_core.base.setting_values import MAX_CONFIG_BYTES


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
