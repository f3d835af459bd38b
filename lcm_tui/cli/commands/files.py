"""``files list`` and ``files show``: payloads that the engine took out of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

FileArgument: TypeAlias = Annotated[str, Argument("FILE_ID", "The file.")]
WithContent: TypeAlias = Annotated[
    bool, Option("--content", "Print the file itself, if it exists and is text.")
]


@command("files list", examples=("files list 1",))
def list_(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    paged: options.PageOptions,
    times: options.TimeOptions,
) -> Answer:
    """List the large files of one or all conversations, newest first."""
    from lcm_tui.cli import files

    named = conversation.selector("files.list")
    return files.list_(run, named, options.window(run, "files", paged, times))


@command("files show", examples=("files show file_b7b54f0887584669 --content",))
def show(run: Run, *, file_id: FileArgument, content: WithContent = False) -> Answer:
    """Show one file: its record, its location, and what refers to it."""
    from lcm_tui.cli import files

    return files.show(run, file_id, content=content)
