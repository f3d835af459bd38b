"""The prompts that lcm-tui sends to a model when it summarises: Jinja2 templates, one for each kind.

``base.j2`` frames all of them: the system prompt, the operator's own instructions, the rules for the answer
and the tags around the source. The other four say what to keep at their depth. Each says its
version in its first line, which is raised with any change that alters what a model reads, in the frame too.
``recall-block.txt`` is what a host says of the memory in its own system prompt: a constant, so that caches of
prompts stay warm.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

#: The frame that the others extend.
BASE: Final = "base"
#: The templates by name, in the order of the depths that they are for; the last serves every greater depth.
TEMPLATES: Final = ("leaf", "condensed-d1", "condensed-d2", "condensed-d3")
SUFFIX: Final = ".j2"
#: What a model is told that answers a question from the memory; operators have no version of it.
ASK: Final = "ask"
#: What a model is told that gathers for a focus brief, and then writes it; of these neither.
FOCUS_EVIDENCE: Final = "focus-evidence"
FOCUS_BRIEF: Final = "focus-brief"
#: All that operators have no version of.
OWN: Final = (ASK, FOCUS_EVIDENCE, FOCUS_BRIEF)


def template_source(name: str) -> str:
    """The text of the built-in template *name* (`BASE`, one of `TEMPLATES` or one of `OWN`).

    Raises:
        KeyError: there is no such template.
    """
    if name not in (BASE, *TEMPLATES, *OWN):
        raise KeyError(name)
    return files("lcm_prompts").joinpath(name + SUFFIX).read_text("utf-8")


def recall_block() -> str:
    """What a host's system prompt says of the memory and its tools."""
    return files("lcm_prompts").joinpath("recall-block.txt").read_text("utf-8").strip()
