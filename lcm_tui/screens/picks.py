"""What can be picked instead of typed, from what is known of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import STEPS, counted, step
from lcm_core.base.times import format_local, parse_utc, zone_words
from lcm_core.base.values import Record
from lcm_core.operations.past_point import parse_point
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Reader
from lcm_core.store.listing import Snapshot, Window, snapshot_page
from lcm_core.store.state import engine_state
from lcm_core.store.statistics import growth_of

from lcm_tui.kit.commands import Key
from lcm_tui.kit.pick import Pick
from lcm_tui.kit.places import Side
from lcm_tui.kit.session import PastSession, Session
from lcm_tui.screens import actions
from lcm_tui.tables.blocks import tokens_text

if TYPE_CHECKING:
    from lcm_core.change.journal import Operation
    from lcm_core.operations.past import Stop

#: What is typed for the context as it was when the screen was opened.
OPENED: Final = "opened"
#: What is typed on the past for the context as it is now.
NOW: Final = "now"
#: What is typed to compare with the same context without its prompt.
NO_PROMPT: Final = "no prompt"
#: Snapshots that are listed, the newest.
_SNAPSHOTS: Final = 20
#: Compactions, and operations, that are listed, the newest.
_MOMENTS: Final = 5


async def _budgets_of(reader: Reader, conversation: Conversation) -> list[tuple[int, str]]:
    """The budgets that hosts and engines have passed for a conversation, and who did."""
    number = conversation.conversation_id
    noted = (await engine_state(reader, number)).maintenance or {}
    passed = noted.get("token_budget")
    found = [(passed, "the host’s, as the engine noted it")] if isinstance(passed, int) and passed > 0 else []
    kept = await snapshot_page(reader, number, Window(limit=_SNAPSHOTS))
    return [
        *found,
        *((one.budget, f"of {one.id}") for one in kept.items if isinstance(one, Snapshot)),
    ]


async def budgets(session: Session, conversation: Conversation, *, asked: int) -> Sequence[Pick]:
    """Budgets to set: the configured one, those in use, and the windows that models have."""
    configured = session.budget
    cap = session.settings.engine.max_assembly_token_budget.value
    known = await session.read(_budgets_of, conversation)
    if cap is not None:
        known.insert(0, (cap, "the engine’s cap"))
    named: dict[int, str] = {}
    for budget, note in (*known, *((size, "a size to try") for size in STEPS)):
        named.setdefault(budget, note)
    named.pop(configured, None)
    return [
        Pick("", f"{configured:,}", f"as configured{', set now' if asked == configured else ''}"),
        *(
            Pick(tokens_text(budget), f"{budget:,}", f"{note}{', set now' if budget == asked else ''}")
            for budget, note in named.items()
        ),
    ]


# -- what a context is compared with ---------------------------------------------------------------------


async def comparisons(session: Session, conversation: Conversation, here: Side) -> Sequence[Pick]:
    """What a context is compared with: itself at another moment, under another budget; another one."""
    present = session.present if isinstance(session, PastSession) else session
    stops, kept, others = await present.read(_comparable, conversation.conversation_id)
    zone, budget = session.zone, session.budget
    changes = (one for one in _moments(stops) if not isinstance(one, _Compacted))
    found = [
        *([Pick(NOW, "as it is now")] if here.at else ()),
        *([Pick(NO_PROMPT, "without the prompt")] if here.prompt else ()),
        *([Pick(tokens_text(budget), f"as configured, {budget:,} tokens")] if here.budget != budget else ()),
        *(_before(one, zone) for one in _compactions(stops)),
        *_other_budgets(here.budget),
        Pick(OPENED, "as it was when this screen was opened"),
        *(_before(one, zone) for one in islice(changes, _MOMENTS)),
        *(Pick(one.id, f"snapshot of {_time(one, zone)}", f"sent under {one.budget:,}") for one in kept),
        *(
            Pick(f"#{one.conversation_id}", f"conversation {session.called(one)}")
            for one in others
            if one.conversation_id != conversation.conversation_id
        ),
    ]
    listed: dict[str, Pick] = {}
    for one in found:
        listed.setdefault(one.text, one)
    listed.pop(here.at, None)
    return list(listed.values())


async def _comparable(
    reader: Reader, number: ConversationId
) -> tuple[Sequence[Stop], list[Snapshot], list[Conversation]]:
    kept = await snapshot_page(reader, number, Window(limit=_SNAPSHOTS))
    others = await list_conversations(reader)
    return (
        await actions.read_stops(reader, number),
        [one for one in kept.items if isinstance(one, Snapshot)],
        [entry.conversation for entry in others],
    )


class _Compacted(Record, frozen=True):
    """A compaction, whoever made it."""

    created_at: str  #: when it began
    before: str  #: the moment before it, as it is typed
    summaries: int

    @property
    def note(self) -> str:
        """What it made."""
        return f"{counted(self.summaries, 'summary')} made"


def _compactions(stops: Sequence[Stop]) -> list[_Compacted]:
    """The newest compactions among stops, the newest first: the host's, and ours that hold."""
    return list(islice((one for one in _moments(stops) if isinstance(one, _Compacted)), _MOMENTS))


def _moments(stops: Sequence[Stop]) -> Iterator[_Compacted | Operation]:
    """The compactions and the other changes among stops, the newest first."""
    from lcm_core.change.journal import Operation
    from lcm_core.operations.past import Compaction, point_before

    operations = {one.id: one for one in stops if isinstance(one, Operation)}

    def holds(one: Operation) -> bool:
        back: Operation | None = one
        chain: list[Operation] = []
        while back is not None and back not in chain:
            chain.append(back)
            back = operations.get(back.undone_by or "")
        return len(chain) % 2 == 1

    passes: dict[str, list[Operation]] = {}
    for one in operations.values():
        makes = any(count.table == "summaries" and count.insert for count in one.rows)
        if one.kind == "compact" and makes and holds(one):
            passes.setdefault(one.batch or one.id, []).append(one)
    ours = {made[0].id: made for made in passes.values()}
    for stop in stops:
        if isinstance(stop, Compaction):
            yield _Compacted(stop.created_at, point_before(stop).text, stop.summaries)
        elif stop.id in ours:
            first = ours[stop.id][-1]
            yield _Compacted(first.created_at, point_before(first).text, len(ours[stop.id]))
        elif actions.is_seen(stop):
            yield stop


def _before(one: _Compacted | Operation, zone: tzinfo | None) -> Pick:
    """The moment before it."""
    if isinstance(one, _Compacted):
        return Pick(one.before, f"before the compaction of {_time(one, zone)}", one.note)
    from lcm_core.operations.past import point_before

    return Pick(point_before(one).text, f"before {one.title}", _time(one, zone))


def _other_budgets(budget: int) -> list[Pick]:
    """A step down and a step up."""
    sizes = [size for size in (step(budget, -1), step(budget, 1)) if size != budget]
    return [Pick(tokens_text(size), f"under {size:,} tokens") for size in sizes]


class _Timed(Protocol):
    @property
    def created_at(self) -> str: ...


def _time(one: _Timed, zone: tzinfo | None) -> str:
    return format_local(parse_utc(one.created_at), zone)[5:16] or one.created_at


# -- as it was -------------------------------------------------------------------------------------------


_NO_MOMENT: Final = "Pick a moment, or type a time (2026-03-02 10:00) or a change of the history (op_…)."


async def _ask_moment(screen: Any) -> None:
    """Ask for a moment of the past, and show it."""
    from lcm_core.operations.past import stops_since

    session, then, owner = screen.session, screen.then, screen.conversation.conversation_id
    stops: Sequence[Stop] | None = None

    async def known() -> Sequence[Pick]:
        nonlocal stops
        stops = await (session if then is None else then.present).read(actions.read_stops, owner)
        present = [] if then is None else [Pick(NOW, "the present")]
        return [*present, *(_before(one, session.zone) for one in _moments(stops))]

    def check(text: str) -> str | None:
        if (point := parse_point(text.strip(), session.zone)) is None:
            return None if text.strip().casefold() == NOW else _NO_MOMENT
        if stops is not None:
            stops_since(stops, point)  # raises where there is no such change
        later = point.when is not None and point.when > datetime.now(UTC)
        return "That time is still to come." if later else None

    label = f"as it was: a time (2026-03-02 10:00 {zone_words(session.zone)}), or before a change (op_…)"
    text = await screen.ask(label, check=check, picks=known)
    if text is not None:
        screen.steps.go(parse_point(text.strip(), session.zone))


#: The past of the conversation that a screen shows, which has `steps` through it.
AS_IT_WAS: Final[Key[Any]] = Key(
    "as-it-was",
    "J",
    "As it was",
    "Pick a change or a compaction, or type a time: show this as it was then.",
    _ask_moment,
    words="past; before; older; earlier; time; time machine; time travel; rewind; yesterday",
    where="the context and the summary DAG",
    bar="Past",
)


# -- where to in a conversation, and what is searched ----------------------------------------------------


async def places_of(session: Session, conversation: Conversation) -> Sequence[Pick]:
    """Where to jump in a conversation: its ends, its compactions, its days."""
    zone, number = session.zone, conversation.conversation_id
    growth = await session.read(growth_of, number)
    stops = await session.read(actions.read_stops, number)
    found = [
        Pick(one.created_at, f"the compaction of {_time(one, zone)}", one.note) for one in _compactions(stops)
    ]
    if growth is None:
        return found
    (first, first_seq), (last, last_seq) = growth.marks[0], growth.marks[-1]
    days = dict.fromkeys(format_local(when, zone)[:10] for when, _ in reversed(growth.marks))
    return [
        Pick(str(last_seq), "the newest message", format_local(last, zone)),
        Pick(str(first_seq), "the first message", format_local(first, zone)),
        *found,
        *(Pick(day, note="the first message of that day, or after it") for day in days),
    ]


#: What a search is narrowed to, as it is typed and in words.
_NARROWED: Final = (
    ("", "everything"),
    ("tool", "tool outputs"),
    ("user", "what users said"),
    ("assistant", "what the assistant said"),
    ("in-context", "in the context"),
    ("out-of-context", "not in the context"),
    ("broken", "broken summaries"),
    ("messages", ""),
    ("summaries", ""),
    ("briefs", ""),
    ("files", ""),
    ("7d", "the last 7 days"),
    ("24h", "the last 24 hours"),
)


def narrowings(
    session: Session,
    names: Mapping[ConversationId, Conversation],
    now: str,
    turned: Callable[[str], str],
) -> Sequence[Pick]:
    """What a search is narrowed to: roles, kinds, times, and conversations by their *names*.

    What limits it *now* stays, where both can be; *turned*: the same with another word, or without it.
    """
    offered = [
        *_NARROWED[1:],
        *((f"#{number}", f"conversation {session.called(one)}") for number, one in names.items()),
    ]
    found = [Pick("", _NARROWED[0][1])]
    for word, title in offered:
        text = turned(word)
        note = f"→ {text or 'everything'}" if now else ""
        found.append(Pick(text, title or word, note))
    return found
