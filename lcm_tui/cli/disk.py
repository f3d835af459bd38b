"""``disk``: what a database takes on the disk, and what of that is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from lcm_core.base.errors import RefusedError, UsageError
from lcm_core.base.text import counted
from lcm_core.base.values import to_json
from lcm_core.operations.disk import DiskUse, ages_of, disk_use, estimate_vacuum, remove_strays, vacuum
from lcm_core.operations.prune import Criteria, select
from lcm_core.store.statistics import file_size

from lcm_tui.cli import answer as answering
from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import Choice
from lcm_tui.cli.working import carry_out, show_and_ask
from lcm_tui.flows.change import confirm_removal
from lcm_tui.flows.checks import reads_whole_file
from lcm_tui.tables.blocks import Note, OutputBlock, bytes_text, json_names, json_of, list_table
from lcm_tui.tables.disk import (
    AGE_COLUMNS,
    DISK_COLUMNS,
    SIZE_COLUMNS,
    disk_rows,
    disk_sentence,
    vacuum_sentence,
    vacuumed_sentence,
)


@command("disk", forms=("csv",), examples=("disk", "disk --free pages --apply"))
@option(
    "--free",
    Choice("pages", "strays"),
    "pages|strays",
    "Give back the free pages of the file and its write-ahead log (VACUUM), or remove the large files "
    "that no row names, older than a day (previews unless --apply).",
)
@flag(
    "--all",
    "Measure the texts of the conversations of a file over 1 GB too; that reads all of them.",
    into="measured",
)
@options.change_flags
def disk(run: Run, *, free: str | None, measured: bool, flags: options.ChangeFlags) -> Answer:
    """Show what takes space on the disk, by table, conversation and age, and what can be given back.

    That is what is inside the file and what is beside it.
    """
    if free is None and flags.apply:
        raise UsageError("disk --apply requires --free.", details={"option": "apply"})
    if free is not None:
        options.alone("--free", "--apply", "--yes", "--allow-unread-wal")
    if free == "pages":
        return _vacuum(run, flags)
    folder = run.settings.large_files_dir.value if run.settings.knows_large_files else None
    use = run.read(disk_use, run.settings.database.value, folder)
    if free == "strays":
        return _remove(run, use, flags)
    from lcm_tui.cli.removing import sizes_table  # with what a change needs

    measured = measured or reads_whole_file(None, use.file.bytes)
    rows, sizes = disk_rows(use), run.read(select, Criteria(), sizes=measured)
    ages = [*ages_of(sizes, datetime.now(UTC))]
    blocks: Sequence[OutputBlock] = (
        list_table(DISK_COLUMNS, rows, run.time),
        sizes_table(
            run, sizes, f"Conversations, by {'the bytes of their texts' if measured else 'messages'}"
        ),
        list_table(AGE_COLUMNS, ages, run.time, title="By age"),
        *map(Note, _notes(use)),
        *([] if measured else [Note("The texts were not measured, as the file is large: --all reads them.")]),
    )
    data: Document = {
        "bytes": use.bytes,
        "items": [json_of(DISK_COLUMNS, row) for row in rows],
        "conversations": [json_of(SIZE_COLUMNS, one) for one in sizes],
        "ages": [json_of(AGE_COLUMNS, one) for one in ages],
    }
    return run.answer("disk", data, blocks, names=json_names(DISK_COLUMNS))


def _notes(use: DiskUse) -> Iterator[str]:
    yield disk_sentence(use)
    if use.vacuum_bytes:
        yield "Give back the free pages and the write-ahead log with: lcm-tui disk --free pages"
    if use.copies:
        yield "No undo needs backups and exports: remove those that you do not want to go back to"
    if use.strays:
        yield "Remove the files that no row names with: lcm-tui disk --free strays"


def _vacuum(run: Run, flags: options.ChangeFlags) -> Answer:
    """Give the free pages of the file and its write-ahead log back to the disk."""
    path = run.settings.database.value
    file = run.read(file_size, tables=False)
    estimate = estimate_vacuum(path)
    told = vacuum_sentence(estimate, file)
    data: Document = {**to_json(estimate), "freeBytes": file.free, "applied": False}
    if not flags.apply:
        notes = [Note(told), Note(f"{estimate.problem}." if estimate.problem else "Add --apply to do it.")]
        return run.answer("disk", data, notes)
    if estimate.problem:
        raise RefusedError(f"{estimate.problem}. Nothing was changed.")

    def work(stopped: Callable[[], bool]) -> tuple[int, int]:
        return vacuum(path, wait=answering.BUSY_SECONDS, stopped=stopped)

    before, after = carry_out(run, "Rewrite the file?", work, yes=flags.yes, shown=lambda: [Note(told)])
    data = {**data, "applied": True, "bytes": before, "bytesAfter": after}
    return run.answer("disk", data, [Note(vacuumed_sentence(before, after))])


def _remove(run: Run, use: DiskUse, flags: options.ChangeFlags) -> Answer:
    blocks: list[OutputBlock] = [Note(f"{one.path}  {bytes_text(one.bytes)}") for one in use.strays[:20]]
    if len(use.strays) > len(blocks):
        blocks.append(Note(f"and {len(use.strays) - len(blocks):,} more"))
    data: Document = {
        "strays": [to_json(one) for one in use.strays],
        "bytes": use.stray_bytes,
        "applied": False,
    }
    if not use.strays:
        return run.answer("disk", data, [Note("Every large file has a row.")])
    if not flags.apply:
        blocks.append(Note(f"{bytes_text(use.stray_bytes)} in all. Add --apply to remove them."))
        return run.answer("disk", data, blocks)
    typed = confirm_removal(len(use.strays))
    show_and_ask(lambda: blocks, "", run.presentation, yes=flags.yes, typed=typed)
    done = run.read(remove_strays, run.settings.large_files_dir.value, use.strays)
    told = (
        f"{counted(done.files, 'file was', 'files were')} removed; {bytes_text(done.bytes)} are free again."
    )
    data = {**data, "applied": True, "removed": to_json(done)}
    return run.answer("disk", data, [Note(told), *map(Note, done.kept)])
