"""``status --report``: what a bug report needs, and nothing of what texts and settings say."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from lcm_core.base.errors import LcmError
from lcm_core.base.files import FileNotWrittenError, reason_of, write_private
from lcm_core.base.setting_values import Json
from lcm_core.operations import report as reporting
from lcm_core.store.database import Database
from lcm_host.checks import run_checks

from lcm_tui.cli import answer
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.kit import logfile
from lcm_tui.tables.blocks import Facts, Note

#: Larger files are not checked: the report is to be there at once.
CHECKED_BYTES = 500_000_000


def write_report(run: Run, to: Path | None) -> Answer:
    """Write a bug report: versions, schema, counts, masked settings, errors; no content."""
    now = datetime.now(UTC)
    path = Path(f"lcm-tui-report-{now:%Y%m%dT%H%M%SZ}.json") if to is None else to
    parts: dict[str, Json] = {
        "machine": reporting.machine(),
        "settings": reporting.settings_masked(run.settings),
        "database": asyncio.run(_database(run)),
        "log": reporting.log_entries(logfile.log_path()),
    }
    document = reporting.report_document(parts, now)
    try:
        text = json.dumps(document, indent=2) + "\n"
        written = write_private(path, text, never=[run.settings.database.value])
    except FileNotWrittenError as error:
        if to is not None:
            raise
        why = reason_of(error.__cause__) if isinstance(error.__cause__, OSError) else "it is no folder"
        raise FileNotWrittenError(
            f"No report can be written to the current folder ({why}); name a file elsewhere with --to."
        ) from error
    facts = Facts([("Report", str(written)), ("Size", f"{written.stat().st_size:,} bytes")])
    note = Note("It contains no path, title, key or text. Check it before you send it.")
    data: dict[str, Json] = {"path": str(written), "bytes": written.stat().st_size}
    return run.answer("status", data, [facts, note])


async def _database(run: Run) -> Json:
    """The facts of the database, or why there are none."""
    try:
        async with await Database.open(
            run.settings.database.value, busy_seconds=answer.BUSY_SECONDS
        ) as database:
            facts = dict(await reporting.database_facts(database))
            size = facts["bytes"]
            if isinstance(size, int) and size <= CHECKED_BYTES:
                found = await run_checks(database, whole_file=False)
                facts["doctor"] = reporting.findings_counted(found)
            return facts
    except LcmError as error:
        return reporting.failure(error)
