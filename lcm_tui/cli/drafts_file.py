"""The file of drafts that people look at: ``--draft`` writes it, ``--from-drafts`` reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lcm_core.errors import FileMissingError, NotFoundError, RefusedError, UsageError
from lcm_core.ingest.jsonl import open_regular
from lcm_core.operations.drafting.draft import MANUAL, Draft, DraftOrigin, storable
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.operations.drafting.members import DamagedError, text_member
from lcm_core.operations.drafting.saved import item_from_json, item_to_json
from lcm_core.records import SummaryId
from lcm_core.settings import Json, JsonObject
from lcm_core.summarize.acceptance import judge_text
from lcm_core.summarize.request import NO_USAGE
from lcm_core.tokens import Estimator

from lcm_tui.cli.documents import Document

_FORMAT: Final = "lcm-tui drafts for review"
_VERSION: Final = 1
_HOW: Final = (
    "Set take to true for what is to be committed; text may be edited, or be that of another draft. "
    "Then: lcm-tui {command} --from-drafts {path} --apply"
)


@dataclass(frozen=True, slots=True)
class Reviewed:
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
        "summaryId": item.summary_id,
        "conversationId": item.conversation_id,
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
        batch, made_by = text_member(document, "batch"), text_member(document, "command")
        if not isinstance(document["items"], list):
            raise DamagedError("items")
        pairs = [_read(one) for one in document["items"]]
    except (DamagedError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(path, f"{error} is missing or damaged") from None
    if made_by != command:
        raise UsageError(
            f"{path} contains drafts of {made_by}: lcm-tui {made_by} --from-drafts applies them."
        )
    taken = frozenset(item.summary_id for item, take in pairs if take)
    return Reviewed(batch, made_by, tuple(item for item, _ in pairs), taken)


def _invalid(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a drafts file ({why}).", details={"option": "from-drafts"})


def _read(document: dict[str, Json]) -> tuple[BatchItem, bool]:
    held, name = document["item"], document["summaryId"]
    if not isinstance(held, dict):
        raise DamagedError("item")
    item = item_from_json(held)
    if item.summary_id != name:
        raise DamagedError(f"summaryId of {item.summary_id}")
    text, take = document["text"], document["take"]
    if not isinstance(take, bool):
        raise DamagedError(f"take of {name} (true or false)")
    if not isinstance(text, str | None) or (take and text is None):
        raise DamagedError(f"text of {name}")
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
        verdict=verdict,
        usage=NO_USAGE,
    )
