"""Some summaries with everything that they were made from, down to the messages: whole rows, for a deep copy.

Level by level, each row once, whatever cycles or diamonds there are. What cannot be copied without adding an
error where it goes is refused here, in a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lcm_core.errors import RefusedError
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.times import parse_utc


@dataclass(frozen=True, slots=True)
class Subtree:
    """Whole rows, each summary behind all of its sources and each message behind those of smaller seq."""

    summaries: Mapping[str, StoredRow]
    edges: tuple[StoredRow, ...]  #: rows of ``summary_parents``
    links: tuple[StoredRow, ...]  #: rows of ``summary_messages``
    messages: Mapping[int, StoredRow]

    def oddities(self) -> tuple[tuple[str | int, ...], ...]:
        """What is wrong in it and harms nobody: a copy may have it too.

        ``(check, summary)``, ``("B15", message)``, ``("B12", consumer, source)`` for an edge.
        """
        found: list[tuple[str | int, ...]] = []
        sources = Counter(_id(edge, "parent_summary_id") for edge in self.edges)
        messages = Counter(_number(link, "message_id") for link in self.links)
        found += (("B14", source) for source, consumers in sources.items() if consumers > 1)
        found += (("B15", message) for message, leaves in messages.items() if leaves > 1)
        consumers = {_id(edge, "summary_id") for edge in self.edges}
        linked = {_id(link, "summary_id") for link in self.links}
        for summary, row in self.summaries.items():
            leaf = row["kind"] == "leaf"
            if summary in (consumers if leaf else linked):
                found.append(("B8", summary))
            if "depth" in row and leaf != (row["depth"] == 0):
                found.append(("B9", summary))
        for edge in self.edges:
            consumer, source = _id(edge, "summary_id"), _id(edge, "parent_summary_id")
            if _inverted(self.summaries[consumer], self.summaries[source]):
                found.append(("B12", consumer, source))
        return tuple(found)


async def load_subtree(reader: Reader, owner: ConversationId, roots: Sequence[str]) -> Subtree:
    """Read everything under *roots*, summaries of conversation *owner*.

    Raises:
        RefusedError: a row is gone or another conversation's, a summary has no sources, two of *roots* lie
            one below the other, or there is a cycle.
    """
    edges, seen = await _edges_below(reader, roots)
    summaries = {
        _id(row, "summary_id"): row for row in await rows_by(reader, "summaries", "summary_id", seen)
    }
    _check_present(owner, seen, summaries, "Summary", "summary_id")
    _check_standing(roots, edges)
    links = await rows_by(reader, "summary_messages", "summary_id", seen)
    wanted = list(dict.fromkeys(link["message_id"] for link in links))
    rows = await rows_by(reader, "messages", "message_id", wanted)
    messages = {_number(row, "message_id"): row for row in sorted(rows, key=lambda row: _number(row, "seq"))}
    _check_present(owner, wanted, messages, "Message", "message_id")
    _check_sources(summaries, edges, links)
    order = _sources_first(list(summaries), edges)
    return Subtree({one: summaries[one] for one in order}, tuple(edges), tuple(links), messages)


async def _edges_below(reader: Reader, roots: Sequence[str]) -> tuple[list[StoredRow], list[str]]:
    """The edges under some summaries, and all summaries that they name."""
    edges: list[StoredRow] = []
    seen = dict.fromkeys(roots)
    level = list(seen)
    while level:
        rows = await rows_by(reader, "summary_parents", "summary_id", level)
        edges += rows
        sources = dict.fromkeys(_id(row, "parent_summary_id") for row in rows)
        level = [source for source in sources if source not in seen]
        seen.update(dict.fromkeys(level))
    return edges, list(seen)


def _sources_first(summaries: Sequence[str], edges: Iterable[StoredRow]) -> list[str]:
    """The summaries in an order in which none comes before its sources, whatever depth they claim."""
    waiting = dict.fromkeys(summaries, 0)
    consumers: dict[str, list[str]] = {}
    for edge in edges:
        consumers.setdefault(_id(edge, "parent_summary_id"), []).append(_id(edge, "summary_id"))
        waiting[_id(edge, "summary_id")] += 1
    order = [summary for summary, count in waiting.items() if not count]
    for summary in order:  # grows while it is walked: level by level
        for consumer in consumers.get(summary, ()):
            waiting[consumer] -= 1
            if not waiting[consumer]:
                order.append(consumer)
    if len(order) < len(summaries):
        stuck = next(summary for summary, count in waiting.items() if count)
        raise RefusedError(
            f"Summary {stuck} stands on a cycle or above one: there is no end to what it was made from. "
            "Mend the source first; `lcm-tui doctor` names the edges."
        )
    return order


# -- refusals --------------------------------------------------------------------------------------------


def _check_present(
    owner: ConversationId,
    wanted: Sequence[object],
    rows: Mapping[str, StoredRow] | Mapping[int, StoredRow],
    kind: str,
    column: str,
) -> None:
    known = {row[column]: row for row in rows.values()}
    for one in wanted:
        row = known.get(one) if isinstance(one, int | str) else None
        if row is None:
            raise RefusedError(
                f"{kind} {one} is named in what was to be copied of conversation {owner}, and its row is "
                f"gone: the copy would dangle. Mend it first; `lcm-tui doctor {owner}` shows where."
            )
        if row["conversation_id"] != owner:
            raise RefusedError(
                f"{kind} {one} is named in what was to be copied of conversation {owner} and belongs to "
                f"conversation {row['conversation_id']!r}. Mend it first: see `lcm-tui doctor {owner}`."
            )


def _check_standing(roots: Sequence[str], edges: Iterable[StoredRow]) -> None:
    """No root may lie below another one: the copy would cover the same twice (A7)."""
    sources: dict[str, list[str]] = {}
    for edge in edges:
        sources.setdefault(_id(edge, "summary_id"), []).append(_id(edge, "parent_summary_id"))
    standing, below = set(roots), set[str]()
    waiting = [source for root in roots for source in sources.get(root, ())]
    while waiting:
        source = waiting.pop()
        if source in below:
            continue
        below.add(source)
        waiting += sources.get(source, ())
    if double := standing & below:
        raise RefusedError(
            f"Summary {min(double)} and one made from it both stand in the source's context: the copy would "
            "cover the same twice. Take one of them out first; `lcm-tui doctor` offers it."
        )


def _check_sources(
    summaries: Mapping[str, StoredRow], edges: Iterable[StoredRow], links: Iterable[StoredRow]
) -> None:
    """Every summary must be made from something of its kind (B1, B2)."""
    made = {_id(edge, "summary_id") for edge in edges}
    linked = {_id(link, "summary_id") for link in links}
    for summary, row in summaries.items():
        leaf = row["kind"] == "leaf"
        if summary not in (linked if leaf else made):
            what = "Leaf" if leaf else "Condensed summary"
            raise RefusedError(
                f"{what} {summary} has no {'source messages' if leaf else 'sources'}: nobody can tell what "
                "the copy would stand for. Mend it first; `lcm-tui doctor` shows it."
            )


def _inverted(consumer: StoredRow, source: StoredRow) -> bool:
    depths = source.get("depth"), consumer.get("depth")
    if isinstance(depths[0], int) and isinstance(depths[1], int) and depths[0] >= depths[1]:
        return True
    made, earlier = (parse_utc(str(row["created_at"])) for row in (consumer, source))
    return made is not None and earlier is not None and earlier > made


def _id(row: StoredRow, column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise RefusedError(f"A summary that was to be copied has {value!r} for an id; mend it first.")
    return value


def _number(row: StoredRow, column: str) -> int:
    value = row[column]
    if not isinstance(value, int):
        raise RefusedError(f"A message that was to be copied has {value!r} for its {column}; mend it first.")
    return value
