"""``vacuum``: the free pages of the file are given back to the disk."""

from __future__ import annotations

from collections.abc import Callable

from lcm_core.base.errors import RefusedError
from lcm_core.base.values import to_json
from lcm_core.change.vacuum import estimate_vacuum
from lcm_core.change.vacuum import vacuum as give_space_back
from lcm_core.store.statistics import file_size

from lcm_tui.cli import answer as answering
from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.working import carry_out
from lcm_tui.tables.blocks import Note, bytes_text
from lcm_tui.tables.disk import vacuum_sentence


@command("vacuum", examples=("vacuum", "vacuum --apply"))
@options.change_flags
def vacuum(run: Run, *, flags: options.ChangeFlags) -> Answer:
    """Give the free pages of the file back to the disk (previews unless --apply)."""
    path = run.settings.database.value
    free = run.read(file_size).free
    estimate = estimate_vacuum(path)
    told = vacuum_sentence(estimate, free)
    data = {**to_json(estimate), "freeBytes": free, "applied": False}
    if not flags.apply:
        notes = [Note(told), Note(f"{estimate.problem}." if estimate.problem else "Add --apply to do it.")]
        return run.answer("vacuum", data, notes)
    if estimate.problem:
        raise RefusedError(f"{estimate.problem}. Nothing was changed.")

    def work(stopped: Callable[[], bool]) -> tuple[int, int]:
        return give_space_back(path, wait=answering.BUSY_SECONDS, stopped=stopped)

    before, after = carry_out(run, "Rewrite the file?", work, yes=flags.yes, shown=lambda: [Note(told)])
    words = f"The file had {bytes_text(before)} and has {bytes_text(after)} now."
    return run.answer(
        "vacuum", {**data, "applied": True, "bytes": before, "bytesAfter": after}, [Note(words)]
    )
