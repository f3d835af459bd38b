"""What a payload is made of, in a few lines: the exploration summary that stands for it (engine.md 5).

JSON, tables, YAML and XML are read by libraries, code and text by their lines. Everything is bounded, for a
payload is as large and as hostile as anything that a user sends.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Final, NoReturn

from lcm_core.ingest.explore_code import CODE_ENDINGS, explore_code
from lcm_core.ingest.explore_markup import explore_xml, explore_yaml
from lcm_core.ingest.jsonl import Json
from lcm_core.javascript import ordered

#: Names, headings and columns that are listed at most, and characters of each.
LISTED: Final = 24
WIDTH: Final = 160
#: Characters of a text's beginning and end that are quoted.
_EXCERPT: Final = 600
_FAILURES = (ValueError, RecursionError, csv.Error)


def explore(text: str, name: str, mime: str) -> str:
    """The exploration summary of a text; what cannot be read as what it is called is summarised as text."""
    kind = kind_of(name, mime)
    try:
        if found := _EXPLORERS[kind](text, name):
            return found
    except _FAILURES:
        pass
    return explore_text(text, name)


def kind_of(name: str, mime: str) -> str:
    """json, csv, tsv, yaml, xml, code or text."""
    ending = PurePosixPath(name).suffix.lower().removeprefix(".")
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if ending in CODE_ENDINGS:
        return "code"
    main = mime.partition(";")[0].strip().lower()
    found = next((kind for kind, words in _MIMES.items() if any(word in main for word in words)), None)
    return found or ("code" if main.startswith("text/x-") else "text")


def image_summary(name: str, mime: str, size: int) -> str:
    """What stands for an image: its kind, size and name."""
    kind = mime.partition("/")[2].partition(";")[0].partition("+")[0].upper() or "unknown"
    return f"Image file ({kind}, {size:,} bytes) — {name}"


def _explore_json(text: str, name: str) -> str:
    value: Json = json.loads(text, parse_constant=_refuse)
    lines = ["Structured summary (JSON):", f"Top-level type: {_type(value)}.", f"Shape: {_shape(value)}."]
    return "\n".join(lines)


def _refuse(name: str) -> NoReturn:
    """``NaN`` is written by many and read by no ``JSON.parse``."""
    raise ValueError(name)


def _shape(value: Json, depth: int = 0) -> str:
    if isinstance(value, dict):
        shown = ", ".join(_short(key) for key, _ in itertools.islice(ordered(value), LISTED))
        more = ", …" if len(value) > LISTED else ""
        return f"object(keys={len(value)}{': ' if value else ''}{shown}{more})"
    if isinstance(value, list):
        if not value or depth >= 2:
            return f"array(length={len(value)})"
        return f"array(length={len(value)}, first={_shape(value[0], depth + 1)})"
    return _type(value)


def _type(value: Json) -> str:
    if value is None:
        return "null"
    return _TYPES[type(value)]


_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
}


def _explore_table(text: str, kind: str, delimiter: str) -> str:
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff\r\n")), delimiter=delimiter)
    header = next(rows, [])
    first = next((row for row in rows if any(row)), [])
    count = bool(first) + sum(1 for row in rows if any(row))
    if not header:
        return ""
    columns = ", ".join(_short(column) for column in header[:LISTED])
    lines = [
        f"Structured summary ({kind}):",
        f"Rows: {count:,}.",
        f"Columns ({len(header)}): {columns}{', …' if len(header) > LISTED else ''}.",
    ]
    if first:
        lines.append(f"First row: {', '.join(_short(cell) for cell in first[:LISTED])}.")
    return "\n".join(lines)


def explore_text(text: str, name: str) -> str:
    """The size of a text, its headings, and how it begins and ends."""
    lines = text.split("\n")
    headings = [_short(line) for line in itertools.islice(filter(_is_heading, lines), LISTED)]
    found = [
        f"Text exploration summary ({name}):",
        f"Characters: {len(text):,}. Words: {_words(text):,}. Lines: {len(lines):,}.",
        f"Headings ({len(headings)}): {' | '.join(headings) or 'none detected'}.",
    ]
    body = text.strip()
    if len(body) <= 2 * _EXCERPT:
        return "\n".join([*found, "Text:", body])
    return "\n".join([*found, "It begins:", body[:_EXCERPT].rstrip(), "It ends:", body[-_EXCERPT:].lstrip()])


def _words(text: str) -> int:
    return sum(
        1 for _ in itertools.islice((word for line in text.split("\n") for word in line.split()), 10**7)
    )


def _is_heading(line: str) -> bool:
    stripped = line.strip()
    return len(stripped) <= WIDTH and stripped.startswith("#") and stripped.lstrip("#").startswith(" ")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


_ENDINGS: Final = {
    "json": "json",
    "csv": "csv",
    "tsv": "tsv",
    "yaml": "yaml",
    "yml": "yaml",
    "xml": "xml",
    "svg": "xml",
    "md": "text",
    "txt": "text",
    "log": "text",
}
_MIMES: Final = {
    "json": ("json",),
    "csv": ("csv",),
    "tsv": ("tab-separated",),
    "yaml": ("yaml",),
    "xml": ("xml",),
    "code": ("javascript", "typescript", "python", "x-sh", "x-c", "x-java", "x-go", "x-rust", "x-ruby"),
}
_EXPLORERS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "json": _explore_json,
    "csv": lambda text, _: _explore_table(text, "CSV", ","),
    "tsv": lambda text, _: _explore_table(text, "TSV", "\t"),
    "yaml": lambda text, _: explore_yaml(text),
    "xml": lambda text, _: explore_xml(text),
    "code": explore_code,
    "text": explore_text,
}
