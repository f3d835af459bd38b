"""The forms that programs read: JSON as JavaScript writes it, the engine's tab-separated table, CSV of lists.

The first two are the engine's own (docs/spec/command.md, "Envelope"): a script can use either program.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from lcm_core.base.setting_values import Json, JsonObject
from lcm_core.base.text import safe_line

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAYBE_UNSAFE = re.compile(r"[^\x20-\x7e\n]")
#: How a formula begins for a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_BREAKS = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}


#: Values of a list that are written at a time.
_PART = 1_000


def json_text(value: Json, *, pretty: bool = False, for_terminal: bool = False) -> str:
    """*value* as `json_pieces` writes it."""
    return "".join(json_pieces(value, pretty=pretty, for_terminal=for_terminal))


def json_pieces(value: Json, *, pretty: bool = False, for_terminal: bool = False) -> Iterator[str]:
    """*value* as ``JSON.stringify`` gives it, piece by piece: compact, nothing escaped that need not be.

    *for_terminal* also escapes what a terminal would obey or hide (controls, bidi, invisible characters);
    a reader of the JSON gets the same values.
    """
    separators = None if pretty else (",", ":")
    indent = 2 if pretty else None
    encode = json.JSONEncoder(ensure_ascii=False, separators=separators, indent=indent, default=_plain).encode
    for piece in _pieces(value, encode, "\n" if pretty else ""):
        text = _LONE_SURROGATE.sub(_escaped, piece)
        yield _MAYBE_UNSAFE.sub(_escaped_if_unsafe, text) if for_terminal else text


def _pieces(value: Json, encode: Callable[[Json], str], margin: str) -> Iterator[str]:
    """A value in pieces that together are what *encode* gives for it.

    *margin* is a line break and the indentation of the value, or empty.
    """
    inner = margin and f"{margin}  "
    if isinstance(value, dict) and value:
        before = "{"
        for name, one in value.items():
            yield f"{before}{inner}{encode(name)}:{margin and ' '}"
            yield from _pieces(one, encode, inner)
            before = ","
        yield f"{margin}}}"
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        before = "["
        for part in _parts(value):
            lines = encode(part)[1 : -2 if margin else -1]  # without the brackets of the part
            yield before + (lines.replace("\n", margin) if margin else lines)
            before = ","
        yield f"{margin}]"
    else:
        text = encode(value)
        yield text.replace("\n", margin) if margin else text


def _parts(values: Sequence[Json]) -> Iterator[Sequence[Json]]:
    return (values[at : at + _PART] for at in range(0, len(values), _PART))


def table_lines(envelope: JsonObject, *, for_terminal: bool = False) -> Iterator[str]:
    """An envelope as lines of tab-separated fields: a table when its data holds items, else name and value.

    What has names or items of its own is one field, as JSON. Tabs and line breaks inside a value are written
    ``\\t`` and ``\\n``: a line is always one row.
    """
    for fields in _table(envelope):
        text = "\t".join(fields)
        if for_terminal:
            lines = ("\t".join(map(safe_line, line.split("\t"))) for line in text.split("\n"))
            text = "\n".join(lines)
        yield f"{text}\n"


def _table(envelope: JsonObject) -> Iterator[list[str]]:
    data = envelope["data"]
    yield ["command", _cell(envelope["command"])]
    if isinstance(data, Mapping):
        items = data.get("items")
        if isinstance(items, Sequence) and not isinstance(items, str):
            yield from _rows(items)
            data = {key: value for key, value in data.items() if key != "items"}
        yield from _fields("data", data)
    for key in ("pagination", "meta"):
        yield from _fields(key, envelope.get(key))


def csv_lines(
    envelope: JsonObject, names: Sequence[str] = (), *, for_terminal: bool = False
) -> Iterator[str]:
    """The items of a list as CSV (RFC 4180): a row of names, then a row for each; nothing but the items.

    None is an empty field, what has items or names of its own is JSON. A text that a spreadsheet would take
    for a formula gets a ``'`` before it: it comes from whoever talked to the agent. An empty list has its row
    of *names* too.
    """
    data = envelope["data"]
    items = data["items"] if isinstance(data, Mapping) else ()
    listed = list(_mappings(items)) if isinstance(items, Sequence) else []
    names = _names(listed, names)
    written = io.StringIO()
    table = csv.writer(written)
    if names:
        table.writerow(names)
    for row in listed:
        table.writerow([_csv_cell(row.get(name), for_terminal=for_terminal) for name in names])
        yield written.getvalue()
        written.seek(0)
        written.truncate()
    yield written.getvalue()


def _mappings(items: Iterable[Json]) -> Iterator[Mapping[str, Json]]:
    return (item for item in items if isinstance(item, Mapping))


def _names(rows: Iterable[Mapping[str, Json]], first: Sequence[str] = ()) -> list[str]:
    """The columns of a list: the usual ones *first*, then others that an item has."""
    return list(dict.fromkeys([*first, *dict.fromkeys(name for row in rows for name in row)]))


def _csv_cell(value: Json, *, for_terminal: bool) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return json_text(value, for_terminal=for_terminal)
    text = safe_line(value) if for_terminal else value
    return f"'{text}" if text.startswith(_FORMULA) else text


def _plain(value: object) -> Json:
    """Bytes that stand where the schema means text as text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _rows(items: Sequence[Json]) -> Iterator[list[str]]:
    rows = list(_mappings(items))
    names = _names(rows)
    if names:
        yield names
    for row in rows:
        yield [_cell(row.get(name)) for name in names]


def _fields(path: str, value: Json) -> Iterator[list[str]]:
    if isinstance(value, Mapping):
        yield from ([f"{path}.{key}", _cell(inner)] for key, inner in value.items())
    elif value is not None:
        yield [path, _cell(value)]


def _cell(value: Json) -> str:
    text = value if isinstance(value, str) else json_text(value)
    return text.translate(_BREAKS) if isinstance(value, str) else text


def _escaped(match: re.Match[str]) -> str:
    return _escape(match[0])


def _escaped_if_unsafe(match: re.Match[str]) -> str:
    character = match[0]
    return _escape(character) if _is_unsafe(character) else character


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


@lru_cache(maxsize=4096)
def _is_unsafe(character: str) -> bool:
    """Whether safe text writes the character out; marks are judged on a letter, where they belong."""
    return safe_line(f"a{character}") != f"a{character}"
