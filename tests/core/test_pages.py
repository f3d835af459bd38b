"""The pages of the format say what the code holds: every table, column, index, feature and setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lcm_core.api import EngineSettings
from lcm_core.base.engine_settings import KEYS
from lcm_core.change.schema import INDEXES, MIGRATION_STEPS, OBSOLETE_INDEXES, SEARCH_TABLES, TABLES
from lcm_core.store.schema import FEATURES

DOCS = Path(__file__).parents[2] / "docs" / "spec"


def _sections(page: str) -> dict[str, str]:
    """What stands under each heading of a page."""
    pieces = re.split(r"^#+ (.+)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


FORMAT = _sections("format.md")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_is_on_the_page_of_the_format(table) -> None:
    section = next(text for heading, text in FORMAT.items() if table.name in heading.split())
    assert {name for name, _ in table.columns} <= _words(section)


def test_every_index_and_search_table_is_on_a_page() -> None:
    rows = {line for line in FORMAT["Indexes"].splitlines() if line.startswith("|")}
    for index in INDEXES:
        [row] = [one for one in rows if index.name in _words(one.split("|")[1])]
        assert {index.table, *index.columns.split(", ")} <= _words(row)
        assert index.unique == ("**unique**" in row)
    assert {one.name for one in SEARCH_TABLES} <= _words(_sections("search.md")["Tables"])
    assert {*OBSOLETE_INDEXES} <= _words(FORMAT["The file itself"])


def test_every_feature_is_told_with_its_version() -> None:
    rows = [line.split("|") for line in _sections("versions.md")["Features"].splitlines() if "|" in line]
    told = {cells[1].strip(): cells[2] for cells in rows}
    for tag, table, column in FEATURES:
        assert (column or table) in _words(told["after 0.15.3" if "+" in tag else tag])
    steps = _sections("versions.md")["Migration steps"]
    assert all(f"{name} {version}" in steps for name, version in MIGRATION_STEPS)


@pytest.mark.cases(33)
@pytest.mark.parametrize("attribute", KEYS)
def test_every_setting_is_on_the_page_with_its_names_and_default(attribute: str) -> None:
    key = KEYS[attribute]
    rows = [
        line.split("|")
        for line in _sections("settings.md")["Settings and defaults"].splitlines()
        if "|" in line
    ]
    [(_, names, default, *_)] = [cells for cells in rows if key.name in re.findall(r"[\w.]+", cells[1])]
    assert set(key.plugin) <= {*re.findall(r"[\w.]+", names)}
    usual = {f"LCM_{re.sub(r'(?=[A-Z])|[.]', '_', name).upper()}" for name in key.plugin}
    assert set(key.env) - usual <= _words(names)
    value = getattr(EngineSettings(), attribute).value
    if isinstance(value, bool | str) and value != "":
        assert str(value).lower() in default
    elif isinstance(value, int | float):
        assert f"{value:,}".removesuffix(".0") in default
