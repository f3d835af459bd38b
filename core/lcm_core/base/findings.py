"""What the checks of a database ask, find and report.

A check is a question with an id of its own (docs/spec/decisions.md, "Checks"). A finding is one answer of it:
rows, a sentence for people, how sure it is, and the name of the fix that could repair it without a model.
Severity says what such damage would mean; confidence says whether this is damage at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Self

from lcm_core.base.records import ConversationId
from lcm_core.base.values import Record

#: One value of a primary key; None where the column holds NULL.
KeyPart = int | str | None


class Severity(StrEnum):
    """What damage of this kind means when it is real (docs/spec/decisions.md, "Checks")."""

    ERROR = "E"  #: corrupts the context or the DAG, or loses recall
    WARNING = "W"  #: degraded, or wrong metadata
    INFO = "I"  #: hygiene


class Confidence(StrEnum):
    """Whether a finding is damage; the value is the word to show."""

    meaning: str  #: what it says of a finding, for people

    def __new__(cls, value: str, meaning: str) -> Self:
        """The word with its meaning."""
        made = str.__new__(cls, value)
        made._value_, made.meaning = value, meaning
        return made

    BROKEN = (
        "broken",
        "Certain: no engine version writes this, or the engine itself marked the text as no summary.",
    )
    SUSPICIOUS = ("suspicious", "Damage, or something unusual that someone intended; check the rows.")
    BY_DESIGN = (
        "by design",
        "Looks like damage but is not: the engine, its host or an older version does this.",
    )


class FixId(StrEnum):
    """The kinds of change that repair a finding without a model."""

    effect: str  #: what it does, for people

    def __new__(cls, value: str, effect: str) -> Self:
        """The name with what the fix does."""
        made = str.__new__(cls, value)
        made._value_, made.effect = value, effect
        return made

    CLOSE_GAPS = ("close-gaps", "Renumber the context items from 0, in their current order.")
    DROP_DANGLING_ITEMS = (
        "drop-dangling-items",
        "Remove context items whose message or summary is missing. If the sources of a missing summary "
        "are still known, they replace it.",
    )
    DROP_DUPLICATE_ITEMS = (
        "drop-duplicate-items",
        "Keep the first context item and remove its duplicates.",
    )
    DROP_COVERED_ITEMS = (
        "drop-covered-items",
        "Remove from the context what a summary in it covers, or the summary instead (an option of "
        "the preview). The rows stay.",
    )
    DROP_FOREIGN_ITEMS = (
        "drop-foreign-items",
        "Remove context items of another conversation, whose own context reaches them too.",
    )
    REORDER = (
        "reorder",
        "Sort the context items by what they cover; no item is changed.",
    )
    RESTORE_MESSAGES = ("restore-messages", "Add the messages to the context again, in their place.")
    RESTORE_SUMMARIES = ("restore-summaries", "Add the summary to the context again, in its place.")
    DELETE_ORPHAN_LINKS = ("delete-orphan-links", "Delete links and edges with a missing end.")
    DELETE_FALSE_LINES = (
        "delete-false-lines",
        "Delete the links and edges that the counters disprove; the rows at their ends stay.",
    )
    DELETE_ORPHAN_PARTS = ("delete-orphan-parts", "Delete parts whose message is missing.")
    REBUILD_SEARCH = (
        "rebuild-search",
        "Rebuild the missing, stale and surplus rows of the search table. They are derived from "
        "messages and summaries, so there is nothing to undo.",
    )
    RECOMPUTE_DEPTH = (
        "recompute-depth",
        "Recompute the depth from the sources, also of the summaries made from it.",
    )
    RECOMPUTE_COUNTERS = (
        "recompute-counters",
        "Recompute the counters from the sources, also of the summaries made from it.",
    )
    RECOMPUTE_TIMES = (
        "recompute-times",
        "Recompute the time range from the sources, also of the summaries made from it.",
    )
    RECOMPUTE_FILE_IDS = ("recompute-file-ids", "List the files that the text and the sources name.")
    RECOMPUTE_TOKENS = (
        "recompute-tokens",
        "Count the tokens again with this version's estimator, and update the sums.",
    )
    RELINK = ("relink", "Restore the links to the sources that its own counters prove.")
    NUMBER_SOURCES = (
        "number-sources",
        "Number the sources of the summary from 0, in the order of what they cover.",
    )
    FILL_TOOL_COLUMNS = ("fill-tool-columns", "Write the tool call id of the metadata into its empty column.")
    DROP_REPEATED_MESSAGES = (
        "drop-repeated-messages",
        "Remove copies from the context whose originals are in it. The rows stay.",
    )
    MERGE_SPLIT = ("merge-split", "Rejoin the session into one conversation (opens the merge preview).")


class CheckScope(StrEnum):
    """What a check looks at."""

    CONVERSATION = "conversation"  #: rows that belong to a conversation: can be asked of one
    FILE = "file"  #: the file or several conversations at once


class Check(Record, frozen=True):
    """A question that the doctor asks of a database."""

    id: str  #: ``A1`` to ``H2``
    severity: Severity
    title: str
    question: str  #: one sentence; "yes" means that there is a finding
    why: str  #: the rule behind it and why it matters, in sentences
    scope: CheckScope = CheckScope.CONVERSATION
    needs: tuple[str, ...] = ()  #: tables, and columns as ``table.column``, without which it cannot be asked
    unanswered: str = ""  #: what of the question neither the database nor its folders can answer
    #: why a finding may have no fix, and what somebody can do about it, in sentences
    unfixed: str = "A fix would have to guess, or there is nothing to fix."
    broken: str = (
        ""  #: what a change would break or has repaired, with ``{kind}``, ``{ref}``, ``{conversation}``
    )

    @property
    def family(self) -> str:
        """The letter of the id."""
        return self.id[0]

    @property
    def order(self) -> tuple[str, int]:
        """Sorts ids as people count."""
        return self.id[0], int(self.id[1:])


class RowRef(Record, frozen=True):
    """A row that a finding is about.

    ``key`` holds the values of the table's primary key in the order of its columns; of a table without one
    (search tables), of a summary whose id is NULL, and of a broken reference that only ``rowid`` names, the
    rowid. The table ``disk`` is a folder: its key is the path below it.
    """

    table: str
    key: tuple[KeyPart, ...]


class Finding(Record, frozen=True):
    """One answer of a check."""

    check: str  #: id of the check
    confidence: Confidence
    conversation_id: ConversationId | None  #: None: it belongs to no single conversation
    rows: tuple[RowRef, ...]  #: the first of them
    row_count: int  #: how many there are
    sentence: str  #: for people; may hold ids of the database, so it is shown through ``lcm_core.base.text``
    fix: FixId | None = None


def finding_key(finding: Finding) -> str:
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


class Proof(StrEnum):
    """Why a repetition is a copy; the value continues a sentence."""

    SAME_TIMES = "with the times of the originals"
    SAME_CALLS = "with the tool call ids of the originals"
    BURST = "in one burst, although the originals were spread over time"
    LENGTH = "verbatim, which rarely happens by chance"


class Repeat(Record, frozen=True):
    """Messages that were stored again, by place; as many originals as copies, or a single one."""

    originals: tuple[int, ...]
    copies: tuple[int, ...]
    proof: Proof | None
    certain: bool
    flood: bool = False

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Each copy behind its original."""
        single = len(self.originals) < len(self.copies)
        originals = self.originals * len(self.copies) if single else self.originals
        return zip(originals, self.copies, strict=True)


class VerifiedMessages(Record, frozen=True):
    """What was found in the messages of a conversation, and what they were."""

    conversation: int
    about: str  #: a digest of all that the checks go by, but the texts
    texts: str  #: a digest of the texts and parts
    checks: frozenset[str]  #: that were asked
    messages: int
    left_out: int  #: messages that were not read
    findings: tuple[Finding, ...]  #: that depend on the messages alone
    repeats: tuple[Repeat, ...]
    heartbeats: tuple[int, ...]  #: places
    doubtful: tuple[int, ...]  #: messages whose count only their whole parts can explain
    mark: str = ""  #: a state of the file in which it was so; empty: not known


class CheckState(StrEnum):
    """Whether a check was asked; the value is the word to show."""

    RAN = "ran"
    NOT_RUN = "not run"


class CheckResult(Record, frozen=True):
    """What became of one check."""

    check: Check
    state: CheckState
    reason: str  #: why it was not run, or stopped halfway; empty when it ran
    findings: tuple[Finding, ...]  #: the first of them; may be some even when the check stopped halfway
    finding_count: int  #: how many there are; of one conversation at most one more than are kept


class Report(Record, frozen=True):
    """The answers of all requested checks, in order of id."""

    conversation_id: ConversationId | None  #: None: the whole file
    started_at: datetime
    seconds: float
    results: tuple[CheckResult, ...]
    #: Whose texts an earlier run judged, and that are the same since.
    verified_messages: int = 0
    verified_conversations: int = 0

    def findings(self, *confidences: Confidence) -> Iterator[Finding]:
        """The findings of some confidences (of all when none is named), in order of check."""
        for result in self.results:
            yield from (one for one in result.findings if not confidences or one.confidence in confidences)

    def result(self, check_id: str) -> CheckResult:
        """The result of one check. Raises KeyError if it was not requested."""
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
        """The checks that could not run, or did not cover everything."""
        return tuple(result for result in self.results if result.state is CheckState.NOT_RUN)


class Progress(Record, frozen=True):
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
