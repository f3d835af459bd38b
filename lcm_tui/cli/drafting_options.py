"""The options of the commands that make drafts: of summaries, and of focus briefs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli.declaring import Option
from lcm_tui.cli.kinds import FilePath, Raw, WholeNumber
from lcm_tui.cli.options import Budget, ModelOptions, NeededConversation, PromptFolder, RuleSet, SqlFlags

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


# -- focus briefs ----------------------------------------------------------------------------------------

_WRITING = "Text"

TextFile: TypeAlias = Annotated[
    Path | None,
    Option("--text", "The text, from a file; - reads standard input.", FilePath(), "FILE", section=_WRITING),
]
BriefDraft: TypeAlias = Annotated[
    Path | None,
    Option(
        "--draft",
        "Call the model and write the draft to this file for review.",
        FilePath(),
        "FILE",
        section=_WRITING,
    ),
]
FromDraft: TypeAlias = Annotated[
    Path | None,
    Option("--from-draft", "Use the draft in such a file.", FilePath(), "FILE", section=_WRITING),
]
NoSweep: TypeAlias = Annotated[
    bool,
    Option("--no-sweep", "Skip the sweep; the engine never does."),
]


@dataclass(frozen=True, slots=True)
class BriefOptions:
    """Where the text of a brief comes from, and what is done around it.

    Raises:
        UsageError: two of them exclude each other.
    """

    conversation: NeededConversation = field(default_factory=NeededConversation)
    text: TextFile = None
    draft: BriefDraft = None
    from_draft: FromDraft = None
    no_sweep: NoSweep = False
    budget: Budget = None
    model: ModelOptions = field(default_factory=ModelOptions)
    flags: SqlFlags = field(default_factory=SqlFlags)

    def __post_init__(self) -> None:
        """Refuse what excludes each other."""
        texts = (("text", self.text), ("draft", self.draft), ("from-draft", self.from_draft))
        given = [name for name, path in texts if path is not None]
        if len(given) > 1:
            said = f"{' and '.join(f'--{one}' for one in given)} exclude each other."
            raise UsageError(said, details={"option": given[0]})
        if self.draft is not None and self.flags.apply:
            raise UsageError(
                "--draft and --apply exclude each other: review the draft, then use --from-draft.",
                details={"option": "draft"},
            )
        if self.flags.sql and self.text is None and self.from_draft is None:
            raise UsageError(
                "--sql needs the text: give --text FILE or --from-draft FILE.", details={"option": "sql"}
            )
