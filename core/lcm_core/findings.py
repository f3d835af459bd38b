"""What the checks of a database ask, find and report.

A check is a question with an id of its own (docs/decisions.md, "Checks"). A finding is one answer of it:
rows, a sentence for people, how sure it is, and the name of the fix that could mend it without a model.
Severity says what such damage would mean; confidence says whether this is damage at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lcm_core.records import ConversationId

#: One value of a primary key; None where the column holds NULL.
KeyPart = int | str | None


class Severity(StrEnum):
    """What damage of this kind means when it is real (docs/decisions.md, "Checks")."""

    ERROR = "E"  #: corrupts the context or the DAG, or loses recall
    WARNING = "W"  #: degraded, or wrong metadata
    INFO = "I"  #: hygiene


class Confidence(StrEnum):
    """Whether a finding is damage; the value is the word to show."""

    BROKEN = "broken"  #: no engine leaves it so
    SUSPICIOUS = "suspicious"  #: damage, or something unusual that somebody meant
    BY_DESIGN = "by design"  #: looks like damage and is not


class FixId(StrEnum):
    """The kinds of change that mend a finding without a model."""

    CLOSE_GAPS = "close-gaps"  #: number a context's items from 0 again
    #: context items whose message or summary is gone give way to what the summary was made from
    DROP_DANGLING_ITEMS = "drop-dangling-items"
    DROP_DUPLICATE_ITEMS = "drop-duplicate-items"  #: all but the first item for the same thing
    DROP_COVERED_ITEMS = "drop-covered-items"  #: context items that a summary in the context covers
    DROP_FOREIGN_ITEMS = "drop-foreign-items"  #: items for what stands in its own conversation's context too
    REORDER = "reorder"  #: a context's items, into the one order that seq and times tell
    RESTORE_MESSAGES = "restore-messages"  #: messages that nothing covers, back to their place
    RESTORE_SUMMARIES = "restore-summaries"  #: a summary that fell out of the context, back to its place
    DELETE_ORPHAN_LINKS = "delete-orphan-links"  #: links, edges and brief sources without one of their ends
    DELETE_FALSE_LINES = "delete-false-lines"  #: links and edges that a summary's counters disprove
    DELETE_ORPHAN_PARTS = "delete-orphan-parts"  #: parts whose message is gone
    REBUILD_SEARCH = "rebuild-search"  #: rows of search tables that are missing, extra or stale
    RECOMPUTE_DEPTH = "recompute-depth"
    RECOMPUTE_COUNTERS = "recompute-counters"
    RECOMPUTE_TIMES = "recompute-times"
    RECOMPUTE_FILE_IDS = "recompute-file-ids"
    RECOMPUTE_TOKENS = "recompute-tokens"
    RELINK = "relink"  #: lost sources of a summary that its own counters prove
    NUMBER_SOURCES = (
        "number-sources"  #: links and edges of a summary, from 0 in the order of what they lead to
    )
    FILL_TOOL_COLUMNS = "fill-tool-columns"  #: tool call ids that only the metadata of a part holds
    DROP_REPEATED_MESSAGES = "drop-repeated-messages"  #: replayed messages, out of the context
    MERGE_SPLIT = "merge-split"  #: sessions that a rollover split


class CheckScope(StrEnum):
    """What a check looks at."""

    CONVERSATION = "conversation"  #: rows that belong to a conversation: can be asked of one
    FILE = "file"  #: the file or several conversations at once


@dataclass(frozen=True, slots=True)
class Check:
    """A question that the doctor asks of a database."""

    id: str  #: ``A1`` to ``G19``
    severity: Severity
    title: str
    question: str  #: one sentence; "yes" means that there is a finding
    scope: CheckScope = CheckScope.CONVERSATION
    needs: tuple[str, ...] = ()  #: tables, and columns as ``table.column``, without which it cannot be asked
    untold: str = ""  #: what of the question neither the database nor its folders can answer

    @property
    def family(self) -> str:
        """The letter of the id."""
        return self.id[0]

    @property
    def order(self) -> tuple[str, int]:
        """Sorts ids as people count."""
        return self.id[0], int(self.id[1:])


@dataclass(frozen=True, slots=True)
class RowRef:
    """A row that a finding is about.

    ``key`` holds the values of the table's primary key in the order of its columns; of a table without one
    (search tables), of a summary whose id is NULL, and of a broken reference that only ``rowid`` names, the
    rowid. The table ``disk`` is a folder: its key is the path below it.
    """

    table: str
    key: tuple[KeyPart, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of a check."""

    check: str  #: id of the check
    confidence: Confidence
    conversation_id: ConversationId | None  #: None: it belongs to no single conversation
    rows: tuple[RowRef, ...]  #: the first of them
    row_count: int  #: how many there are
    sentence: str  #: for people; may hold ids of the database, so it is shown through ``lcm_core.text``
    fix: FixId | None = None


def key_of(finding: Finding) -> str:
    """A name for a finding that a later run gives it again: ``D2:3:summaries:sum_...``.

    Check, conversation (``-`` without one), and table and key of the first row.
    """
    owner = "-" if finding.conversation_id is None else str(finding.conversation_id)
    if not finding.rows:
        return f"{finding.check}:{owner}"
    row = finding.rows[0]
    return ":".join(
        [finding.check, owner, row.table, *("-" if part is None else str(part) for part in row.key)]
    )


class CheckState(StrEnum):
    """Whether a check was asked; the value is the word to show."""

    RAN = "ran"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check."""

    check: Check
    state: CheckState
    reason: str  #: why it was not run, or stopped halfway; empty when it ran
    findings: tuple[Finding, ...]  #: the first of them; may be some even when the check stopped halfway
    finding_count: int  #: how many there are; of one conversation at most one more than are kept


@dataclass(frozen=True, slots=True)
class Report:
    """The answers of all checks that were asked for, in order of id."""

    conversation_id: ConversationId | None  #: None: the whole file
    started_at: datetime
    seconds: float
    results: tuple[CheckResult, ...]

    def findings(self, *confidences: Confidence) -> Iterator[Finding]:
        """The findings of some confidences (of all when none is named), in order of check."""
        for result in self.results:
            yield from (one for one in result.findings if not confidences or one.confidence in confidences)

    def result(self, check_id: str) -> CheckResult:
        """The result of one check. Raises KeyError when it was not asked for."""
        for result in self.results:
            if result.check.id == check_id:
                return result
        raise KeyError(check_id)

    @property
    def clean(self) -> bool:
        """Whether there is nothing but what is by design (exit code 0, else 6)."""
        return not any(self.findings(Confidence.BROKEN, Confidence.SUSPICIOUS))

    @property
    def not_run(self) -> tuple[CheckResult, ...]:
        """The checks that could not be asked, or not of everything."""
        return tuple(result for result in self.results if result.state is CheckState.NOT_RUN)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run of the checks has come."""

    stage: str  #: what is being looked at, for people
    done: int  #: units of the stage
    total: int  #: units of the stage; at least 1
    stage_number: int  #: from 1
    stages: int

    @property
    def fraction(self) -> float:
        """Of the whole run, 0 to 1, as if all stages took the same time."""
        return (self.stage_number - 1 + min(self.done / self.total, 1.0)) / self.stages
