"""What a batch may accept by itself: a rule of that batch only, in words that are shown and kept with it.

A rule is a choice of conditions. That the draft has no fault (the model finished, the text is smaller than
its source, holds no marker ...), turns no rule of the source into its opposite and is no deterministic cut
goes without saying: no rule can accept those. Where the rules could not be checked, ``no rule lost`` refuses
the draft, and the other conditions do not look at them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lcm_core.errors import UsageError
from lcm_core.operations.drafting.draft import Draft, DraftOrigin, DraftSetting, Material, retention_of
from lcm_core.summarize.acceptance import DraftFault, reversal_sentence, unchecked_sentence
from lcm_core.summarize.retention import Retention
from lcm_core.summarize.rulebook import Checked


@dataclass(frozen=True, slots=True)
class AcceptanceRule:
    """When a draft is taken without a look at it."""

    nothing_invented: bool = False
    retention: float | None = None  #: share of what matters most in the source, 0 to 1, at least
    better_retention: bool = False  #: the present text keeps no more
    no_caution: bool = False
    no_rule_lost: bool = False  #: every rule of the source is in the draft, and all could be checked

    @property
    def words(self) -> str:
        """The rule as a sentence; `parse_rule` reads it."""
        conditions = []
        if self.nothing_invented:
            conditions.append("nothing is invented")
        if self.no_rule_lost:
            conditions.append("no rule is lost")
        if self.retention is not None:
            conditions.append(f"retention is at least {self.retention * 100:g} %")
        if self.better_retention:
            conditions.append("retention is no worse than now")
        if self.no_caution:
            conditions.append("there is no caution")
        return f"accept when {' and '.join(conditions)}" if conditions else "accept every draft without fault"

    def objections(self, draft: Draft, new: Retention, old: Retention | None = None) -> tuple[str, ...]:
        """Why a draft is not taken, each a sentence; empty when it is. *old* measures the present text."""
        return tuple(self._objections(draft, new, old))

    def _objections(self, draft: Draft, new: Retention, old: Retention | None) -> Iterator[str]:
        if draft.origin is DraftOrigin.FALLBACK:
            yield "truncated source: no rule accepts it"
        yield from draft.verdict.sentences[: len(draft.verdict.faults)]
        if draft.gone:
            yield f"{draft.gone} of its sources missing: no draft can cover them"
        if self.no_caution:
            yield from draft.verdict.sentences[len(draft.verdict.faults) :]
        if new.reversed and DraftFault.REVERSED not in draft.verdict.faults:
            yield reversal_sentence(new.reversed)
        if self.no_rule_lost and new.rules_checked is not Checked.ALL:
            yield unchecked_sentence(new.rules_checked)
        if self.no_rule_lost and new.constraints_lost:
            lost = len(new.constraints_lost)
            rules = "1 rule" if lost == 1 else f"{lost:,} rules"
            yield f"{rules} lost (of {new.constraints:,}): {new.constraints_lost[0].text}"
        if self.nothing_invented and new.invented:
            yield f"{len(new.invented)} invented: {new.invented[0].text}"
        if self.retention is not None and new.share is not None and new.share < self.retention:
            yield f"retention {new.share * 100:.0f} % < {self.retention * 100:g} %"
        if self.better_retention and old is not None and (new.share or 0.0) < (old.share or 0.0):
            yield f"retention {(new.share or 0.0) * 100:.0f} % < {(old.share or 0.0) * 100:.0f} % now"


async def objections_to(
    rule: AcceptanceRule, draft: Draft, material: Material, setting: DraftSetting
) -> tuple[str, ...]:
    """Why *rule* does not take a draft; the first words of each fit a narrow column."""
    new = await retention_of(material, draft.text, setting)
    old = await retention_of(material, material.base.content, setting) if rule.better_retention else None
    return rule.objections(draft, new, old)


_PERCENT: Final = re.compile(r"retention(?: is)?(?: at least)? ?(?:>=)? ?([0-9]+(?:\.[0-9]+)?) ?%?")
_SPLIT: Final = re.compile(r",|\band\b")
#: What may be written on a command line, for its help.
EXAMPLES: Final = "nothing invented, no rule lost, no worse, retention 80, no caution, every"
#: What is offered first: a draft replaces a broken text when it is no worse, by whichever writer.
DEFAULT: Final = "nothing invented, no rule lost, no worse"


def parse_rule(words: str) -> AcceptanceRule:
    """A rule from its words: ``nothing invented and retention >= 80``, ``no worse``, ``every`` ...

    Raises:
        UsageError: they are none that is known.
    """
    said = " ".join(words.lower().split()).rstrip(".")
    said = re.sub(r"^accept (?:when )?", "", said)
    if said in ("every", "every draft without fault", "sound"):
        return AcceptanceRule()
    invented, share, better, caution, rules = False, None, False, False, False
    for part in (one.strip() for one in _SPLIT.split(said)):
        percent = _PERCENT.fullmatch(part)
        if percent is not None and float(percent[1]) <= 100:
            share = float(percent[1]) / 100
        elif part in ("nothing invented", "nothing is invented"):
            invented = True
        elif part in ("no rule lost", "no rules lost", "no rule is lost"):
            rules = True
        elif part in ("no worse", "retention is no worse than now"):
            better = True
        elif part in ("no caution", "no cautions", "there is no caution"):
            caution = True
        else:
            raise UsageError(
                f"A rule combines these conditions: {EXAMPLES}; {part!r} is not one of them.",
                details={"option": "accept"},
            )
    return AcceptanceRule(invented, share, better, caution, rules)
