"""``--rules``: the rules of another engine than the one that wrote the file."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer
from lcm_core.engine_rules import NAMED

from lcm_tui.cli.options import among, invalid


def rules_option(
    flag: str = "--rules",
    words: str = "The rules of another engine than the one that wrote the file.",
    *,
    panel: str | None = None,
) -> Any:
    """Rules that are asked for by name; *words* are the option's help, in a *panel*."""
    return typer.Option(
        flag, metavar="|".join(NAMED), autocompletion=among(*NAMED), help=words, rich_help_panel=panel
    )


RuleSet: TypeAlias = Annotated[str | None, rules_option()]


def known_rules(name: str | None, option: str = "rules") -> str | None:
    """The name of rules that there are; None for None.

    Raises:
        UsageError: there are no such rules.
    """
    if name is not None and name not in NAMED:
        raise invalid(option, f"must be one of {', '.join(NAMED)}", name)
    return name
