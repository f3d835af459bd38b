"""The pictures: each is taken by the script that takes them, and shown in README or on a page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHOWN = re.compile(r"!\[[^\]]+\]\((?:\.\./)*screenshots/([\w-]+)\.svg\)")
TAKEN = re.compile(r'Picture\(\s*"([\w-]+)"')


def test_every_picture_is_taken_by_the_script_and_shown_on_a_page():
    there = {path.stem for path in (ROOT / "screenshots").glob("*.svg")}
    taken = TAKEN.findall((ROOT / "screenshots" / "take.py").read_text(encoding="utf-8"))
    pages = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    shown = [name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))]
    assert sorted(taken) == sorted(there), "make pictures"
    assert sorted(shown) == sorted(there), "each once"
