"""How a plan is shown to programs."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.plan import RowCount
from lcm_core.change.preview import Preview

from lcm_tui.cli.documents import Document


def preview_document(shown: Preview, *, sql: bool = False) -> Document:
    """A plan for machines: what every operation says, with its title."""
    document: Document = {"title": shown.plan.title, **shown.as_json()}
    if sql:
        document["sql"] = list(shown.sql())
    return document


def rows_document(rows: Sequence[RowCount]) -> Document:
    """Rows per table."""
    return {one.table: {"insert": one.insert, "update": one.update, "delete": one.delete} for one in rows}
