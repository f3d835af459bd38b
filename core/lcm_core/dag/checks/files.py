"""Large files: what is on the disk, what the database knows, and what messages refer to (E16 to E19)."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.dag.checks.facts import Limits, Tally, counted, told
from lcm_core.findings import Confidence, Finding
from lcm_core.paths import FileState
from lcm_core.records import ConversationId, LargeFile

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

#: References as the engine writes them (docs/engine/ingest.md, "Payloads"); a bare id may be anybody's words.
_REFERENCE: Final = re.compile(
    r"(?:\[LCM (?:File|Tool Output|Raw Payload): |\| LCM file: )(file_[a-f0-9]{16})\b", re.IGNORECASE
)


def references(text: str) -> list[str]:
    """The files that a text refers to in the engine's own form, in lower case."""
    return list(dict.fromkeys(found.lower() for found in _REFERENCE.findall(text)))


@dataclass(frozen=True, slots=True)
class FileLook:
    """A stored file as it was found on the disk."""

    file: LargeFile
    state: FileState
    size: int | None  #: bytes; None unless it was found
    lines: int | None  #: as the engine counts them; None when they were not counted
    folder: str | None  #: name of the folder that it was found in


@dataclass(frozen=True, slots=True)
class FileUse:
    """What messages and summaries say of files."""

    named: frozenset[str]  #: ids that stand anywhere
    unknown: Mapping[ConversationId, Sequence[int]]  #: messages that refer to a file that is unknown


def missing(
    looks: Sequence[FileLook], limits: Limits, homes: Container[tuple[str, int]] = ()
) -> Iterator[Finding]:
    """E16. When not one file is there, it is more likely that this is not their folder.

    *homes* are paths with the conversations that they belong to: a transplant copies the row, not the file.
    """
    wrong_folder = bool(looks) and all(look.state is FileState.MISSING for look in looks)
    groups: dict[tuple[ConversationId, FileState], Tally] = {}
    misplaced: dict[ConversationId, Tally] = {}
    for look in looks:
        owner = look.file.conversation_id
        if look.state is not FileState.FOUND:
            groups.setdefault((owner, look.state), Tally(limits)).add("large_files", look.file.file_id)
        elif look.folder is not None and look.folder.isdecimal() and int(look.folder) != owner:
            if (look.file.storage_uri, int(look.folder)) in homes:
                continue
            misplaced.setdefault(owner, Tally(limits)).add("large_files", look.file.file_id)
    for (owner, state), rows in groups.items():
        gone = state is FileState.MISSING
        yield rows.finding(
            "E16",
            _BROKEN if gone and not wrong_folder else _SUSPICIOUS,
            owner,
            f"{counted(rows.count, 'large file')} of conversation {owner}: {state.value}"
            + (", and neither is any other; is this the right folder?" if wrong_folder else "."),
        )
    for owner, rows in misplaced.items():
        sentence = told(rows.count, "large file", owner, "lie in the folder of another conversation.")
        yield rows.finding("E16", _SUSPICIOUS, owner, sentence)


def resized(looks: Iterable[FileLook], limits: Limits) -> Iterator[Finding]:
    """E17: size or line count on the disk is not what was stored."""
    groups: dict[ConversationId, Tally] = {}
    for look in looks:
        file = look.file
        size = look.size is not None and file.byte_size is not None and look.size != file.byte_size
        lines = look.lines is not None and file.line_count is not None and look.lines != file.line_count
        if size or lines:
            groups.setdefault(file.conversation_id, Tally(limits)).add("large_files", file.file_id)
    for owner, rows in groups.items():
        number = counted(rows.count, "large file")
        sentence = (
            f"{number} of conversation {owner} have another size on the disk than when they were stored."
        )
        yield rows.finding("E17", _SUSPICIOUS, owner, sentence)


def unknown_references(use: FileUse, limits: Limits) -> Iterator[Finding]:
    """E18: the payload behind a reference cannot be found."""
    for owner, message_ids in sorted(use.unknown.items()):
        rows = Tally(limits)
        for message_id in message_ids:
            rows.add("messages", message_id)
        sentence = told(
            rows.count, "message", owner, "refer to a large file that the database does not know."
        )
        yield rows.finding("E18", _SUSPICIOUS, owner, sentence)


def unused(
    looks: Sequence[FileLook],
    on_disk: Iterable[str],
    use: FileUse,
    limits: Limits,
    *,
    all_known: frozenset[str],
) -> Iterator[Finding]:
    """E19: stored files that nothing names, and files on the disk that the database does not know."""
    groups: dict[ConversationId, Tally] = {}
    for look in looks:
        if look.file.file_id.lower() not in use.named:
            groups.setdefault(look.file.conversation_id, Tally(limits)).add("large_files", look.file.file_id)
    for owner, rows in groups.items():
        sentence = told(rows.count, "large file", owner, "are named by no message and no summary.")
        yield rows.finding("E19", _BY_DESIGN, owner, sentence)
    strays = Tally(limits)
    for path in on_disk:
        name = path.rsplit("/", 1)[-1].split(".", 1)[0].lower()
        if name not in all_known:
            strays.add("disk", path)
    if strays:
        sentence = (
            f"{counted(strays.count, 'file')} in the folder of large files: the database knows nothing of it."
        )
        yield strays.finding("E19", _BY_DESIGN, None, sentence)
