"""Options and arguments that several commands take: one name for one meaning, with help and kind of value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import BLANKS
from lcm_core.base.times import iso_z

from lcm_tui.cli.declaring import Argument, Option
from lcm_tui.cli.kinds import (
    Choice,
    ConversationNumber,
    ConversationOrSummary,
    Dollars,
    FilePath,
    Moment,
    Period,
    Raw,
    Recency,
    SessionKey,
    Stamp,
    StoredText,
    Text,
    Tokens,
    WholeNumber,
    invalid,
    invalid_time,
    no_selector,
)

if TYPE_CHECKING:
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.store.listing import Window

    from lcm_tui.cli.answer import Run


MAX_LIMIT = 500
DEFAULT_LIMIT = 50

FILTERS: Final = "Filters"


Watch: TypeAlias = Annotated[
    int | None,
    Option(
        "--watch",
        "Repeat every N seconds, until ctrl-C or until --fail-on applies.",
        WholeNumber(1, 86_400),
        "SECONDS",
    ),
]


At: TypeAlias = Annotated[
    str | None,
    Option(
        "--at",
        "As it was: before:OPERATION_ID, after:OPERATION_ID or a time.",
        Text(empty=False),
        "POINT",
    ),
]


@dataclass(frozen=True, slots=True)
class PastOptions:
    """At which moment a conversation is looked at."""

    at: At = None


# -- which conversation, which summary -------------------------------------------------------------------

CONVERSATION: Final = ConversationNumber()

ConversationArgument: TypeAlias = Annotated[
    ConversationId | None, Argument("CONVERSATION_ID", "The conversation; or use an option.", CONVERSATION)
]
_BY_ID: Final = Option("--conversation-id", "The conversation by its id.", CONVERSATION, "ID")
_BY_KEY: Final = Option(
    "--session-key",
    "The conversation by its session key: the active one, else the newest.",
    SessionKey(),
    "KEY",
)
ByConversationId: TypeAlias = Annotated[ConversationId | None, _BY_ID]
BySessionKey: TypeAlias = Annotated[str | None, _BY_KEY]
#: All conversations of a session, where a session is searched and not one conversation chosen.
WholeSession: TypeAlias = Annotated[
    str | None,
    Option("--session-key", "All conversations of this session key.", SessionKey(), "KEY"),
]
#: The same where the other name may stand for one that is blank. The id is read when it is known to be alone.
IdOrBlank: TypeAlias = Annotated[str | None, replace(_BY_ID, kind=Raw())]
KeyOrBlank: TypeAlias = Annotated[str | None, replace(_BY_KEY, kind=SessionKey(blank=True))]
Summaries: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--summary",
        "This summary, or a unique prefix of its id; may be given several times.",
        StoredText(),
        "ID",
        several=True,
    ),
]
SummaryArgument: TypeAlias = Annotated[
    str, Argument("SUMMARY_ID", "The summary, or a unique prefix of its id.")
]


@dataclass(frozen=True, slots=True)
class Selector:
    """A conversation by one of its names."""

    conversation_id: ConversationId | None
    session_key: str | None

    @property
    def given(self) -> bool:
        """Whether a conversation was named at all."""
        return self.conversation_id is not None or self.session_key is not None


def spoken(command: str) -> str:
    """A dotted *command* as people type it."""
    return command.replace(".", " ")


def by_what(command: str) -> str:
    """How a conversation is named to a *command* (dotted), for refusals."""
    words = spoken(command)
    return f"its number, as in `{words} 1`, or --conversation-id ID or --session-key KEY"


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """How the commands about a conversation are told which; an argument and two options."""

    conversation: ConversationArgument = None
    conversation_id: IdOrBlank = None
    session_key: KeyOrBlank = None

    @property
    def given(self) -> bool:
        """Whether a conversation was named at all."""
        return any(one is not None for one in (self.conversation, self.conversation_id, self.session_key))

    def selector(self, command: str, *, needed: bool = False) -> Selector:
        """The conversation that is named; argument and options exclude each other, blank ones do not count.

        Raises:
            UsageError: it is named twice, or not at all though it is *needed* or a blank was given for it: a
                shell variable that is not set must not widen a command to all conversations.
        """
        typed = (self.conversation_id or "").strip(BLANKS)
        if self.conversation is not None and (typed or self.session_key):
            raise UsageError(
                f"{spoken(command)} needs the conversation once: as an argument or as an option.",
                code="INVALID_COMMAND",
                details={"command": command},
            )
        if typed and self.session_key:
            raise invalid("conversation-id", "cannot be combined with --session-key", code="INVALID_SELECTOR")
        number = self.conversation
        if typed and self.conversation_id is not None:
            number = CONVERSATION.read("conversation-id", self.conversation_id)
        key = self.session_key or None
        if needed and number is None and key is None:
            raise UsageError(
                f"{spoken(command)} needs a conversation: {by_what(command)}.",
                code="MISSING_SELECTOR",
                details={"command": command},
            )
        if self.given and number is None and key is None:
            raise no_selector("session-key" if self.conversation_id is None else "conversation-id")
        return Selector(number, key)


@dataclass(frozen=True, slots=True)
class NeededConversation(ConversationOptions):
    """The same for the commands that are about one conversation."""

    def selector(self, command: str, *, needed: bool = True) -> Selector:
        """The conversation that is named."""
        return ConversationOptions.selector(self, command, needed=needed)


ConversationOrSummaryArgument: TypeAlias = Annotated[
    ConversationId | str | None,
    Argument(
        "CONVERSATION_ID|SUMMARY_ID",
        "The conversation, or a summary by its id or a unique prefix; or use options.",
        ConversationOrSummary(),
    ),
]


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """How the commands about summaries are told which; a summary's id names its conversation too."""

    conversation: ConversationOrSummaryArgument = None
    conversation_id: IdOrBlank = None
    session_key: KeyOrBlank = None
    summary: Summaries = ()

    @property
    def summaries(self) -> tuple[str, ...]:
        """The beginnings of ids that are given."""
        return (self.conversation, *self.summary) if isinstance(self.conversation, str) else self.summary

    @property
    def given(self) -> bool:
        """Whether a conversation or a summary was named at all."""
        named = (self.conversation, self.conversation_id, self.session_key)
        return bool(self.summary) or any(one is not None for one in named)

    def selector(self, command: str, *, needed: bool) -> Selector:
        """The conversation that is named, where one is *needed* and no summary names it.

        Raises:
            UsageError: it is named twice, or not at all.
        """
        number = None if isinstance(self.conversation, str) else self.conversation
        named = ConversationOptions(number, self.conversation_id, self.session_key)
        return named.selector(command, needed=needed and not self.summaries)


# -- lists -----------------------------------------------------------------------------------------------

Limit: TypeAlias = Annotated[
    int, Option("--limit", "Maximum number of rows; 50 by default.", WholeNumber(1, MAX_LIMIT), "1..500")
]
Cursor: TypeAlias = Annotated[
    str | None,
    Option(
        "--cursor",
        "The next page: the cursor printed by the previous page; empty: the first page.",
        StoredText(),
        "CURSOR",
    ),
]
#: Which zone a typed time is of (docs/decisions.md, "Times").
_ZONES: Final = (
    "Times are local unless they name a zone; conversations, messages and summaries need one with --json."
)
After: TypeAlias = Annotated[
    Stamp | None, Option("--after", f"From this time on. {_ZONES}", Moment(), "TIME", section=FILTERS)
]
Before: TypeAlias = Annotated[
    Stamp | None, Option("--before", "Before this time.", Moment(), "TIME", section=FILTERS)
]
Between: TypeAlias = Annotated[
    tuple[Stamp, Stamp] | None,
    Option("--between", "From one time to before another.", Period(), "TIME..TIME", section=FILTERS),
]
Since: TypeAlias = Annotated[
    Stamp | None,
    Option(
        "--recency",
        "The last N seconds, minutes, hours, days or weeks.",
        Recency(),
        "N[smhdw]",
        section=FILTERS,
    ),
]
IncludeContent: TypeAlias = Annotated[
    bool, Option("--include-content", "Full texts in addition to the previews.")
]
Depth: TypeAlias = Annotated[
    int | None, Option("--depth", "Only this depth.", WholeNumber(0), "N", section=FILTERS)
]
Budget: TypeAlias = Annotated[
    int | None, Option("--budget", "The token budget for shares.", Tokens(), "TOKENS")
]

Tail: TypeAlias = Annotated[
    int | None,
    Option(
        "--tail",
        "Number of newest messages to protect (default: as configured).",
        WholeNumber(0),
        "N",
    ),
]
Chunk: TypeAlias = Annotated[
    int | None,
    Option(
        "--chunk",
        "Maximum source tokens of a leaf (default: as configured).",
        Tokens(),
        "TOKENS",
    ),
]


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which page of a list is asked for."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """Of which time the rows of a list are to be."""

    after: After = None
    before: Before = None
    between: Between = None
    recency: Since = None

    def span(self, zone: tzinfo | None) -> tuple[datetime | None, datetime | None]:
        """From when on, and until before when (docs/engine/command.md, "Selecting and filtering").

        A time that names no zone is one of *zone*.

        Raises:
            UsageError: two of them exclude each other, or *zone* has a time twice or skips it.
        """
        if self.between is not None:
            for name, value in (("after", self.after), ("before", self.before), ("recency", self.recency)):
                if value is not None:
                    raise invalid_time("between", f"cannot be combined with --{name}")
            start, end = (one.moment(zone) for one in self.between)
            if start >= end:
                typed = "..".join(one.text for one in self.between)
                raise invalid_time("between", "must name the earlier time first", typed)
            return start, end
        if self.recency is not None and self.after is not None:
            raise invalid_time("recency", "cannot be combined with --after")
        lower, name = (self.after, "after") if self.recency is None else (self.recency, "recency")
        since = None if lower is None else lower.moment(zone)
        until = None if self.before is None else self.before.moment(zone)
        if since is not None and until is not None and since >= until:
            raise invalid_time(name, "must begin earlier than --before", since.isoformat())
        return since, until

    def check_as_engine(self, zone: tzinfo | None) -> None:
        """Refuse what the engine's command does not take: a script has to name the zone of a time.

        Raises:
            UsageError: a time has no zone, or is written in another way than ISO 8601.
        """
        given = {"after": self.after, "before": self.before, "recency": self.recency}
        start, end = self.between or (None, None)
        for name, stamp in (*given.items(), ("between", start), ("between", end)):
            if stamp is not None and not stamp.as_engine:
                example = "24h" if name == "recency" else iso_z(stamp.moment(zone))
                problem = f"must have the engine's form in JSON and its table, for example {example}"
                raise invalid_time(name, problem, stamp.text)


def window(
    run: Run, resource: str, page: PageOptions, times: TimeOptions = TimeOptions(), *, as_engine: bool = False
) -> Window:
    """The page and time that a list selects; *as_engine*: to programs, only times as the engine's command
    takes them.
    """
    from lcm_core.store.listing import Window

    from lcm_tui.cli import cursors

    span = times.span(run.clock)
    if as_engine and run.presentation.for_programs:
        times.check_as_engine(run.clock)
    return Window(page.limit, cursors.decode(resource, page.cursor) if page.cursor else None, *span)


# -- assembling ------------------------------------------------------------------------------------------

#: The engines whose rules can be asked for by name: those of `rules.NAMED`.
RULE_NAMES: Final = Choice("0.1", "0.15", "1.0-beta", "1.0", "1.1")


def prompt_option(
    flag: str = "--prompt",
    words: str = "Apply prompt-aware eviction with this prompt.",
    *,
    section: str,
) -> Option:
    """The prompt by which a context is chosen."""
    return Option(flag, words, Text(), "TEXT", section=section)


def no_clamp_option(*, section: str) -> Option:
    """What is sent without the engine's last step."""
    words = "Without the hard limit: the assembler's output before the engine's final trim."
    return Option("--no-clamp", words, section=section)


def rules_option(
    flag: str = "--rules",
    words: str = "Use the rules of another engine version.",
    *,
    section: str = "Options",
) -> Option:
    """Rules that are asked for by name."""
    return Option(flag, words, RULE_NAMES, "|".join(RULE_NAMES.words), section=section)


RuleSet: TypeAlias = Annotated[str | None, rules_option()]

# -- models ----------------------------------------------------------------------------------------------

Provider: TypeAlias = Annotated[
    str | None,
    Option("--provider", "Summary provider (default: extractive, offline, no key).", Text(), "NAME"),
]
Model: TypeAlias = Annotated[str | None, Option("--model", "The model.", Text(), "NAME")]
BaseUrl: TypeAlias = Annotated[
    str | None, Option("--base-url", "The URL of an API-compatible server.", Text(), "URL")
]
KeyVariable: TypeAlias = Annotated[
    str | None, Option("--api-key-env", "The environment variable with the key.", Text(), "NAME")
]
KeyFile: TypeAlias = Annotated[
    Path | None, Option("--api-key-file", "The file with the key.", FilePath(), "PATH")
]
MaxCalls: TypeAlias = Annotated[
    int | None, Option("--max-calls", "Maximum number of calls.", WholeNumber(0), "N")
]
MaxCost: TypeAlias = Annotated[
    float | None, Option("--max-cost", "Maximum cost: no call starts that could exceed it.", Dollars(), "USD")
]
PromptFolder: TypeAlias = Annotated[
    Path | None,
    Option(
        "--prompt-dir",
        "A folder with your prompts, or one prompt for all depths (default: the folder next to the lcm-tui "
        "config).",
        FilePath(text=True),
        "PATH",
    ),
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Who writes summaries, and what it may cost."""

    provider: Provider = None
    model: Model = None
    base_url: BaseUrl = None
    api_key_env: KeyVariable = None
    api_key_file: KeyFile = None
    max_calls: MaxCalls = None
    max_cost: MaxCost = None


# -- changing --------------------------------------------------------------------------------------------

Apply: TypeAlias = Annotated[bool, Option("--apply", "Apply the change (default: preview only).")]
DryRun: TypeAlias = Annotated[bool, Option("--dry-run", "Preview only (the default).")]
Yes: TypeAlias = Annotated[bool, Option("--yes", "Confirm without asking.")]
AllowUnreadWal: TypeAlias = Annotated[
    bool,
    Option(
        "--allow-unread-wal",
        "Change a file although SQLite ignores a part of its -wal; a private copy of that is kept first.",
    ),
]
Sql: TypeAlias = Annotated[bool, Option("--sql", "Print only the SQL of the change to standard output.")]


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """The options that every changing command takes.

    Raises:
        UsageError: two of them exclude each other.
    """

    dry_run: DryRun = False
    apply: Apply = False
    yes: Yes = False
    allow_unread_wal: AllowUnreadWal = False
    sql: bool = False  #: an option only where `SqlFlags` are taken

    def __post_init__(self) -> None:
        """Refuse what excludes each other."""
        if self.apply and self.dry_run:
            raise UsageError("--apply and --dry-run exclude each other.", details={"option": "apply"})


@dataclass(frozen=True, slots=True)
class SqlFlags(ChangeFlags):
    """The same of a command that can show its SQL."""

    sql: Sql = False


# -- after an import -------------------------------------------------------------------------------------
# What ``backfill`` does after the import when requested.

_PANEL: Final = "Compaction"

Recompact: TypeAlias = Annotated[
    bool, Option("--recompact", "Compact the conversation after the import, even if nothing was missing.")
]
SingleRoot: TypeAlias = Annotated[
    bool,
    Option("--single-root", "Compact it to one summary, without a fresh tail unless --tail sets one."),
]
TransplantTo: TypeAlias = Annotated[
    ConversationId | None,
    Option(
        "--transplant-to",
        "Then copy its summaries to the front of another conversation.",
        CONVERSATION,
        "CONV",
    ),
]


def _number(flag: str, words: str, least: int) -> Option:
    return Option(flag, words, WholeNumber(least), "N", section=_PANEL)


LeafTarget: TypeAlias = Annotated[int | None, _number("--leaf-target-tokens", "Maximum tokens of a leaf.", 1)]
CondensedTarget: TypeAlias = Annotated[
    int | None, _number("--condensed-target-tokens", "Target tokens of a condensed summary.", 1)
]
LeafFanout: TypeAlias = Annotated[
    int | None, _number("--leaf-fanout", "Minimum number of leaves to condense together.", 2)
]
CondensedFanout: TypeAlias = Annotated[
    int | None, _number("--condensed-fanout", "Minimum number of condensed summaries to condense further.", 2)
]
HardFanout: TypeAlias = Annotated[int | None, _number("--hard-fanout", "The same minimum under pressure.", 2)]

Rules: TypeAlias = Annotated[str | None, rules_option(section=_PANEL)]


@dataclass(frozen=True, slots=True)
class AfterImport:
    """What is to be done behind the import."""

    recompact: Recompact = False
    single_root: SingleRoot = False
    transplant_to: TransplantTo = None
    chunk: Chunk = None
    leaf_target_tokens: LeafTarget = None
    condensed_target_tokens: CondensedTarget = None
    leaf_fanout: LeafFanout = None
    condensed_fanout: CondensedFanout = None
    hard_fanout: HardFanout = None
    tail: Tail = None
    rules: Rules = None

    @property
    def compact(self) -> bool:
        """Whether it is to be compacted."""
        return self.recompact or self.single_root

    def settings(self) -> EngineSettings:
        """The engine's settings that the options name."""
        from lcm_core.base.engine_settings import EngineSettings
        from lcm_core.base.setting_values import SettingSource, Sourced

        given = {
            "leaf_chunk_tokens": (self.chunk, "--chunk"),
            "leaf_target_tokens": (self.leaf_target_tokens, "--leaf-target-tokens"),
            "condensed_target_tokens": (self.condensed_target_tokens, "--condensed-target-tokens"),
            "leaf_min_fanout": (self.leaf_fanout, "--leaf-fanout"),
            "condensed_min_fanout": (self.condensed_fanout, "--condensed-fanout"),
            "condensed_min_fanout_hard": (self.hard_fanout, "--hard-fanout"),
            "fresh_tail_count": (self.tail, "--tail"),
        }
        if self.single_root and self.tail is None:
            given["fresh_tail_count"] = (0, "--single-root")
        named: dict[str, Any] = {
            name: Sourced(value, SettingSource.COMMAND_LINE, option)
            for name, (value, option) in given.items()
            if value is not None
        }
        return replace(EngineSettings(), **named)


# -- drafts ----------------------------------------------------------------------------------------------
# The options of the commands that make drafts: of summaries, and of focus briefs.

#: Calls at the same time: `batch.IN_FLIGHT`.
IN_FLIGHT: Final = 4
#: Rules of acceptance: `drafts.EXAMPLES`.
EXAMPLES: Final = "nothing invented, no rule lost, no worse, retention 80, no caution, every"

Draft: TypeAlias = Annotated[
    Path | None,
    Option("--draft", "Call the model and write the drafts to this file for review.", FilePath(), "FILE"),
]
FromDrafts: TypeAlias = Annotated[
    Path | None,
    Option("--from-drafts", "Apply the drafts marked in such a file.", FilePath(), "FILE"),
]
Resume: TypeAlias = Annotated[bool, Option("--resume", "Continue a stopped batch; with --apply or --draft.")]
Accept: TypeAlias = Annotated[
    str | None,
    Option("--accept", f"Accept drafts that meet this rule, such as: {EXAMPLES}.", Raw(), "RULE"),
]
InFlight: TypeAlias = Annotated[
    int,
    Option("--in-flight", f"Maximum parallel calls; {IN_FLIGHT} by default.", WholeNumber(1, 64), "N"),
]
ShowPrompts: TypeAlias = Annotated[
    bool, Option("--show-prompts", "Show each full prompt without sending it.")
]
NoPrevious: TypeAlias = Annotated[bool, Option("--no-previous", "Omit the previous context.")]


@dataclass(frozen=True, slots=True)
class DraftFlags:
    """The options of a command that makes drafts."""

    draft: Draft = None
    from_drafts: FromDrafts = None
    resume: Resume = False
    accept: Accept = None
    in_flight: InFlight = IN_FLIGHT
    show_prompts: ShowPrompts = False
    no_previous: NoPrevious = False
    rules: RuleSet = None
    model: ModelOptions = field(default_factory=ModelOptions)
    prompt_dir: PromptFolder = None
    change: SqlFlags = field(default_factory=SqlFlags)


# -- focus briefs ----------------------------------------------------------------------------------------

_WRITING = "Text"

TextFile: TypeAlias = Annotated[
    Path | None,
    Option("--text", "The text, from a file; - reads standard input.", FilePath(), "FILE", section=_WRITING),
]
BriefDraft: TypeAlias = Annotated[
    Path | None,
    Option(
        "--draft",
        "Call the model and write the draft to this file for review.",
        FilePath(),
        "FILE",
        section=_WRITING,
    ),
]
FromDraft: TypeAlias = Annotated[
    Path | None,
    Option("--from-draft", "Use the draft in such a file.", FilePath(), "FILE", section=_WRITING),
]
NoSweep: TypeAlias = Annotated[
    bool,
    Option("--no-sweep", "Skip the sweep; the engine never does."),
]


@dataclass(frozen=True, slots=True)
class BriefOptions:
    """Where the text of a brief comes from, and what is done around it.

    Raises:
        UsageError: two of them exclude each other.
    """

    conversation: NeededConversation = field(default_factory=NeededConversation)
    text: TextFile = None
    draft: BriefDraft = None
    from_draft: FromDraft = None
    no_sweep: NoSweep = False
    budget: Budget = None
    model: ModelOptions = field(default_factory=ModelOptions)
    flags: SqlFlags = field(default_factory=SqlFlags)

    def __post_init__(self) -> None:
        """Refuse what excludes each other."""
        texts = (("text", self.text), ("draft", self.draft), ("from-draft", self.from_draft))
        given = [name for name, path in texts if path is not None]
        if len(given) > 1:
            said = f"{' and '.join(f'--{one}' for one in given)} exclude each other."
            raise UsageError(said, details={"option": given[0]})
        if self.draft is not None and self.flags.apply:
            raise UsageError(
                "--draft and --apply exclude each other: review the draft, then use --from-draft.",
                details={"option": "draft"},
            )
        if self.flags.sql and self.text is None and self.from_draft is None:
            raise UsageError(
                "--sql needs the text: give --text FILE or --from-draft FILE.", details={"option": "sql"}
            )
