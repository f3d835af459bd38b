"""Options and arguments that several commands take: one name for one meaning, with help and kind of value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.core import ParameterSource
from lcm_core.base.errors import UsageError
from lcm_core.base.text import BLANKS
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record, field, replace

from lcm_tui.cli.command import (
    FORMS,
    Command,
    Decorator,
    argument,
    flag,
    gather,
    option,
    typed_words,
)
from lcm_tui.cli.kinds import (
    Choice,
    ConversationArgument,
    ConversationName,
    ConversationNumber,
    ConversationOrSummary,
    Dollars,
    EngineSetting,
    FilePath,
    Kind,
    Moment,
    Period,
    Raw,
    RawConversation,
    Recency,
    SessionKey,
    Stamp,
    StoredText,
    SummaryId,
    Text,
    Tokens,
    When,
    WholeNumber,
    invalid,
    invalid_time,
    is_summary,
    no_selector,
)

if TYPE_CHECKING:
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.store.listing import Window

    from lcm_tui.cli.answer import Run


MAX_LIMIT = 500
DEFAULT_LIMIT = 50

FILTERS: Final = "Filters"
filter_option: Final = partial(option, section=FILTERS)


watch = option(
    "--watch",
    WholeNumber(1, 86_400),
    "SECONDS",
    "Repeat every N seconds, until ctrl-C or until --fail-on applies.",
)


at = option(
    "--at",
    Text(empty=False),
    "POINT",
    "As it was: before:OPERATION_ID, before:last, after:OPERATION_ID or a time.",
)


def alone(option: str, *others: str) -> None:
    """Refuse what was given beside an *option* that does something of its own; *others* may stand with it.

    Raises:
        UsageError: that is so.
    """
    ctx = click.get_current_context()
    assert isinstance(ctx.command, Command)
    for one in ctx.command.own:
        given = ctx.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE
        if given and isinstance(one, click.Option) and not {option, *others} & {*one.opts}:
            refused = invalid(one.opts[0].lstrip("-"), f"cannot be combined with {option}")
            dotted = typed_words(ctx).replace(" ", ".")
            raise UsageError(refused.message, details={**refused.details, "command": dotted})
    if ctx.params["output"] in FORMS and "--format" not in others:
        raise invalid("format", f"{ctx.params['output']} cannot be combined with {option}")


# -- which conversation, which summary -------------------------------------------------------------------

CONVERSATION: Final = ConversationNumber()


def by_conversation_id(kind: Kind[Any] = CONVERSATION) -> Decorator:
    """A conversation by its id."""
    return option("--conversation-id", kind, "ID", "The conversation by its id.")


#: The same where the other name may stand for one that is blank. The id is read when it is known to be alone.
_ID_OR_BLANK: Final = by_conversation_id(RawConversation())
_KEY_OR_BLANK: Final = option(
    "--session-key",
    SessionKey(blank=True),
    "KEY",
    "The conversation by its session key: the active one, else the newest.",
)


class ByKey(Record, frozen=True):
    """A conversation by its session key alone, as the engine's command takes it."""

    key: str


#: How a command was told which conversation: `selecting` finds it.
Named: TypeAlias = ConversationName | ByKey


def spoken(command: str) -> str:
    """A dotted *command* as people type it."""
    return command.replace(".", " ")


def by_what(command: str) -> str:
    """How a conversation is named to a *command* (dotted), for refusals."""
    return f"its id, session key or a part of its title, as in `{spoken(command)} 1`"


def no_conversation(command: str, more: str = "") -> UsageError:
    """The refusal of a *command* (dotted) that was told no conversation; *more* ends the sentence."""
    return UsageError(
        f"{spoken(command)} needs a conversation: {by_what(command)}{more}.",
        code="MISSING_SELECTOR",
        details={"command": command},
    )


def _conversation(*, required: bool = False) -> Decorator:
    return argument(
        "conversation",
        ConversationArgument(),
        "CONVERSATION" if required else "[CONVERSATION]",
        "The conversation: its id, session key or a unique part of its title.",
        required=required,
    )


needed_conversation = _conversation(required=True)
optional_conversation = _conversation()


class EngineConversation(Record, frozen=True):
    """How the commands of the engine are told which conversation: its two options too."""

    conversation: ConversationName | None = None
    conversation_id: str | None = None
    session_key: str | None = None

    def named(self, command: str, *, needed: bool = False) -> Named | None:
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
        if self.conversation is not None:
            return self.conversation
        if typed and self.conversation_id is not None:
            return CONVERSATION.read("conversation-id", self.conversation_id)
        if self.session_key:
            return ByKey(self.session_key)
        if needed:
            raise no_conversation(command)
        if self.conversation_id is not None or self.session_key is not None:
            raise no_selector("session-key" if self.conversation_id is None else "conversation-id")
        return None

    def needed(self, command: str) -> Named:
        """The same where it has to be named."""
        named = self.named(command, needed=True)
        assert named is not None
        return named


engine_conversation = gather(
    "conversation", EngineConversation, optional_conversation, _ID_OR_BLANK, _KEY_OR_BLANK
)


class SummaryOptions(Record, frozen=True):
    """How the commands about summaries are told which; a summary's id names its conversation too."""

    conversation: ConversationName | None = None
    summary: tuple[str, ...] = ()

    @property
    def summaries(self) -> tuple[str, ...]:
        """The beginnings of ids that are given."""
        first = self.conversation
        return (first, *self.summary) if isinstance(first, str) and is_summary(first) else self.summary

    @property
    def named(self) -> ConversationName | None:
        """The conversation that is named."""
        first = self.conversation
        return None if isinstance(first, str) and is_summary(first) else first

    @property
    def given(self) -> bool:
        """Whether a conversation or a summary was named at all."""
        return bool(self.summary) or self.conversation is not None

    def check(self, command: str, more: str = "") -> None:
        """Refuse a *command* that names no conversation; *more* ends the sentence.

        Raises:
            UsageError: that is so.
        """
        if not self.given:
            raise no_conversation(command, more)


summary_options = gather(
    "target",
    SummaryOptions,
    argument(
        "conversation",
        ConversationOrSummary(),
        "[CONVERSATION|SUMMARY_ID]",
        "The conversation (its id, session key or a unique part of its title), or a summary by its id "
        "or a unique prefix.",
        required=False,
    ),
    option(
        "--summary",
        SummaryId(),
        "ID",
        "This summary, or a unique prefix of its id; may be given several times.",
        multiple=True,
    ),
)


# -- lists -----------------------------------------------------------------------------------------------

cursor = option(
    "--cursor",
    StoredText(),
    "CURSOR",
    "The next page: the cursor printed by the previous page; empty: the first page.",
)
_ROLES: Final = ("system", "user", "assistant", "tool")
roles = filter_option(
    "--role",
    Choice(*_ROLES),
    "ROLE",
    f"Only this role ({', '.join(_ROLES)}); may be given several times.",
    multiple=True,
)
include_content = flag("--include-content", "Full texts in addition to the previews.")
depth = filter_option("--depth", WholeNumber(0), "N", "Only this depth.")
as_map = flag(
    "--map",
    "Draw instead which summaries cover which messages, by depth, and what the context uses.",
    into="as_map",
)
budget = option("--budget", Tokens(), "TOKENS", "The token budget for shares.")

engine_settings = option(
    "--set",
    EngineSetting(),
    "NAME=VALUE",
    f"An engine setting for this run: {', '.join(EngineSetting.NAMES)}; may be given several times.",
    into="given",
    multiple=True,
)


def set_settings(given: Mapping[str, int]) -> EngineSettings:
    """The engine's settings that ``--set`` names."""
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.base.setting_values import SettingSource, Sourced

    named: dict[str, Any] = {
        EngineSetting.NAMES[name]: Sourced(value, SettingSource.COMMAND_LINE, f"--set {name}")
        for name, value in given.items()
    }
    return replace(EngineSettings(), **named)


class PageOptions(Record, frozen=True):
    """Which page of a list is asked for."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


page_options = gather(
    "paged",
    PageOptions,
    option(
        "--limit",
        WholeNumber(1, MAX_LIMIT),
        "1..500",
        "Maximum number of rows; 50 by default.",
        default=DEFAULT_LIMIT,
    ),
    cursor,
)


class TimeOptions(Record, frozen=True):
    """Of which time the rows of a list are to be."""

    after: Stamp | None = None
    before: Stamp | None = None
    between: tuple[Stamp, Stamp] | None = None
    recency: Stamp | None = None
    since: Stamp | None = None
    until: Stamp | None = None

    def span(self, zone: tzinfo | None) -> tuple[datetime | None, datetime | None]:
        """From when on, and until before when (docs/spec/command.md, "Selecting and filtering").

        A time that names no zone is one of *zone*.

        Raises:
            UsageError: two of them exclude each other, or *zone* has a time twice or skips it.
        """
        if self.between is not None:
            for name in ("after", "before", "recency", "since", "until"):
                if getattr(self, name) is not None:
                    raise invalid_time("between", f"cannot be combined with --{name}")
            start, end = (one.moment(zone) for one in self.between)
            if start >= end:
                typed = "..".join(one.text for one in self.between)
                raise invalid_time("between", "must name the earlier time first", typed)
            return start, end
        lower, begin = _alone(("recency", self.recency), ("since", self.since), ("after", self.after))
        upper, latest = _alone(("until", self.until), ("before", self.before))
        since = None if lower is None else lower.moment(zone)
        until = None if upper is None else upper.moment(zone)
        if since is not None and until is not None and since >= until:
            raise invalid_time(begin, f"must begin earlier than --{latest}", since.isoformat())
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


def _alone(*named: tuple[str, Stamp | None]) -> tuple[Stamp | None, str]:
    """The only time that is given of some, with the name of its option."""
    given = [(value, name) for name, value in named if value is not None]
    if len(given) > 1:
        raise invalid_time(given[0][1], f"cannot be combined with --{given[1][1]}")
    return given[0] if given else (None, "")


_PERIOD: Final = (
    filter_option(
        "--since", When(), "TIME", "From this time on: 2026-03-02T14:30 (local unless it names a zone), 7d."
    ),
    filter_option("--until", When(), "TIME", "Before this time."),
)
period_options = gather("times", TimeOptions, *_PERIOD)
#: What the engine's command has.
_ENGINE_PERIOD: Final = (
    filter_option(
        "--after", Moment(), "TIME", "From this time on; with --json it must name a zone, as --before."
    ),
    filter_option("--before", Moment(), "TIME", "Before this time."),
    filter_option("--between", Period(), "TIME..TIME", "From one time to before another."),
    filter_option("--recency", Recency(), "DURATION", "The last 30s, 30m, 5h, 7d, 12w, 6mo (months) or 1y."),
)
engine_times = gather("times", TimeOptions, *_ENGINE_PERIOD)
time_options = gather("times", TimeOptions, *_PERIOD, *_ENGINE_PERIOD)


def window(
    run: Run, resource: str, page: PageOptions, times: TimeOptions = TimeOptions(), *, as_engine: bool = False
) -> Window:
    """The page and time that a list selects; *as_engine*: to programs, only times as the engine's command
    takes them.
    """
    from lcm_core.store.listing import Window

    span, position = times.span(run.clock), None
    if as_engine and run.presentation.for_programs:
        times.check_as_engine(run.clock)
    if page.cursor:
        from lcm_tui.cli import cursors

        position = cursors.decode(resource, page.cursor)
    return Window(page.limit, position, *span)


# -- assembling ------------------------------------------------------------------------------------------

#: The engines whose rules can be asked for by name: those of `rules.NAMED`.
RULE_NAMES: Final = Choice("0.1", "0.15", "1.0-beta", "1.0", "1.1")
rules_option: Final = partial(
    option, "--rules", RULE_NAMES, "|".join(RULE_NAMES.words), "Use the rules of another engine version."
)
rule_set = rules_option()

# -- models ----------------------------------------------------------------------------------------------

prompt_folder = option(
    "--prompt-dir",
    FilePath(text=True),
    "PATH",
    "A folder with your prompts, or one prompt for all depths (default: the folder next to the lcm-tui "
    "config).",
)


class ModelOptions(Record, frozen=True):
    """Who writes summaries, and what it may cost."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    max_calls: int | None = None
    max_cost: float | None = None


_model: Final = partial(option, section="Model (better in the configuration)")
model_options = gather(
    "model",
    ModelOptions,
    _model(
        "--provider",
        Text(),
        "NAME",
        "Summary provider (default: anthropic where its key is found, else extractive, offline).",
    ),
    _model("--model", Text(), "NAME", "The model."),
    _model("--base-url", Text(), "URL", "The URL of an API-compatible server."),
    _model("--api-key-env", Text(), "NAME", "The environment variable with the key."),
    _model("--max-calls", WholeNumber(0), "N", "Maximum number of calls."),
    _model("--max-cost", Dollars(), "USD", "Maximum cost: no call starts that could exceed it."),
)


# -- changing --------------------------------------------------------------------------------------------

yes = flag("--yes", "Confirm without asking.")


class ChangeFlags(Record, frozen=True):
    """The options that every changing command takes."""

    apply: bool = False
    yes: bool = False
    allow_unread_wal: bool = False
    sql: bool = False  #: an option only where `SqlFlags` are taken


_CHANGE: Final = (
    flag("--apply", "Apply the change (default: preview only)."),
    yes,
    flag(
        "--allow-unread-wal",
        "Change a file although SQLite ignores a part of its -wal; a private copy of that is kept first.",
    ),
)
change_flags = gather("flags", ChangeFlags, *_CHANGE)


class SqlFlags(ChangeFlags, frozen=True):
    """The same of a command that can show its SQL."""

    sql: bool = False


def sql_flags(name: str = "flags") -> Decorator:
    """Declare the options of a change that can show its SQL."""
    sql = flag("--sql", "Print only the SQL of the change to standard output.")
    return gather(name, SqlFlags, *_CHANGE, sql)


# -- after an import -------------------------------------------------------------------------------------
# What ``backfill`` does after the import when requested.


class AfterImport(Record, frozen=True):
    """What is to be done behind the import."""

    recompact: bool = False
    single_root: bool = False
    transplant_to: ConversationName | None = None
    given: tuple[tuple[str, int], ...] = ()
    rules: str | None = None

    @property
    def compact(self) -> bool:
        """Whether it is to be compacted."""
        return self.recompact or self.single_root

    def settings(self) -> EngineSettings:
        """The engine's settings that the options name."""
        return set_settings(({"freshTailCount": 0} if self.single_root else {}) | dict(self.given))


after_import = gather(
    "after",
    AfterImport,
    flag("--recompact", "Compact the conversation after the import, even if nothing was missing."),
    flag("--single-root", "Compact it to one summary, without a fresh tail unless --set freshTailCount=N."),
    option(
        "--transplant-to",
        ConversationArgument(),
        "CONV",
        "Then copy its summaries to the front of another conversation.",
    ),
    engine_settings,
    rule_set,
)


# -- drafts ----------------------------------------------------------------------------------------------
# The options of the commands that make drafts: of summaries, and of focus briefs.

#: Rules of acceptance: `drafts.EXAMPLES`.
EXAMPLES: Final = "every, nothing invented, no rule lost, no worse, names 80, no caution"


class DraftFlags(Record, frozen=True):
    """The options of a command that makes drafts."""

    draft: Path | None = None
    from_drafts: Path | None = None
    resume: bool = False
    accept: str | None = None
    show_prompts: bool = False
    no_previous: bool = False
    rules: str | None = None
    model: ModelOptions = field(default_factory=ModelOptions)
    prompt_dir: Path | None = None
    change: SqlFlags = field(default_factory=SqlFlags)


_USUAL_DRAFTING: Final = (
    option("--draft", FilePath(), "FILE", "Call the model and write the drafts to this file for review."),
    option("--from-draft", FilePath(), "FILE", "Apply the drafts marked in such a file.", into="from_drafts"),
    flag("--resume", "Continue a stopped batch; with --apply or --draft."),
    option("--accept", Raw(), "CONDITIONS", f"Accept drafts that meet these conditions: {EXAMPLES}."),
    model_options,
    sql_flags("change"),
)
usual_draft_flags = gather("flags", DraftFlags, *_USUAL_DRAFTING)
draft_flags = gather(
    "flags",
    DraftFlags,
    flag("--include-content", "Show each full prompt too, without sending it.", into="show_prompts"),
    flag("--no-previous", "Omit the previous context."),
    rule_set,
    prompt_folder,
    *_USUAL_DRAFTING,
)

# -- focus briefs ----------------------------------------------------------------------------------------

_WRITING = "Text"

no_sweep = flag("--no-sweep", "Skip the sweep; the engine never does.")


class BriefOptions(Record, frozen=True):
    """Where the text of a brief comes from, and what is done around it.

    Raises:
        UsageError: two of them exclude each other.
    """

    conversation: ConversationName
    text: Path | None = None
    draft: Path | None = None
    from_draft: Path | None = None
    no_sweep: bool = False
    budget: int | None = None
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


brief_options = gather(
    "brief",
    BriefOptions,
    needed_conversation,
    option("--text", FilePath(), "FILE", "The text, from a file; - reads standard input.", section=_WRITING),
    option(
        "--draft",
        FilePath(),
        "FILE",
        "Call the model and write the draft to this file for review.",
        section=_WRITING,
    ),
    option("--from-draft", FilePath(), "FILE", "Use the draft in such a file.", section=_WRITING),
    no_sweep,
    budget,
    model_options,
    sql_flags(),
)
