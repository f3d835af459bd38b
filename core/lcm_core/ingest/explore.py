"""What a payload is made of: the summary that replaces it (docs/engine/ingest.md, "Summaries")."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lcm_core.javascript import BLANKS, Json, first_units, last_units, ordered_members, read_json
from lcm_core.tokens import utf16_length

_BLANK_RUN: Final = re.compile(rf"[{BLANKS}]+")
_LINE_END: Final = re.compile(r"\r?\n")
_ENDING: Final = re.compile(r".\.([a-z0-9]{1,10})\Z", re.DOTALL)
_EXCERPT: Final = 500
#: How many of a kind are listed at most.
_IMPORTS, _DEFINITIONS, _HEADERS, _NAMES = 12, 24, 18, 30

_STRUCTURED_TYPES: Final = (
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/x-ndjson",
    "text/csv",
    "text/tab-separated-values",
    "text/xml",
)
_STRUCTURED_ENDINGS: Final = frozenset({"csv", "json", "tsv", "xml", "yaml", "yml"})
_CODE_TYPES: Final = (
    "application/javascript",
    "application/typescript",
    "application/x-python-code",
    "application/x-rust",
    "text/javascript",
    "text/x-c",
    "text/x-c++",
    "text/x-go",
    "text/x-java",
    "text/x-python",
    "text/x-rust",
    "text/x-script.python",
    "text/x-shellscript",
    "text/x-typescript",
)
_CODE_ENDINGS: Final = frozenset(
    {
        *("c", "cc", "cpp", "cs", "go", "h", "hpp", "java", "js", "jsx", "kt", "m", "php", "py", "rb", "rs"),
        *("scala", "sh", "sql", "swift", "ts", "tsx"),
    }
)
#: Endings by type, when the name has none.
_ENDING_OF_TYPE: Final[Mapping[str, str]] = {
    "application/json": "json",
    "application/x-ndjson": "json",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "application/csv": "csv",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/javascript": "js",
    "application/typescript": "ts",
    "text/x-typescript": "ts",
    "application/x-python-code": "py",
    "text/x-python": "py",
    "text/x-script.python": "py",
    "application/x-rust": "rs",
    "text/x-rust": "rs",
    "application/x-sh": "sh",
    "text/x-shellscript": "sh",
    "text/markdown": "md",
    "text/plain": "txt",
    "text/x-c": "c",
    "text/x-c++": "cpp",
    "text/x-go": "go",
    "text/x-java": "java",
}


def explore(text: str, name: str | None, mime: str | None) -> str:
    """The exploration summary of a text; *name* and *mime* as its message gives them."""
    ending, kind = name_ending(name), (mime or "").strip(BLANKS).lower()
    if kind.startswith(_STRUCTURED_TYPES) or ending in _STRUCTURED_ENDINGS:
        what = ending or _ENDING_OF_TYPE.get(kind, "txt")
        return _STRUCTURED.get(what, _structured_by_type(kind))(text)
    if kind.startswith(_CODE_TYPES) or ending in _CODE_ENDINGS:
        return _code(text, name)
    return _text(text, name)


def name_ending(name: str | None) -> str | None:
    """The ending of a file's name without its dot, in lower case; None when it has none."""
    found = _ENDING.search(re.split(r"[/\\]", (name or "").strip(BLANKS))[-1].lower())
    return found[1] if found else None


def stored_ending(name: str | None, mime: str | None) -> str:
    """The ending that a payload's file gets on disk, with its dot."""
    return f".{name_ending(name) or _ENDING_OF_TYPE.get((mime or '').strip(BLANKS).lower(), 'txt')}"


def image_summary(kind: str, size: int, name: str) -> str:
    """What replaces a picture: its kind, its size in bytes and its name."""
    return f"Image file ({kind.upper()}, {size:,} bytes) — {name}"


def lines_of(text: str) -> list[str]:
    """The lines of a text: they end at LF or CR LF."""
    return _LINE_END.split(text)


def _line(text: str, width: int) -> str:
    """A text as one line of at most *width* UTF-16 units."""
    one = _BLANK_RUN.sub(" ", text).strip(BLANKS)
    return one if utf16_length(one) <= width else f"{first_units(one, width)}..."


# -- structured ------------------------------------------------------------------------------------------


def _structured_by_type(kind: str) -> Callable[[str], str]:
    """How a text is read whose ending says nothing: by what its type begins with."""
    found = next((one for one in _STRUCTURED_TYPES if kind.startswith(one)), None)
    what = _ENDING_OF_TYPE[found] if found and found != "application/x-ndjson" else None
    return _STRUCTURED.get(what or "", _other)


def _json(text: str) -> str:
    try:
        value = read_json(text)
    except ValueError:
        return "Structured summary (JSON): failed to parse as valid JSON."
    kind = "array" if isinstance(value, list) else _type(value)
    return f"Structured summary (JSON):\nTop-level type: {kind}.\nShape: {_shape(value, 0)}."


def _shape(value: Json, depth: int) -> str:
    if depth >= 2:
        return "..."
    if isinstance(value, list):
        if not value:
            return "array(len=0)"
        sample = ", ".join(_shape(one, depth + 1) for one in value[:3])
        return f"array(len={len(value)}, sample=[{sample}])"
    if isinstance(value, dict):
        keys = ", ".join(key for key, _ in itertools.islice(ordered_members(value), 10))
        return f"object(keys={len(value)}{': ' if keys or value else ''}{keys})"
    return _type(value)


def _type(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, int | float) else "object"


def _table(text: str, name: str, separator: str) -> str:
    rows = [row for line in lines_of(text) if (row := line.strip(BLANKS))]
    if not rows:
        return f"Structured summary ({name}): no rows found."
    columns = [column for cell in rows[0].split(separator) if (column := cell.strip(BLANKS))]
    sample = _line(rows[1], 180) if len(rows) > 1 else "(no data rows)"
    return "\n".join(
        [
            f"Structured summary ({name}):",
            f"Rows: {len(rows) - 1:,}.",
            f"Columns ({len(columns)}): {', '.join(columns) or '(none detected)'}.",
            f"First row sample: {sample or '(no data rows)'}.",
        ]
    )


_ELEMENT: Final = re.compile(rf"<([A-Za-z0-9_:-]+)(?=[{BLANKS}>])")
_KEY: Final = re.compile(rf"^([A-Za-z0-9_.-]+):[{BLANKS}]*(?:#.*)?$")


def _xml(text: str) -> str:
    names = [found[1] for found in _ELEMENT.finditer(text)]
    root = names[0] if names else "unknown"
    others = list(dict.fromkeys([name for name in names if name != root][:_NAMES]))
    return "\n".join(
        [
            "Structured summary (XML):",
            f"Root element: {root}.",
            f"Child elements seen: {', '.join(others) or '(none detected)'}.",
        ]
    )


def _yaml(text: str) -> str:
    keys = list(dict.fromkeys(found[1] for line in lines_of(text) if (found := _KEY.match(line))))
    shown = ", ".join(keys[:_NAMES]) or "(none detected)"
    return f"Structured summary (YAML):\nTop-level keys ({len(keys)}): {shown}."


def _other(text: str) -> str:
    return f"Structured summary:\nCharacters: {utf16_length(text):,}.\nLines: {len(lines_of(text)):,}."


_STRUCTURED: Final[Mapping[str, Callable[[str], str]]] = {
    "json": _json,
    "csv": lambda text: _table(text, "CSV", ","),
    "tsv": lambda text: _table(text, "TSV", "\t"),
    "xml": _xml,
    "yaml": _yaml,
    "yml": _yaml,
}

# -- code and text ---------------------------------------------------------------------------------------

_IMPORT: Final = re.compile(
    rf"[{BLANKS}]*(?:import[{BLANKS}]|from[{BLANKS}]+[^{BLANKS}]+[{BLANKS}]+import[{BLANKS}]"
    rf"|const[{BLANKS}]+[A-Za-z0-9_$]+[{BLANKS}]*=[{BLANKS}]*require\()"
)
_DEFINITION: Final = re.compile(
    rf"(?:export[{BLANKS}]+)?(?:async[{BLANKS}]+)?(?:function|class|interface|type"
    rf"|const[{BLANKS}]+[A-Za-z0-9_$]+[{BLANKS}]*=[{BLANKS}]*\("
    rf"|def[{BLANKS}]+[A-Za-z0-9_]+[{BLANKS}]*\(|struct[{BLANKS}]+[A-Za-z0-9_])"
)
_MARKDOWN: Final = re.compile(rf"#{{1,6}}[{BLANKS}]")
_CAPITALS: Final = re.compile(rf"[A-Z0-9][A-Z0-9{BLANKS}:_-]{{6,}}\Z")


def _code(text: str, name: str | None) -> str:
    lines = lines_of(text)
    imports = _listed((line for line in lines if _IMPORT.match(line)), _IMPORTS, 180)
    stripped = (line.strip(BLANKS) for line in lines)
    definitions = _listed((line for line in stripped if _DEFINITION.match(line)), _DEFINITIONS, 200)
    return "\n".join(
        [
            f"Code exploration summary{f' ({name})' if name else ''}:",
            f"Lines: {len(lines):,}.",
            f"Imports/dependencies ({len(imports)}): {' | '.join(imports) or 'none detected'}.",
            f"Top-level definitions ({len(definitions)}): {' | '.join(definitions) or 'none detected'}.",
        ]
    )


def _text(text: str, name: str | None) -> str:
    lines = lines_of(text)
    headers = _listed((line for one in lines if _is_header(line := one.strip(BLANKS))), _HEADERS, 160)
    words = sum(1 for word in _BLANK_RUN.split(text) if word)
    return "\n".join(
        [
            f"Text exploration summary{f' ({name})' if name else ''}:",
            f"Characters: {utf16_length(text):,}.",
            f"Words: {words:,}.",
            f"Lines: {len(lines):,}.",
            f"Detected section headers: {' | '.join(headers) or 'none detected'}.",
            f"Opening excerpt: {_line(first_units(text, _EXCERPT), _EXCERPT) or '(empty)'}.",
            f"Closing excerpt: {_line(last_units(text, _EXCERPT), _EXCERPT) or '(empty)'}.",
        ]
    )


def _is_header(line: str) -> bool:
    return utf16_length(line) >= 2 and (
        _MARKDOWN.match(line) is not None or _CAPITALS.match(line) is not None
    )


def _listed(lines: Iterable[str], count: int, width: int) -> list[str]:
    """The first of some lines, each once."""
    return list(dict.fromkeys(_line(line, width) for line in itertools.islice(lines, count)))
