"""Commands as they are declared: what a declaration becomes, and what is true of all of them."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import defaultdict
from pathlib import Path

import click
import pytest
from lcm_core.api import NotFoundError, UsageError
from lcm_core.base.values import Record, field
from lcm_core.engine.rules import NAMED
from lcm_core.operations import drafts as rules
from lcm_core.operations.prune import Cleaner

from lcm_tui.cli import conversations, options, tree
from lcm_tui.cli import options as drafting_options
from lcm_tui.cli.command import Command, command, gather, takes_value
from lcm_tui.cli.kinds import Kind, WholeNumber
from tests.cli.support import run
from tests.conftest import DatabaseFactory


class Inner(Record, frozen=True):
    """Two fields, one of them no option."""

    deep: bool = False
    quiet: bool = True


class Outer(Record, frozen=True):
    """An option around others."""

    name: str
    inner: Inner = field(default_factory=Inner)
    last: int | None = None


def test_a_function_is_called_with_what_its_options_became():
    inner = gather("inner", Inner, click.option("--deep", is_flag=True))
    name, last = click.argument("name"), click.option("--last", type=WholeNumber(1))

    @command("test it", examples=("test it a",))
    @gather("outer", Outer, name, inner, last)
    @click.option("--plain", is_flag=True)
    def it(run: object, *, outer: Outer, plain: bool) -> int:
        """What it does.

        And more.
        """
        raise LookupError(outer, plain)

    assert (it.dotted, it.help) == ("test.it", "What it does.\n\nAnd more.")
    assert [one.name for one in it.own] == ["name", "deep", "last", "plain"]
    assert it.takes(Inner)
    assert not it.takes(int)
    assert it.callback is not None
    with pytest.raises(LookupError) as called:
        it.callback("run", name="a", deep=True, last=3, plain=True)
    assert called.value.args == (Outer("a", Inner(deep=True), 3), True)


def test_every_command_that_is_declared_has_its_words_in_the_tree():
    for word in tree.WORDS:
        module = sys.modules[str(next(iter(tree.declared(word).values())).callback.__module__)]
        found = [one.path for one in vars(module).values() if isinstance(one, Command)]
        assert {path for path in found if path.split()[0] == word} == {*tree.paths(word)}


def test_help_of_the_program_fits_on_a_page_of_eighty_cells():
    lines = run("--help").out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) < 80
    shown = [line.split()[0] for line in lines if line.startswith("  ")]
    assert [word for word in shown if word in tree.WORDS] == [*tree.WORDS]


def options_in(one: Command) -> list[click.Option]:
    """What its help names."""
    return [each for each in one.params if isinstance(each, click.Option) and not each.hidden]


def test_an_option_takes_a_value_in_every_command_or_in_none():
    """They are read before it is known which command of a group is meant."""
    taken: dict[str, set[bool]] = defaultdict(set)
    for one in tree.every():
        for option in options_in(one):
            taken[option.opts[-1]].add(takes_value(option))
    assert {name for name, kinds in taken.items() if len(kinds) > 1} == set()


def test_what_is_declared_without_the_core_is_what_the_core_has():
    assert options.RULE_NAMES.words == tuple(NAMED)
    assert drafting_options.EXAMPLES == rules.EXAMPLES
    assert tuple(Cleaner) == conversations.CLEANERS


@pytest.mark.cases(14)
@pytest.mark.parametrize("one", tree.every(), ids=lambda one: one.path)
def test_help_of_every_command_names_what_it_takes(one: Command):
    shown = run(*one.path.split(), "--help")
    assert (shown.code, shown.err) == (0, "")
    for option in options_in(one):
        assert f"{option.opts[-1]} " in shown.out
    assert all(example in shown.out for example in one.examples)


def test_help_for_programs_lists_every_command():
    data = run("--help", "--json").data
    words = [re.split(r" [<(\[]", line)[0] for line in data["commands"]]
    assert words == list(data["options"]) == [one.path for one in tree.every()]
    assert "show <id>" in data["commands"]
    assert "--role <role>" in data["options"]["messages"]
    assert run("dissolve", "--help", "--json").data["commands"] == ["dissolve [<conversation|summary-id>]"]


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
    declared = [one.type for command in tree.every() for one in command.own]
    kinds = {repr(vars(kind)) + repr(type(kind)): kind for kind in declared if isinstance(kind, Kind)}
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
        ("context", "1", "--budget", "9" * 4301),
        ("status", "--db", "x" * 5000),
        ("status", "--db", "/x" * 2500),
        ("status", "--db", "é" * 2500),
        ("status", "--openclaw-dir", "/x" * 2500),
        ("status", "--config", "x" * 256),
        ("sessions", "--sessions", "x" * 5000),
        ("restore", "x" * 5000),
        ("status", "--report", "--to", "x" * 5000),
    ],
)
def test_a_number_or_a_path_that_nothing_has_is_a_mistake_of_usage(
    words: tuple[str, ...], database_file: DatabaseFactory
):
    refused = run(*words, *(() if "--db" in words else ("--db", database_file("0.15.3"))))
    assert (refused.code, refused.out) == (2, "")
    assert len(refused.err) < 1000
    assert refused.err.count("\n") == 1
