"""Every command of the app, declared once: the source of keys, key bar, palette, help and manual.

A screen names the commands it has (`bindings`) and says what each does there (`Action`), and when it cannot
be used, with the reason. Users remap keys by id in their config file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import MappingProxyType

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that an operator can do."""

    id: str
    key: str  #: Textual's names, alternatives separated by commas
    title: str  #: one or two words, for the key bar
    help: str  #: one sentence
    hidden: bool = False  #: not in the key bar


def always() -> str | None:
    """No reason against a command: it can be used whenever its screen is in front."""
    return None


@dataclass(frozen=True, slots=True)
class Action:
    """What a command does on one screen."""

    command: str  #: the id of a `Command`
    run: Callable[[], Awaitable[object] | object]  #: what takes its time is awaited beside the keys
    when: Callable[[], str | None] = always  #: why it cannot be used now; None: it can


_ALL = (
    Command("open", "enter", "Open", "Open what is selected, or unfold it."),
    Command("back", "escape", "Back", "Go back to where you came from; it never quits."),
    Command("quit", "q", "Back/quit", "Go back; on the first screen, quit.", hidden=True),
    Command("context", "c", "Context", "Show what the model sees of this conversation, in order."),
    Command("summaries", "s", "Summaries", "Show the summary DAG; on a message, the summary that covers it."),
    Command("previous", "p", "Previous", "Show the previous context that this summary was made with."),
    Command("messages", "M", "Messages", "Go to the selected message in its conversation."),
    Command("files", "f", "Files", "Show the large files of this conversation."),
    Command("briefs", "b", "Briefs", "Show the focus briefs of this conversation."),
    Command("search", "slash", "Search", "Filter the list, or search in the text."),
    Command("next", "n", "Next", "Go to the next match.", hidden=True),
    Command("previous-match", "N", "Previous match", "Go to the previous match.", hidden=True),
    Command("sort", "S", "Sort", "Sort by the next column (a click on a heading does the same)."),
    Command("turn", "I", "Turn order", "Turn the order of the list round.", hidden=True),
    Command("jump", "J", "Jump", "Jump to a seq (120), a message id (m4711), or a time (2026-03-02 10:00)."),
    Command("fold-all", "z", "Fold all", "Fold everything.", hidden=True),
    Command("unfold-all", "Z", "Unfold all", "Unfold everything below what is selected.", hidden=True),
    Command("elsewhere", "O", "Elsewhere", "Go to the next place where this summary stands.", hidden=True),
    Command("wrapped", "m", "As sent", "Switch between what is stored and what the model gets."),
    Command("budget", "B", "Budget", "Type the token budget under which the context is sent."),
    Command("budget-more", "plus", "More budget", "Raise the budget by a step.", hidden=True),
    Command("budget-less", "minus", "Less budget", "Lower the budget by a step.", hidden=True),
    Command("prompt", "Q", "Prompt", "Type what the user asks: what prompt-aware eviction then keeps."),
    Command(
        "clamp",
        "percent_sign",
        "Final clamp",
        "Show the context with or without the engine's last cut, to 90 % of the budget.",
        hidden=True,
    ),
    Command("snapshots", "at", "Snapshots", "Show the contexts that an engine kept when it sent them."),
    Command(
        "export", "o", "Export", "Write what the model gets to a file: JSON for an API call, or Markdown."
    ),
    Command("compare", "D", "Compare", "Compare with another budget, prompt, conversation, time or draft."),
    Command("hunk-previous", "left_square_bracket", "Change before", "Go to the change before."),
    Command("hunk-next", "right_square_bracket", "Change after", "Go to the next change."),
    Command("layout", "v", "Side-by-side", "Switch between one under the other and side by side."),
    Command("mark", "space", "Mark", "Mark what is selected or take the mark away; changes take the marked."),
    Command("rewrite", "r", "Rewrite", "Ask for another text of this summary, and review it."),
    Command("rewrite-subtree", "W", "Rewrite below", "Rewrite this summary and everything below it."),
    Command("repair", "R", "Repair", "List the broken summaries, and have them written again."),
    Command("proceed", "P", "Run/pause", "Begin, pause or go on with the drafts."),
    Command("accept-rest", "A", "Accept rest", "Accept the rest of this batch by a rule that is stated."),
    Command("leave-out", "L", "Leave out", "Leave this summary of the batch as it is."),
    Command("edit", "e", "Edit", "Edit the draft here."),
    Command("edit-outside", "E", "To editor", "Edit the draft in your own editor."),
    Command("draft-next", "full_stop", "Draft after", "Look at the next draft.", hidden=True),
    Command("draft-previous", "comma", "Draft before", "Look at the draft before.", hidden=True),
    Command("dissolve", "d", "Dissolve", "Preview putting what this summary was made from in its place."),
    Command("transplant", "t", "Transplant", "Copy what this conversation remembers into another one."),
    Command("compact", "C", "Compact", "Show what would be compacted, pass by pass, and do it."),
    Command("under", "equals_sign", "Come under", "Type the tokens (40k) or the share (60%) to come under."),
    Command("tail", "number_sign", "Fresh tail", "Type how many of the newest messages are left alone."),
    Command("merge", "V", "Merge", "Make a session that a rollover split one conversation.", hidden=True),
    Command("archive", "K", "Archive", "Archive the marked conversations: every row stays.", hidden=True),
    Command("delete", "X", "Delete", "Export and delete what is marked, or forget it for good.", hidden=True),
    Command("backfill", "i", "Import", "Preview importing this session into the database.", hidden=True),
    Command("health", "H", "Health", "Show what the checks find here, and fix what needs no model."),
    Command("fix", "x", "Fix", "Preview one plan that mends what is selected, or all that is marked."),
    Command("whole-file", "1", "Whole file", "Run the checks that read the whole file too."),
    Command("history", "U", "History", "Show what was changed by lcm-tui; undo it there."),
    Command("apply", "a", "Apply", "Apply exactly what is previewed."),
    Command("undo", "u", "Undo", "Preview taking the selected operation back, or making it again."),
    Command("scope", "T", "This only", "Switch between this conversation and all."),
    Command("choice-1", "1", "First choice", "Turn the first choice of this change.", hidden=True),
    Command("choice-2", "2", "Second choice", "Turn the second choice of this change.", hidden=True),
    Command("choice-3", "3", "Third choice", "Turn the third choice of this change.", hidden=True),
    Command("rewrite-mode", "w", "For rewrite", "Switch between as given and for a rewrite."),
    Command("pane", "tab", "Pane", "Go to the next pane.", hidden=True),
    Command("copy-id", "y", "Copy id", "Copy the id of what is selected to the clipboard."),
    Command("reload", "ctrl+r", "Reload", "Read the database again now."),
    Command("help", "question_mark,f1", "Help", "Explain this screen and list its keys."),
    Command("palette", "colon", "Commands", "Search all commands (ctrl+p does the same).", hidden=True),
)

COMMANDS = MappingProxyType({command.id: command for command in _ALL})

#: What every screen has, after its own commands.
EVERYWHERE = (
    "search",
    "next",
    "previous-match",
    "copy-id",
    "pane",
    "reload",
    "help",
    "palette",
    "back",
    "quit",
)


def bindings(*ids: str) -> list[Binding]:
    """The bindings of a screen with these commands, and those that every screen has."""
    return [
        Binding(
            command.key,
            f"run('{command.id}')",
            command.title,
            show=not command.hidden,
            tooltip=command.help,
            id=command.id,
        )
        for command in (COMMANDS[name] for name in dict.fromkeys((*ids, *EVERYWHERE)))
    ]


def key_title(key: str) -> str:
    """A key as people write it: the first alternative, short."""
    first = key.split(",")[0].strip()
    *modifiers, last = first.split("+") if first != "+" else [first]
    signs = "".join("^" if one == "ctrl" else f"{one}+" for one in modifiers)
    return signs + (_SIGNS.get(last) or last)


#: Keys whose names people do not write.
_SIGNS = {"escape": "esc", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End"} | {
    next(iter(Binding.make_bindings([Binding(sign, "")]))).key: sign
    for sign in r"""!"#$%&'()*+-./:;<=>?@[\]^_`{|}~"""
}
_SIGNS |= {"comma": ",", "up": "↑", "down": "↓", "left": "←", "right": "→"}
_SIGNS |= {f"f{number}": f"F{number}" for number in range(1, 25)}
