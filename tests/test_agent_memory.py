"""The agent on the page about recall runs as it is there, with the real SDK and a server of ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import Raw, Say

PAGE = Path(__file__).parents[1] / "docs" / "recall.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def _call(api: MessagesApi, name: str, given: dict[str, str]) -> Raw:
    """An answer that calls a tool."""
    use = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}
    whole = api.whole(Say(stop="tool_use")) | {"content": [use]}
    return Raw(json.dumps(whole).encode(), "application/json")


@pytest.mark.long
def test_the_agent_recalls_by_a_tool_what_an_earlier_turn_said(tmp_path: Path) -> None:
    (source,) = BLOCKS
    with MessagesApi(Say("I will not."), Say(), Say("It is host-7.")) as api:
        first, _, last = api.script
        api.script = (first, _call(api, "lcm_grep", {"pattern": "restart", "mode": "full_text"}), last)
        server = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-nobody"}
        done = subprocess.run(
            [sys.executable, "-c", source],
            cwd=tmp_path,
            env=os.environ | server,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "I will not.\nIt is host-7.\n"
    *_, sent = [one.body for one in api.received]
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    (found,) = sent["messages"][-1]["content"][0]["content"]
    assert "Never restart host-7." in found["text"]
    assert {one["name"] for one in sent["tools"]} >= {"lcm_grep", "lcm_describe"}
    assert (tmp_path / "agent.db").exists()
