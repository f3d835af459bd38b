"""Program code in a few lines: what it imports and what it defines at the top level (engine.md 5)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Final

#: Lines that are listed at most, as the engine lists them, and characters of each.
LISTED: Final = 24
_WIDTH: Final = 160

CODE_ENDINGS: Final = frozenset(
    re.findall(
        r"\w+",
        "py pyi js jsx mjs cjs ts tsx go rs java kt kts scala rb php c h cc cpp cxx hpp hh cs swift m "
        "mm sh bash zsh fish ps1 pl pm lua r jl ex exs erl hs ml clj dart sql vue svelte zig nim tf",
    )
)
_IMPORT: Final = re.compile(
    r"(?:import\b|from\s+\S+\s+import\b|#\s*include\b|use\s+[\w:]+|using\s+[\w.]+|require(?:_relative)?\b"
    r"|(?:const|let|var)\s+[^=]{1,80}=\s*require\(|package\s+\w+|source\s+\S+|@import\b)"
)
_DEFINITION: Final = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([^)]{1,20}\))?"
    r"|unsafe|extern|inline|override|open|data|sealed)\s+){0,6}"
    r"(?:def|class|function\*?|func|fn|interface|trait|struct|enum|impl|type|module|namespace|record|object"
    r"|protocol|extension|macro_rules!|sub|defmodule|defp?|CREATE\s+(?:TABLE|VIEW|INDEX|FUNCTION))\b"
    r"|(?:export\s+)?(?:const|let|var)\s+\w+\s*(?::[^=]{1,80})?=\s*(?:async\s*)?(?:function\b|\([^)]{0,200}\)\s*=>|\w+\s*=>)",
)


def explore_code(text: str, name: str) -> str:
    """The exploration summary of a program's text."""
    lines = text.split("\n")
    top = [line.rstrip() for line in lines if line[:1].strip()]
    imports = _listed(line for line in top if _IMPORT.match(line))
    definitions = _listed(line for line in top if _DEFINITION.match(line))
    return "\n".join(
        [
            f"Code exploration summary ({name}):",
            f"Lines: {len(lines):,}.",
            f"Imports/dependencies ({len(imports)}): {' | '.join(imports) or 'none detected'}.",
            f"Top-level definitions ({len(definitions)}): {' | '.join(definitions) or 'none detected'}.",
        ]
    )


def _listed(lines: Iterable[str]) -> list[str]:
    shown = (line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in lines)
    return list(itertools.islice(shown, LISTED))
