"""Family F: the search tables, copies that nothing keeps in step (docs/engine/search.md, "Upkeep")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lcm_core.dag.checks.facts import Limits, Tally, told
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import ConversationId

_BROKEN: Final = Confidence.BROKEN
_REFERENCES: Final = ("[LCM File:", "[LCM Tool Output:", "[LCM Raw Payload:", "[User image:", "[Tool image:")


@dataclass(frozen=True, slots=True)
class SearchRows:
    """How a range of ``messages_fts`` differs from the messages."""

    missing: tuple[int, ...]  #: ids of messages that are not blank
    differing: tuple[tuple[int, str, str], ...]  #: id, text of the message, text that is searched
    orphans: tuple[int, ...]  #: rowids


@dataclass(frozen=True, slots=True)
class SummaryRows:
    """How a range of a search table of summaries differs from them; rowids but for what is missing."""

    missing: tuple[str, ...]
    orphans: tuple[int, ...]
    repeated: tuple[int, ...]
    stale: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchProbe:
    """Whether a search table works."""

    table: str
    fault: str  #: why not; empty when it does
    ours: bool = False  #: the fault is this machine's SQLite, which lacks what the table needs


def is_stale(text: str, searched: str) -> bool:
    """Whether a search row holds something else than its message.

    Of a message that refers to a file only the head and the exploration summary are searched (0.10 on).
    """
    if text.lstrip().startswith(_REFERENCES) or any(f"\n{one}" in text for one in _REFERENCES):
        return not all(line.strip() in text for line in searched.splitlines())
    return True


class MessageSearchScan:
    """Gathers the differences of ``messages_fts`` (F1, F2, F4)."""

    def __init__(self, limits: Limits, conversation_id: ConversationId | None) -> None:
        self._missing, self._orphans, self._stale = Tally(limits), Tally(limits), Tally(limits)
        self._conversation_id = conversation_id

    def take(self, rows: SearchRows) -> None:
        """Note the differences of one range."""
        for message_id in rows.missing:
            self._missing.add("messages", message_id)
        for rowid in rows.orphans:
            self._orphans.add("messages_fts", rowid)
        for message_id, text, searched in rows.differing:
            if is_stale(text, searched):
                self._stale.add("messages_fts", message_id)

    def findings(self) -> Iterator[Finding]:
        """At most one finding per check."""
        for check, rows, words in (
            ("F1", self._missing, "cannot be found by searching."),
            ("F2", self._orphans, "are in the search table although deleted."),
            ("F4", self._stale, "have another text than the search table."),
        ):
            if rows:
                sentence = told(rows.count, "message", self._conversation_id, words)
                yield rows.finding(check, _BROKEN, self._conversation_id, sentence, FixId.REBUILD_SEARCH)


class SummarySearchScan:
    """Gathers the differences of a search table of summaries (F3 and F4, or F5)."""

    def __init__(self, table: str, limits: Limits, conversation_id: ConversationId | None) -> None:
        self._table, self._conversation_id = table, conversation_id
        self._cjk = table.endswith("_cjk")
        self._missing, self._extra, self._stale = Tally(limits), Tally(limits), Tally(limits)

    def take(self, rows: SummaryRows) -> None:
        """Note the differences of one range."""
        for summary_id in rows.missing:
            self._missing.add("summaries", summary_id)
        for rowid in (*rows.orphans, *rows.repeated):
            self._extra.add(self._table, rowid)
        for rowid in rows.stale:
            self._stale.add(self._table, rowid)

    def findings(self) -> Iterator[Finding]:
        """At most one finding per kind of difference."""
        where = "the search table for Chinese, Japanese and Korean" if self._cjk else "the search table"
        for check, rows, words in (
            ("F3", self._missing, f"cannot be found in {where}."),
            ("F3", self._extra, f"are in {where} twice, or although deleted."),
            ("F4", self._stale, f"have another text than {where}."),
        ):
            if rows:
                sentence = told(rows.count, "summary", self._conversation_id, words)
                name = "F5" if self._cjk else check
                yield rows.finding(name, _BROKEN, self._conversation_id, sentence, FixId.REBUILD_SEARCH)


def broken_tables(probes: list[SearchProbe]) -> Iterator[Finding]:
    """F6: tables that cannot be searched at all."""
    for probe in probes:
        if probe.fault:
            yield Finding(
                "F6",
                Confidence.SUSPICIOUS if probe.ours else _BROKEN,
                None,
                (RowRef(probe.table, ()),),
                1,
                f"The search table {probe.table} does not work: {probe.fault}.",
                None if probe.ours else FixId.REBUILD_SEARCH,
            )
