"""What tests share besides fixtures: the recorded data and how it is unpacked."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"

#: Databases written by the real engine at these versions; the damaged one has 16 deliberate edits.
VERSIONS = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "0.15.3-damaged", "1.0-next")


def packed_database(version: str) -> Path:
    """The compressed database of *version*; that of 0.15.3 is the one that ships as the demonstration."""
    if version not in VERSIONS:
        raise ValueError(f"no recorded database of version {version!r}; there are {', '.join(VERSIONS)}")
    if version == "0.15.3":
        return ROOT / "lcm_tui" / "data" / "demo.db.gz"
    return DATA / f"lcm-{version}.db.gz"


def unpack_database(version: str, target: Path) -> Path:
    """Write the database of *version* to *target* and return *target*."""
    target.write_bytes(gzip.decompress(packed_database(version).read_bytes()))
    return target


def recorded(name: str) -> Any:
    """The JSON document ``tests/data/<name>``, compressed (``.gz``, ``.xz``) or not."""
    content = (DATA / name).read_bytes()
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(Path(name).suffix, bytes)
    return json.loads(unpack(content))
