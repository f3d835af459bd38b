"""A small terminal emulator: enough to know what text stands where, on which background, after some output.

It understands what full screen programs send (cursor movement, erasing, SGR, synchronized updates) and
ignores the rest. It draws nothing.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-Z\\`-~]"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
    r"|(?P<text>[^\x00-\x1f\x7f]+)",
    re.DOTALL,
)
_PARTIAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07]*|[ -/]*)?\Z", re.DOTALL)


class Screen:
    """The characters and backgrounds of a terminal of *rows* lines and *columns* cells."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self.frames = 0  #: synchronized updates that were completed
        self._text = [[" "] * columns for _ in range(rows)]
        self._style = [[""] * columns for _ in range(rows)]
        self._x = self._y = 0
        self._sgr = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> None:
        """Take the next output of the program; sequences may be cut anywhere."""
        text = self._rest + self._decoder.decode(data)
        partial = _PARTIAL.search(text, text.rfind("\x1b") if "\x1b" in text else len(text))
        self._rest = partial.group() if partial else ""
        end = len(text) - len(self._rest)
        for token in _TOKEN.finditer(text, 0, end):
            if (shown := token["text"]) is not None:
                self._write(shown)
            elif (control := token["control"]) is not None:
                self._control(control)
            elif (final := token["final"]) is not None:
                self._sequence(token["parameters"], final)

    def line(self, y: int) -> str:
        """The text of row *y*, with the blanks at its end."""
        return "".join(self._text[y])

    def text(self) -> str:
        """All rows, one per line, without blanks at their ends."""
        return "\n".join(self.line(y).rstrip() for y in range(self.rows))

    def backgrounds(self, y: int) -> list[str]:
        """What each cell of row *y* is painted on: a colour, "reverse", or "" for the default."""
        return [background(style) for style in self._style[y]]

    def state(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Everything that is visible, as a value: it changes when a person could see a change."""
        return tuple(self.line(y) for y in range(self.rows)), tuple("\n".join(row) for row in self._style)

    def _write(self, text: str) -> None:
        for character in text:
            width = 1 if character < "\u0300" else get_character_cell_size(character)
            if width == 0:
                continue
            if self._x + width > self.columns:
                self._x = 0
                self._line_feed()
            line, style = self._text[self._y], self._style[self._y]
            line[self._x], style[self._x] = character, self._sgr
            if width == 2:
                line[self._x + 1], style[self._x + 1] = "", self._sgr
            self._x += width

    def _line_feed(self) -> None:
        if self._y + 1 < self.rows:
            self._y += 1
        else:
            self._text.append([" "] * self.columns)
            self._style.append([""] * self.columns)
            del self._text[0], self._style[0]

    def _control(self, control: str) -> None:
        if control == "\r":
            self._x = 0
        elif control == "\n":
            self._line_feed()
        elif control == "\b":
            self._x = max(0, self._x - 1)

    def _sequence(self, parameters: str, final: str) -> None:
        if final == "m":
            if parameters in ("", "0"):
                self._sgr = ""
            elif not parameters.startswith((">", "?", "<")):
                self._sgr = f"{self._sgr};{parameters}" if self._sgr else parameters
            return
        if parameters.startswith(("?", ">", "<", "=")):
            if parameters == "?2026" and final == "l":
                self.frames += 1
            elif parameters == "?1049" and final == "h":
                self._erase(0, self.rows * self.columns)
            return
        numbers = [int(number) if number.isdigit() else 0 for number in parameters.split(";")]
        self._move_or_erase(numbers, final)

    def _move_or_erase(self, numbers: list[int], final: str) -> None:
        count, here, width = max(1, numbers[0]), self._y * self.columns + self._x, self.columns
        if final in "Hf":
            column = numbers[1] if len(numbers) > 1 else 1
            self._place(count - 1, max(1, column) - 1)
        elif final in "ABCDGd":
            rows = {"A": self._y - count, "B": self._y + count, "d": count - 1}
            columns = {"C": self._x + count, "D": self._x - count, "G": count - 1}
            self._place(rows.get(final, self._y), columns.get(final, self._x))
        elif final == "J":
            spans = {0: (here, self.rows * width), 1: (0, here + 1)}
            self._erase(*spans.get(numbers[0], (0, self.rows * width)))
        elif final == "K":
            line = self._y * width
            spans = {0: (here, line + width), 1: (line, here + 1)}
            self._erase(*spans.get(numbers[0], (line, line + width)))

    def _place(self, y: int, x: int) -> None:
        self._y = min(max(y, 0), self.rows - 1)
        self._x = min(max(x, 0), self.columns - 1)

    def _erase(self, first: int, last: int) -> None:
        for cell in range(first, last):
            y, x = divmod(cell, self.columns)
            self._text[y][x], self._style[y][x] = " ", self._sgr


@lru_cache(maxsize=4096)
def background(style: str) -> str:
    """The background that the SGR parameters *style* leave: a colour, "reverse", or "" for the default."""
    colour, reverse = "", False
    numbers = style.split(";")
    place = 0
    while place < len(numbers):
        code = numbers[place]
        if code in ("38", "48") and place + 1 < len(numbers):
            length = 5 if numbers[place + 1] == "2" else 3
            if code == "48":
                colour = ";".join(numbers[place + 1 : place + length])
            place += length
            continue
        if code in ("", "0", "49"):
            colour = ""
            reverse = reverse and code == "49"
        elif code in ("7", "27"):
            reverse = code == "7"
        elif len(code) in (2, 3) and code[:-1] in ("4", "10"):
            colour = code
        place += 1
    return "reverse" if reverse else colour
