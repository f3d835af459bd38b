"""What tests share besides fixtures: the recorded data and how it is unpacked."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.values import replace
from lcm_core.engine.rules import engine_rules
from lcm_core.store.schema import FEATURES, Schema

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"

#: Databases written by the real engine at these versions; the damaged one has 16 deliberate edits.
VERSIONS = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "0.15.3-damaged", "1.0-next")
#: Databases of the 1.1 line: "1.1.1-next" and "1.1-later" have the rows of "1.0-next" in newer schemas.
VERSIONS_1_1 = ("1.1.0-shapes", "1.1.0-upgraded", "1.1.1-next", "1.1-later", "1.1-later-empty")


def packed_database(version: str) -> Path:
    """The compressed database of *version*."""
    if version in VERSIONS_1_1:
        return DATA / f"lcm-{version}.db.xz"
    if version not in VERSIONS:
        raise ValueError(f"no recorded database of version {version!r}: see VERSIONS and VERSIONS_1_1")
    return DATA / f"lcm-{version}.db.gz"


def unpack_database(version: str, target: Path) -> Path:
    """Write the database of *version* to *target* and return *target*."""
    packed = packed_database(version)
    unpack = lzma.decompress if packed.suffix == ".xz" else gzip.decompress
    target.write_bytes(unpack(packed.read_bytes()))
    return target


def sampled(values: Iterable[object], short: Collection[object]) -> list[Any]:
    """*values* for `pytest.mark.parametrize`: those of *short* always, the others in the long form only."""
    given = list(values)
    unknown = [one for one in short if one not in given]
    if unknown:
        raise ValueError(f"not among the values: {unknown}")
    return [one if one in short else pytest.param(one, marks=pytest.mark.long) for one in given]


def recorded(name: str) -> Any:
    """The JSON document ``tests/data/<name>``, compressed (``.gz``, ``.xz``) or not."""
    content = (DATA / name).read_bytes()
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(Path(name).suffix, bytes)
    return json.loads(unpack(content))


def with_values(rules, **values: Any):
    """*rules* with other values, each in the group that has a value of this name."""
    for name, value in values.items():
        (group,) = (
            group
            for group in ("tail", "wrapper", "source", "escalation", "compaction", "ingest")
            if name in getattr(rules, group).__struct_fields__
        )
        rules = replace(rules, **{group: replace(getattr(rules, group), **{name: value})})
    return rules


def rules_since(tag: str):
    """The rules of a file whose schema was left by the engine of *tag*, one of `FEATURES`."""
    tables: dict[str, frozenset[str]] = {}
    newest = max(at for at, (one, _, _) in enumerate(FEATURES) if one == tag)
    for _, table, column in FEATURES[: newest + 1]:
        tables[table] = tables.get(table, frozenset()) | ({column} if column else set())
    return engine_rules(Schema(tables))
