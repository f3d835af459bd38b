"""What drafts keep, lose and invent, for programs and for the file that people look at."""

from __future__ import annotations

import asyncio
from typing import Final

from lcm_core.operations.drafting.batch import Batch
from lcm_core.operations.drafting.draft import Material, text_below
from lcm_core.operations.drafting.items import BatchItem
from lcm_core.summarize.retention import Retention, measure, read_retention_source
from lcm_core.summarize.rulebook import Checked

from lcm_tui.cli.documents import Document

#: Of what is lost, the most frequent and most recent first.
_MOST: Final = 20


async def measured(batch: Batch, item: BatchItem) -> Document | None:
    """The present text and the proposed draft against their source, and against the messages below.

    None: there is no draft. ``ofMessages`` is None for a leaf, and where too many messages lie below.
    """
    draft = item.draft or (item.drafts[-1] if item.drafts else None)
    if draft is None:
        return None
    material = await batch.material(item.summary_id)
    messages = await messages_below(batch, material)
    direct = await _both(batch, material, material.source.text, draft.text)
    below = await _both(batch, material, messages, draft.text) if messages else None
    return {**direct, "ofMessages": below}


async def messages_below(batch: Batch, material: Material) -> str | None:
    """The messages below a condensed summary as a source text; None: a leaf, or there are too many."""
    if not material.source.summaries:
        return None
    return await batch.database.read(text_below, material.summary, batch.setting.rendering)


async def retention_in(batch: Batch, material: Material, source: str, text: str) -> Retention:
    """What a text keeps of a source text; worked out off the event loop."""
    estimator = batch.setting.rendering.rules.estimator

    def work() -> Retention:
        return measure(
            read_retention_source(source, previous=material.previous.text, estimator=estimator), text
        )

    return await asyncio.to_thread(work)


async def _both(batch: Batch, material: Material, source: str, text: str) -> Document:
    now = await retention_in(batch, material, source, material.base.content)
    draft = await retention_in(batch, material, source, text)
    return {"sourceTokens": draft.source_tokens, "now": _document(now), "draft": _document(draft)}


def _document(kept: Retention) -> Document:
    return {
        "share": None if kept.share is None else round(kept.share, 4),
        "compression": None if kept.compression is None else round(kept.compression, 2),
        "classes": {
            str(one.kind): {"kept": one.kept, "inSource": one.in_source, "invented": one.invented}
            for one in kept.classes
        },
        "invented": [one.text for one in kept.invented],
        "peopleChecked": kept.people_checked,
        "lost": [one.text for one in kept.lost[:_MOST]],
        **_rules(kept),
        "fileLine": kept.files.stated,
        "timesCovered": None if kept.times.share is None else round(kept.times.share, 4),
        "closingLine": kept.closing is not None,
        "copied": round(kept.copied, 4),
    }


def _rules(kept: Retention) -> Document:
    """What became of the rules; None for each where they could not be checked."""
    if kept.rules_checked is Checked.NONE:
        return {"rulesChecked": "none", "rules": None, "rulesLost": None, "rulesReversed": None}
    return {
        "rulesChecked": str(kept.rules_checked),
        "rules": kept.constraints,
        "rulesLost": [one.text for one in kept.constraints_lost],
        "rulesReversed": [
            {"rule": one.rule.text, "draft": one.draft.text, "was": str(one.was), "now": str(one.now)}
            for one in kept.reversed
        ],
    }
