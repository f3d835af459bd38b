"""The pages of our own decisions agree with the code: keys, exit codes, settings, places of files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from lcm_core.api import ExitCode
from lcm_core.base.files import drafts_folder
from lcm_core.base.settings import _FIELDS, _KNOWN, ENV_NAMES
from lcm_core.change.journal import export_folder
from lcm_core.operations.export import default_folder
from lcm_core.writers.keys import _DOCUMENTS, _PROFILES, _STORES

from lcm_tui.kit.commands import textual_keys
from lcm_tui.screens.frame import all_keys

DOCS = Path(__file__).parents[1] / "docs" / "spec"
CONFIGURATION = "../configuration.md"
#: Keys of the table that move, and that Textual gives to the palette.
MOVING = {*"jkhlgG", "ctrl+p"}


def section(page: str, heading: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def cells(page: str, heading: str, column: int) -> list[str]:
    rows = [line for line in section(page, heading).splitlines() if line.startswith("| ")]
    return [re.split(r"(?<!\\) \| ?", line.removeprefix("| "))[column] for line in rows[1:]]


def test_the_table_of_keys_holds_every_key_of_a_command_and_no_other():
    told = {
        textual_keys(key)
        for cell in cells("../keys.md", "Keys", 0)
        for group in re.findall(r"`([^`]+)`", cell)
        for key in group.split()
    }
    known = {"escape" if key == "esc" else key for one in all_keys().values() for key in one.key.split(",")}
    assert told - MOVING - known == set()
    assert known - told - {"f1"} == set()


def test_the_exit_codes_are_those_of_the_page():
    assert [int(cell) for cell in cells(CONFIGURATION, "Exit codes", 0)] == [code.value for code in ExitCode]


def test_every_setting_of_ours_is_on_the_page():
    table = section(CONFIGURATION, "Settings and environment variables")
    for variable in (name for name in ENV_NAMES if name.startswith("LCM_TUI_")):
        assert f"`{variable}`" in table
    (example,) = re.findall(r"^```toml\n(.*?)^```", section(CONFIGURATION, "config.toml"), re.M | re.S)
    given = tomllib.loads(example)
    assert (given.keys(), given["summary"].keys()) == (set(_KNOWN), _FIELDS.keys())


def test_where_our_files_lie_is_on_the_page():
    text = section("decisions.md", "Formats of ours")
    for folder in (export_folder(), default_folder(), drafts_folder()):
        assert f"/{folder.name}" in text


@pytest.mark.parametrize(
    "name", [*_STORES, _PROFILES, *(f"{table}.{column}" for table, column in _DOCUMENTS)]
)
def test_where_the_host_keeps_credentials_is_on_the_page(name: str):
    assert f"`{name}`" in section("host.md", "Credentials")
