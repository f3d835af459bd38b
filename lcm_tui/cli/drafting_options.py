"""The options of the commands that make drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from lcm_tui.cli.declaring import Option
from lcm_tui.cli.kinds import FilePath, Raw, WholeNumber
from lcm_tui.cli.options import ModelOptions, PromptFolder, RuleSet, SqlFlags

#: Calls at the same time: `batch.IN_FLIGHT`.
IN_FLIGHT: Final = 4
#: Rules of acceptance: `rules.EXAMPLES`.
EXAMPLES: Final = "nothing invented, no rule lost, no worse, retention 80, no caution, every"

Draft: TypeAlias = Annotated[
    Path | None,
    Option("--draft", "Call the model and write the drafts to this file for review.", FilePath(), "FILE"),
]
FromDrafts: TypeAlias = Annotated[
    Path | None,
    Option("--from-drafts", "Apply the drafts marked in such a file.", FilePath(), "FILE"),
]
Resume: TypeAlias = Annotated[bool, Option("--resume", "Continue a stopped batch; with --apply or --draft.")]
Accept: TypeAlias = Annotated[
    str | None,
    Option("--accept", f"Accept drafts that meet this rule, such as: {EXAMPLES}.", Raw(), "RULE"),
]
InFlight: TypeAlias = Annotated[
    int,
    Option("--in-flight", f"Maximum parallel calls; {IN_FLIGHT} by default.", WholeNumber(1, 64), "N"),
]
ShowPrompts: TypeAlias = Annotated[
    bool, Option("--show-prompts", "Show each full prompt without sending it.")
]
NoPrevious: TypeAlias = Annotated[bool, Option("--no-previous", "Omit the previous context.")]


@dataclass(frozen=True, slots=True)
class DraftFlags:
    """The options of a command that makes drafts."""

    draft: Draft = None
    from_drafts: FromDrafts = None
    resume: Resume = False
    accept: Accept = None
    in_flight: InFlight = IN_FLIGHT
    show_prompts: ShowPrompts = False
    no_previous: NoPrevious = False
    rules: RuleSet = None
    model: ModelOptions = field(default_factory=ModelOptions)
    prompt_dir: PromptFolder = None
    change: SqlFlags = field(default_factory=SqlFlags)
