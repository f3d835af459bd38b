"""Sentences, words and telling phrases of a text in any language: what needs no model to be seen.

Words of scripts that are written with spaces count by their beginning (``deploys`` and ``deployed`` agree);
scripts without them, and those that glue prefixes on (Hebrew, Arabic), count by runs of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

Span = tuple[int, int]  #: characters of a text, from the first to before the second

#: The line above a message or summary in a source text (engine.md 2.2).
HEADER: Final = re.compile(
    r"^\[(?P<first>[0-9]{4}-[0-9]{2}-[0-9]{2}[^\]\n]{0,100}?)"
    r"(?: - (?P<last>[0-9]{4}-[^\]\n]{0,100}))?\][ \t]*$",
    re.MULTILINE,
)
_BOUNDARY: Final = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡؟۔]+[」』”’）]*|\n+")
_DENSE: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_GLUED: Final = "\u0590-\u05ff\u0600-\u06ff\u0750-\u077f"
_RUN: Final = re.compile(
    rf"(?P<dense>[{_DENSE}]+)|(?P<glued>[{_GLUED}]+)|(?P<number>[0-9][0-9.,:]*[0-9]|[0-9])"
    rf"|(?P<word>[^\W\d_{_DENSE}{_GLUED}]+)"
)
_STEM: Final = 6
_SHORTEST: Final = 3
_COMMON_WORDS: Final = """
about after again also and any are because been before being but can could did does doing done each for from
get had has have how into its just let more most not now off once one only other our out over same she should
some such than that the their them then there these they this those through too under until use very was way
were what when where which while who why will with would you your
der die das und ist nicht mit für auf ein eine les des une dans pour avec est que los las una por para con del
como это что как для или
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())


class Cue(StrEnum):
    """What a sentence announces."""

    CONSTRAINT = "constraint"
    DECISION = "decision"
    OPEN = "open"


def _cue(phrases: str, dense: str) -> re.Pattern[str]:
    """Phrases, one a line or separated by ``/``, that stand as words; *dense* ones stand anywhere.

    For lower-case text; that a word begins where it is found is seen afterwards: that is four times as fast.
    """
    words = [phrase.strip() for line in phrases.splitlines() for phrase in line.split("/") if phrase.strip()]
    spaced = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in words)
    return re.compile(rf"(?P<word>{spaced})(?![^\W\d_])|{dense}")


_CUES: Final = {
    Cue.CONSTRAINT: _cue(
        """
        must/must not/mustn't/never/always/only/do not/don't/don’t/cannot/can't/can’t/shall/shall not
        should not/shouldn't/may not/no longer/required/requires/forbidden/not allowed/prohibited/unless
        make sure/ensure/under no circumstances/at most/at least/without asking/has to/have to
        need to/needs to/mandatory
        muss/müssen/darf nicht/dürfen nicht/nie/niemals/immer/nur/verboten/auf keinen fall
        doit/doivent/jamais/toujours/seulement/interdit/obligatoire/ne pas
        debe/deben/nunca/siempre/solo/sólo/prohibido/obligatorio/não deve/deve/sempre
        должен/должна/должны/нельзя/никогда/всегда/только/запрещено
        חייב/חייבת/חייבים/אסור/לעולם/תמיד/רק/אין/בשום אופן
        يجب/لا يجوز/ممنوع/أبدا/أبدًا/دائما/دائمًا/فقط/لا تقم
        """,
        "必须|必須|不要|不得|不能|不可|禁止|只能|只有|务必|務必|绝不|絕不|一定要|切勿"
        "|必ず|しないで|ないこと|なければ|してはいけ|のみ|べき|だけ|반드시|절대|금지|하지\\s?마|해야|항상|만\\s",
    ),
    Cue.DECISION: _cue(
        """
        decided/decision/decide/agreed/chose/chosen/we will/we'll/going with/settled on/approved/rejected
        instead of/because/switched to/replaced/fixed/solved/root cause/turned out/resolved/deployed/released
        merged/confirmed/entschieden/beschlossen/vereinbart/décidé/convenu/decidido/acordado
        решили/решено/договорились/החלטנו/הוחלט/סוכם/קבענו/قررنا/تقرر/اتفقنا
        """,
        "决定|決定|同意|采用|採用|改为|改用|因为|原因|已修复|完成|確定|にする|することに|修正|결정|합의|하기로|원인",
    ),
    Cue.OPEN: _cue(
        """
        todo/to do/open question/open/next step/next/pending/waiting for/waiting on/blocked/later/still
        not yet/unclear/unknown/follow up/follow-up/remaining/tomorrow/need to decide/fixme/offen/noch nicht
        à faire/pendiente/осталось/ещё не/пока не/עדיין/נותר/לבדוק/מחכה/لم يتم بعد/لا يزال/معلق
        """,
        r"[?？؟]\s*$|待办|待定|尚未|还没|未解决|下一步|接下来|まだ|未定|次に|残り|아직|남은|다음\s단계|미정",
    ),
}


def sentences(text: str) -> Iterator[Span]:
    """Where the sentences of *text* stand; a line break ends one, header lines and blanks are left out."""
    start = 0
    for match in (*_BOUNDARY.finditer(text), None):
        end = len(text) if match is None else match.end()
        piece = text[start:end]
        stripped = piece.strip()
        if stripped and not (stripped[0] == "[" and HEADER.fullmatch(stripped)):
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(stripped)
        start = end


def has_cue(sentence: str, cue: Cue) -> bool:
    """Whether a sentence announces *cue*, in one of the languages that we know phrases of."""
    lowered = sentence.lower()
    return any(
        found["word"] is None or not lowered[found.start() - 1 : found.start()].isalpha()
        for found in _CUES[cue].finditer(lowered)
    )


def terms(text: str) -> list[str]:
    """What the meaning of *text* hangs on: stems of words, numbers, runs of characters; with repeats."""
    found: list[str] = []
    for match in _RUN.finditer(text.casefold()):
        piece = match[0]
        kind = match.lastgroup
        if kind == "word":
            if len(piece) >= _SHORTEST and piece not in _COMMON:
                found.append(piece[:_STEM])
        elif kind == "number":
            found.append(piece.strip(".,:"))
        else:
            size = 2 if kind == "dense" else 3
            found += [piece[at : at + size] for at in range(max(len(piece) - size + 1, 1))]
    return found


def is_dense(text: str) -> bool:
    """Whether most of *text* is in a script that is written without spaces."""
    letters = sum(map(str.isalpha, text))
    return letters > 0 and 2 * len("".join(re.findall(rf"[{_DENSE}]", text))) > letters
