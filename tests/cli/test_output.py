"""What leaves the program: safe on a terminal, exact in a pipe, columns in their place."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.text import cell_width

from lcm_tui.cli.main import main
from lcm_tui.cli.readable import Page
from lcm_tui.tables.blocks import Facts, Note, Prose, Table
from lcm_tui.tables.blocks import OutputColumn as Column
from lcm_tui.tables.machine import json_text, table_lines
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.support import sampled

HOSTILE = (
    "\x1b]0;owned\x07\x1b[31mred\x1b[2J \x9b31m \x00\x08\x7f"
    "[/][red]markup[/red] \u202egnp.exe\u2066 \u200b\ufeff"
    "\u200d👩‍🚀 e\u0301 Ω中文 עברית \t tab \r\n second line \U000e0041 \udcff"
)
#: What no terminal may be sent: controls but line ends, bidi controls, what is invisible, tag characters.
UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


@pytest.fixture
def hostile(database_copy: DatabaseFactory) -> Path:
    """A database in which every text is hostile."""
    path = database_copy("0.15.3")
    database = sqlite3.connect(path)
    raw = HOSTILE.encode("utf-8", "surrogateescape")
    for table, columns in {
        "conversations": ("title", "archive_cause", "session_id", "session_key || conversation_id"),
        "messages": ("content",),
        "summaries": ("content", "model"),
        "large_files": ("file_name", "mime_type", "exploration_summary", "storage_uri"),
        "focus_briefs": ("prompt", "content"),
        "message_parts": ("text_content", "tool_name", "tool_input"),
        "conversation_compaction_telemetry": ("provider",),
    }.items():
        for column in columns:
            name, _, suffix = column.partition(" || ")
            added = f"|| {suffix}" if suffix else ""
            database.execute(f"UPDATE {table} SET {name} = CAST(? AS TEXT) {added}", (raw,))
    database.execute("UPDATE messages SET content = ? WHERE message_id = 387", ("long \x1b[31m" * 100_000,))
    database.commit()
    database.close()
    return path


COMMANDS = [
    ["status"],
    ["conversations", "list"],
    ["conversations", "show", "2"],
    ["messages", "list", "7"],
    ["messages", "list", "7", "--include-content"],
    ["messages", "tail", "7"],
    ["summaries", "list"],
    ["summaries", "list", "2", "--include-content"],
    ["summaries", "show", "sum_06d84ef9c70348dc"],
    ["summaries", "show", "--previous", "sum_06d84ef9c70348dc"],
    ["context", "2"],
    ["files"],
    ["show", "file_b7b54f0887584669"],
]


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent = io.BytesIO()
        super().__init__(self.sent, encoding="utf-8", newline="\n")

    def isatty(self) -> bool:
        return True


def on_a_terminal(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, and what a terminal of $COLUMNS cells was sent on standard output and error."""
    out, err = Terminal(), Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.sent.getvalue().decode(), err.sent.getvalue().decode()


@pytest.mark.long
@pytest.mark.parametrize("command", sampled(COMMANDS, COMMANDS[1::4]), ids=" ".join)
def test_nothing_of_a_database_is_interpreted_by_a_terminal(
    command: list[str], hostile: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    for form in (["--json"], ["--json", "--pretty"], ["--format", "table"]):
        code, out, err = on_a_terminal([*command, "--db", str(hostile), *form])
        assert (code, err) == (0, "")
        assert UNSAFE.search(out.replace("\t", "") if "table" in form else out) is None
    for width in (40, 80, 160):
        monkeypatch.setenv("COLUMNS", str(width))
        code, out, err = on_a_terminal([*command, "--db", str(hostile)])
        assert (code, err) == (0, "")
        assert UNSAFE.search(out) is None
        assert max(map(cell_width, out.splitlines())) <= width


@pytest.mark.long
def test_colours_are_as_the_environment_says(database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    arguments = ["doctor", "--check", "C", "--db", str(database_file("0.15.3"))]
    red = "\x1b[31merror"
    assert red in on_a_terminal(arguments)[1]
    assert "\x1b" not in on_a_terminal([*arguments, "--no-color"])[1]
    monkeypatch.setenv("CLICOLOR", "0")
    assert "\x1b" not in on_a_terminal(arguments)[1]
    assert "\x1b" not in run(*arguments).out
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert red in run(*arguments).out
            assert "\x1b" not in run(*arguments, "--no-color").out
            patch.setenv("NO_COLOR", "1")
            assert "\x1b" not in run(*arguments).out
            patch.delenv("NO_COLOR")
            patch.setenv(name, "0")
            assert "\x1b" not in run(*arguments).out


@pytest.mark.cases(1)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_json_means_the_same_on_a_terminal_and_in_a_pipe(command: list[str], hostile: Path):
    arguments = [*command, "--db", str(hostile), "--json"]
    _, shown, _ = on_a_terminal(arguments)
    piped = run(*arguments).out
    assert json.loads(shown) == json.loads(piped)


@pytest.mark.long
def test_readable_tables_are_safe_in_a_pipe_too(hostile: Path):
    for command in COMMANDS:
        assert UNSAFE.search(run(*command, "--db", hostile).out) is None


def test_errors_are_safe_and_on_one_line(database_file: DatabaseFactory):
    result = run("summaries", "show", "sum\x1b[31m\n\u202ex", "--db", database_file("0.15.3"))
    assert (result.code, result.err.count("\n")) == (3, 1)
    assert UNSAFE.search(result.err) is None
    assert UNSAFE.search(run("\x1b[31m").err) is None


def test_colour_goes_to_a_terminal_that_wants_it(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    arguments = ["status", "--db", str(database_file("0.15.3"))]
    assert "\x1b[1m" in on_a_terminal(arguments)[1]
    assert "\x1b" not in on_a_terminal([*arguments, "--no-color"])[1]
    assert "\x1b" not in run(*arguments).out
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in on_a_terminal(arguments)[1]


any_text = st.text(st.characters(exclude_categories=[]), max_size=60)


@pytest.mark.long
@given(any_text)
def test_json_on_a_terminal_is_safe_and_the_same_value(text: str):
    shown = json_text({"text": text}, for_terminal=True)
    assert UNSAFE.search(shown) is None
    shown.encode()
    assert json.loads(shown) == json.loads(json_text({"text": text}))


@pytest.mark.long
@given(
    st.lists(st.tuples(any_text, any_text, st.integers(0, 10**9)), min_size=1, max_size=5),
    st.integers(40, 120),
)
def test_columns_stay_in_place_whatever_stands_in_them(rows: list[tuple[str, str, int]], width: int):
    table = Table((Column("A", spare=1), Column("B", grows=True), Column("C", right=True)), rows)
    for page in (Page(width, color=False), Page(None, color=False)):
        lines = page.render([table]).split("\n")
        assert len(lines) == len(rows) + 1
        assert len({cell_width(line) for line in lines}) == 1
        assert all(UNSAFE.search(line) is None for line in lines)
        assert page.width is None or cell_width(lines[0]) <= width


def test_a_growing_column_gives_way_to_the_terminal():
    rows = [("sum_0123456789abcdef", "中文 " * 100, 7)]
    table = Table((Column("Id"), Column("Text", grows=True), Column("N", right=True)), rows)
    line = Page(60, color=False).render([table]).split("\n")[1]
    assert cell_width(line) == 60
    assert line.startswith("sum_0123456789abcdef  中文")
    assert line.endswith("…  7")
    assert "中文 " * 99 in Page(None, color=False).render([table])


def test_sentences_have_most_of_a_line_and_what_can_be_spared_goes():
    columns = (Column("Check"), Column("Rows", spare=1), Column("What", grows=True, wide=True))
    table = Table(columns, [("C3", "x" * 30, "word " * 30)])
    assert Page(80, color=False).render([table]).split("\n")[0].split() == ["Check", "What"]
    assert Page(100, color=False).render([table]).split("\n")[0].split() == ["Check", "Rows", "What"]


def test_facts_and_prose_wrap_at_the_terminal():
    blocks = [Facts([("Name", "word " * 30)]), Prose("word " * 30, title="Text"), Note("word " * 30)]
    text = Page(40, color=False).render(blocks)
    assert max(map(cell_width, text.splitlines())) <= 40


def test_the_table_of_the_engine_keeps_one_row_on_one_line():
    envelope: Any = {
        "command": "messages.list",
        "data": {
            "conversation": {"id": 1},
            "items": [{"content": "a\tb\nc\\d\r", "none": None, "list": ["x"]}],
        },
        "pagination": {"limit": 1},
        "meta": {},
    }
    assert "".join(table_lines(envelope)).splitlines() == [
        "command\tmessages.list",
        "content\tnone\tlist",
        'a\\tb\\nc\\\\d\\r\tnull\t["x"]',
        'data.conversation\t{"id":1}',
        "pagination.limit\t1",
    ]


def test_json_is_utf8_and_tables_fit_the_encoding_of_the_terminal(database_file: DatabaseFactory):
    path = str(database_file("0.15.3"))
    for form, encoding in (["--json"], "utf-8"), ([], "latin-1"):
        out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
        with contextlib.redirect_stdout(out):
            assert main(["messages", "list", "2", "--limit", "5", "--db", path, *form]) == 0
        text = out.buffer.getvalue().decode(encoding)
        assert ("数据库" in text) is (form == ["--json"])
    assert sys.stdout is not out


def test_a_sentence_that_a_narrow_terminal_would_crush_is_below_its_row() -> None:
    columns = (Column("Ordinal", right=True), Column("What"), Column("Step"), Column("Why", grows=True))
    why = "older than ordinal 1, which does not fit into what is left of the budget"
    table = Table(columns, [(0, "sum_f6b6d7017e1f2ae2", "tool pairing", why), (1, "message 271", "-", "")])
    lines = Page(60, color=False).render([table]).split("\n")
    assert lines[:2] == ["Ordinal  What                  Step", "  Why"]
    assert " ".join(line.strip() for line in lines[3:5]) == why
    assert lines[5].split() == ["1", "message", "271", "-"]
    assert max(map(cell_width, lines)) <= 60
    assert len(Page(80, color=False).render([table]).split("\n")) == 3


@pytest.mark.long
def test_a_real_terminal_is_recognised(hostile: Path):
    """The same through a pseudo-terminal and a process of its own."""
    controller, terminal = pty.openpty()
    arguments = ["messages", "list", "7", "--limit", "3", "--include-content", "--db", str(hostile)]
    program = "import sys; from lcm_tui.cli.main import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=terminal, stdin=terminal)
    os.close(terminal)
    sent = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal is an error on Linux
        while found := os.read(controller, 65536):
            sent += found
    os.close(controller)
    assert process.wait() == 0
    text = re.sub("\x1b\\[[012]m", "", sent.decode()).replace("\r\n", "\n")
    assert UNSAFE.search(text) is None
    assert "␛]0;owned␇" in text


DEEP = [
    {},
    [],
    None,
    "a\nb \ud800 \udc80 \u202e",
    [[], {}, [1, [2.5, None]], {"a": []}],
    {"a": {}, "b": [], "c": {"d": [{"e": [1]}] * 3, "ü\n": {"f": True}}, "g": ["\ud83d", "\r"]},
    {"n": list(range(5_000)), "m": [{"x": [1, {}]}] * 1_001},
]


@pytest.mark.parametrize("value", DEEP, ids=range(len(DEEP)))
@pytest.mark.parametrize("pretty", [False, True])
def test_json_in_pieces_is_the_json_of_the_whole(value: Any, pretty: bool):
    """However a value is nested, and where a long list is packed."""
    if pretty:
        wanted = json.dumps(value, ensure_ascii=False, indent=2)
    else:
        wanted = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    wanted = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", wanted)
    assert json_text(value, pretty=pretty) == wanted
