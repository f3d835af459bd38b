"""What ARCHITECTURE says of files is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
PAGE = (HOUSE / "ARCHITECTURE.md").read_text()
SPINE = re.findall(r"^\| `([\w/]+\.py)` \|", PAGE.split("## The spine")[1].split("\n## ")[0], re.MULTILINE)
#: Lines that a newcomer reads in one evening, and those of this page.
EVENING, PAGE_LINES = 3_000, 250


@pytest.mark.parametrize("name", SPINE)
def test_a_file_of_the_spine_is_there(name: str):
    assert (HOUSE / name).is_file()


def test_the_spine_is_read_in_one_evening():
    assert len(SPINE) in range(8, 11)
    assert sum(len((HOUSE / name).read_text().splitlines()) for name in SPINE) <= EVENING


def test_the_page_stays_short():
    assert len(PAGE.splitlines()) <= PAGE_LINES
