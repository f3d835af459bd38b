"""The options of the commands: their help, and what a value must look like.

Options arrive as text and are checked here, so that every refusal is one sentence of ours with the code and
details that the engine's own command gives (docs/engine/command.md, "Errors").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from lcm_core.budget import parse_budget
from lcm_core.errors import JsonScalar, UsageError
from lcm_core.settings import Options, OutputFormat
from lcm_core.times import parse_utc

if TYPE_CHECKING:  # the app starts through here too, and lists nothing page by page
    from lcm_core.store.listing import Window

ROLES = ("system", "user", "assistant", "tool")
KINDS = ("leaf", "condensed")
MAX_LIMIT = 500
DEFAULT_LIMIT = 50
#: A byte that is no UTF-8 as `safe_line` writes it out.
_WRITTEN_OUT = re.compile("‹0x([89A-F][0-9A-F])›")
#: The largest whole number that every reader of JSON holds exactly.
MAX_NUMBER = 2**53 - 1

_COMMON = "Common options"
_FILTERS = "Filters"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def among(*words: str) -> Callable[[], list[str]]:
    """What a shell completes an option with."""
    return lambda: list(words)


def prompt_option(
    flag: str = "--prompt",
    words: str = "Choose by this prompt, as prompt-aware eviction does.",
    *,
    panel: str,
) -> Any:
    """The prompt by which a context is chosen; *words* are its help, in a *panel*."""
    return typer.Option(flag, metavar="TEXT", help=words, rich_help_panel=panel)


def no_clamp_option(*, panel: str) -> Any:
    """What is sent without the engine's last step."""
    return typer.Option(
        "--no-clamp",
        metavar="",
        help="Without the final clamp: what the engine's assembler gives, before the engine cuts it.",
        rich_help_panel=panel,
    )


Db: TypeAlias = Annotated[
    str | None, typer.Option("--db", metavar="PATH", help="The database file.", rich_help_panel=_COMMON)
]
Config: TypeAlias = Annotated[
    str | None,
    typer.Option("--config", metavar="PATH", help="The host's openclaw.json.", rich_help_panel=_COMMON),
]
OpenclawDir: TypeAlias = Annotated[
    str | None,
    typer.Option("--openclaw-dir", metavar="PATH", help="The host's state folder.", rich_help_panel=_COMMON),
]
Sessions: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sessions", metavar="DIR", help="A sessions folder, or a folder of agents.", rich_help_panel=_COMMON
    ),
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="json|table",
        autocompletion=among(*OutputFormat),
        help="JSON, or the engine's tab-separated table; without it a table for people.",
        rich_help_panel=_COMMON,
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", metavar="", help="The same as --format json.", rich_help_panel=_COMMON)
]
Pretty: TypeAlias = Annotated[
    bool, typer.Option("--pretty", metavar="", help="Indent JSON.", rich_help_panel=_COMMON)
]
NoColor: TypeAlias = Annotated[
    bool, typer.Option("--no-color", metavar="", help="No bold and dim text.", rich_help_panel=_COMMON)
]

ConversationArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="CONVERSATION_ID", help="The conversation; or use an option.")
]
ByConversationId: TypeAlias = Annotated[
    str | None, typer.Option("--conversation-id", metavar="ID", help="The conversation by its id.")
]
BySessionKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--session-key",
        metavar="KEY",
        help="The conversation by its session key: the active one, else the newest.",
    ),
]
SummaryArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="SUMMARY_ID", help="The summary, or the beginning of its id.")
]
Limit: TypeAlias = Annotated[
    str | None, typer.Option("--limit", metavar="1..500", help="Rows at most; 50 by default.")
]
Cursor: TypeAlias = Annotated[
    str | None, typer.Option("--cursor", metavar="CURSOR", help="The next page, as the last one named it.")
]
After: TypeAlias = Annotated[
    str | None, typer.Option("--after", metavar="TIME", help="From this time on.", rich_help_panel=_FILTERS)
]
Before: TypeAlias = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Before this time.", rich_help_panel=_FILTERS)
]
Between: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--between", metavar="TIME..TIME", help="From one time to before another.", rich_help_panel=_FILTERS
    ),
]
Recency: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--recency", metavar="N[smhdw]", help="The last N seconds, minutes, ...", rich_help_panel=_FILTERS
    ),
]
Roles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        autocompletion=among(*ROLES),
        help=f"Only this role ({', '.join(ROLES)}); may be given several times.",
        rich_help_panel=_FILTERS,
    ),
]
Depth: TypeAlias = Annotated[
    str | None, typer.Option("--depth", metavar="N", help="Only this depth.", rich_help_panel=_FILTERS)
]
Kind: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="leaf|condensed",
        autocompletion=among(*KINDS),
        help="Only this kind.",
        rich_help_panel=_FILTERS,
    ),
]
IncludeContent: TypeAlias = Annotated[
    bool, typer.Option("--include-content", metavar="", help="Whole texts beside the previews.")
]
Count: TypeAlias = Annotated[
    str | None,
    typer.Option("--count", metavar="1..500", help="Messages; else what the engine is configured for."),
]
Budget: TypeAlias = Annotated[
    str | None, typer.Option("--budget", metavar="TOKENS", help="The token budget that shares are taken of.")
]


@dataclass(frozen=True, slots=True)
class Presentation:
    """How an answer or an error is printed."""

    json: bool = False
    engine_table: bool = False  #: the engine's own tab-separated form
    pretty: bool = False
    color: bool = True


def common_options(
    db: str | None,
    config: str | None,
    openclaw_dir: str | None,
    sessions: str | None,
    output: str | None,
    as_json: bool,
) -> Options:
    """What every command takes, as the settings want it."""
    if output is not None and output not in {*OutputFormat}:
        raise invalid("format", "must be json or table", output)
    chosen = OutputFormat.JSON if as_json else None if output is None else OutputFormat(output)
    return Options(db, config, openclaw_dir, sessions, output_format=chosen)


def invalid(option: str, problem: str, value: JsonScalar = None) -> UsageError:
    """The refusal of an option; *problem* continues the sentence that its name begins."""
    details: dict[str, JsonScalar] = {"option": option}
    if value is not None:
        details["value"] = value
    typed = option if option.isupper() else f"--{option}"  # an argument goes by its name in capitals
    return UsageError(f"{typed} {problem}.", details=details)


def whole_number(option: str, value: str, minimum: int, maximum: int = MAX_NUMBER) -> int:
    """A whole number in a closed range."""
    number = int(value) if re.fullmatch(r"[0-9]{1,16}", value) else -1
    if not minimum <= number <= maximum:
        bounded = maximum < MAX_NUMBER or re.fullmatch("[0-9]{16,}", value)  # else it is too small, or none
        wanted = f"from {minimum} to {maximum}" if bounded else f"of at least {minimum}"
        raise invalid(option, f"must be a whole number {wanted}", value)
    return number


def readable_text(option: str, value: str) -> str:
    """A text that is of our own making, or a person's: an argument may hold bytes that are none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{option} is not valid UTF-8.", details={"option": option}) from None
    return value


def given_text(option: str, value: str) -> str:
    """A text that says something: an empty one (an unset shell variable) must not stand for a default."""
    if not readable_text(f"--{option}", value).strip():
        raise UsageError(f"--{option} is empty; give it a value or leave it out.", details={"option": option})
    return value


def stored_text(value: str) -> str:
    """An id or a key as the database holds it, whose bytes may be no UTF-8.

    They are taken as they are, or as the program writes them out where it shows them (``‹0xFF›``).
    """
    return _WRITTEN_OUT.sub(lambda byte: chr(0xDC00 + int(byte[1], 16)), value)


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which page of a list is asked for."""

    limit: Limit = None
    cursor: Cursor = None


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """Of which time the rows of a list are to be."""

    after: After = None
    before: Before = None
    between: Between = None
    recency: Recency = None


def window(resource: str, page: PageOptions, times: TimeOptions = TimeOptions()) -> Window:
    """The page and time that a list is asked for (docs/engine/command.md, "Selecting and filtering")."""
    from lcm_core.store.listing import Window

    from lcm_tui.cli import cursors

    since, until = _span(times.after, times.before, times.between, times.recency)
    return Window(
        DEFAULT_LIMIT if page.limit is None else whole_number("limit", page.limit, 1, MAX_LIMIT),
        None if page.cursor is None else cursors.decode(resource, page.cursor),
        since,
        until,
    )


def roles_of(values: list[str] | None) -> tuple[str, ...]:
    """The roles asked for, each once."""
    for value in values or ():
        if value not in ROLES:
            raise invalid("role", f"must be one of {', '.join(ROLES)}", value)
    return tuple(dict.fromkeys(values or ()))


def kind_of(value: str | None) -> str | None:
    """The kind asked for."""
    if value is not None and value not in KINDS:
        raise invalid("kind", "must be leaf or condensed", value)
    return value


def depth_of(value: str | None) -> int | None:
    """The depth asked for."""
    return None if value is None else whole_number("depth", value, 0)


def budget_of(value: str, option: str = "budget") -> int:
    """The token budget asked for, as the app takes it too: ``128000``, ``128k``, ``1.5m``."""
    budget = parse_budget(value)
    if budget is None:
        raise invalid(option, "must be a number of tokens such as 128000 or 128k", value)
    return budget


def _span(
    after: str | None, before: str | None, between: str | None, recency: str | None
) -> tuple[datetime | None, datetime | None]:
    if between is not None:
        for name, value in (("after", after), ("before", before), ("recency", recency)):
            if value is not None:
                raise invalid("between", f"cannot be combined with --{name}")
        first, dots, last = between.partition("..")
        if not dots:
            raise invalid("between", "must be two times with two dots between them", between)
        start, end = moment_of("between", first), moment_of("between", last)
        if start >= end:
            raise invalid("between", "must name the earlier time first", between)
        return start, end
    if recency is not None and after is not None:
        raise invalid("recency", "cannot be combined with --after")
    since = _ago(recency) if recency is not None else None if after is None else moment_of("after", after)
    until = None if before is None else moment_of("before", before)
    if after is not None and since is not None and until is not None and since >= until:
        raise invalid("after", "must be earlier than --before", after)
    return since, until


def moment_of(option: str, value: str) -> datetime:
    """A time asked for, in UTC."""
    moment = parse_utc(value)
    if moment is None:
        raise invalid(option, "must be a time such as 2026-03-02 or 2026-03-02T14:30:00Z", value)
    return moment


def _ago(value: str) -> datetime:
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", value)
    try:
        if match is not None and int(match[1]):
            return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        pass
    raise invalid("recency", "must be a number and one of s, m, h, d, w, such as 24h", value)
