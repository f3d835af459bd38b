"""The keys of the screens against each other and docs/keys.md, "Keys"."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from inspect import getattr_static, signature

import pytest
from textual.binding import Binding
from textual.widget import Widget

import lcm_tui.kit
import lcm_tui.screens
from lcm_tui.app import SCREENS
from lcm_tui.kit import places
from lcm_tui.kit.lines import Scroller
from lcm_tui.kit.text import TextView
from lcm_tui.screens.anywhere import _matches
from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.conversations import ConversationsScreen
from lcm_tui.screens.dag import DagScreen
from lcm_tui.screens.frame import EVERYWHERE, CommandScreen, all_keys
from lcm_tui.screens.health import HealthScreen
from lcm_tui.screens.preview import PlanScreen

#: docs/keys.md, "Keys": what each key means everywhere.
TABLE = {
    "enter": "open",
    "escape": "back",
    "q": "quit",
    "slash": "search",
    "n": "next",
    "N": "previous-match",
    "question_mark": "help",
    "colon": "palette",
    "y": "copy-id",
    "tab": "pane",
    "ctrl+r": "reload",
    "c": "context",
    "s": "summaries",
    "p": "previous",
    "f": "files",
    "plus": "budget-more",
    "minus": "budget-less",
    "m": "other-view",  # in a comparison and a review also "layout"
    "space": "mark",
    "H": "health",
    "U": "history",
    "x": "fix",
    "d": "dissolve",
    "C": "compact",
    "t": "transplant",
    "a": "apply",
    "u": "undo",
    "o": "export",
    "v": "layout",
    "left_curly_bracket": "divider-back",
    "right_curly_bracket": "divider-on",
    "left_square_bracket": "hunk-previous",
    "right_square_bracket": "hunk-next",
    "r": "rewrite",
    "W": "rewrite-subtree",
    "R": "repair",
    "A": "accept-rest",
    "e": "edit",
    "E": "edit-outside",
}
#: Keys of the same table whose commands are still to come, or that belong to a list.
RESERVED: set[str] = set()
MOVING = {*"jkhlgG", "up", "down", "left", "right", "home", "end", "pageup", "pagedown"}


def screens() -> list[type[CommandScreen]]:
    """The classes of all screens that can be opened."""
    for module in pkgutil.walk_packages(lcm_tui.screens.__path__, "lcm_tui.screens."):
        importlib.import_module(module.name)

    def below(parent: type[CommandScreen]) -> Iterator[type[CommandScreen]]:
        for found in parent.__subclasses__():
            yield found
            yield from below(found)

    found = {cls for cls in below(CommandScreen) if cls.__module__.startswith("lcm_tui.screens.")}
    # Others are made from the preview, which is opened itself too.
    opened = {cls for cls in found if not cls.__subclasses__()} | {PlanScreen}
    return sorted(opened, key=lambda cls: cls.__name__)


def widgets() -> list[type[Widget]]:
    """Every class of widget of ours."""
    for module in pkgutil.iter_modules(lcm_tui.kit.__path__):
        importlib.import_module(f"lcm_tui.kit.{module.name}")

    def below(parent: type[Widget]) -> Iterator[type[Widget]]:
        for found in parent.__subclasses__():
            yield found
            yield from below(found)

    return [found for found in below(Widget) if found.__module__.startswith("lcm_tui.")]


def keys_of(binding: Binding) -> list[str]:
    return [key.strip() for key in binding.key.split(",")]


def bindings_of(screen: type[CommandScreen]) -> list[Binding]:
    return [found for found in screen.BINDINGS if isinstance(found, Binding)]


def keys_in(widget: type[Widget]) -> set[str]:
    """The keys that a widget's own class binds."""
    return {key for found in widget.BINDINGS if isinstance(found, Binding) for key in keys_of(found)}


#: What `screen_for` makes of such a place is not one screen with the fields of the place.
MADE_OTHERWISE = {
    *(places.Import, places.Deletion, places.Earlier),
    *(places.Comparison, places.CodexComparison, places.PreviousComparison),
}


def test_every_place_has_a_screen_that_takes_its_fields():
    assert {*SCREENS} | MADE_OTHERWISE == {*places.Place.__subclasses__()}
    for place, name in SCREENS.items():
        module, screen = name.split(".")
        made = getattr(importlib.import_module(f"lcm_tui.screens.{module}"), screen)
        assert [*signature(made).parameters] == [*place.__struct_fields__], name


def test_all_screens_are_found():
    names = {screen.__name__ for screen in screens()}
    assert names >= {
        "ConversationsScreen",
        "ConversationScreen",
        "DagScreen",
        "ContextScreen",
        "PreviousScreen",
        "FilesScreen",
        "DiskSessionScreen",
        "PlanScreen",
        "HealthScreen",
        "HistoryScreen",
        "OperationScreen",
    }
    assert not names & {"DataScreen", "TextSearch", "PlanView"}


@pytest.mark.parametrize("screen", screens())
def test_a_key_of_a_screen_is_the_same_key_as_elsewhere_and_is_bound(screen: type[CommandScreen]):
    ids = [binding.id for binding in bindings_of(screen)]
    assert ids == list(screen.ALL_KEYS)
    assert set(ids) >= {one.id for one in EVERYWHERE}
    for binding, key in zip(bindings_of(screen), screen.ALL_KEYS.values(), strict=True):
        assert binding.id == key.id
        assert binding.action == f"run('{key.id}')"
        assert binding.key == key.key
        general = all_keys()[key.id]
        assert (key.key, key.changes, key.decides, key.words, key.where) == (
            general.key,
            general.changes,
            general.decides,
            general.words,
            general.where,
        )


@pytest.mark.cases(21)
@pytest.mark.parametrize("screen", screens())
def test_every_screen_gives_what_its_bases_ask_of_it(screen: type[CommandScreen]):
    # Python itself would let an abstract screen be made: Textual's classes have a metaclass of their own.
    found = ((name, getattr_static(screen, name)) for name in dir(screen))
    assert not [name for name, held in found if getattr(held, "__isabstractmethod__", False)]


@pytest.mark.parametrize("screen", screens())
def test_no_key_of_a_screen_has_two_meanings(screen: type[CommandScreen]):
    keys = [key for binding in bindings_of(screen) for key in keys_of(binding)]
    assert len(keys) == len(set(keys))
    moving = [
        key for binding in Scroller.BINDINGS if isinstance(binding, Binding) for key in keys_of(binding)
    ]
    assert not set(keys) & set(moving)


@pytest.mark.parametrize("screen", screens())
def test_every_screen_explains_itself(screen: type[CommandScreen]):
    assert len(screen.HELP.split()) > 20


def test_every_key_belongs_to_a_screen():
    used = {binding.id for screen in screens() for binding in bindings_of(screen)}
    assert set(all_keys()) == used


def test_keys_mean_what_the_design_says():
    meaning: dict[str, str] = {}
    for command in all_keys().values():
        for key in command.key.split(","):
            meaning.setdefault(key, command.id)  # what several screens have comes first
    assert {key: meaning.get(key) for key in TABLE} == TABLE
    assert not RESERVED & set(meaning)
    lists = {key for binding in Scroller.BINDINGS if isinstance(binding, Binding) for key in keys_of(binding)}
    assert lists >= MOVING
    texts = {key for binding in TextView.BINDINGS if isinstance(binding, Binding) for key in keys_of(binding)}
    assert texts == {"space"}


def test_a_command_is_told_in_a_word_or_two_and_a_sentence():
    for command in all_keys().values():
        assert 1 <= len(command.title.split()) <= 3
        assert len(command.title) <= 16
        assert command.help.endswith(".")
    assert len({command.title for command in all_keys().values()}) == len(all_keys())


def test_no_method_is_taken_for_the_handler_of_a_key():
    """Textual calls ``key_at`` or ``_key_at`` of whatever has the focus when ``@`` is pressed."""
    from textual.keys import Keys, _character_to_key

    named = {_character_to_key(chr(code)) for code in range(32, 127)} | {key.value for key in Keys}
    handlers = {f"{prefix}key_{name.replace('+', '_')}" for name in named for prefix in ("", "_")}
    for cls in [*screens(), *widgets()]:
        own = {name for base in cls.__mro__ if base.__module__.startswith("lcm_tui.") for name in vars(base)}
        assert not own & handlers, cls.__name__


def test_a_command_is_found_by_its_words_and_not_by_letters_that_follow_each_other() -> None:
    title, said = "Undo", "Preview undoing (or redoing) this operation."
    assert _matches("undo", title, said) == 1.0
    assert _matches("undu", title, said) > 0.5
    assert _matches("operation", title, said) == 0.4
    assert _matches("prune", title, said) == 0.0
    assert _matches("space", "Mark", "Mark or unmark the row; changes apply to the marked rows.") == 0.0


def test_screens_that_are_named_for_a_command_have_it() -> None:
    screens = {
        "summary DAG": DagScreen,
        "context": ContextScreen,
        "first screen": ConversationsScreen,
        "health": HealthScreen,
    }
    for command in all_keys().values():
        for name, screen in screens.items():
            if re.search(rf"\bthe {name}\b|^{name}\b", command.where):
                assert command.id in {
                    binding.id for binding in screen.BINDINGS if isinstance(binding, Binding)
                }
