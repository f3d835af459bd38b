"""Parameters that stand for several options, and what is known of options before a command is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Annotated, Any

import typer

from lcm_tui import cli
from lcm_tui.cli.parameters import expanded, gathered
from lcm_tui.cli.registry import FLAGS

_BUILT_IN = {"--help", "-h", "--version"}


@dataclass(frozen=True)
class Inner:
    """Two fields, one of them no option."""

    deep: Annotated[bool, typer.Option("--deep")] = False
    quiet: bool = True


@dataclass(frozen=True)
class Louder(Inner):
    """Both of them options."""

    quiet: Annotated[bool, typer.Option("--quiet")] = False


@dataclass(frozen=True)
class Outer:
    """An option around others."""

    name: Annotated[str, typer.Argument()]
    inner: Inner = field(default_factory=Inner)
    last: Annotated[str | None, typer.Option("--last")] = None


def _of(annotation: Any) -> Parameter:
    return Parameter("given", Parameter.KEYWORD_ONLY, annotation=annotation)


def test_a_dataclass_stands_for_its_options_in_their_order():
    options = list(expanded(_of(Outer)))
    assert [(one.name, one.default) for one in options] == [
        ("name", Parameter.empty),
        ("deep", False),
        ("last", None),
    ]
    made = gathered(_of(Outer), {"name": "a", "deep": True, "last": "z", "other": 1})
    assert made == Outer("a", Inner(deep=True, quiet=True), "z")


def test_a_subclass_makes_an_option_of_a_field():
    assert [one.name for one in expanded(_of(Louder))] == ["deep", "quiet"]
    assert gathered(_of(Louder), {"deep": False, "quiet": True}) == Louder(quiet=True)


def test_a_plain_option_stands_for_itself():
    assert list(expanded(_of(bool))) == [_of(bool)]
    assert gathered(_of(bool), {"given": 3}) == 3


def _declared(group: Any) -> Iterator[tuple[str, bool]]:
    """Every option of every command, and whether it takes no value."""
    for found in [group, *group.commands.values()]:
        if found is not group and hasattr(found, "commands"):
            yield from _declared(found)
        for parameter in found.params:
            if parameter.param_type_name == "option":
                yield from ((name, parameter.is_flag) for name in parameter.opts)


def test_options_without_a_value_are_those_that_the_commands_declare():
    """They are needed before a command is imported, so they are listed by hand."""
    declared = set(_declared(cli._tree(None)))
    flags = {name for name, flag in declared if flag}
    assert flags | _BUILT_IN == FLAGS
    assert flags & {name for name, flag in declared if not flag} == set()
