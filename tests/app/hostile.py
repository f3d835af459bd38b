"""Databases and transcripts in which text is meant to do harm, made from the recorded ones."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from lcm_core.change.commit import commit

from tests.change.support import plan_of, update

#: Texts as the bytes that stand in the file. Not all of them are UTF-8.
SAMPLES: dict[str, bytes] = {
    "escape": b"\x1b[2J\x1b[1;1H\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1bc\x08\x08\x7f\x0e",
    "markup": b"[/] [red]red[/red] [/red [bold [@click=app.quit]x[/] [[ ]] \\[x] $primary",
    "c1": "\x9b31mred\x9b0m \x90dcs\x9c \x85 \x9d0;title\x9c \xa0".encode(),
    "bidi": "\u202eevil\u202c \u2066isolated\u2069 \u200f \u061c \u202d".encode(),
    "invisible": "a\u200bb\u200cc\u200dd\ufeffe\u00adf\u2060g\u180eh\u3164i\U000e0041\ufe0f".encode(),
    "spaces": b"a\tb\r\nc\rd\x0be\x0cf\x00g \xe2\x80\xa8h\xe2\x80\xa9i\xc2\xa0j",
    "invalid": b"lone \xed\xa0\x80 surrogate \xff\xfe\x80 \xc3( \xf5\x90\x80\x80 end\xe2\x82",
    "wide": "漢字かな交じり文 한국어 ｆｕｌｌ 𠮷野家 ｡｢".encode() * 20,
    "emoji": (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f44d\U0001f3fd "
        "\U0001f1e9\U0001f1ea\U0001f1eb \u2764\ufe0f \u263a\ufe0e 1\ufe0f\u20e3 \U0001faf1\U0001f3ff"
    ).encode()
    * 10,
    "right to left": "שלום עולם! مرحبا بالعالم 123 (abc) \u0600١".encode() * 10,
    "marks": (
        "z" + "\u0301" * 50 + "\u0301 \u0e33\u0e49 \u0915\u094d\u0937\u093f \u1100\u1161\u11a8"
    ).encode(),
    "nonsense": "\ufffe\uffff\U0001fffe\ufdd0\ue000\U0010ffff\ufffc\U0001d173".encode(),
    "long line": b"word and " * 600,
    "no space": b"x" * 5_000,
    "lines": b"\n" * 300 + b"end",
    "nothing": b"",
}

#: What a megabyte in one line may be made of.
HUGE = (b"x", b"a word ", "漢字".encode(), b"\x1b[31m", "e\u0301".encode(), b"\xff")

#: Columns that lead from row to row. Where all rows are made hostile these stay, so that screens fill.
LEADING = {
    "summary_id",
    "parent_summary_id",
    "brief_id",
    "part_id",
    "file_id",
    "step_name",
    "kind",
    "role",
    "item_type",
    "part_type",
    "status",
    "session_id",
}


def sprinkled(path: Path) -> Path:
    """Make one value hostile in every row, each column of each table in turn, ids and kinds included."""
    with _opened(path) as database:
        samples = _numbered()
        for table, columns in _text_columns(database).items():
            rowids = [row[0] for row in database.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
            for number, rowid in enumerate(rowids):
                _put(database, table, columns[number % len(columns)], rowid, next(samples))
    return path


def flooded(path: Path) -> Path:
    """Make every value hostile that is not needed to get from row to row; some texts have a megabyte."""
    with _opened(path) as database:
        samples = _numbered()
        for table, columns in _text_columns(database).items():
            chosen = [column for column in columns if column not in LEADING]
            for (rowid,) in database.execute(f"SELECT rowid FROM {table}").fetchall():
                for column in chosen:
                    _put(database, table, column, rowid, next(samples))
        parts = database.execute("SELECT rowid FROM message_parts").fetchall()
        for number, (rowid,) in enumerate(parts):
            if number % 3:
                _put(
                    database, "message_parts", "metadata", rowid, json.dumps({"raw": _block(number)}).encode()
                )
        for table, column, where in (
            ("summaries", "content", "conversation_id = 3"),
            ("messages", "content", "conversation_id = 3 AND seq > 120"),
            ("large_files", "exploration_summary", "conversation_id = 3"),
            ("focus_briefs", "content", "conversation_id = 3"),
            ("conversations", "title", "conversation_id > 3"),
        ):
            rows = database.execute(f"SELECT rowid FROM {table} WHERE {where}").fetchall()
            for (rowid,), piece in zip(rows[::2], HUGE, strict=False):
                _put(database, table, column, rowid, piece * (1_000_000 // len(piece)))
    return path


def history(path: Path) -> Path:
    """Some operations, which are made hostile like everything else."""
    for number in range(3 * len(SAMPLES)):
        edit = update(path, "conversations", "conversation_id", number % 8 + 1, title=f"title {number}")
        commit(path, plan_of(edit))
    return path


def file(home: Path) -> Path:
    """A large file with a hostile name and content, which the newest row of conversation 3 names."""
    path = home / "lcm-files" / "3" / "\x1b[31m[red]\u202e.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(SAMPLES.values()))
    with _opened(home / "lcm.db") as database:
        [[rowid]] = database.execute("SELECT max(rowid) FROM large_files WHERE conversation_id = 3")
        _put(database, "large_files", "storage_uri", rowid, str(path).encode())
    return path


def transcript(path: Path) -> Path:
    """A transcript of hostile lines and values."""
    header = {"type": "session", "version": 3, "id": path.stem, "timestamp": "2026-03-02T12:24:52.000Z"}
    lines = [json.dumps(header).encode()]
    parent = None
    for number in range(3 * len(SAMPLES)):
        entry = {
            "type": "message",
            "id": f"e{number}",
            "parentId": parent,
            "timestamp": "2026-03-02T12:24:52.000Z" if number % 2 else _text(number),
            "message": {
                "role": ("user", "assistant", "toolResult", _text(number))[number % 4],
                "content": [_block(number), {"type": "text", "text": _text(number)}],
            },
        }
        parent = entry["id"]
        lines.append(json.dumps(entry, ensure_ascii=number % 2 == 0).encode("utf-8", "surrogatepass"))
        lines.append(list(SAMPLES.values())[number % len(SAMPLES)].replace(b"\n", b" "))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def _text(number: int) -> str:
    return list(SAMPLES.values())[number % len(SAMPLES)].decode("utf-8", "replace")


def _block(number: int) -> dict[str, object]:
    """A content block of the host with hostile values, as JSON keeps them."""
    said = _text(number)
    blocks: tuple[dict[str, object], ...] = (
        {"type": "text", "text": said},
        {"type": "thinking", "thinking": said, "thinkingSignature": said},
        {"type": "toolCall", "id": said[:50], "name": said, "arguments": {said[:100]: said, "n": [said]}},
        {"type": "image", "mimeType": said, "data": said},
        {"type": said, "text": said},
        {"type": "file", "name": said, "url": said},
        {"type": "text", "text": "\ud800 alone"},
    )
    return blocks[number % len(blocks)]


def _opened(path: Path) -> closing[sqlite3.Connection]:
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON", "synchronous = OFF"):
        database.execute(f"PRAGMA {pragma}")
    return closing(database)


def _text_columns(database: sqlite3.Connection) -> dict[str, list[str]]:
    """The columns of the engine's tables that hold text; the shadows of search tables are none of them."""
    tables = [
        name
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if "_fts" not in name and not name.startswith("sqlite_")
    ]
    columns = {
        table: [
            name
            for name, declared in database.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
            if declared == "TEXT"
        ]
        for table in tables
    }
    return {table: names for table, names in columns.items() if names}


def _numbered() -> Iterator[bytes]:
    """The samples in turn, each with a number in front: some columns are unique."""
    for number in count():
        sample = list(SAMPLES.values())[number % len(SAMPLES)]
        yield sample and f"{number} ".encode() + sample


def _put(database: sqlite3.Connection, table: str, column: str, rowid: int, value: bytes) -> None:
    database.execute(
        f"UPDATE OR IGNORE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", (value, rowid)
    )


def enormous(path: Path, size: int = 12_000_000) -> Path:
    """Give conversation 3 a message, a summary and a part that are longer than the checks look into."""
    text = f"replace(hex(zeroblob({size} / 2)), '0', 'x')"
    with _opened(path) as database:
        for table, column, key in (
            ("messages", "content", "message_id"),
            ("summaries", "content", "summary_id"),
        ):
            database.execute(
                f"""UPDATE {table} SET {column} = {text} WHERE {key} = (SELECT {key} FROM context_items
                WHERE conversation_id = 3 AND {key} IS NOT NULL ORDER BY ordinal LIMIT 1)"""
            )
        part = """part_id = (SELECT part_id FROM message_parts AS p JOIN context_items AS c
            ON c.message_id = p.message_id WHERE c.conversation_id = 3 ORDER BY c.ordinal DESC LIMIT 1)"""
        raw = f"""'{{"raw":{{"type":"text","text":"' || {text} || '"}}}}'"""
        database.execute(f"UPDATE message_parts SET metadata = {raw}, text_content = {text} WHERE {part}")
    return path
