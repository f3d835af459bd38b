"""What code and pages name exists: documents with their headings, links with their anchors, files.

A page is cited as ``docs/spec/assembly.md, "Tool pairing"``; several headings follow with commas and "and".
Comments and docstrings may cite; no other string of the program may, for a screen names no document.
"""

from __future__ import annotations

import ast
import io
import pkgutil
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("core", "lcm_tui", "prompts", "tests", "benchmarks")
#: Folders below which a path in backticks may begin.
BASES = (ROOT, *(ROOT / below for below in ("core", "core/lcm_core", "core/lcm_core/writers", "lcm_tui")))
#: Files of hosts, not ours: the engine looks for this name in messages.
FOREIGN = frozenset({"heartbeat.md"})

DOCUMENT = re.compile(r"(?<![\w./*-])(?:[\w.-]+/)*[\w-]+\.md\b(?!\.)")
_HEADINGS = re.compile(r'(?:,? and|,|:)? "([^"]+)"')
_BARE = re.compile(r", (?:[A-Z][a-z]+|section [0-9])")
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_IN_COMMENT = re.compile(r"#.*\.md\b")
_PATH = re.compile(r"`((?:[\w.*-]+/)+[\w.*-]*)`")
#: A module of ours, or what is in one, by its whole name.
_NAMED = re.compile(r"(?<![\w./-])lcm_(?:core|host|prompts|recall|remnic|tui)(?:\.\w+)+")


def _files(*endings: str) -> list[Path]:
    found = [path for folder in CODE for ending in endings for path in (ROOT / folder).rglob(f"*{ending}")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _remarks(text: str) -> Iterator[str]:
    """Docstrings, and comments of neighbouring lines put together; blanks and breaks are one space."""
    statements: list[ast.AST] = [ast.parse(text)]
    for node in statements:  # not of expressions, which are most of a module and have no docstrings
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield " ".join((ast.get_docstring(node) or "").split())
        statements += (
            part
            for part in ast.iter_child_nodes(node)
            if isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case)
        )
    if not _IN_COMMENT.search(text):  # tokens take ten times as long as all the rest
        return
    last, lines = -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield " ".join(lines)
                lines = []
            lines.append(token.string.lstrip("#: "))
            last = token.start[0]
    yield " ".join(lines)


@cache
def _headings(page: Path) -> frozenset[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(re.findall(r"^#+ (.+?) *$", text, re.MULTILINE))


def _anchor(heading: str) -> str:
    """The fragment that names a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _dangling(text: str, folder: Path) -> Iterator[str]:
    """The documents and headings that a text names and that do not exist."""
    for match in DOCUMENT.finditer(text):
        name = match[0]
        if name.lower() in FOREIGN:
            continue
        page = next((at for at in (folder / name, ROOT / name) if at.is_file()), None)
        if page is None:
            yield name
            continue
        at, known = match.end(), _headings(page)
        if _BARE.match(text, at) and (DOCUMENT.match(text, at + 2) is None):
            yield f"{name}: a heading without quotes: {text[at : at + 40]}"
        while (cited := _HEADINGS.match(text, at)) is not None:
            if cited[1] not in known:
                yield f'{name}, "{cited[1]}"'
            at = cited.end()


def _is_there(name: str) -> bool:
    if any((base / name.replace(".", "/")).with_suffix(".py").is_file() for base in (ROOT, ROOT / "core")):
        return True
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def _plain(page: Path) -> str:
    """A page without its fences, each link the path that it leads to from the page's folder."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    text = _LINK.sub(lambda link: link[2] if link[2].partition("#")[0].endswith(".md") else link[1], text)
    return " ".join(re.sub(r"(\.md)#[\w-]+", r"\1", text).split())


def test_remarks_in_code_cite_what_exists() -> None:
    wrong = {}
    for path in _files(".py"):
        text = path.read_text(encoding="utf-8")
        if ".md" in text and (missing := [one for each in _remarks(text) for one in _dangling(each, ROOT)]):
            wrong[_name(path)] = missing
    assert wrong == {}


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_pages_cite_what_exists(page: Path) -> None:
    assert list(_dangling(_plain(page), page.parent)) == []


def test_files_that_are_neither_code_nor_pages_cite_what_exists() -> None:
    others = [*_files(".toml", ".j2"), ROOT / "pyproject.toml", ROOT / "Makefile"]
    texts = (" ".join(path.read_text(encoding="utf-8").replace("\n# ", " ").split()) for path in others)
    assert [one for text in texts for one in _dangling(text, ROOT)] == []


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_links_of_pages_lead_somewhere(page: Path) -> None:
    wrong = []
    for _, target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        to = (page.parent / name) if name else page
        if not to.exists() or (fragment and fragment not in map(_anchor, _headings(to))):
            wrong.append(target)
    assert wrong == []


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_files_that_pages_name_are_there(page: Path) -> None:
    wrong = []
    for name in _PATH.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        first = name.partition("/")[0]
        bases = [base for base in BASES if (base / first).is_dir()]
        if bases and not any(next(base.glob(name), None) for base in bases):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('docs/spec/assembly.md, "Tool pairing" and "Blocks".', []),
        ('docs/spec/assembly.md, "Tool pairing", "Nothing"', ['docs/spec/assembly.md, "Nothing"']),
        ("nowhere.md 2.1", ["nowhere.md"]),
        ("docs/spec/nowhere.md", ["docs/spec/nowhere.md"]),
        ("see docs/spec/words.md, which says it", []),
        ("when it names HEARTBEAT.md", []),
    ],
)
def test_what_is_missing_is_found(text: str, missing: list[str]) -> None:
    assert list(_dangling(text, ROOT)) == missing


def test_a_heading_needs_quotes() -> None:
    assert len(list(_dangling("docs/spec/assembly.md, Tool pairing", ROOT))) == 1


def test_modules_that_are_named_exist() -> None:
    """In code, strings, pages and settings. A check that a module is not loaded passes when it is gone."""
    named: dict[str, set[str]] = {}
    for path in [*_files(".py", ".toml", ".j2"), *pages(), ROOT / "pyproject.toml", ROOT / "Makefile"]:
        if path.name != "CHANGELOG.md":
            for name in _NAMED.findall(path.read_text(encoding="utf-8")):
                named.setdefault(name, set()).add(_name(path))
    assert {name: where for name, where in named.items() if not _is_there(name)} == {}
