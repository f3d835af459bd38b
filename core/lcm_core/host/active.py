"""The active path of a session in the host's table (docs/host.md, "The active path").

The host's own list of it is used where it is complete. Else the path is walked from the last entry to the
first, by what the rows say of their parents: then the places of its entries are held, and nothing else.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from lcm_core.errors import NotFoundError
from lcm_core.host.entries import value_of
from lcm_core.ingest.jsonl import BadLineError, LineProblem, read_header, string
from lcm_core.ingest.transcript import LEAF, TranscriptScan
from lcm_core.javascript import JsonObject
from lcm_core.store.host_database import HostRows
from lcm_core.store.host_sessions import (
    EventRow,
    HotState,
    Node,
    active_events,
    events_at,
    hot_state,
    is_put_away,
    nodes,
)


@dataclass(frozen=True, slots=True)
class ActivePath:
    """What the host sees of a session, as it was when this was read."""

    session_id: str
    state: HotState
    walked: array[int] | None  #: places of the entries, in order; None: the host's list is complete
    scan: TranscriptScan | None = field(default=None, compare=False)  #: by which it was walked
    problems: tuple[LineProblem, ...] = field(default=(), compare=False)  #: of the walk

    def __len__(self) -> int:
        """Entries on the path."""
        return self.state.active if self.walked is None else len(self.walked)

    def is_still(self, now: HotState) -> bool:
        """Whether positions mean what they meant: history was not rewritten, and only grew."""
        same = now.generation == self.state.generation and now.indexed == self.state.indexed
        return same and now.active >= self.state.active and (now.last_seq or 0) >= (self.state.last_seq or 0)


def active_path(rows: HostRows, session_id: str) -> ActivePath:
    """The path of a session; an empty one where nothing was ever said in it.

    Raises:
        NotFoundError: its entries are not in the table any more.
    """
    state = hot_state(rows, session_id)
    if state.last_seq is None:
        _check_there(rows, session_id)
    if state.indexed or state.last_seq is None:
        return ActivePath(session_id, state, None)
    scan, problems = _tree(rows, session_id)
    shown, found = scan.path()
    places = array("q", (scan.columns.line[number] for number in shown))
    return ActivePath(session_id, state, places, scan, (*problems, *scan.problems.kept, *found))


def path_events(rows: HostRows, path: ActivePath, start: int, stop: int) -> Iterator[EventRow]:
    """The entries at positions *start* to *stop* of a path, in order, read one after the other."""
    if path.walked is None:
        return active_events(rows, path.session_id, start, stop)
    return events_at(rows, path.session_id, path.walked[start:stop])


def _check_there(rows: HostRows, session_id: str) -> None:
    there = rows.first("SELECT 1 FROM session_windows WHERE session_id = ?", (session_id,)) is not None
    if not there or is_put_away(rows, session_id):
        raise NotFoundError(
            f"Session {session_id} is not in {rows.path} any more: the host archived or deleted it. List "
            "the sessions again.",
            code="SESSION_NOT_FOUND",
            details={"session": session_id},
        )


def _tree(rows: HostRows, session_id: str) -> tuple[TranscriptScan, list[LineProblem]]:
    listed, unlisted = nodes(rows, session_id)
    scan, problems = TranscriptScan(), []
    # Rows tell neither what a marker targets nor whether a parent is none or was never recorded.
    asked = {*unlisted, *(node.seq for node in listed if node.type == LEAF or node.parent_id is None)}
    values: dict[int, JsonObject] = {}
    for row in events_at(rows, session_id, sorted(asked)):
        try:
            values[row.seq] = _frame_of(value_of(row)[0])
        except BadLineError as error:
            if row.seq in unlisted:
                problems.append(LineProblem(row.seq, str(error)))
    by_seq = {node.seq: node for node in listed}
    for seq in sorted({*by_seq, *values}):
        value = values.get(seq) or _of_node(by_seq[seq])
        if value.get("type") == "session":
            scan.header = scan.header or read_header(value)
        elif string(value.get("type")) is not None:
            scan.place(seq, value)
    return scan, problems


def _frame_of(value: JsonObject) -> JsonObject:
    """What places an entry in the tree, without what was said: there may be many of them."""
    if value.get("type") == "session":
        return value
    return {name: value[name] for name in ("type", "id", "parentId", "targetId") if name in value}


def _of_node(node: Node) -> JsonObject:
    return {"type": node.type or "unknown", "id": node.entry_id, "parentId": node.parent_id}
