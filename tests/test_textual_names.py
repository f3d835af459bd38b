"""Private names of Textual that the program uses: any release of Textual may change them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import pytest

import lcm_tui

#: Each has no public way; the place that uses it says what for.
USED = {
    ("lcm_tui.kit.terminal", "textual._xterm_parser"),
    ("lcm_tui.kit.terminal", "_handle_exception"),
}
OWN = {"self", "cls", "super()"}


@pytest.mark.long
def test_the_private_names_of_textual_in_use_are_these():
    used: set[tuple[str, str]] = set()
    for info in pkgutil.walk_packages(lcm_tui.__path__, "lcm_tui."):
        if info.name != "lcm_tui.__main__":
            module = importlib.import_module(info.name)
            used.update((info.name, name) for name in (*imported(module), *inherited(module)))
    assert used == USED


def imported(module: ModuleType) -> Iterator[str]:
    """Private modules of Textual, and private names of its modules."""
    for node in ast.walk(parsed(module.__name__)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
            if "._" in str(node.module):
                yield str(node.module)
            yield from (one.name for one in node.names if one.name.startswith("_"))


def inherited(module: ModuleType) -> Iterator[str]:
    """What classes of ours override or use of their bases, and what is used of an app or a screen."""
    for each in vars(module).values():
        if inspect.isclass(each) and each.__module__ == module.__name__:
            bases = [base for base in each.__mro__ if base.__module__.startswith("textual")]
            yield from private_names(each) & set[str]().union(*map(private_names, bases))
    for node in ast.walk(parsed(module.__name__)):
        if (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and ast.unparse(node.value).endswith((".app", ".screen"))
        ):
            yield node.attr


@cache
def private_names(kind: type) -> frozenset[str]:
    """The private names that a class has, sets or uses of itself."""
    found: set[str] = set()
    for node in classes(kind.__module__):
        if node.name == kind.__name__:
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                found.update(one.id for one in targets if isinstance(one, ast.Name))
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(part.name)
                elif (
                    isinstance(part, ast.Attribute)
                    and is_private(part.attr)
                    and ast.unparse(part.value) in OWN
                ):
                    found.add(part.attr)
    return frozenset(filter(is_private, found))


@cache
def classes(module: str) -> tuple[ast.ClassDef, ...]:
    return tuple(node for node in ast.walk(parsed(module)) if isinstance(node, ast.ClassDef))


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"
