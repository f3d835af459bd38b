"""All checks by id, by family and number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from lcm_core.dag.checks.catalogue_graph import GRAPH_CHECKS
from lcm_core.dag.checks.catalogue_rows import ROW_CHECKS
from lcm_core.errors import UsageError
from lcm_core.findings import Check

CHECKS: Final[Mapping[str, Check]] = {
    check.id: check for check in sorted((*GRAPH_CHECKS, *ROW_CHECKS), key=lambda check: check.order)
}
FAMILIES: Final[Mapping[str, str]] = {
    "A": "context",
    "B": "summary DAG",
    "C": "text of summaries",
    "D": "metadata",
    "E": "messages, parts and files",
    "F": "search tables",
    "G": "conversations and state",
}


def choose(wanted: Collection[str] | None) -> list[Check]:
    """The checks that ids (``A11``) and families (``A``) name, in order; None names all.

    Raises:
        UsageError: a name is neither.
    """
    if wanted is None:
        return list(CHECKS.values())
    names = {name.strip().upper() for name in wanted}
    unknown = sorted(name for name in names if name not in CHECKS and name not in FAMILIES)
    if unknown:
        raise UsageError(
            f"There is no check {unknown[0]}; ids go from A1 to G19, and a letter from A to G means a family."
        )
    return [check for check in CHECKS.values() if check.id in names or check.family in names]
