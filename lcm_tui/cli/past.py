"""A command over a conversation as it was: ``--at``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lcm_core.change.journal import Operation
from lcm_core.change.plan import Ref
from lcm_core.errors import UsageError
from lcm_core.past.database import Past
from lcm_core.past.point import FORMS, Point, parse_point
from lcm_core.past.since import Since, since
from lcm_core.records import ConversationId
from lcm_core.settings import Json
from lcm_core.store.context import stored_tokens
from lcm_core.store.database import Reader

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.context import context_blocks, context_document, load_context
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import invalid
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.views.past import since_blocks


def point_of(run: Run, written: str, option: str = "at") -> Point:
    """A point as it was typed.

    Raises:
        UsageError: it is none.
    """
    point = parse_point(written, run.clock)
    if point is None:
        raise invalid(option, f"must be {FORMS}", written)
    return point


async def owner_of(reader: Reader, named: Selector) -> ConversationId:
    """The conversation that was named; by its number also when it is gone.

    Raises:
        NotFoundError: no conversation has that session key.
    """
    if named.session_key is None:
        return named.conversation_id or ConversationId(0)
    return (await chosen(reader, named)).conversation_id


def run_over(run: Run, named: Selector, written: str) -> Run:
    """The run over the database as it was.

    Raises:
        UsageError: what was typed is no point.
        NotFoundError: no conversation has that session key.
    """
    point = point_of(run, written)
    return replace(run, past=Past(run.read(owner_of, named), point))


def show_before(run: Run, operation: Operation) -> Answer:
    """The context before an operation, and what changed since.

    Raises:
        UsageError: the operation is noted under no single conversation.
    """
    owner = operation.conversation_id
    if owner is None:
        raise UsageError(
            f"Operation {operation.id} changed several conversations. Choose one: `lcm-tui context show "
            f"CONVERSATION_ID --at before:{operation.id}`.",
            details={"option": "at"},
        )
    named = Selector(ConversationId(owner), None)
    past = replace(run, past=Past(ConversationId(owner), Point(operation.id)))
    shown = past.read(load_context, past, named, None)
    assert past.past is not None
    assert past.past.found is not None
    changed = since(past.past.found.earlier)
    now = run.read(stored_tokens, past.past.found.earlier.refs_now)
    document: Document = {
        "context": context_document(shown),
        "since": _since_document(changed, shown.tokens, now),
    }
    blocks = [*since_blocks(changed, shown.tokens, now), *context_blocks(past, shown)]
    return past.answer("history.show", document, blocks)


def _since_document(changed: Since, then: int, now: int) -> Document:
    return {
        "tokens": {"then": then, "now": now},
        "leftContext": _ids(changed.left),
        "joinedContext": _ids(changed.joined),
        "summariesMade": list(changed.made),
        "summariesGone": list(changed.gone),
        "summariesChanged": list(changed.changed),
    }


def _ids(refs: Sequence[Ref]) -> list[Json]:
    """Items by what they represent: message ids, and the ids of summaries."""
    return [ref for ref in refs if isinstance(ref, int | str)]
