"""Drafts on the command line: who writes, the file for review, what came of each, and retention."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from lcm_core.base.errors import (
    FileMissingError,
    NotFoundError,
    RefusedError,
    UsageError,
)
from lcm_core.base.jsonl import open_regular
from lcm_core.base.records import SummaryId
from lcm_core.base.setting_values import Json, JsonObject
from lcm_core.base.settings import SummarySettings
from lcm_core.base.tokens import Estimator
from lcm_core.base.values import Record, replace
from lcm_core.operations.batch import Batch
from lcm_core.operations.drafting import (
    BatchItem,
    Draft,
    DraftOrigin,
    ItemState,
    Material,
    messages_below,
    retention_of,
)
from lcm_core.operations.drafts import item_from_json, item_to_json
from lcm_core.writers.acceptance import judge_text
from lcm_core.writers.cost import Price
from lcm_core.writers.request import MANUAL, NO_USAGE, storable
from lcm_core.writers.retention import Checked, Retention

from lcm_tui.cli.answer import Run
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.options import ModelOptions
from lcm_tui.flows.drafts import DraftForecast, Modelling, choose_writer
from lcm_tui.tables.blocks import json_of
from lcm_tui.tables.drafts import FORECAST_COLUMNS, ITEM_COLUMNS, WAITING_COLUMNS

# -- the writer ------------------------------------------------------------------------------------------
# The options that every command with a model takes, and what they choose.


def model_document(model: Modelling) -> Document:
    """Who writes, for programs."""
    choice, price = model.chosen.choice, model.chosen.price
    return {
        "provider": choice.provider.name,
        "model": choice.model,
        "baseUrl": choice.base_url or None,
        "key": model.key,
        "headers": [] if model.chosen.headers is None else list(model.chosen.headers.names),
        "price": None if price is None else _price_document(price),
        "promptNotes": list(model.prompt_notes),
    }


def modelling(
    run: Run, flags: ModelOptions, prompts: Path | None = None, *, unasked: bool = False
) -> Modelling:
    """Choose who is asked by options, environment and config. Nothing is sent.

    *prompts*: a folder of prompts, or one file; None: those beside our config. *unasked*: nobody will see
    whom a key implies, so the model must be named.

    Raises:
        RefusedError: nobody named the model, and nobody will be asked about it.
        UsageError: an option does not fit.
        ConfigurationError: provider, model, address and key do not go together, or there are no prompts.
    """
    model = choose_writer(
        run.settings,
        flagged(run, flags),
        key_variable=flags.api_key_env,
        prompts=prompts,
    )
    if unasked and model.chosen.choice.is_implied:
        raise RefusedError(
            f"Nobody named a model, and a key is there for {model.words}: name it with --provider "
            f"{model.chosen.choice.provider.name}, take --provider extractive (offline), or leave out --yes "
            "and be asked."
        )
    return model


def flagged(run: Run, flags: ModelOptions) -> SummarySettings:
    """Environment and config under the options."""
    return run.settings.summary.with_flags(
        provider=flags.provider,
        model=flags.model,
        base_url=flags.base_url,
        max_calls=flags.max_calls,
        max_cost=flags.max_cost,
    )


def _price_document(price: Price) -> Document:
    return {
        "inputUsdPerMillion": price.input,
        "outputUsdPerMillion": price.output,
        "aboveInputTokens": price.above,
        "inputUsdPerMillionAbove": None if price.above is None else price.input_above,
        "outputUsdPerMillionAbove": None if price.above is None else price.output_above,
        "source": price.source or None,
        "readOn": None if price.read_on is None else price.read_on.isoformat(),
    }


# -- the file for review ---------------------------------------------------------------------------------
# ``--draft`` writes it, ``--from-draft`` reads it.

_FORMAT: Final = "lcm-tui drafts for review"
_VERSION: Final = 1
_HOW: Final = (
    "Set take to true for what is to be committed; text may be edited, or be that of another draft. "
    "Then: lcm-tui {command} --from-draft {path} --apply"
)


class Reviewed(Record, frozen=True):
    """A file of drafts as it came back."""

    batch: str
    command: str
    items: tuple[BatchItem, ...]  #: the text that is to be taken is the chosen draft
    taken: frozenset[SummaryId]  #: those that are to be committed


def write_drafts(
    path: Path,
    command: str,
    batch: str,
    items: Iterable[BatchItem],
    taken: frozenset[SummaryId],
    described: Mapping[str, Json],
    retention: Mapping[SummaryId, JsonObject | None],
) -> None:
    """Write drafts for somebody to look at, into a new file that only this user can read.

    *retention*: what the proposed drafts keep, lose and invent.

    Raises:
        RefusedError: there is a file already, or it cannot be written.
    """
    document: Document = {
        "format": _FORMAT,
        "version": _VERSION,
        "how": _HOW.format(command=command, path=path),
        "command": command,
        "batch": batch,
        **described,
        "items": [_item(item, item.summary_id in taken, retention.get(item.summary_id)) for item in items],
    }
    text = json.dumps(document, indent=2)
    refuse_existing(path)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise RefusedError(f"The drafts cannot be written to {path} ({error.strerror}).") from None


def refuse_existing(path: Path) -> None:
    """Refuse to write over a file.

    Raises:
        RefusedError: there is one, or no folder for it.
    """
    if path.exists():
        raise RefusedError(f"{path} already exists: name another file for the drafts.")
    if not path.parent.is_dir():
        raise FileMissingError(
            "folder", path.parent, "Create it, or use another path.", code="FOLDER_NOT_FOUND"
        )


def _item(item: BatchItem, take: bool, retention: JsonObject | None) -> JsonObject:
    draft = item.draft
    return {
        **some_of(item, "summary_id conversation_id"),
        "reason": item.reason or None,
        "why": item.why or None,
        "take": take,
        "text": None if draft is None else draft.text,
        "retention": retention,
        "item": item_to_json(item),
    }


def read_drafts(path: Path, command: str) -> Reviewed:
    """Read a file of drafts, with what somebody has changed in it.

    Raises:
        NotFoundError: it is not there.
        UsageError: it is no such file, or of another command.
    """
    try:
        with open_regular(path) as file:  # a device may never end
            document = json.loads(file.read())
    except FileNotFoundError:
        raise FileMissingError(
            "file of drafts", path, "Give the path that --draft wrote to.", code="DRAFTS_NOT_FOUND"
        ) from None
    except OSError as error:
        raise NotFoundError(
            f"The drafts {path} cannot be read ({error.strerror}).", code="DRAFTS_NOT_FOUND"
        ) from None
    except (ValueError, RecursionError):
        raise _invalid(path, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _invalid(path, "it was not written by --draft")
    if document.get("version") != _VERSION:
        raise _invalid(path, "another version of lcm-tui wrote it")
    try:
        batch, made_by = document["batch"], document["command"]
        for name, kind in (("batch", str), ("command", str), ("items", list)):
            if not isinstance(document[name], kind):
                raise ValueError(name)
        pairs = [_read(one) for one in document["items"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(path, f"{error} is missing or damaged") from None
    if made_by != command:
        raise UsageError(f"{path} contains drafts of {made_by}: lcm-tui {made_by} --from-draft applies them.")
    taken = frozenset(item.summary_id for item, take in pairs if take)
    return Reviewed(batch, made_by, tuple(item for item, _ in pairs), taken)


def _invalid(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a drafts file ({why}).", details={"option": "from-draft"})


def _read(document: dict[str, Json]) -> tuple[BatchItem, bool]:
    held, name = document["item"], document["summaryId"]
    try:
        item = item_from_json(held)
    except ValueError:
        raise ValueError(f"item of {name}") from None
    if item.summary_id != name:
        raise ValueError(f"summaryId of {item.summary_id}")
    text, take = document["text"], document["take"]
    if not isinstance(take, bool):
        raise ValueError(f"take of {name} (true or false)")
    if not isinstance(text, str | None) or (take and text is None):
        raise ValueError(f"text of {name}")
    take = take and item.state not in (ItemState.COMMITTED, ItemState.SKIPPED)
    if text is None or not item.drafts:
        return item, False
    text = storable(text)
    same = next((draft.number for draft in item.drafts if draft.text == text), None)
    if same is not None:
        return replace(item, chosen=same), take
    edited = _edited(item.draft or item.drafts[-1], text, len(item.drafts) + 1)
    return replace(item, drafts=(*item.drafts, edited), chosen=edited.number), take


def _edited(draft: Draft, text: str, number: int) -> Draft:
    """What somebody wrote in the file; it is judged without its source, which the commit compares."""
    verdict = judge_text(
        text,
        source="x" * 4 * max(draft.source_tokens, 1),
        target_tokens=draft.target_tokens,
        estimator=Estimator.WEIGHTED,
    )
    return replace(
        draft,
        number=number,
        origin=DraftOrigin.MANUAL,
        text=text,
        model=MANUAL,
        tokens=verdict.tokens,
        faults=verdict.faults,
        cautions=verdict.cautions,
        sentences=verdict.sentences,
        usage=NO_USAGE,
    )


# -- as JSON ---------------------------------------------------------------------------------------------
# What would be requested, and what came of it.


def draft_forecast_document(one: DraftForecast) -> Document:
    """What would be sent for one summary."""
    document: Document = {**json_of(WAITING_COLUMNS, one.item), **json_of(FORECAST_COLUMNS, one)}
    if one.prompt is not None:
        document["prompt"] = {
            "template": one.prompt.template.name,
            **some_of(one.prompt, "system user"),
        }
    return document


def outcome_document(item: BatchItem) -> Document:
    """What came of an item; of a text that changed since, all three."""
    draft, ways = item.draft, None
    if item.theirs is not None and draft is not None:
        ways = {"base": draft.base.content, "theirs": item.theirs, "ours": draft.text}
    drafts = [_draft_document(one) for one in item.drafts]
    return {**json_of(ITEM_COLUMNS, item), "drafts": drafts, "threeWay": ways}


def _draft_document(draft: Draft) -> Document:
    """A draft and what was found of it."""
    return {
        **some_of(draft, "number origin model tokens target_tokens source_tokens"),
        "accepted": draft.may_be_taken,
        "findings": list(draft.sentences),
        **some_of(draft, "previous usage text"),
    }


# -- retention -------------------------------------------------------------------------------------------
# What drafts keep, lose and invent, for programs and for the file for review.

#: Of what is lost, the most frequent and most recent first.
_MOST: Final = 20


async def measured(batch: Batch, item: BatchItem) -> Document | None:
    """The present text and the proposed draft against their source, and against the messages below.

    None: there is no draft. ``ofMessages`` is None for a leaf, and where too many messages lie below.
    """
    draft = item.draft_in_sight
    if draft is None:
        return None
    material = await batch.material(item.summary_id)
    messages = await batch.database.read(messages_below, material, batch.setting)
    direct = await _both(batch, material, material.source.text, draft.text)
    below = await _both(batch, material, messages, draft.text) if messages else None
    return {**direct, "ofMessages": below}


async def _both(batch: Batch, material: Material, source: str, text: str) -> Document:
    now = await retention_of(material, material.base.content, batch.setting, source)
    draft = await retention_of(material, text, batch.setting, source)
    return {"sourceTokens": draft.source_tokens, "now": _document(now), "draft": _document(draft)}


def _document(kept: Retention) -> Document:
    return {
        "share": None if kept.share is None else round(kept.share, 4),
        "compression": None if kept.compression is None else round(kept.compression, 2),
        "classes": {str(one.kind): some_of(one, "kept in_source invented") for one in kept.classes},
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
