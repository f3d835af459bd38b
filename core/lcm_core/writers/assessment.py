"""Whether a draft is worth taking, in one line, from what it keeps beside what the present text keeps."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.writers.retention import Checked, Retention

#: A draft of more than this share of its source, or this many times the present text, saves hardly anything.
_HARDLY_SHORTER: Final = 0.8
_MUCH_LONGER: Final = 1.5
#: A draft that keeps less than this share of the names says little of its source.
_FEW_NAMES: Final = 0.2
#: A smaller difference of that share is none.
_SAME_SHARE: Final = 0.05


class Worth(StrEnum):
    """What a draft is, compared with the present text and with its source."""

    WORSE = "worse"
    POOR = "poor"
    LONG = "hardly shorter"
    GOOD = "good"


class Assessment(Record, frozen=True):
    """The line above a draft (docs/retention.md, "Worth taking")."""

    worth: Worth
    sentence: str

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the draft."""
        return self.worth is Worth.GOOD


def assess(new: Retention, old: Retention | None) -> Assessment:
    """What the numbers say of a draft; *old*: of the present text, None where it has none to measure."""
    if old is not None and (lost := list(_lost_since(new, old))):
        return Assessment(Worth.WORSE, f"Worse: {', '.join(lost)}.")
    if missing := list(_missing(new)):
        return Assessment(Worth.POOR, f"Says little of its source: {', '.join(missing)}.")
    share = new.tokens / new.source_tokens if new.source_tokens else 0.0
    if share > _HARDLY_SHORTER:
        times = new.tokens / old.tokens if old is not None and old.tokens else 0.0
        more = f", {times:.1f} times the present text" if times > _MUCH_LONGER else ""
        return Assessment(Worth.LONG, f"Hardly shorter: {share * 100:.0f} % of its source{more}.")
    kept = [*_told_rules(new, old), *_told_names(new, old), f"{share * 100:.0f} % of its source"]
    return Assessment(Worth.GOOD, f"OK: {', '.join(kept)}.")


def _lost_since(new: Retention, old: Retention) -> Iterator[str]:
    """What the present text has and the draft has not."""
    rules, before = _rules(new), _rules(old)
    if rules is not None and before is not None and rules < before:
        yield f"loses {new.constraints - rules:,} of {counted(new.constraints, 'rule')}"
    if new.share is not None and new.share < (old.share or 0.0) - _SAME_SHARE:
        yield from _told_names(new, old)
    if len(new.invented) > len(old.invented):
        more = len(new.invented) - len(old.invented)
        yield f"invents {counted(more, 'name or number', 'names or numbers')}"


def _missing(new: Retention) -> Iterator[str]:
    """What a summary of its source would have."""
    if new.constraints and _rules(new) == 0:
        yield f"loses {new.constraints:,} of {counted(new.constraints, 'rule')}"
    if new.share is not None and new.share < _FEW_NAMES:
        yield from _told_names(new, None)


def _told_rules(new: Retention, old: Retention | None) -> Iterator[str]:
    rules = _rules(new)
    if rules is not None and new.constraints:
        before = rules if old is None else _rules(old)
        now = "" if before in (None, rules) else f" (now {before:,})"
        yield f"keeps {rules:,} of {counted(new.constraints, 'rule')}{now}"


def _told_names(new: Retention, old: Retention | None) -> Iterator[str]:
    if new.share is not None:
        before = new.share if old is None else old.share or 0.0
        now = "" if abs(before - new.share) <= _SAME_SHARE else f" (now {before * 100:.0f} %)"
        yield f"keeps {new.share * 100:.0f} % of the names{now}"


def _rules(kept: Retention) -> int | None:
    """How many rules are kept; None where that is not known."""
    return None if kept.rules_checked is Checked.NONE else kept.constraints_kept
