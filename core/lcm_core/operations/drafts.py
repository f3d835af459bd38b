"""Drafts on disk, and the rule by which a batch accepts drafts.

One file per batch, private to this user, so that what was paid for survives a stop and a crash: a first line
that says what it is, then a line for every item whenever it changed; the last one of an item applies. A line
that a crash cut off is left out. The file is removed when all is decided. The file for review holds items and
drafts in the same form.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from msgspec import convert

from lcm_core.base.errors import FileMissingError, NotFoundError, RefusedError, UsageError
from lcm_core.base.files import make_private
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.jsonl import open_regular
from lcm_core.base.records import SummaryId
from lcm_core.base.text import counted
from lcm_core.base.values import Record, replace, to_json
from lcm_core.change.plan import DiskFullError
from lcm_core.operations.drafting import (
    SETTLED,
    BatchItem,
    Draft,
    DraftOrigin,
    DraftSetting,
    Material,
    retention_of,
)
from lcm_core.writers.acceptance import (
    DraftFault,
    reversal_sentence,
    unchecked_sentence,
)
from lcm_core.writers.cost import NOTHING_SPENT, Spent
from lcm_core.writers.request import Usage
from lcm_core.writers.retention import Checked, Retention, Worth, assess

# -- items and drafts as JSON ---------------------------------------------------------------------------


def item_to_json(item: BatchItem) -> JsonObject:
    """An item with all its drafts."""
    document = _without("theirs", replace(item, drafts=()))
    return {**document, "drafts": [_without("summaryId", draft) for draft in item.drafts]}


def _without(member: str, record: BatchItem | Draft) -> JsonObject:
    return {name: value for name, value in to_json(record).items() if name != member}


def item_from_json(document: Json) -> BatchItem:
    """An item as `item_to_json` wrote it.

    Raises:
        ValueError: something is missing, or is no value of its kind.
    """
    item = convert(document, BatchItem)
    return replace(item, drafts=tuple(replace(one, summary_id=item.summary_id) for one in item.drafts))


def spent_to_json(spent: Spent) -> JsonObject:
    """What a batch has taken."""
    return {"calls": spent.calls, **to_json(spent.usage)}


def _spent_in(document: JsonObject) -> Spent | None:
    """What a batch has taken, as a document of it says under ``spent``; None when it does not.

    Raises:
        ValueError: something is no value of its kind.
    """
    spent = document.get("spent")
    return None if spent is None else replace(convert(spent, Spent), usage=convert(spent, Usage))


# -- files ----------------------------------------------------------------------------------------------


_FORMAT: Final = "lcm-tui drafts"
_VERSION: Final = 1
_KIND: Final = (_FORMAT, _VERSION)
_SUFFIX: Final = ".drafts"


class DraftsHeader(Record, frozen=True):
    """What a file of drafts belongs to."""

    batch: str
    kind: str  #: ``rewrite`` or ``repair``
    database: str
    made_at: str  #: UTC, ISO
    spent: Spent = NOTHING_SPENT  #: by all runs so far, so that limits hold for the batch and not for a run


class SavedDrafts(Record, frozen=True):
    """A file of drafts as it was read."""

    path: Path
    header: DraftsHeader
    items: tuple[BatchItem, ...]

    @property
    def open_items(self) -> int:
        """How many are not settled."""
        return sum(item.state not in SETTLED for item in self.items)

    @property
    def to_review(self) -> int:
        """How many of those have a draft."""
        return sum(item.state not in SETTLED and bool(item.drafts) for item in self.items)


class DraftsWriter:
    """Writes one file of drafts. One process at a time: the file is locked."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file

    @classmethod
    def create(cls, folder: Path, header: DraftsHeader, items: Iterable[BatchItem]) -> DraftsWriter:
        """Begin a file that only this user can read.

        Raises:
            DiskFullError: it cannot be written.
        """
        path = folder / f"{header.batch}{_SUFFIX}"
        try:
            make_private(folder)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error
        keeper = cls(path, os.fdopen(descriptor, "ab"))
        keeper._lock()
        first: JsonObject = {
            "format": _FORMAT,
            "version": _VERSION,
            **to_json(replace(header, database=str(Path(header.database).resolve()))),
            "spent": spent_to_json(header.spent),
        }
        keeper._write([first, *map(item_to_json, items)])
        return keeper

    @classmethod
    def reopen(cls, kept: SavedDrafts) -> DraftsWriter:
        """Go on with a file.

        Raises:
            RefusedError: another process works on it.
        """
        try:
            file = kept.path.open("ab")
        except OSError as error:
            raise _unwritable(kept.path, error) from error
        keeper = cls(kept.path, file)
        keeper._lock()
        file.write(b"\n")  # behind what a crash may have cut off
        return keeper

    def keep(self, item: BatchItem, spent: Spent | None = None) -> None:
        """Note how far an item has come, and what the batch has taken; on the disk when this returns."""
        taken: JsonObject = {} if spent is None else {"spent": spent_to_json(spent)}
        self._write([{**item_to_json(item), **taken}])

    def close(self, *, finished: bool) -> None:
        """Close; the file of a *finished* batch is removed, for the database holds it all."""
        self._file.close()
        if finished:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise RefusedError(
                f"Another lcm-tui process is using these drafts: {self.path}. Wait until it has ended.",
                code="DRAFTS_IN_USE",
            ) from None

    def _write(self, documents: Iterable[JsonObject]) -> None:
        try:
            for document in documents:
                self._file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from error


def _unwritable(path: Path, error: OSError) -> DiskFullError:
    return DiskFullError(
        f"The drafts cannot be kept in {path} ({error.strerror}), so no call is made. Free space there and "
        "continue with --resume.",
        code="DRAFTS_UNWRITABLE",
        details={"path": str(path)},
    )


def read_saved(path: Path) -> SavedDrafts:
    """A file of drafts.

    Raises:
        NotFoundError: it is not there.
        RefusedError: it is no file of drafts.
    """
    try:
        with open_regular(path) as file:  # a device may never end
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        raise FileMissingError(
            "file of drafts", path, "Give the path that --draft wrote to.", code="DRAFTS_NOT_FOUND"
        ) from None
    except OSError as error:
        raise NotFoundError(
            f"The drafts {path} cannot be read ({error.strerror}).", code="DRAFTS_NOT_FOUND"
        ) from None
    try:
        header = _header(lines[0])
    except ValueError:
        raise RefusedError(f"{path} is not a drafts file of lcm-tui.", code="DRAFTS_INVALID") from None
    items: dict[SummaryId, BatchItem] = {}
    for item, spent in _items(lines[1:]):
        items[item.summary_id] = item
        header = replace(header, spent=spent or header.spent)
    return SavedDrafts(path, header, tuple(items.values()))


def _header(line: bytes) -> DraftsHeader:
    document = json.loads(line)
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != _KIND:
        raise ValueError("another kind of file")
    return replace(convert(document, DraftsHeader), spent=_spent_in(document) or NOTHING_SPENT)


def _items(lines: Iterable[bytes]) -> Iterator[tuple[BatchItem, Spent | None]]:
    """Every item as often as it was kept, with what the batch had taken then, where that was noted."""
    for line in lines:
        with contextlib.suppress(ValueError):  # a crash cut it off
            document = json.loads(line)
            yield item_from_json(document), _spent_in(document)


def unfinished(folder: Path, database: Path, kind: str | None = None) -> list[SavedDrafts]:
    """The batches on a database that were not brought to their end, the newest first."""
    found = [
        kept
        for kept in _of_database(folder, database)
        if kind in (None, kept.header.kind) and kept.open_items
    ]
    return sorted(found, key=lambda kept: (kept.header.made_at, kept.header.batch), reverse=True)


def _of_database(folder: Path, database: Path) -> Iterator[SavedDrafts]:
    there = str(database.resolve())
    for path in sorted(folder.glob(f"batch_*{_SUFFIX}")) if folder.is_dir() else ():
        with contextlib.suppress(NotFoundError, RefusedError):
            kept = read_saved(path)
            if kept.header.database == there:
                yield kept


def forget_drafts(folder: Path, database: Path, conversation_ids: Collection[int]) -> list[Path]:
    """Remove the drafts of some conversations that are to leave no trace; the files that went or shrank.

    A file that another process works on is left as it is, and is not among them.
    """
    changed = []
    for kept in _of_database(folder, database):
        left = [item for item in kept.items if item.conversation_id not in conversation_ids]
        if len(left) == len(kept.items):
            continue
        with contextlib.suppress(RefusedError):
            DraftsWriter.reopen(kept).close(finished=True)
            if left:
                DraftsWriter.create(folder, kept.header, left).close(finished=False)
            changed.append(kept.path)
    return changed


# -- rules of acceptance ---------------------------------------------------------------------------------
# What a batch may accept by itself: a rule of that batch only, in words that are shown and kept with it.
#
# A rule is a choice of conditions. No rule can accept a draft with a fault (the model did not finish, the
# text is no smaller than its source, holds a marker ...), one that turns a rule of the source into its
# opposite, or a deterministic cut. Where the rules could not be checked, ``no rule lost`` refuses the
# draft, and the other conditions do not look at them.


#: How conditions are written: first as they are shown, then as they may be typed.
_CONDITIONS: Final = {
    "nothing_invented": ("nothing is invented", "nothing invented"),
    "no_rule_lost": ("no rule is lost", "no rule lost", "no rules lost"),
    "better_retention": ("it keeps as many names as now", "no worse"),
    "no_caution": ("there is no caution", "no caution", "no cautions"),
}


class AcceptanceRule(Record, frozen=True):
    """When a draft is taken without a look at it."""

    nothing_invented: bool = False
    retention: float | None = None  #: share of what matters most in the source, 0 to 1, at least
    better_retention: bool = False  #: the present text keeps no more, unless it is broken
    no_caution: bool = False
    no_rule_lost: bool = False  #: every rule of the source is in the draft, and all could be checked

    @property
    def words(self) -> str:
        """The rule as a sentence; `parse_rule` reads it."""
        conditions = [words[0] for name, words in _CONDITIONS.items() if getattr(self, name)]
        if self.retention is not None:
            at = self.nothing_invented + self.no_rule_lost
            conditions.insert(at, f"it keeps at least {self.retention * 100:g} % of the names")
        return f"accept when {' and '.join(conditions)}" if conditions else "accept every draft without fault"

    def objections(self, draft: Draft, new: Retention, old: Retention | None = None) -> Iterator[str]:
        """Why a draft is not taken, each a sentence; none when it is. *old* measures the present text."""
        if draft.origin is DraftOrigin.FALLBACK:
            yield "truncated source: never auto-accepted"
        yield from draft.sentences[: len(draft.faults)]
        if draft.gone:
            yield f"{draft.gone} of its sources missing: no draft can cover them"
        if self.no_caution:
            yield from draft.sentences[len(draft.faults) :]
        if new.reversed and DraftFault.REVERSED not in draft.faults:
            yield reversal_sentence(new.reversed)
        if self.no_rule_lost and new.rules_checked is not Checked.ALL:
            yield unchecked_sentence(new.rules_checked)
        if self.no_rule_lost and new.constraints_lost:
            rules = counted(len(new.constraints_lost), "rule")
            yield f"{rules} lost (of {new.constraints:,}): {new.constraints_lost[0].text}"
        if self.nothing_invented and new.invented:
            yield f"{len(new.invented)} invented: {new.invented[0].text}"
        if self.retention is not None and new.share is not None and new.share < self.retention:
            yield f"keeps {new.share * 100:.0f} % of the names, not {self.retention * 100:g} %"
        share, before = new.share or 0.0, 0.0 if old is None else old.share or 0.0
        if self.better_retention and share < before:
            yield f"keeps {share * 100:.0f} % of the names (now {before * 100:.0f} %)"


#: The rule that takes every draft without a fault, whatever is said of it.
EVERY: Final = AcceptanceRule()


class MeasuredDraft(Record, frozen=True):
    """A draft and what it keeps of its source, beside the present text: any rule is judged by it."""

    draft: Draft
    new: Retention
    old: Retention
    broken: bool  #: whether the present text is

    def objections(self, rule: AcceptanceRule) -> tuple[str, ...]:
        """Why *rule* does not take the draft; the first words of each fit a narrow column.

        Every rule but `EVERY` also refuses what is not worth taking (docs/spec/retention.md, "Worth taking").
        """
        old = None if self.broken else self.old  # a cut of the source keeps most names and is no summary
        found = tuple(rule.objections(self.draft, self.new, old))
        if found or rule == EVERY or (one := assess(self.new, old)).good:
            return found
        # No reason against an edit by hand; but nothing that is taken unseen.
        return (assess(self.new, None).sentence if one.worth is Worth.EVEN else one.sentence,)


async def measured(draft: Draft, material: Material, setting: DraftSetting) -> MeasuredDraft:
    """Measure a draft, and the present text."""
    new = await retention_of(material, draft.text, setting)
    old = await retention_of(material, material.base.content, setting)
    return MeasuredDraft(draft, new, old, material.broken is not None)


#: ``names 80``, and as it is shown; ``retention 80`` is what earlier versions called it.
_PERCENT: Final = re.compile(
    r"(?:names|it keeps|retention(?: is)?)(?: at least)? ?(?:>=)? ?([0-9]+(?:\.[0-9]+)?) ?%?"
    r"(?: of the names)?"
)
_SPLIT: Final = re.compile(r",|\band\b")
#: What may be written on a command line, for its help.
EXAMPLES: Final = "every, nothing invented, no rule lost, no worse, names 80, no caution"
#: What is offered first: a draft replaces a broken text when it is no worse, by whichever writer.
DEFAULT: Final = "nothing invented, no rule lost, no worse"


def parse_rule(words: str) -> AcceptanceRule:
    """A rule from its words: ``nothing invented and names >= 80``, ``no worse``, ``every`` ...

    Raises:
        UsageError: they are none that is known.
    """
    said = " ".join(words.lower().split()).rstrip(".")
    said = re.sub(r"^accept (?:when )?", "", said)
    if said in ("every", "every draft without fault", "sound"):
        return EVERY
    found: dict[str, Any] = {}
    for part in (one.strip() for one in _SPLIT.split(said)):
        percent = _PERCENT.fullmatch(part)
        name = next((name for name, words in _CONDITIONS.items() if part in words), None)
        if percent is not None and float(percent[1]) <= 100:
            found["retention"] = float(percent[1]) / 100
        elif name is not None:
            found[name] = True
        else:
            raise UsageError(
                f"Conditions are: {EXAMPLES}; {part!r} is not one of them.", details={"option": "accept"}
            )
    return AcceptanceRule(**found)
