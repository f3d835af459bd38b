"""``grep``: everything that was said, searched (docs/spec/searching.md)."""

from __future__ import annotations

from collections.abc import Mapping

from lcm_core.base.errors import ExitCode, RefusedError
from lcm_core.base.files import forget_cache, reason_of
from lcm_core.base.javascript import Json
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.base.times import iso_or_none
from lcm_core.base.values import Record, replace, to_json
from lcm_core.store.database import Reader
from lcm_core.store.search import DocumentKind, Filter
from lcm_recall.queries import recall_settings
from lcm_recall.results import FoundPage, OutsideTime, outside_time
from lcm_recall.search import (
    OTHER_SPELLING,
    Found,
    Hit,
    index_of,
    make_index,
    remember,
    search,
)
from lcm_recall.terms import Mode, parse
from lcm_recall.tools import RecallTools

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, flag, gather, option
from lcm_tui.cli.kinds import Choice, Raw, StoredText, WholeNumber, invalid
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.cli.recall import agent, in_scope, whole_session
from lcm_tui.tables.blocks import Facts, Note, Prose
from lcm_tui.tables.blocks import OutputBlock as Block

#: Kinds of summaries, which may be asked for beside the kinds of documents.
_LEVELS = ("leaf", "condensed")
KINDS = Choice(*DocumentKind, *_LEVELS)
DEFAULT_LIMIT, _MAX_OFFSET = 20, 10**9
#: What the engine's own tool can be narrowed to, one at a time, and what it calls that.
_ENGINE_KINDS = {"message": "messages", "summary": "summaries", "file": "files"}


class ScopeOptions(Record, frozen=True):
    """Which conversations, and what in them."""

    conversation_id: ConversationId | None = None
    session_key: str | None = None
    agent: str | None = None
    role: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    depth: int | None = None
    context: str | None = None
    broken: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that were given, each once."""
        return tuple(dict.fromkeys(self.kind))

    def filter(
        self,
        within: tuple[ConversationId, ...] | None,
        since: str | None,
        before: str | None,
    ) -> Filter:
        """The same for the search, *within* some conversations."""
        of_summaries = tuple(kind for kind in self.kinds if kind in _LEVELS)
        documents = [DocumentKind(kind) for kind in self.kinds if kind not in _LEVELS]
        documents += [DocumentKind.SUMMARY] if of_summaries else []
        return Filter(
            within,
            tuple(dict.fromkeys(documents)) or tuple(DocumentKind),
            tuple(dict.fromkeys(self.role)),
            tuple(dict.fromkeys(self.tool)),
            of_summaries,
            () if self.depth is None else (self.depth,),
            since,
            before,
            None if self.context is None else self.context == "in",
            self.broken,
        )


scope_options = gather(
    "scope",
    ScopeOptions,
    options.by_conversation_id(),
    whole_session,
    agent,
    options.roles,
    options.filter_option(
        "--tool",
        StoredText(),
        "NAME",
        "Only messages that call this tool; may be given several times.",
        multiple=True,
    ),
    options.filter_option(
        "--kind",
        KINDS,
        "KIND",
        f"Only of this kind ({', '.join(KINDS.words)}); may be given several times.",
        multiple=True,
    ),
    options.depth,
    options.filter_option(
        "--context",
        Choice("in", "out"),
        "in|out",
        "Only texts that are in a context (in), or that are not (out).",
    ),
    flag("--broken", "Only broken summaries, as repair lists them.", section=options.FILTERS),
)


@command("grep", examples=('grep "lease table" --limit 5', "grep 'OPS-[0-9]+' --regex --kind message"))
@argument(
    "query",
    Raw(),
    "[QUERY]",
    'Words, "a phrase", the start of a word*; all must match.',
    required=False,
    default="",
)
@scope_options
@options.period_options
@flag("--regex", "The query is a regular expression; case does not matter.")
@flag("--substring", "Search for the query literally, also inside words.")
@option(
    "--limit",
    WholeNumber(1, options.MAX_LIMIT),
    "1..500",
    f"Maximum number of hits; {DEFAULT_LIMIT} by default.",
    default=DEFAULT_LIMIT,
)
@option(
    "--cursor",
    WholeNumber(0, _MAX_OFFSET),
    "CURSOR",
    "The next page: the cursor printed by the previous page.",
    default=0,
)
@option(
    "--index",
    Choice("update", "off", "forget"),
    "update|off|forget",
    "The private index of the messages. update: create or update it first, without a query only that; "
    "off: do without it, and keep no recent search; forget: remove it and the recent searches, and search "
    "nothing.",
)
@flag("--fail-empty", "Exit with code 3 if nothing is found.")
@flag("--as-engine", "Search and answer like the engine's own tool.")
def grep(
    run: Run,
    *,
    query: str,
    scope: ScopeOptions,
    times: options.TimeOptions,
    regex: bool,
    substring: bool,
    limit: int,
    cursor: int,
    index: str | None,
    fail_empty: bool,
    as_engine: bool,
) -> Answer:
    """Search messages, tool calls, summaries, focus briefs and large files of all conversations."""
    path = run.settings.database.value
    if index == "forget":
        removed = forget_cache(path)
        said = f"Removed {counted(removed, 'file')} of the cache." if removed else "Nothing to remove."
        return run.answer("grep", {"removed": removed}, [Note(said)])
    if regex and substring:
        raise invalid("regex", "cannot be combined with --substring")
    since, before = map(iso_or_none, times.span(run.clock))
    if as_engine:
        _check_for_the_engine(scope, {"--substring": substring, "--index": index, "--cursor": cursor})
        answer = _as_engine(run, query, scope, limit, regex, since, before)
        details = answer.data["details"]
        empty = not isinstance(details, Mapping) or not details.get("totalMatches")
        return replace(answer, exit_code=ExitCode.NOT_FOUND) if fail_empty and empty else answer
    if index == "update":
        _bring_up_index(run)
    if index == "update" and not query.strip():
        return run.answer("grep", {"indexed": True}, [Note("The private index of the messages is current.")])
    parsed = parse(query, Mode.REGEX if regex else Mode.SUBSTRING if substring else Mode.WORDS)
    by_cache = index != "off" and (index == "update" or run.settings.search_cache.value)
    cache = index_of(path) if by_cache else None
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> tuple[str, Found, OutsideTime | None]:
        async def find(wanted: Filter) -> Found:
            return await reader.run(
                search,
                reader.schema,
                parsed,
                wanted,
                settings,
                limit=limit,
                offset=cursor,
                index=cache,
                full_text=True,
            )

        named, within = await in_scope(reader, scope.conversation_id, scope.session_key, scope.agent)
        wanted = scope.filter(within, since, before)
        found = await find(wanted)
        return named, found, None if found.total else await outside_time(wanted, find)

    named, found, outside = run.read(load)
    if by_cache:
        remember(path, parsed.text)
    page = FoundPage.of(parsed.text, named, found)
    if outside is not None:
        page = replace(page, outside_time=outside)
    answer = run.answer("grep", to_json(page), _grep_blocks(run, named, found, outside))
    return replace(answer, exit_code=ExitCode.NOT_FOUND) if fail_empty and not found.total else answer


def _as_engine(
    run: Run,
    query: str,
    scope: ScopeOptions,
    limit: int,
    regex: bool,
    since: str | None,
    before: str | None,
) -> Answer:
    given: dict[str, Json] = {
        "pattern": query,
        "mode": "regex" if regex else "full_text",
        "limit": limit,
        "since": since,
        "before": before,
    }
    if scope.conversation_id is not None:
        given["conversationId"] = scope.conversation_id
    elif scope.session_key is None:
        given["allConversations"] = True
    if scope.kinds:
        given["scope"] = _ENGINE_KINDS[scope.kinds[0]]
    settings = recall_settings(run.settings)
    found = run.work(
        lambda database: RecallTools(database, settings).call("lcm_grep", given, scope.session_key)
    )
    return run.answer("grep", {"text": found.text, "details": found.details}, [Prose(found.text)])


def _check_for_the_engine(scope: ScopeOptions, ours: Mapping[str, object]) -> None:
    """Refuse what the engine's own tool does not know: it must not look as if it had been taken into account.

    Raises:
        UsageError: such an option was given.
    """
    given = {
        **ours,
        "--agent": scope.agent,
        "--role": scope.role,
        "--tool": scope.tool,
        "--depth": scope.depth is not None,
        "--context": scope.context,
        "--broken": scope.broken,
        "--kind": len(scope.kind) > 1 or not _ENGINE_KINDS.keys() >= set(scope.kind),
    }
    for name, value in given.items():
        if value:
            raise invalid(
                name.removeprefix("--"), "cannot be combined with --as-engine: its tool has no such choice"
            )


def _bring_up_index(run: Run) -> None:
    """Make the private index of the database, or take in what is new or has changed; ctrl-C stops it."""
    line = ProgressLine()
    try:
        run.work(
            lambda database: make_index(
                database, lambda share: line.show("Indexing messages", round(share * 100), 100)
            )
        )
    except OSError as error:
        raise RefusedError(
            f"The index cannot be created ({reason_of(error)}); omit --index update to search without it.",
            code="NO_INDEX",
        ) from error
    finally:
        line.clear()


def _grep_blocks(run: Run, named: str, found: Found, outside: OutsideTime | None) -> list[Block]:
    blocks: list[Block] = []
    for top, hits in found.groups:
        lines = [_hit_lines(run, hit) for hit in hits]
        title = "Hits that no summary of a context covers:" if top is None else f"Under {top}"
        blocks.append(Prose("\n".join(lines), title=title))
    coverage = found.coverage
    if outside is not None:
        blocks.append(Note(f"Nothing was found in the time asked; {outside.text}."))
    elif not found.total and not any(coverage.searched.values()):
        blocks.append(Note("Nothing was searched: there is no text in this scope."))
    elif not found.total:
        blocks.append(Note("Nothing was found."))
        blocks += [Note(one.text) for one in found.near]
    facts: list[tuple[str, str | int | None]] = [
        ("Scope", named),
        ("Hits", f"{len(found.hits)} of {found.total_text}" if found.total else "0"),
        ("Searched", coverage.searched_text),
        ("Coverage", coverage.text),
        ("Time", f"{coverage.elapsed_ms / 1000:.2f} s"),
    ]
    blocks.append(Facts(facts))
    if found.next is not None:
        blocks.append(Note(f"More follow: --cursor {found.next}"))
    return blocks


def _hit_lines(run: Run, hit: Hit) -> str:
    way = f"under {' > '.join(hit.way)}" if len(hit.way) > 1 else "in the context" if hit.in_context else ""
    head = f"{hit.citation}  conversation {hit.conversation_id}  {hit.label}  {run.time(hit.at)}  {hit.place}"
    notes = ", ".join(filter(None, ("" if hit.spelled else OTHER_SPELLING, way)))
    return "\n    ".join(filter(None, (head, hit.snippet, notes)))
