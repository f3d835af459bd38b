"""What the page about an agent's memory shows runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "agent-memory.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("source", BLOCKS, ids=[f"block {number}" for number, _ in enumerate(BLOCKS, 1)])
def test_an_example_runs_as_it_stands(source: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = re.search(r"^Summaries made: (\d+)$", done.stdout, re.MULTILINE)
    sent = re.search(r"^Sent: (\d+) messages, ([\d,]+) of 2,000 tokens$", done.stdout, re.MULTILINE)
    assert made is not None
    assert sent is not None
    assert int(made[1]) > 0
    assert 0 < int(sent[2].replace(",", "")) <= 2_000
    assert (tmp_path / "agent.db").exists()


def test_there_is_an_example() -> None:
    assert len(BLOCKS) == 1
