"""Weekdays and people that a draft names and its source does not (docs/retention.md, "People and weekdays").

Weekdays are words that can be listed. People are seen by their capital letter, so only where the script has
capitals and the language keeps them for names: not in German, and not in scripts without them.
"""

# Tables: a line is a day, however wide its characters are.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from lcm_core.summarize.identifiers import Identifier, IdentifierKind
from lcm_core.summarize.language import Span, sentences, word_table
from lcm_core.summarize.quantities import unit_of

_WEEKDAY_TABLE: Final = """
monday mondays montag montags montage lundi lundis lunes segunda-feira lunedì понедельник* שני الاثنين الإثنين اثنين
tuesday tuesdays dienstag dienstags mardi mardis martes terça-feira martedì вторник* שלישי الثلاثاء ثلاثاء
wednesday wednesdays mittwoch mittwochs mercredi miércoles quarta-feira mercoledì сред* רביעי الأربعاء الاربعاء
thursday thursdays donnerstag donnerstags jeudi jeudis jueves quinta-feira giovedì четверг* חמישי الخميس خميس
friday fridays freitag freitags vendredi vendredis viernes sexta-feira venerdì пятниц* שישי الجمعة جمعة
saturday saturdays samstag samstags sonnabend samedi samedis sábado sábados sabato суббот* שבת السبت سبت
sunday sundays sonntag sonntags dimanche dimanches domingo domingos domenica воскресень* ראשון الأحد الاحد
"""
_DENSE_DAYS: Final = re.compile(
    "(?:星期|礼拜|禮拜|周|週)(?P<chinese>[一二三四五六日天])(?![年月个個])|(?P<japanese>[月火水木金土日])曜日?|(?P<korean>[월화수목금토일])요일"
)
_HEBREW_DAY: Final = re.compile(
    r"(?:יום|ביום|ימי|בימי)\s+(?P<day>שני|שלישי|רביעי|חמישי|שישי|שבת|ראשון)|(?<!\w)(?P<sabbath>שבת)(?!\w)"
)
_ARABIC_DAY: Final = re.compile(
    r"(?<!\w)(?:[وبل]?(?:يوم|أيام)\s+)(?P<day>ال\w+|اثنين|ثلاثاء|خميس|جمعة|سبت)|(?<!\w)[وبل]?(?P<plain>الجمعة|السبت|الخميس|الثلاثاء|الأربعاء|الاثنين|الإثنين|الأحد|الاحد)(?!\w)"
)
_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*(?:'s|’s)?")
_LETTERS: Final = {
    **{sign: at for at, sign in enumerate("一二三四五六日")},
    "天": 6,
    **{sign: at for at, sign in enumerate("月火水木金土日")},
    **{sign: at for at, sign in enumerate("월화수목금토일")},
}


_WHOLE, _BEGUN = word_table(enumerate(_WEEKDAY_TABLE.strip().splitlines()))
_SEMITIC: Final = re.compile("[\u0590-\u06ff]")
_RUSSIAN_FORMS: Final = re.compile("(?:а|у|ы|е|ой|ам|ах|ами|и|ю|я|ем|ям|ях)?")

_CASED: Final = re.compile(r"[A-ZÀ-ÖØ-Þ\u0410-\u042f\u0401]")
_NAME: Final = re.compile(
    r"(?<![\w./@#:$-])(?:[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]+|[\u0410-\u042f\u0401][\u0430-\u044f\u0451]+)"
    r"(?:-[A-Z][a-z]+)?(?![\w@/-]|\.\w|::|\()"
)
_GERMAN: Final = frozenset(
    "der die das und ist nicht ein eine den dem des mit auf für von zu im wird werden wurde hat sind auch".split()  # noqa: SIM905
)
_MONTHS: Final = frozenset(
    """
    January February March April May June July August September October November December Jan Feb Mar Apr Jun Jul
    Aug Sep Sept Oct Nov Dec I None Files Expand Markdown English Chinese German French Spanish Japanese Russian
    """.split()  # noqa: SIM905
)
_CYRILLIC: Final = re.compile("[\u0400-\u04ff]")
_ARTICLES: Final = frozenset("the a an this that it he she we they you i and but so then now no yes".split())  # noqa: SIM905
#: What may precede a name besides a blank.
_OPENS: Final = re.compile(r"(?:^|[\n.!?:;…\"“”(\[*•>|-]|\d[.)])\s*[\"'“*_`(]*$")
_TITLED: Final = 0.5


@dataclass(frozen=True, slots=True)
class SourceNames:
    """What a text names besides identifiers."""

    weekdays: frozenset[int]  #: 0 Monday
    words: frozenset[str]  #: every word in lower case, without the ending of a genitive
    capitals: frozenset[str]  #: words with a capital inside a sentence


def read_names(text: str, days: frozenset[date] = frozenset()) -> SourceNames:
    """The words of a source; *days*: its dates, which name weekdays where it says none."""
    words = frozenset(_bare(word) for word in _WORD.findall(text.lower()))
    # Where a source never says a weekday, its dates do.
    weekdays = frozenset(day for day, _ in _weekdays(text)) or frozenset(day.weekday() for day in days)
    capitals = frozenset(
        match[0]
        for match in _NAME.finditer(text)
        if not _OPENS.search(text[max(match.start() - 12, 0) : match.start()])
    )
    return SourceNames(weekdays, words, capitals)


def invented_names(text: str, source: SourceNames, source_text: str) -> list[Identifier]:
    """Weekdays and people of a draft that its source does not name."""
    found: dict[tuple[IdentifierKind, str], list[Span]] = {}
    for day, place in _weekdays(text):
        if day not in source.weekdays:
            found.setdefault((IdentifierKind.WEEKDAY, _NAMES[day]), []).append(place)
    for name, place in _people(text, source, source_text):
        found.setdefault((IdentifierKind.PERSON, name), []).append(place)
    return [
        Identifier(kind, key, text[slice(*places[0])], tuple(places)) for (kind, key), places in found.items()
    ]


def people_checked(text: str) -> bool:
    """Whether the people of a text can be seen: most of its letters are of a script with capitals, not German."""
    letters = sum(map(str.isalpha, text))
    cased = sum(one.lower() != one.upper() for one in text)
    return letters > 0 and 2 * cased > letters and not _is_german(text)


def _is_german(text: str) -> bool:
    words = re.findall(r"[^\W\d_]+", text.lower())
    return bool(words) and sum(word in _GERMAN for word in words) > 0.08 * len(words)


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


def _weekdays(text: str) -> Iterator[tuple[int, Span]]:
    for match in _WORD.finditer(text):
        word = _bare(match[0].lower())
        if _SEMITIC.match(word):
            continue
        day = _WHOLE.get(word)
        if day is None and word[0] >= "\u0400":
            day = next(
                (
                    day
                    for begun, day in _BEGUN.items()
                    if word.startswith(begun) and _RUSSIAN_FORMS.fullmatch(word[len(begun) :])
                ),
                None,
            )
        if day is not None:
            yield day, match.span()
    if text.isascii():
        return
    for match in _DENSE_DAYS.finditer(text):
        yield _LETTERS[match["chinese"] or match["japanese"] or match["korean"]], match.span()
    for pattern in (_HEBREW_DAY, _ARABIC_DAY):
        for match in pattern.finditer(text):
            day = _WHOLE.get(match["day"] or match[2])
            if day is not None:
                yield day, match.span()


def _people(text: str, source: SourceNames, source_text: str) -> Iterator[tuple[str, Span]]:
    """Words with a capital that the source has in no form.

    Within a sentence the capital decides; at its beginning only the words behind it do, where the source has a
    name before the same words.
    """
    if not _CASED.search(text):
        return
    for first, last in sentences(text):
        sentence = text[first:last]
        if _is_title(sentence) or _is_german(sentence):
            continue
        for match in _NAME.finditer(sentence):
            name = match[0]
            if name in _MONTHS or _known(name.lower(), source) or name.lower() in _WHOLE or unit_of(name):
                continue
            place = first + match.start(), first + match.end()
            behind = sentence[match.end() :]
            opens = _OPENS.search(sentence[: match.start()]) is not None
            if not opens or _in_the_place_of_a_name(name, behind, source, source_text):
                yield name, place


def _known(word: str, source: SourceNames) -> bool:
    """Whether the source has the word, or another form of it."""
    if word in source.words or _bare(word) in source.words:
        return True
    return any(
        word.endswith(ending) and word[: -len(ending)] in source.words
        for ending in ("s", "es", "а", "у", "ом", "е", "ы", "ой", "и", "ю")
    ) or any(word + ending in source.words for ending in ("s", "es", "а", "у", "ом", "е", "ы", "ой"))


def _is_title(sentence: str) -> bool:
    """A heading or a list of names: most words behind the first have a capital."""
    words = re.findall(r"[^\W\d_]+", sentence)[1:]
    return bool(words) and sum(word[0].isupper() for word in words) > _TITLED * len(words)


def _in_the_place_of_a_name(name: str, behind: str, source: SourceNames, source_text: str) -> bool:
    """Whether the source has a name of its own before the words that follow."""
    following = re.match(r"(?:'s|’s)?\s+([^\W\d_]+(?:\s+[^\W\d_]+)?)", behind)
    if following is None:
        return False
    words = r"\s+".join(map(re.escape, following[1].split()))
    found = re.finditer(rf"([^\W\d_]+)(?:'s|’s)?\s+{words}(?!\w)", source_text)
    # A subject without an article is a name in most languages with capitals, but not in Russian.
    bare = _CYRILLIC.search(following[1]) is None
    return any(
        match[1] in source.capitals
        or (
            bare
            and match[1].istitle()
            and not (match[1].endswith("s") and name.endswith("s"))
            and match[1].lower() not in _ARTICLES
        )
        for match in found
    )
