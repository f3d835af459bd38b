"""The options of the commands that write a focus brief."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli.declaring import Option
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.options import Budget, ModelOptions, NeededConversation, SqlFlags

_WRITING = "Text"

TextFile: TypeAlias = Annotated[
    Path | None,
    Option("--text", "The text itself, from a file; - reads it here.", FilePath(), "FILE", section=_WRITING),
]
Draft: TypeAlias = Annotated[
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
    draft: Draft = None
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
