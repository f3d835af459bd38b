"""Running what is tested: an import, a preview, a comparison."""

from __future__ import annotations

from pathlib import Path

from lcm_remnic.importing import Looking, import_into
from lcm_remnic.source import Source
from lcm_remnic.write import writing


def imported(source: Path, path: Path, *sessions: str):
    """Import and give what was done."""
    with Source(source) as opened, writing(path, source, 5.0) as writer:
        report = import_into(opened, writer, sessions)
        writer.end()
    return report


def previewed(source: Path, path: Path, *sessions: str):
    """What an import would do."""
    with Source(source) as opened:
        return import_into(opened, Looking(path), sessions)


def differences(source: Path, path: Path):
    """Every difference of rows."""
    found = []
    with Source(source) as opened:
        import_into(opened, Looking(path), seen=found.append)
    return [one for one in found if one.what != "event"]
