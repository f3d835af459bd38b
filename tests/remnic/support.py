"""Running what is tested: an import, an export, an undo."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lcm_core.change.commit import commit
from lcm_core.change.plan import Plan
from lcm_core.change.schema_new import create_database
from lcm_core.remnic.exporting import Export
from lcm_core.remnic.importing import Looking, Running, import_into
from lcm_core.remnic.reading import session_names
from lcm_core.remnic.records import Report, Step, What
from lcm_core.remnic.source import Source
from lcm_core.remnic.write import writing
from lcm_core.store.database import Database


def imported(source: Path, path: Path, *sessions: str) -> Report:
    """Import and give what was done."""
    with Source(source) as opened, writing(path, source, 5.0) as writer:
        report = import_into(opened, Running(writer), sessions)
        writer.end()
    return report


def previewed(source: Path, path: Path, *sessions: str) -> Report:
    """What an import would do."""
    with Source(source) as opened:
        return import_into(opened, Looking(path), sessions)


def differences(source: Path, path: Path) -> list[Step]:
    """Every difference of rows."""
    found: list[Step] = []
    with Source(source) as opened:
        import_into(opened, Looking(path), seen=found.append)
    return [one for one in found if one.what is not What.EVENT]


def exported(path: Path, target: Path) -> Export:
    """Export everything into a new database."""
    create_database(target)
    work = Export(path, session_names(path))

    async def planned() -> tuple[Plan, ...]:
        async with await Database.open(target) as database:
            return await database.read(work.plan)

    while plans := asyncio.run(planned()):
        for plan in plans:
            commit(target, plan)
    return work
