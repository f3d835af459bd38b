"""The stages of a run: what is read together is asked together (families A to G).

Every read is a transaction of its own, so that a live file is never pinned for long, and rules run in a
thread, so that an app goes on answering keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from lcm_core.dag.checks import (
    context,
    files,
    leaves,
    lineage,
    metadata,
    orphans,
    search,
    state,
    timeline,
    whole,
)
from lcm_core.dag.checks.facts import Structure, StructureRule
from lcm_core.dag.checks.links import LinkScan
from lcm_core.dag.checks.messages import MessageScan
from lcm_core.dag.checks.quality import TextScan
from lcm_core.dag.checks.search import MessageSearchScan, SummarySearchScan
from lcm_core.findings import Confidence, Finding
from lcm_core.records import ConversationId, MessageId
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.scan import files as disk
from lcm_core.store.scan import links, messages, texts
from lcm_core.store.scan import search as fts
from lcm_core.store.scan import state as notes
from lcm_core.store.scan import whole as file
from lcm_core.store.scan.collecting import Run
from lcm_core.store.scan.structure import conversation_ids, load_structure
from lcm_core.store.standing import whole_messages

STRUCTURE_RULES: Final[Mapping[str, StructureRule]] = {
    **context.RULES,
    **lineage.RULES,
    **leaves.RULES,
    **orphans.RULES,
    **metadata.RULES,
    **timeline.RULES,
}
TEXT_CHECKS: Final = frozenset({*(f"C{number}" for number in range(1, 21)), "D1", "D11", "D12"} - {"C19"})
BODY_CHECKS: Final = frozenset(
    {
        "C19",
        "D1",
        "E3",
        "E4",
        "E5",
        "E6",
        "E7",
        "E8",
        "E9",
        "E10",
        "E11",
        "E12",
        "E15",
        "E20",
        "E21",
        "E22",
        "G19",
    }
)
CONVERSATIONS: Final = frozenset({*STRUCTURE_RULES, *TEXT_CHECKS, *BODY_CHECKS})
LINKS: Final = frozenset({"B3", "B4"})
PARTS: Final = frozenset({"E13"})
FILES: Final = frozenset({"E16", "E17", "E18", "E19"})
STATE: Final = frozenset({*state.RULES, "E23", "G18"})
SEARCH: Final = frozenset({"F1", "F2", "F3", "F4", "F5", "F6"})
SCHEMA: Final = frozenset({"G12", "G14", "G15", "G16", "G17"})
PAGES: Final = frozenset({"G13"})


async def conversations(run: Run) -> None:
    """A to E, a conversation at a time: structure, then texts of summaries, then messages."""
    wanted = run.wants(CONVERSATIONS)
    rules = {check: rule for check, rule in STRUCTURE_RULES.items() if check in wanted}
    total = await run.database.read(_count_messages, run.conversation_id)
    backfilled = await run.database.read(_columns_backfilled)
    known = await run.database.read(texts.known_files) if "D12" in wanted else None
    if run.conversation_id is None:
        ids = await run.database.read(conversation_ids)
    else:
        ids = [run.conversation_id]
    done = 0
    for conversation_id in ids:
        where = f" in conversation {conversation_id}"
        structure: Structure | None = None
        async with run.patient(wanted, where):
            structure = await run.database.read(load_structure, conversation_id)
        if structure is None:
            continue
        findings = await _judge(rules, structure, run)
        if wanted & TEXT_CHECKS and structure.nodes:
            async with run.patient(TEXT_CHECKS, where):
                await _read_texts(run, structure, wanted & TEXT_CHECKS, known)
        asked, lost = wanted & BODY_CHECKS, any(map(_is_lost, findings))
        if (asked or lost) and len(structure.messages):
            async with run.patient(asked | {"A11"} if lost else asked, where):
                scan = await _read_messages(run, structure, asked, done, total, backfilled=backfilled)
                run.add(await asyncio.to_thread(list, scan.findings()))
                if lost:
                    findings = await asyncio.to_thread(_without_copies, findings, structure, scan, run)
        run.add(findings)
        done += len(structure.messages)
        run.progress(done, total)


def _is_lost(finding: Finding) -> bool:
    return finding.check == "A11" and finding.confidence is not Confidence.BY_DESIGN


def _without_copies(
    findings: list[Finding], structure: Structure, scan: MessageScan, run: Run
) -> list[Finding]:
    """The findings with A11 asked again: a copy of what the context reaches is no loss."""
    copies = scan.copies()
    if not copies:
        return findings
    again = _apply({"A11": STRUCTURE_RULES["A11"]}, replace(structure, copies=copies), run)
    return [*(one for one in findings if one.check != "A11"), *again]


async def _judge(rules: Mapping[str, StructureRule], structure: Structure, run: Run) -> list[Finding]:
    """What the rules find, as many as had the time."""
    found: list[Finding] = []
    left = set(rules)
    loop, told = asyncio.get_running_loop(), time.monotonic()

    def judge() -> None:
        nonlocal told
        for check, rule in rules.items():
            found.extend(_apply({check: rule}, structure, run))
            left.discard(check)
            if time.monotonic() - told > 0.1:
                told = time.monotonic()
                loop.call_soon_threadsafe(run.moved)

    async with run.patient(left, f" in conversation {structure.id}"):
        await asyncio.to_thread(judge)
    return list(found)


def _apply(rules: Mapping[str, StructureRule], structure: Structure, run: Run) -> list[Finding]:
    # A check keeps no more than so many, and a hostile file must not make more than that of one conversation.
    most = run.limits.findings + 1
    found: list[Finding] = []
    for check, rule in rules.items():
        where = f" in conversation {structure.id}"
        with run.guarded((check,), where):
            begun = time.monotonic()
            for finding in islice(rule(structure, run.limits), most):
                found.append(finding)
                if 0 < run.limits.seconds < time.monotonic() - begun:
                    run.stop((check,), run.gave_up(where))
                    break
    return found


async def _count_messages(reader: Reader, conversation_id: ConversationId | None) -> int:
    if conversation_id is None:
        return await reader.value("SELECT count(*) FROM messages") or 0
    return await reader.value("SELECT count(*) FROM messages WHERE conversation_id = ?", conversation_id) or 0


async def _columns_backfilled(reader: Reader) -> bool:
    """Whether the migration step ran that fills the tool columns of parts.

    Source: docs/engine/versions.md, "Migration steps".
    """
    if not reader.schema.has("lcm_migration_state"):
        return False
    return bool(
        await reader.value(
            "SELECT count(*) FROM lcm_migration_state WHERE step_name = 'backfillToolCallColumns'"
        )
    )


async def _read_texts(
    run: Run, structure: Structure, wanted: frozenset[str], known: frozenset[str] | None
) -> None:
    scan = TextScan(structure, run.limits, wanted)
    ids, left_out = list(structure.nodes), 0
    for start in range(0, len(ids), texts.BATCH):
        bodies = await run.database.read(texts.bodies_of, ids[start : start + texts.BATCH])
        left_out += len(set(ids[start : start + texts.BATCH])) - len(bodies)
        suspects = await asyncio.to_thread(scan.take, bodies)
        run.moved()
        contents = {body.summary_id: body.content for body in bodies}
        for summary_id in suspects:
            sources = await run.database.read(texts.source_texts, summary_id)
            await asyncio.to_thread(scan.compare, summary_id, contents[summary_id], sources)
            run.moved()
    named: dict[int, tuple[str, ...]] = {}
    after: SqlValue = -(2**63)
    while known and after is not None:
        found, after = await run.database.read(texts.files_named, structure.id, after)
        run.moved()
        named |= found
    run.add(await asyncio.to_thread(list, scan.findings(known, named)))
    _note_left_out(run, wanted, structure, left_out, "summaries")


def _note_left_out(run: Run, wanted: frozenset[str], structure: Structure, count: int, what: str) -> None:
    """Say what was not looked into."""
    if count > 0:
        why = f"have more than {messages.MOST_CHARACTERS:,} characters, or were removed meanwhile"
        run.stop(
            wanted, f"it did not look into {count:,} {what} of conversation {structure.id}: their texts {why}"
        )


async def _read_messages(
    run: Run, structure: Structure, wanted: frozenset[str], done: int, total: int, *, backfilled: bool
) -> MessageScan:
    scan = MessageScan(structure, run.limits, wanted, backfilled=backfilled)
    read = 0
    for first, last in messages.batches(structure.messages):
        bodies = await run.database.read(messages.bodies_between, structure.conversation, first, last)
        await asyncio.to_thread(scan.take, bodies)
        if doubtful := [MessageId(one) for one in scan.doubtful()]:
            whole = await run.database.read(whole_messages, doubtful)
            await asyncio.to_thread(scan.weigh, whole)
        read += len(bodies)
        run.progress(done + read, total)
    _note_left_out(run, wanted, structure, len(structure.messages) - read, "messages")
    return scan


async def linked_rows(run: Run) -> None:
    """B3, B4: links and edges that lead nowhere."""
    scan = LinkScan(run.limits)
    async for found, done, total in links.bad_links(run.database, run.conversation_id):
        scan.take(found)
        run.progress(done, total)
    run.add(scan.findings())


async def orphan_parts(run: Run) -> None:
    """E13: parts without a message."""
    scan = LinkScan(run.limits)
    async for found, done, total in links.orphan_parts(run.database, run.conversation_id):
        scan.take(found)
        run.progress(done, total)
    run.add(scan.findings())


async def large_files(run: Run) -> None:
    """E16 to E19: large files in the database, in texts and on the disk."""
    wanted = run.wants(FILES)
    stored = await run.database.read(disk.stored_files, run.conversation_id)
    looks = []
    if wanted & {"E16", "E17", "E19"}:
        for one in stored:
            lines = "E17" in wanted
            looks.append(await asyncio.to_thread(disk.look_at, one, run.folders, count_lines=lines))
        everywhere = await run.database.read(disk.stored_files, None)
        homes = {(one.storage_uri, int(one.conversation_id)) for one in everywhere}
        run.add(files.missing(looks, run.limits, homes))
        run.add(files.resized(looks, run.limits))
    if wanted & {"E18", "E19"}:
        known = await run.database.read(texts.known_files)
        scan = disk.UseScan(known)
        async for done, total in disk.scan_use(run.database, scan, run.conversation_id):
            run.progress(done, total)
        run.add(files.unknown_references(scan.use, run.limits))
        if "E19" in wanted and run.folders.large_files is not None:
            folder = run.folders.large_files
            names = await asyncio.to_thread(disk.files_on_disk, folder, run.conversation_id)
            run.add(files.unused(looks, names, scan.use, run.limits, all_known=known))


async def noted_state(run: Run) -> None:
    """G1 to G11, G18, E23: conversations beside each other and what is noted about them."""
    wanted = run.wants(STATE)
    known = await run.database.read(notes.load_state, run.limits)
    if wanted & {"G6", "G7", "G8"}:
        known = await asyncio.to_thread(notes.with_transcripts, known, run.folders)
    for check, rule in state.RULES.items():
        if check in wanted:
            with run.guarded((check,)):
                run.add(list(rule(known, run.limits)))
    if "E23" in wanted:
        run.add(
            whole.collisions(await run.database.read(notes.load_collisions, run.conversation_id), run.limits)
        )
        async for entries, done, total in notes.shared_entries(run.database, known):
            run.add(whole.shared_entries(entries, known))
            run.progress(done, total * 2)
    if "G18" in wanted:
        async for pairs, done, total in notes.shared_messages(run.database, known):
            run.add(state.alike(pairs, known))
            run.progress(done + total, total * 2)


async def search_tables(run: Run) -> None:
    """F1 to F6: the search tables against what they were filled from."""
    wanted = run.wants(SEARCH)
    schema = run.database.schema
    probes = [probe for table in fts.TABLES if (probe := await fts.probe(run.database, table)) is not None]
    run.add(search.broken_tables(probes))
    if wanted & {"F1", "F2", "F4"} and schema.has(f"{fts.MESSAGES}_content"):
        found = MessageSearchScan(run.limits, run.conversation_id)
        async for rows, done, total in fts.compare_messages(run.database, run.conversation_id):
            found.take(rows)
            run.progress(done, total)
        run.add(found.findings())
    for table, checks in ((fts.SUMMARIES, {"F3", "F4"}), (fts.CJK, {"F5"})):
        if wanted & checks and schema.has(f"{table}_content") and schema.has("summaries"):
            summaries = SummarySearchScan(table, run.limits, run.conversation_id)
            async for rows_of, _, _ in fts.compare_summaries(run.database, table, run.conversation_id):
                summaries.take(rows_of)
            run.add(summaries.findings())


async def schema_and_space(run: Run) -> None:
    """G12, G14 to G17: what can be told of the file without reading it."""
    wanted = run.wants(SCHEMA)
    read = run.database.read
    if "G12" in wanted:
        run.add(whole.migration(await read(file.load_migration)))
    if "G14" in wanted:
        known = run.database.state
        run.add(whole.space(await read(file.load_space, 0 if known is None else known.wal_size)))
    if "G15" in wanted:
        run.add(whole.counters_behind(await read(file.counters_behind)))
    if "G16" in wanted:
        run.add(whole.stuck_batches(await read(file.stuck_batches, run.limits.today), run.limits))
    if "G17" in wanted:
        run.add(whole.untrusted(*await read(file.anchor_trust)))


async def pages(run: Run) -> None:
    """G13: SQLite's own checks of the file."""
    run.add(whole.damaged_pages(await run.database.read(file.quick_check)))
    async for found, done, total in file.violations(run.database):
        run.add(whole.violations(found, run.limits))
        run.progress(total + done, total * 2)
