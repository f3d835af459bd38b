"""Commands as they are declared: what a declaration becomes, and what is true of all of them."""

from __future__ import annotations

import contextlib
import pkgutil
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.engine.rules import NAMED
from lcm_core.operations import batch
from lcm_core.operations import drafts as rules
from lcm_core.operations.repair import BadKind
from lcm_host.sessions import Storage
from lcm_recall.tools import TOOLS

from lcm_tui.cli import commands, options, registry
from lcm_tui.cli import options as drafting_options
from lcm_tui.cli.commands import look as sessions
from lcm_tui.cli.commands import recall as tool
from lcm_tui.cli.commands import repair
from lcm_tui.cli.declaring import Argument, Option, command, declared_in, gathered
from lcm_tui.cli.kinds import WholeNumber
from tests.cli.support import run
from tests.conftest import DatabaseFactory


@dataclass(frozen=True)
class Inner:
    """Two fields, one of them no option."""

    deep: Annotated[bool, Option("--deep", "")] = False
    quiet: bool = True


@dataclass(frozen=True)
class Louder(Inner):
    """Both of them options."""

    quiet: Annotated[bool, Option("--quiet", "")] = False


@dataclass(frozen=True)
class Outer:
    """An option around others."""

    name: Annotated[str, Argument("NAME", "")]
    inner: Inner = field(default_factory=Inner)
    last: Annotated[int | None, Option("--last", "", WholeNumber(1))] = None


def test_a_dataclass_stands_for_its_options_in_their_order():
    assert [(one.name, one.needed, one.default) for one in declared_in(Outer) if not one.needed] == [
        ("deep", False, False),
        ("last", False, None),
    ]
    assert [one.name for one in declared_in(Outer) if one.needed] == ["name"]
    made = gathered("", Outer, {"name": "a", "deep": True, "last": 3, "other": 1})
    assert made == Outer("a", Inner(deep=True, quiet=True), 3)


def test_a_subclass_makes_an_option_of_a_field():
    assert [one.name for one in declared_in(Louder)] == ["deep", "quiet"]
    assert gathered("", Louder, {"deep": False, "quiet": True}) == Louder(quiet=True)


def test_a_function_is_called_with_what_its_options_became():
    called: list[object] = []

    @command("test it", examples=("test it a",))
    def it(run: object, *, outer: Outer, plain: Annotated[bool, Option("--plain", "")] = False) -> int:
        """What it does."""
        called.append((run, outer, plain))
        return 0

    assert (it.dotted, it.help) == ("test.it", "What it does.")
    assert [one.name for one in it.parameters] == ["name", "deep", "last", "plain"]
    it.call("run", {"name": "a", "deep": False, "last": None, "plain": True})
    assert called == [("run", Outer("a"), True)]


def test_every_command_is_declared_in_one_module_and_every_module_declares_some():
    modules = {one.name for one in pkgutil.iter_modules(commands.__path__)}
    assert modules == {one.function.__module__.rpartition(".")[2] for one in registry.every()}
    declared = [path for word in registry.FIRST_WORDS for path in registry.declared(word)]
    assert sorted(declared) == sorted(registry.COMMANDS)
    assert {path.split()[0] for path in registry.COMMANDS if " " in path} == set(registry.GROUPS)


def test_an_option_takes_a_value_in_every_command_or_in_none():
    """They are read before it is known which command of a group is meant."""
    taken: dict[str, set[bool]] = defaultdict(set)
    for one in registry.every():
        for option in registry.options_of(one):
            if not option.hidden:
                taken[option.flag].add(option.kind is not None)
    assert {name for name, kinds in taken.items() if len(kinds) > 1} == set()


def test_what_is_declared_without_the_core_is_what_the_core_has():
    assert options.RULE_NAMES.words == tuple(NAMED)
    assert sessions.STORAGES.words == tuple(Storage)
    assert tool.TOOLS.words == tuple(TOOLS)
    assert repair.BAD_KINDS.words == tuple(BadKind)
    assert drafting_options.IN_FLIGHT == batch.IN_FLIGHT
    assert drafting_options.EXAMPLES == rules.EXAMPLES


@pytest.mark.parametrize("path", registry.COMMANDS)
def test_help_of_every_command_names_what_it_takes(path: str):
    shown = run(*path.split(), "--help")
    assert (shown.code, shown.err) == (0, "")
    [one] = [each for each in registry.every() if each.path == path]
    for option in registry.options_of(one):
        assert (f"{option.flag} " in shown.out) is not option.hidden
    assert all(example in shown.out for example in one.examples)


def test_help_for_programs_lists_every_command():
    data = run("--help", "--json").data
    words = [re.split(r" [<(\[]", line)[0] for line in data["commands"]]
    assert words == list(registry.COMMANDS)
    assert list(data["options"]) == list(registry.COMMANDS)
    assert "summaries show <summary-id>" in data["commands"]
    assert "--role <role>" in data["options"]["messages list"]
    assert run("dissolve", "--help", "--json").data["commands"] == ["dissolve [<conversation-id|summary-id>]"]


#: What is longer than anything that is counted, dated or named.
LONG = (
    "9" * 4301,
    "9" * 4301 + "k",
    f"-{'9' * 4301}",
    f"0.{'9' * 4301}",
    f"{'9' * 4301}h",
    f"{'9' * 4301}MB",
)
LONG_TOO = (
    "9" * 4301 + "-01-01",
    "2026-03-02T00:00:00." + "9" * 4301 + "Z",
    "x" * 5000,
    "/x" * 2500,
    "~" * 5000,
)


def test_a_value_of_any_length_is_read_or_refused():
    shapes = [one.shape for command in registry.every() for one in command.parameters]
    kinds = {
        repr(vars(kind)) + repr(type(kind)): kind for shape in shapes if (kind := shape.kind) is not None
    }
    assert len(kinds) > 20
    for kind in kinds.values():
        for value in (*LONG, *LONG_TOO):
            found = None
            with contextlib.suppress(UsageError, NotFoundError):
                found = kind.read("name", value)
            assert not isinstance(found, int) or abs(found) < 2**53
            assert not isinstance(found, Path) or len(str(found)) <= 4096


@pytest.mark.parametrize(
    "words",
    [
        ("context", "show", "1", "--budget", "9" * 4301),
        ("status", "--db", "x" * 5000),
        ("status", "--db", "/x" * 2500),
        ("status", "--db", "é" * 2500),
        ("status", "--openclaw-dir", "/x" * 2500),
        ("status", "--config", "x" * 256),
        ("sessions", "list", "--sessions", "x" * 5000),
        ("restore", "x" * 5000),
        ("report", "--output", "x" * 5000),
    ],
)
def test_a_number_or_a_path_that_nothing_has_is_a_mistake_of_usage(
    words: tuple[str, ...], database_file: DatabaseFactory
):
    refused = run(*words, *(() if "--db" in words else ("--db", database_file("0.15.3"))))
    assert (refused.code, refused.out) == (2, "")
    assert len(refused.err) < 1000
    assert refused.err.count("\n") == 1
