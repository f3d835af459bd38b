"""The text view: how documents are wrapped, searched and kept in place."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.text import cell_width
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from lcm_tui.kit import text as module
from lcm_tui.kit.spans import Block, Span, WrappedBlock, heading, recoloured, slice_of, text_of
from lcm_tui.kit.spans import text_field as field
from lcm_tui.kit.text import TextView, mark

HEIGHT = 20
WIDTH = 40  #: without the scroll bar


class Reading(App[None]):
    def __init__(self, document) -> None:
        super().__init__()
        self.view = TextView(document, empty="nothing to read", id="view")

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()


@asynccontextmanager
async def reading(*blocks: Block) -> AsyncIterator[tuple[Pilot[None], TextView]]:
    app = Reading(blocks)
    async with app.run_test(size=(WIDTH + 1, HEIGHT)) as pilot:
        await pilot.pause()
        yield pilot, app.view


def rows(view: TextView) -> list[str]:
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def marked(view: TextView) -> list[str]:
    """The pieces on the screen that are drawn as matches."""
    style = view.style_of("match")
    return [
        segment.text
        for y in range(view.size.height)
        for segment in view.render_line(y)
        if segment.style is not None and segment.style.bgcolor == style.bgcolor
    ]


def numbered(count: int) -> list[Block]:
    return [Block(f"block {number} " + "word " * 30) for number in range(count)]


def looks(strips: Iterable[Strip]) -> list[list[tuple[str, object, object]]]:
    """What a terminal would show of lines, cell by cell."""
    return [
        [
            (character, segment.style and segment.style.color, segment.style and segment.style.bgcolor)
            for segment in strip
            for character in segment.text
        ]
        for strip in strips
    ]


@pytest.mark.long
@pytest.mark.parametrize("border", ["left", "top", "right", "bottom"])
async def test_a_border_and_padding_look_as_textual_draws_them_also_when_the_focus_goes(
    border: str, monkeypatch: pytest.MonkeyPatch
):
    edge = f"border-{border}: solid"
    css = f"TextView {{ padding: 1 2; {edge} red; &:focus {{ {edge} green; }} }}"
    monkeypatch.setattr(Reading, "CSS", css)
    async with reading(*numbered(9)) as (pilot, view):
        whole = view.outer_size.region
        focused = looks(view.render_lines(whole))
        assert focused == looks(Widget.render_lines(view, whole))
        pilot.app.set_focus(None)
        await pilot.pause()
        assert looks(view.render_lines(whole)) == looks(Widget.render_lines(view, whole)) != focused


async def test_a_document_that_is_loaded_is_wrapped_in_a_thread(monkeypatch: pytest.MonkeyPatch):
    async with reading(Block("before")) as (pilot, view):
        threads: set[int] = set()

        class Watched(WrappedBlock):
            def __init__(self, block: Block, width: int) -> None:
                threads.add(threading.get_ident())
                super().__init__(block, width)

        monkeypatch.setattr(module, "WrappedBlock", Watched)
        await view.load((Block("after"), Block("that")))
        await pilot.pause()
        assert rows(view)[:2] == ["after", "that"]
        assert threads
        assert threading.get_ident() not in threads


# -- wrapping ----------------------------------------------------------------------------------------------


async def test_a_text_is_wrapped_at_words_and_a_long_field_under_its_value():
    blocks = (heading("Heading"), field("name", "value " * 12), Block("one\ntwo  three", indent=4), Block())
    async with reading(*blocks) as (_, view):
        assert rows(view)[:8] == [
            "Heading",
            "name          value value value value",
            "              value value value value",
            "              value value value value",
            "    one",
            "    two  three",
            "",
            "",
        ]


SAFE = st.text(
    st.one_of(st.characters(), st.sampled_from(" \n\t\x1b[日本é\u0301\U0001f600\u200d")), max_size=300
)


@given(text=SAFE, width=st.integers(10, 60), indent=st.integers(0, 12))
def test_every_line_fits_and_together_they_are_the_text(text: str, width: int, indent: int):
    for block in (Block(text, indent=indent), Block(spans=(Span(text), Span("end")), indent=indent)):
        wrapped = WrappedBlock(block, width)
        lines = [text_of(wrapped.line(at)) for at in range(len(wrapped))]
        assert all(cell_width(line) <= width for line in lines)
        joined = "".join(lines)
        squeezed = "".join(character for character in wrapped.text if not character.isspace())
        assert "".join(character for character in joined if not character.isspace()) == squeezed


async def test_an_empty_document_says_so():
    async with reading() as (pilot, view):
        assert rows(view)[0] == "nothing to read"
        await pilot.press("down", "pagedown", "end", "home", "space", "pageup", "up")
        assert not view.find("anything")
        assert view.text == ""
        view.show((Block("something"),))
        assert rows(view)[0] == "something"
        view.show(())
        assert rows(view)[0] == "nothing to read"


async def test_a_line_of_a_megabyte_is_read_to_its_end():
    async with reading(Block("x" * 1_000_000 + "needle" + "y" * 100)) as (pilot, view):
        assert view.virtual_size.height == 25_003
        await pilot.press("end")
        assert rows(view)[-1].endswith("y")
        await pilot.press("home")
        assert view.find("NEEDLE")
        assert "".join(marked(view)) == "needle"


async def test_what_a_terminal_would_obey_is_written_out():
    async with reading(Block("a\x1b[31mb\u202ec[red]d[/]"), field("x\x07", "y\x9b")) as (_, view):
        assert rows(view)[0] == "a␛[31mb‹U+202E›c[red]d[/]"
        assert "␇" in rows(view)[1]
        assert "‹U+009B›" in rows(view)[1]


@pytest.mark.parametrize(
    "name", ["eight_of", "sum_ed4ad7538c12dd95", "1,000,000-1,000,020", "要約の番号", "요약"]
)
@pytest.mark.parametrize("width", [8, 10])
def test_a_name_as_wide_as_its_place_never_runs_into_its_value(name: str, width: int):
    text = WrappedBlock(field(name, "leaf  0", width=width), 80).text
    assert text.startswith(f"{name} ")
    assert text.endswith(" leaf  0")


# -- moving ------------------------------------------------------------------------------------------------


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["down", "j", "j"], 3),
        (["down", "up", "k"], 0),
        (["space"], HEIGHT - 1),
        (["pagedown", "ctrl+f", "pageup"], HEIGHT - 1),
        (["G"], 400 - HEIGHT),
        (["end", "space", "down"], 400 - HEIGHT),
        (["end", "g"], 0),
    ],
)
async def test_keys_scroll(keys: list[str], expected: int):
    async with reading(Block("\n".join(map(str, range(400))))) as (pilot, view):
        await pilot.press(*keys)
        assert rows(view)[0] == str(expected)


async def test_the_place_in_the_document_stays_when_the_width_changes():
    async with reading(*numbered(100)) as (pilot, view):
        at = next(at for at, line in enumerate(view.text.split("\n")) if line.startswith("block 60 "))
        view.action_move(at)
        assert rows(view)[0].startswith("block 60 ")
        for width in (20, 100, 33, WIDTH):
            await pilot.resize_terminal(width + 1, HEIGHT)
            await pilot.pause()
            assert rows(view)[0].startswith("block 60 ")


async def test_another_document_starts_at_its_top_and_the_same_one_grown_where_it_was():
    async with reading(*numbered(100)) as (pilot, view):
        await pilot.press("pagedown", "pagedown")
        before = rows(view)
        view.show((*numbered(100), Block("more")), keep_place=True)
        await pilot.pause()
        assert rows(view) == before
        view.show((Block("first grew\n" * 30), *numbered(100)[1:]), keep_place=True)
        await pilot.pause()
        assert rows(view) == before
        view.show(tuple(numbered(99)))
        await pilot.pause()
        assert rows(view)[0].startswith("block 0 ")
        await pilot.press("end")
        view.show(tuple(numbered(2)), keep_place=True)
        await pilot.pause()
        assert rows(view)[0].startswith("block 0 ")


# -- searching ---------------------------------------------------------------------------------------------


async def test_matches_are_found_forward_backward_and_around_the_ends():
    texts = ["Alpha beta", "", "gamma ALPHA", *["filler"] * 40, "alphabet alpha"]
    async with reading(*map(Block, texts)) as (_, view):
        hits = []
        for forward in (True, True, True, True, True, False, False, False, False, False):
            assert view.find("alpha", forward=forward)
            hits.append(view._hit)
        there = [(0, 0), (2, 6), (43, 0), (43, 9)]
        assert hits == [*there, there[0], *reversed(there), there[3]]


async def test_a_search_begins_where_one_reads():
    async with reading(*numbered(100)) as (pilot, view):
        await pilot.press("end")
        assert view.find("block 6", forward=False)
        assert rows(view)[module.ABOVE].startswith("block 69 ")
        assert view.find("block 9")
        assert view._hit == (90, 0)
        assert view.find("block 9")
        assert view._hit == (91, 0)
        assert not view.find("nowhere")
        assert view.find("block 9", forward=False)


async def test_typing_on_stays_at_the_match():
    async with reading(*numbered(100)) as (_, view):
        for typed in ("b", "bl", "block 7", "block 77"):
            assert view.find(typed)
        assert view._hit == (77, 0)
        view.find("")
        assert not marked(view)


async def test_a_match_that_is_wrapped_is_found_and_marked_on_both_lines():
    async with reading(Block("x" * 35 + " left right and left right")) as (_, view):
        assert rows(view)[:2] == ["x" * 35 + " left", "right and left right"]
        assert view.find("LEFT right")
        assert marked(view) == ["left", "right", "left right"]


async def test_matches_in_headings_fields_and_markup_are_marked_as_they_stand():
    async with reading(heading("Title [b]"), field("model", "[b] none"), Block("a[b]c", indent=3)) as (
        _,
        view,
    ):
        assert view.find("[b]")
        assert marked(view) == ["[b]"] * 3
        assert view.find("el")
        assert marked(view) == ["el"]


async def test_letters_whose_case_has_another_length_shift_no_mark():
    async with reading(Block("İstanbul STRASSE straße ﬁx needle")) as (_, view):
        assert view.find("NEEDLE")
        assert marked(view) == ["needle"]


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("typed", "places"),
    [
        ("deja", ["déjà", "de\u0301ja\u0300", "DEJA"]),
        ("DÉJÀ", ["déjà", "de\u0301ja\u0300", "DEJA"]),
        ("łodz", ["Łódź", "lodz"]),
        ("истории", ["истории\u0306"]),
        ("istanbul", ["İstanbul"]),
        ("strasse", ["Straße"]),
        ("finis", ["ﬁnis"]),
        ("한", ["\u1112\u1161\u11ab"]),
        ("ἀθηναι", ["Ἀθῆναι"]),
    ],
)
async def test_every_spelling_is_found_and_marked_where_it_stands(typed: str, places: list[str]):
    text = "İ déjà İİ de\u0301ja\u0300 ﬁ DEJA Łódź lodz истории\u0306 İstanbul Straße"
    text += " ﬁnis \u1112\u1161\u11ab Ἀθῆναι"
    async with reading(Block(text)) as (_, view):
        assert view.find(typed)
        assert "".join(marked(view)).replace(" ", "") == "".join(places).replace(" ", "")
        block, offset = view._hit or (0, -1)
        assert (block, offset) == (0, text.index(places[0]))
        line = mark((Span(text, "dim"),), typed)
        assert [span.text for span in line if span.style == "match"] == places
    assert not (await found_in("nothing", "\u0301"))


async def found_in(text: str, typed: str) -> bool:
    async with reading(Block(text)) as (_, view):
        return view.find(typed)


@given(
    texts=st.lists(st.text("abA ", max_size=5), max_size=6),
    needle=st.text("abA ", min_size=1, max_size=3),
)
def test_marking_changes_no_text(texts: list[str], needle: str):
    line = tuple(Span(text, "dim") for text in texts)
    found = mark(line, needle)
    assert text_of(found) == text_of(line)
    matches = "".join(span.text for span in found if span.style == "match")
    assert matches.casefold() == needle.casefold() * text_of(line).casefold().count(needle.casefold())


@pytest.mark.long
@given(
    texts=st.lists(st.text("abc", max_size=4), max_size=5),
    start=st.integers(0, 22),
    length=st.integers(0, 22),
)
def test_a_slice_of_a_line_is_that_of_its_text(texts: list[str], start: int, length: int):
    line = tuple(Span(text, "dim") for text in texts)
    assert text_of(slice_of(line, start, start + length)) == text_of(line)[start : start + length]
    styled = recoloured(line, [(start, start + length)], "key")
    assert text_of(styled) == text_of(line)
    assert (
        "".join(span.text for span in styled if span.style == "key") == text_of(line)[start : start + length]
    )
