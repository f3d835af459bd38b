"""Keys: one value says everything about a key; key bar, help, palette and remapping are made from it.

A screen lists its keys (`KEYS` of a `CommandScreen`). Those that several screens have are declared here, and
a screen says what each `does` there. Users remap keys by their names in the config file.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from lcm_core.base.values import Record
from textual.binding import Binding
from textual.keys import Keys

from lcm_tui.kit.text import TextView

S = TypeVar("S", contravariant=True)
T = TypeVar("T")


def always(screen: object) -> str | None:
    """No reason against a key: it can be used whenever its screen is in front."""
    del screen
    return None


class Key(Record, Generic[S], frozen=True):
    """A key of a screen, and the command that it runs."""

    id: str  #: its name in `[keys]` of the config file
    key: str  #: Textual's names, alternatives separated by commas
    title: str  #: one or two words, for the key bar
    help: str  #: one sentence
    #: What it does; what takes its time is awaited beside the keys. None: the screen's action of this name.
    run: Callable[[S], Awaitable[object] | object] | None = None
    why_not: Callable[[S], str | None] = always  #: why it cannot be used now; None: it can
    title_now: Callable[[S], str] | None = None  #: its title where that changes; "": as ever
    words: str = ""  #: phrases of people who look for it in `:` and do not know ours, separated by semicolons
    where: str = ""  #: the screens that have it, as `:` names them to who looks for it elsewhere
    hidden: bool = False  #: not in the key bar
    changes: bool = False  #: changes the database, or leads to a change: not in the past
    decides: bool = False  #: acts, or leads to it: counts only if what it acts on was painted before
    of_row: bool = False  #: depends on the selected row: the bar keeps its place where a row refuses it
    opens: bool = False  #: may read something before another screen comes: the next keys are for that one
    general: Key[Any] | None = None  #: what it is made from: the same on every screen
    bar: str = ""  #: its word in the key bar, if that is not the title: neighbours with the same one share it
    screens: frozenset[str] = frozenset()  #: the classes of those that have it, where all screens are known

    def does(
        self,
        run: Callable[[T], Awaitable[object] | object] | None = None,
        why_not: Callable[[T], str | None] = always,
        *,
        title: str = "",
        help: str = "",  # noqa: A002
        title_now: Callable[[T], str] | None = None,
        hidden: bool | None = None,
        of_row: bool | None = None,
        bar: str = "",
    ) -> Key[T]:
        """The same key with what it does on a screen, in that screen's words where it says them itself."""
        return Key(
            self.id,
            self.key,
            title or self.title,
            help or self.help,
            run,
            why_not,
            title_now,
            self.words,
            self.where,
            self.hidden if hidden is None else hidden,
            self.changes,
            self.decides,
            self.of_row if of_row is None else of_row,
            self.opens,
            self.general or self,
            bar or (self.bar and thing_of(title)) or self.bar,
        )

    @property
    def phrases(self) -> tuple[str, ...]:
        """Other words for it."""
        return phrases(self.words)


def thing_of(title: str) -> str:
    """What a key like "Next leaf" goes to, as the key bar says it of both directions: "Leaf"."""
    return title.partition(" ")[2].capitalize()


def phrases(words: str) -> tuple[str, ...]:
    """Phrases that are separated by semicolons."""
    return tuple(one.strip() for one in words.split(";") if one.strip())


# -- shared keys ----------------------------------------------------------------------------------------
# The keys that more than one screen has or names.

# fmt: off
OPEN = Key[object]("open", "enter", "Open", "Open or unfold the selected row.",
    words="transcript; chat; messages; read conversation; look into; raw messages; conversation text",
    of_row=True, opens=True)
BACK = Key[object]("back", "escape", "Back", "Go back; it never quits.",
    words="return; close; leave screen; previous screen")
QUIT = Key[object]("quit", "q", "Back/quit", "Go back. On the first screen, quit.",
    words="exit; leave; close app; stop", hidden=True)
CONTEXT = Key[object]("context", "c", "Context", "Show what the model sees of this conversation, in order.",
    words="what did the model see; what does the model see; what it sees; seen by the model; prompt sent; "
    "why full; why is the context full; full context; context window; what is in the context; token usage; "
    "tokens used; what fills the context; left out; what was left out; dropped; missing from the context; "
    "forgotten; evicted; not sent; working memory; lost; lost messages; prompt", of_row=True)
SUMMARIES = Key[object]("summaries", "s", "Summaries",
    "Show the summary DAG; on a message, the summary that covers it.",
    words="dag; tree; summary tree; graph; memory; summary; condensed; what was summarized; what was "
    "summarised; nodes; levels; hierarchy", of_row=True)
PREVIOUS = Key[object]("previous", "p", "Written after",
    "Show what this summary was written after: the previous context that its writer was given.",
    words="previous context; earlier summaries; what the summarizer saw",
    where="the summary DAG and the context", of_row=True)
TRACE = Key[object]("trace", "L", "Lines",
    "Show the messages that each line of a summary comes from; on a message, the summaries that tell of it.",
    words="where does this come from; source of a line; trace; provenance; evidence; which message; origin; "
    "which summary says this", where="the summary DAG, the context, a conversation and health", hidden=True,
    of_row=True)
EXPAND = Key[object]("expand", "greater_than_sign,ctrl+o", "Expand",
    "Read what is below this summary level by level, with the tokens that each level costs.",
    words="read details; drill down; zoom into summary; unfold levels; original messages",
    where="the summary DAG and the search", of_row=True, opens=True)
MESSAGES = Key[object]("messages", "M", "Messages", "Go to the selected message in its conversation.",
    words="transcript; chat; original text; raw messages; conversation text", of_row=True)
FILES = Key[object]("files", "f", "Files", "Show the large files of this conversation.",
    words="attachments; large files; uploads; documents; pictures; images", of_row=True)
BRIEFS = Key[object]("briefs", "b", "Briefs", "Show the focus briefs of this conversation.",
    words="focus; topic; focus brief; lossless focus; unfocus", of_row=True)
SEARCH = Key[object]("search", "slash", "Find", "Filter the list, or find in the text.",
    words="filter; narrow list; find in list")
SEARCH_EVERYWHERE = Key[object]("search-everywhere", "F", "Search",
    "Search everywhere: every message, tool call, summary, brief and file of the database.",
    words="what was said; who said; where was it said; find text; grep; search; look for; find message; "
    "full text; remember; recall; when did we talk about; mentioned")
NEXT = Key[object]("next", "n", "Next", "Go to the next match.")
PREVIOUS_MATCH = Key[object]("previous-match", "N", "Previous match", "Go to the previous match.",
    hidden=True)
NEXT_BROKEN = Key[object]("first-broken", "exclamation_mark", "Broken",
    "Go to the next broken or stale summary.",
    words="first broken summary; failures; what is broken; stale", where="the summary DAG and the context")
FOLD_ALL = Key[object]("fold-all", "z", "Fold all", "Fold everything.", hidden=True)
OTHER_VIEW = Key[object]("other-view", "m", "Other view",
    "Switch to the other view of the same: messages as sent, the coverage map, the rows as a diff.",
    words="another view; other view; switch view")
BUDGET = Key[object]("budget", "B", "Budget", "Set the token budget for sending the context.",
    words="token limit; limit; max tokens; window size; context size; bigger budget",
    where="the context and compaction")
BUDGET_MORE = Key[object]("budget-more", "plus", "More budget", "Raise the budget by a step.", hidden=True)
BUDGET_LESS = Key[object]("budget-less", "minus", "Less budget", "Lower the budget by a step.", hidden=True)
SNAPSHOTS = Key[object]("snapshots", "at", "Snapshots", "List saved snapshots of contexts as they were sent.",
    words="what was sent; sent earlier; sent then; past requests; saved contexts", where="the context")
COMPARE = Key[object]("compare", "D", "Compare",
    "Compare with another budget, prompt, conversation, time or draft.",
    words="diff; difference; versus; what differs", where="the context, snapshots, a review and the messages")
HUNK_PREVIOUS = Key[object]("hunk-previous", "left_square_bracket", "Previous change",
    "Go to the previous change. Where a screen shows one row of a list, show the row before it.",
    bar="Change")
HUNK_NEXT = Key[object]("hunk-next", "right_square_bracket", "Next change",
    "Go to the next change. Where a screen shows one row of a list, show the row after it.",
    bar="Change")
LAYOUT = Key[object]("layout", "v,m", "Side by side",
    "Switch between both texts in one, changes marked with - and +, and beside each other.",
    words="beside each other; two columns; split view; unified; other view", where="comparisons and reviews")
MARK = Key[object]("mark", "space", "Mark", "Mark or unmark the row; changes apply to the marked rows.",
    words="select; choose several; tick; multiple", of_row=True)
REWRITE = Key[object]("rewrite", "r", "Rewrite", "Draft a new text for this summary, and review it.",
    words="new summary; regenerate; summarize again; summarise again; improve; redo summary; better "
    "summary; wrong summary", where="the summary DAG and the context", changes=True, of_row=True)
REPAIR = Key[object]("repair", "R", "Repair", "List broken and stale summaries and draft replacements.",
    words="broken; broken summaries; fix summaries; bad summaries; truncated; corrupt summaries; heal; "
    "fallback; summary failed; bad; worst summaries", changes=True)
ACCEPT_REST = Key[object]("accept-rest", "A", "Accept if…",
    "Accept every remaining draft that meets your conditions.",
    words="accept by rule; accept all; approve all; accept everything; all drafts", decides=True, opens=True)
EDIT = Key[object]("edit", "e", "Edit", "Edit the draft here.",
    words="change text; correct; type; edit summary; edit text; by hand; fix by hand; write myself",
    where="the summary DAG, the context and a review", changes=True, of_row=True, opens=True)
EDIT_OUTSIDE = Key[object]("edit-outside", "E", "$EDITOR", "Edit the draft in $EDITOR.",
    words="vim; editor; external editor; nano", where="the summary DAG, the context and a review",
    changes=True, of_row=True)
DISSOLVE = Key[object]("dissolve", "d", "Dissolve", "Preview replacing this summary with its sources.",
    words="unsummarize; uncondense; expand back; give back details; detail back; restore messages; undo "
    "compaction; split summary; bring back", where="the summary DAG and the context", changes=True,
    of_row=True)
COMPACT = Key[object]("compact", "C", "Compact", "Preview compaction pass by pass, and run it.",
    words="shrink; smaller; make smaller; reduce; free tokens; compress; summarize now; summarise now; too "
    "big; too long; reduce tokens; make room; context smaller; shorten; trim", changes=True, of_row=True)
MERGE = Key[object]("merge", "V", "Merge",
    "Rejoin a session that a rollover split into several conversations.",
    words="rejoin; join sessions; combine; split session; unite; put together", where="the first screen",
    hidden=True)
ARCHIVE = Key[object]("archive", "K", "Archive", "Archive the marked conversations (no data is deleted).",
    words="hide; put away; retire", where="the first screen", hidden=True)
DELETE = Key[object]("delete", "X", "Delete", "Export, then delete; or erase permanently.",
    words="remove; forget; erase; privacy; purge; free space; free disk; clean up; cleanup; prune; delete "
    "conversation; get rid of", where="the first screen", hidden=True, decides=True, of_row=True)
BACKFILL = Key[object]("backfill", "i", "Import", "Preview importing this session into the database.",
    words="import session; missing session; not in the database; ingest; load session; bootstrap; sync",
    where="the first screen and a session on the disk", hidden=True, of_row=True)
HEALTH = Key[object]("health", "H", "Health", "Show what the checks found; fix what needs no model.",
    words="doctor; check; checks; sound; is it ok; is the database ok; is it sound; integrity; errors; "
    "problems; diagnose; corrupt; damaged; verify; validate; status; warnings; health score; bad; worst; "
    "lost messages; broken database")
FIX = Key[object]("fix", "x", "Fix", "Preview a fix for the selected or marked findings.",
    words="repair the database; fix errors; fix findings; solve; fix problems", where="health", changes=True,
    of_row=True)
HISTORY = Key[object]("history", "U", "History", "List changes made by lcm-tui, and undo them.",
    words="undo last; undo last change; revert; roll back; rollback; undo changes; what changed; log; what "
    "did i do; journal; audit; take back; changes; operations")
ENGINE = Key[object]("engine", "Y", "Engine",
    "Show prepared compactions, compaction debt and committed turns.",
    words="debt; pending; background; worker; prepared; turns; waiting compaction; queue", hidden=True)
DISK = Key[object]("disk", "ampersand", "Disk",
    "Show what the database takes on the disk, and give some of it back.",
    words="disk usage; disk space; space used; free space; free disk; disk full; vacuum; file size",
    hidden=True)
APPLY = Key[object]("apply", "a", "Apply", "Apply exactly what is previewed.",
    words="save; write; commit; accept; confirm; yes", decides=True, opens=True)
UNDO = Key[object]("undo", "u", "Undo", "Preview undoing (or redoing) this operation.",
    words="undo last; undo last change; revert; roll back; rollback; take back; undo that; oops; redo",
    changes=True, decides=True, of_row=True, opens=True)
SCOPE = Key[object]("scope", "T", "Show all", "Switch between this conversation and all conversations.")
CHOICE_1 = Key[object]("choice-1", "1", "Option 1", "Change option 1 of this preview.", hidden=True)
CHOICE_2 = Key[object]("choice-2", "2", "Option 2", "Change option 2 of this preview.", hidden=True)
CHOICE_3 = Key[object]("choice-3", "3", "Option 3", "Change option 3 of this preview.", hidden=True)
BACKUP_FIRST = Key[object](
    "backup-first", "b", "Backup first", "Back up before this change, or continue without.", hidden=True
)
PANE = Key[object](
    "pane", "tab", "Pane", "Go to the next pane.", words="other pane; switch focus; next pane", hidden=True
)
DIVIDER_BACK = Key[object]("divider-back", "left_curly_bracket", "Divider back",
    "Move the divider between two panes left or up (the mouse drags it).", hidden=True)
DIVIDER_ON = Key[object]("divider-on", "right_curly_bracket", "Divider on",
    "Move the divider between two panes right or down; it is remembered.", hidden=True)
COPY_ID = Key[object]("copy-id", "y", "Copy",
    "Copy the selected row: its id (yy), text, Markdown, JSON, or the command that shows it.",
    words="copy id; clipboard; yank; copy text; copy as markdown; copy as json; as a command", of_row=True)
EXPORT = Key[object]("export", "o", "Export",
    "Write what is shown to a file: Markdown, JSON or CSV, as its name ends.",
    words="save as; write to file; dump; markdown; json; csv; download; save context; export as markdown; "
    "export as json; export as csv",
    where="the first screen (a conversation or the list), a conversation (its messages), the context (as "
    "sent), the search (hits), health (findings) and the history (changes)", hidden=True)
RELOAD = Key[object]("reload", "ctrl+r", "Reload", "Read the database again now.",
    words="refresh; update; read again")
HELP = Key[object]("help", "question_mark,f1", "Help", "Explain this screen and list its keys.",
    words="keys; shortcuts; key bindings; manual; how does this work; what is this")
PALETTE = Key[object]("palette", "colon", "Go to",
    "Go to any command, conversation, id, change, setting or theme (ctrl+p).", words="commands; menu; go to")
# fmt: on

#: All of them by name.
SHARED: Final = MappingProxyType({one.id: one for one in [*globals().values()] if isinstance(one, Key)})


def bindings(keys: Iterable[Key[Any]]) -> list[Binding]:
    """The bindings of a screen with these keys."""
    return [
        Binding(one.key, f"run('{one.id}')", one.title, show=not one.hidden, tooltip=one.help, id=one.id)
        for one in keys
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


def key_problems(
    given: Mapping[str, str], keys: Collection[Key[Any]], giver: str = "The config file"
) -> list[str]:
    """Actions and keys that do not exist, and keys that two actions would have; one sentence each.

    *given*: action id to a key, or to several separated by commas, as the user wrote them. *keys* are those
    of all screens; *giver*: who gives them, as the sentences begin.
    """
    known = {**moving_keys(), **{one.id: one.key for one in keys}}
    screens = {one.id: one.screens for one in keys}
    problems = [
        f"{giver} gives a key to {action!r}, which is not a command; {_like(action, known)}"
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
                    f"{giver} gives {key!r} to {action!r}, which is not a key; write one character, "
                    "or f7, ctrl+x, space, pageup."
                )
            problems += [
                f"{giver} gives {key!r} to {action!r} and to {other!r}; give one of them another key."
                if other in given
                else f"{giver} gives {key!r} to {action!r}, and so takes it from {other!r}: "
                f"give {other!r} another key."
                for other, keys in taken.items()
                if name in keys and not _apart(action, other, known, screens)
            ]
    return problems


def free_keys(given: Mapping[str, str], keys: Collection[Key[Any]], action: str) -> list[str]:
    """The characters and function keys that nothing has and *action* can have, as people write them.

    *given*: action id to its keys in the names of Textual; the rest is as in `key_problems`.
    """
    known = {**moving_keys(), **{one.id: one.key for one in keys}}
    screens = {one.id: one.screens for one in keys}
    others = (other for other in known if other == action or not _apart(action, other, known, screens))
    taken = {key for other in others for key in _split(given.get(other, known[other]))}
    # F1 and F2 are keys of the help, where a command is given its key.
    written = [*map(chr, range(0x21, 0x7F)), *(f"F{number}" for number in range(3, 13))]
    return [one for one in written if textual_keys(one) not in taken]


def swapped(given: Mapping[str, str], keys: Collection[Key[Any]], action: str, key: str) -> dict[str, str]:
    """The keys of *action* when it gets *key*, and of those that have it now: they get what *action* had.

    *given*, *keys*: as in `free_keys`. *key* is as Textual names it; what is returned is as people write it.
    """
    known = {**moving_keys(), **{one.id: one.key for one in keys}}
    screens = {one.id: one.screens for one in keys}
    now = {other: _split(given.get(other, written)) for other, written in known.items()}
    holders = [
        other
        for other, held in now.items()
        if key in held and other != action and not _apart(action, other, known, screens)
    ]
    swap = {other: [*(one for one in now[other] if one != key), *now[action]] for other in holders}
    return {name: ",".join(map(_as_written, held)) for name, held in {action: [key], **swap}.items()}


def _as_written(key: str) -> str:
    """A key in the config file: a sign as it is, but for the comma, which separates keys; else its name."""
    sign = key_title(key)
    return sign if len(sign) == 1 and sign != "," and textual_keys(sign) == key else key


def new_problems(given: Mapping[str, str], new: Mapping[str, str], keys: Collection[Key[Any]]) -> list[str]:
    """What is wrong with *new* keys that was not wrong before."""
    before = key_problems(given, keys, _REFUSED)
    return [one for one in key_problems({**given, **new}, keys, _REFUSED) if one not in before]


_REFUSED: Final = "Not done: this"


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


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def _apart(action: str, other: str, known: Mapping[str, str], screens: Mapping[str, frozenset[str]]) -> bool:
    """Whether no screen has both actions, so that one key may be both."""
    here, there = screens.get(action), screens.get(other)
    alike = not set(_split(known[action])).isdisjoint(_split(known[other]))
    return alike or bool(here and there and here.isdisjoint(there))


def _like(action: str, known: Mapping[str, str]) -> str:
    found = get_close_matches(action, known, 1)
    return f"do you mean {found[0]!r}?" if found else "help (?) shows the name of the selected key."
