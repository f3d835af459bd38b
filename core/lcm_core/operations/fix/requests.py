"""What a set of findings asks for, conversation by conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lcm_core.findings import Finding, FixId, KeyPart
from lcm_core.records import ConversationId

#: Search tables by check; F4 and F6 name theirs in the rows.
_SEARCHED: Final = {
    "F1": "messages_fts",
    "F2": "messages_fts",
    "F3": "summaries_fts",
    "F5": "summaries_fts_cjk",
}


@dataclass(slots=True)
class Chosen:
    """The rows that a fix is asked for: by what their keys hold, or all that are wrong."""

    everything: bool = False
    keys: set[KeyPart] = field(default_factory=set)

    def __contains__(self, key: object) -> bool:
        return self.everything or key in self.keys

    def __bool__(self) -> bool:
        return self.everything or bool(self.keys)

    def take(self, finding: Finding) -> None:
        """Ask for the rows of a finding too; one that does not name them all asks for all."""
        self.everything |= finding.row_count > len(finding.rows)
        self.keys.update(part for row in finding.rows for part in row.key)


NOTHING: Final = Chosen()


@dataclass(frozen=True, slots=True)
class Requests:
    """The fixes that are asked for."""

    by_conversation: Mapping[ConversationId | None, Mapping[FixId, Chosen]]
    search: tuple[str, ...]  #: search tables to rebuild, by name
    splits: tuple[ConversationId, ...]  #: sessions that a rollover split: another operation merges them

    def owners_of(self, fix: FixId) -> frozenset[ConversationId | None] | None:
        """The conversations that a fix is asked for, none when it is not; None: all, and rows of nobody."""
        owners = frozenset(owner for owner, fixes in self.by_conversation.items() if fix in fixes)
        return None if None in owners else owners


def requests_of(findings: Iterable[Finding]) -> Requests:
    """Group some findings by what fixes them; those without a fix are left out."""
    found: dict[ConversationId | None, dict[FixId, Chosen]] = {}
    search: dict[str, None] = {}
    splits: dict[ConversationId, None] = {}
    for one in findings:
        if one.fix is None:
            continue
        if one.fix is FixId.REBUILD_SEARCH:
            search.update(dict.fromkeys(_tables(one)))
        elif one.fix is FixId.MERGE_SPLIT:
            if one.conversation_id is not None:
                splits[one.conversation_id] = None
        else:
            fixes = found.setdefault(one.conversation_id, {})
            fixes.setdefault(one.fix, Chosen()).take(one)
            if one.check == "A8":  # behind what comes back, the other gaps are closed too
                fixes.setdefault(FixId.CLOSE_GAPS, Chosen()).take(one)
    return Requests(found, tuple(search), tuple(splits))


def _tables(finding: Finding) -> Iterable[str]:
    if finding.check in _SEARCHED:
        return [_SEARCHED[finding.check]]
    return dict.fromkeys(row.table for row in finding.rows if row.table.endswith(("_fts", "_fts_cjk")))
