"""Every command of the app, declared once, and the keys that a user gives them.

The declarations are the source of keys, key bar, palette, help and manual. A screen names the commands it has
(`bindings`) and says what each does there (`Action`), and when it cannot be used, with the reason. Users
remap keys by id in their config file.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from textual.binding import Binding
from textual.keys import Keys

from lcm_tui.kit.text import TextView


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that an operator can do."""

    id: str
    key: str  #: Textual's names, alternatives separated by commas
    title: str  #: one or two words, for the key bar
    help: str  #: one sentence
    hidden: bool = False  #: not in the key bar
    where: str = ""  #: the screens that have it, as `:` names them to who looks for it elsewhere


def always() -> str | None:
    """No reason against a command: it can be used whenever its screen is in front."""
    return None


@dataclass(frozen=True, slots=True)
class Action:
    """What a command does on one screen."""

    command: str  #: the id of a `Command`
    run: Callable[[], Awaitable[object] | object]  #: what takes its time is awaited beside the keys
    when: Callable[[], str | None] = always  #: why it cannot be used now; None: it can
    words: tuple[str, str] | None = None  #: its own title and sentence


_ALL = (
    Command("open", "enter", "Open", "Open or unfold the selected row."),
    Command("back", "escape", "Back", "Go back; it never quits."),
    Command("quit", "q", "Back/quit", "Go back. On the first screen, quit.", hidden=True),
    Command("context", "c", "Context", "Show what the model sees of this conversation, in order."),
    Command("summaries", "s", "Summaries", "Show the summary DAG; on a message, the summary that covers it."),
    Command(
        "previous",
        "p",
        "Written after",
        "Show what this summary was written after: the previous context that its writer was given.",
        where="the summary DAG and the context",
    ),
    Command(
        "expand",
        "greater_than_sign,ctrl+o",
        "Expand",
        "Read what is below this summary level by level, with the tokens that each level costs.",
        where="the summary DAG and the search",
    ),
    Command("messages", "M", "Messages", "Go to the selected message in its conversation."),
    Command("files", "f", "Files", "Show the large files of this conversation."),
    Command("briefs", "b", "Briefs", "Show the focus briefs of this conversation."),
    Command(
        "new-brief",
        "ctrl+n",
        "New brief",
        "Write a focus brief about one question, with a model or by hand.",
        where="focus briefs",
    ),
    Command(
        "activate",
        "asterisk",
        "Activate",
        "Preview making the selected focus brief the active one.",
        where="focus briefs",
    ),
    Command("search", "slash", "Find", "Filter the list, or find in the text."),
    Command(
        "search-everywhere",
        "F",
        "Search all",
        "Search everywhere: every message, tool call, summary, brief and file of the database.",
    ),
    Command(
        "ask",
        "ctrl+g",
        "Ask",
        "Ask the typed question: evidence, and a model's answer if you agree to its cost.",
    ),
    Command("narrow", "ctrl+t", "Narrow", "Limit the search to some kinds, one conversation, or a time."),
    Command("next", "n", "Next", "Go to the next match.", hidden=True),
    Command("previous-match", "N", "Previous match", "Go to the previous match.", hidden=True),
    Command("sort", "S", "Sort", "Sort by the next column (a click on a heading does the same)."),
    Command("turn", "I", "Reverse", "Reverse the sort order.", hidden=True),
    Command("jump", "J", "Jump", "Jump to a seq (120), a message id (m4711), or a time (2026-03-02 10:00)."),
    Command("fold-all", "z", "Fold all", "Fold everything.", hidden=True),
    Command("unfold-all", "Z", "Unfold all", "Unfold everything below the selected row.", hidden=True),
    Command(
        "elsewhere", "O", "Next place", "Go to the next place this summary appears in the DAG.", hidden=True
    ),
    Command(
        "other-view",
        "m",
        "Other view",
        "Switch to the other view of the same: messages as sent, the coverage map, the rows as a diff.",
    ),
    Command("zoom-in", "plus", "Zoom in", "Show fewer messages, around the selected summary."),
    Command("zoom-out", "minus", "Zoom out", "Show more messages, around the selected summary."),
    Command(
        "budget",
        "B",
        "Budget",
        "Set the token budget for sending the context.",
        where="the context and compaction",
    ),
    Command("budget-more", "plus", "More budget", "Raise the budget by a step.", hidden=True),
    Command("budget-less", "minus", "Less budget", "Lower the budget by a step.", hidden=True),
    Command(
        "prompt",
        "Q",
        "Test prompt",
        "Enter a user message to see what prompt-aware eviction would keep.",
        where="the context",
    ),
    Command(
        "clamp",
        "percent_sign",
        "Hard limit",
        "Include or ignore the engine's final trim to 90 % of the budget.",
        hidden=True,
    ),
    Command(
        "snapshots",
        "at",
        "Snapshots",
        "List saved snapshots of contexts as they were sent.",
        where="the context",
    ),
    Command(
        "export",
        "o",
        "Export",
        "Write the context as sent to a file: JSON for an API call, or Markdown.",
        where="the context",
    ),
    Command(
        "compare",
        "D",
        "Compare",
        "Compare with another budget, prompt, conversation, time or draft.",
        where="the context, snapshots, a review and the messages",
    ),
    Command(
        "hunk-previous",
        "left_square_bracket",
        "Previous change",
        "Go to the previous change. Where a screen shows one row of a list, show the row before it.",
    ),
    Command(
        "hunk-next",
        "right_square_bracket",
        "Next change",
        "Go to the next change. Where a screen shows one row of a list, show the row after it.",
    ),
    Command("layout", "v", "Side-by-side", "Toggle unified and side-by-side."),
    Command("mark", "space", "Mark", "Mark or unmark the row; changes apply to the marked rows."),
    Command(
        "mark-by-cleaner",
        "asterisk",
        "Mark by cleaner",
        "Mark the conversations that the engine's own cleaners would delete.",
        hidden=True,
        where="the first screen",
    ),
    Command(
        "rewrite",
        "r",
        "Rewrite",
        "Draft a new text for this summary, and review it.",
        where="the summary DAG and the context",
    ),
    Command(
        "rewrite-subtree",
        "W",
        "Rewrite subtree",
        "Rewrite this summary and every summary below it.",
        where="the summary DAG and the context",
    ),
    Command("repair", "R", "Repair", "List broken summaries and draft replacements."),
    Command("proceed", "P", "Start/pause", "Start, pause or resume writing the drafts."),
    Command("accept-rest", "A", "Accept by rule", "Accept every remaining draft that meets a rule."),
    Command("leave-out", "L", "Skip", "Skip this summary."),
    Command("edit", "e", "Edit", "Edit the draft here."),
    Command("edit-outside", "E", "$EDITOR", "Edit the draft in $EDITOR."),
    Command("draft-next", "full_stop", "Next draft", "Show the next draft.", hidden=True),
    Command("draft-previous", "comma", "Previous draft", "Show the previous draft.", hidden=True),
    Command(
        "dissolve",
        "d",
        "Dissolve",
        "Preview replacing this summary with its sources.",
        where="the summary DAG and the context",
    ),
    Command(
        "transplant",
        "t",
        "Transplant",
        "Copy this conversation's summaries into another conversation.",
        where="the first screen",
    ),
    Command("compact", "C", "Compact", "Preview compaction pass by pass, and run it."),
    Command(
        "under", "equals_sign", "Target", "Set a target size: tokens (40k) or a share of the budget (60%)."
    ),
    Command("tail", "number_sign", "Fresh tail", "Set how many of the newest messages to protect."),
    Command(
        "merge",
        "V",
        "Merge",
        "Rejoin a session that a rollover split into several conversations.",
        hidden=True,
        where="the first screen",
    ),
    Command(
        "archive",
        "K",
        "Archive",
        "Archive the marked conversations (no data is deleted).",
        hidden=True,
        where="the first screen",
    ),
    Command(
        "delete",
        "X",
        "Delete",
        "Export, then delete; or erase permanently.",
        hidden=True,
        where="the first screen",
    ),
    Command(
        "backfill",
        "i",
        "Import",
        "Preview importing this session into the database.",
        hidden=True,
        where="the first screen and a session on the disk",
    ),
    Command("health", "H", "Health", "Show what the checks found; fix what needs no model."),
    Command("fix", "x", "Fix", "Preview a fix for the selected or marked findings.", where="health"),
    Command(
        "whole-file",
        "1",
        "Full check",
        "Also run the slow checks (integrity_check, search index).",
        where="health",
    ),
    Command("history", "U", "History", "List changes made by lcm-tui, and undo them."),
    Command(
        "engine",
        "Y",
        "Engine",
        "Show prepared compactions, compaction debt and committed turns.",
        hidden=True,
    ),
    Command("apply", "a", "Apply", "Apply exactly what is previewed."),
    Command("undo", "u", "Undo", "Preview undoing (or redoing) this operation."),
    Command("scope", "T", "This conv/all", "Switch between this conversation and all conversations."),
    Command("choice-1", "1", "Option 1", "Change option 1 of this preview.", hidden=True),
    Command("choice-2", "2", "Option 2", "Change option 2 of this preview.", hidden=True),
    Command("choice-3", "3", "Option 3", "Change option 3 of this preview.", hidden=True),
    Command(
        "rewrite-mode", "w", "For rewrite", "Switch between the text as given and as a rewrite would use it."
    ),
    Command("pane", "tab", "Pane", "Go to the next pane.", hidden=True),
    Command(
        "divider-back",
        "left_curly_bracket",
        "Divider back",
        "Move the divider between two panes left or up (the mouse drags it).",
        hidden=True,
    ),
    Command(
        "divider-on",
        "right_curly_bracket",
        "Divider on",
        "Move the divider between two panes right or down; it is remembered.",
        hidden=True,
    ),
    Command("copy-id", "y", "Copy id", "Copy the id of the selected row to the clipboard."),
    Command("reload", "ctrl+r", "Reload", "Read the database again now."),
    Command("help", "question_mark,f1", "Help", "Explain this screen and list its keys."),
    Command(
        "palette", "colon", "Go to", "Go to any command, conversation, id, change, setting or theme (ctrl+p)."
    ),
)

COMMANDS = MappingProxyType({command.id: command for command in _ALL})

#: The commands that step through a series: changes, operations, hits, or whatever a screen shows one of.
STEPPED = ("hunk-previous", "hunk-next")

#: What the other view is where there is one as sent to the model.
AS_SENT = MappingProxyType(
    {"other-view": ("As sent", "Switch between the text as stored and as sent to the model.")}
)

#: What every screen has, after its own commands.
EVERYWHERE = (
    "search",
    "search-everywhere",
    "history",
    "engine",
    "next",
    "previous-match",
    "copy-id",
    "pane",
    "divider-back",
    "divider-on",
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


# -- keys of the config file -----------------------------------------------------------------------------
# The keys that a user gives to actions, and what may be wrong with them.

#: Names that people give to keys, and Textual's.
_ALIASES = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "bksp": "backspace",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
}
_MODIFIED = re.compile(r"((?:(?:ctrl|shift|alt|meta|super|hyper)[+-])*)(.+)", re.IGNORECASE)


def textual_keys(written: str) -> str:
    """Keys as a user writes them, such as ``[``, ``F7``, ``ctrl-x`` or ``^x``, in the names of Textual."""
    if written.strip() == ",":
        return "comma"
    return ",".join(_named(key.strip()) for key in written.split(",") if key.strip())


def _named(key: str) -> str:
    if len(key) == 2 and key[0] == "^":
        key = f"ctrl+{key[1]}"
    found = _MODIFIED.fullmatch(key)
    modifiers, last = (found[1].lower().replace("-", "+"), found[2]) if found else ("", key)
    if len(last) > 1:
        return modifiers + _ALIASES.get(last.lower(), last.lower())
    return modifiers + _name_of(last.lower() if modifiers else last)


def _name_of(character: str) -> str:
    return next(iter(Binding.make_bindings([Binding(character, "")]))).key


def key_problems(given: Mapping[str, str]) -> list[str]:
    """Actions and keys that do not exist, and keys that two actions would have; one sentence each.

    *given*: action id to a key, or to several separated by commas, as the user wrote them.
    """
    known = _default_keys()
    problems = [
        f"The config file gives a key to {action!r}, which is not a command; {_like(action, known)}"
        for action in given
        if action not in known
    ]
    taken = {action: _split(keys) for action, keys in known.items()}
    taken |= {action: _split(textual_keys(keys)) for action, keys in given.items() if action in known}
    for action in (action for action in given if action in known):
        del taken[action]  # each pair is told once
        for key in _split(given[action]) if given[action].strip() != "," else [","]:
            name = _named(key) if key != "," else "comma"
            if not _exists(name):
                problems.append(
                    f"The config file gives {key!r} to {action!r}, which is not a key; write one character, "
                    "or f7, ctrl+x, space, pageup."
                )
            problems += [
                f"The config file gives {key!r} to {action!r} and to {other!r}; give one of them another key."
                if other in given
                else f"The config file gives {key!r} to {action!r}, and so takes it from {other!r}: "
                f"give {other!r} another key."
                for other, keys in taken.items()
                if name in keys and not _side_by_side(action, other, known)
            ]
    return problems


def _exists(name: str) -> bool:
    found = _MODIFIED.fullmatch(name)
    last = found[2] if found else name
    return len(last) == 1 or name in _NAMES or last in _NAMES


def _names() -> Iterator[str]:
    yield from (key.value for key in Keys)
    yield from (_name_of(chr(code)) for code in range(0x21, 0x7F) if chr(code) != ",")
    yield "comma"


_NAMES = frozenset(_names())


def moving_keys() -> Mapping[str, str]:
    """The keys that move in lists and texts, by action id."""
    moving = [binding for view in TextView.__mro__ for binding in vars(view).get("BINDINGS", ())]
    return {one.id: one.key for one in moving if isinstance(one, Binding) and one.id}


def _default_keys() -> dict[str, str]:
    """The keys of every action that has an id: the commands, and moving in lists and texts."""
    return {**moving_keys(), **{command.id: command.key for command in COMMANDS.values()}}


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def _side_by_side(action: str, other: str, known: Mapping[str, str]) -> bool:
    """Whether two actions have a key in common from the beginning: no screen has both."""
    return not set(_split(known[action])).isdisjoint(_split(known[other]))


def _like(action: str, known: Mapping[str, str]) -> str:
    found = get_close_matches(action, known, 1)
    return f"do you mean {found[0]!r}?" if found else "the command palette (:) lists the commands."
