"""What models put around a summary although they were asked not to: taken off before it is judged.

For rewrite and repair alone. The engine stores an answer as it comes, and so do ``compact`` and `Engine`.
"""

from __future__ import annotations

import re
from typing import Final

from lcm_core.javascript import BLANKS

#: Layers that are taken off, at most: a fence in tags after an introduction is three.
_LAYERS: Final = 5
_FENCE: Final = re.compile(r"(?P<mark>`{3,}|~{3,})[^\S\n]*(?P<info>[\w.+-]*)[^\S\n]*\n")
_TAGS: Final = "summary|conversation_summary|final_summary|answer|final_answer|output|response|result"
_OPENING: Final = re.compile(rf"<(?P<tag>{_TAGS})(?:\s[^<>\n]{{0,100}})?>", re.IGNORECASE)
#: "Here is the summary", in the languages whose summaries are checked elsewhere too.
_SUMMARIES: Final = (
    r"summar(?:y|ies|ization|isation)|zusammenfassung|résumé|resumen|resumo|riassunto|sommario|sintesi"
    r"|резюме|сводка|итоги|краткое\s+изложение|摘要|总结|總結|概要|要約|まとめ|サマリー|요약"
)
_ASSENT: Final = (
    r"sure|certainly|of course|okay|ok|absolutely|understood|got it|gern(?:e)?|natürlich|bien sûr|claro|certo"
    r"|конечно|好的|当然|承知しました|はい|네"
)
_HERE: Final = (
    r"below\s+is|the\s+following\s+is|hier(?:\s+ist|\s+kommt)?|nachfolgend|voici|voilà"
    r"|aquí\s+(?:está|tienes|va)|aqui\s+está|segue|ecco|di\s+seguito|вот|ниже|以下|下面|这是|這是|다음"
)
_INTRODUCTION: Final = re.compile(
    rf"(?:(?:{_ASSENT})[^\w\n]{{1,3}})?"
    r"(?:here(?:['’]s|\s+is|\s+are)\s+(?:the|a|an|your|my)\s+(?:[\w-]+\s+){0,4}?"
    rf"|(?:{_HERE})[^\n:：。.]{{0,25}}?)"
    rf"(?:{_SUMMARIES})[^\n:：。.]{{0,100}}(?:[:：]|[。.]?\s*(?=\n))",
    re.IGNORECASE,
)
_HEADING: Final = re.compile(
    rf"[#*_\s]{{0,6}}(?:(?:the|conversation|final|updated)\s+){{0,2}}(?:{_SUMMARIES})"
    r"(?:[*_]{0,2}\s*[:：][*_]{0,2}|[*_]{0,2}[^\S\n]*\n)",
    re.IGNORECASE,
)
_OFFER: Final = re.compile(
    r"\n\s*(?:let me know|i hope (?:this|that)|feel free|would you like|is there anything|please let me know"
    r"|if you(?:['’]d| would) like)[^\n]{0,200}\s*$",
    re.IGNORECASE,
)


def unwrapped(text: str) -> str:
    """*text* without a code fence, tags of a summary, or words of introduction around the whole of it.

    What stands inside is left as it is. A text of which nothing would be left stays whole.
    """
    inner = text.strip(BLANKS)
    for _ in range(_LAYERS):
        before = inner
        for peel in (_without_introduction, _without_offer, _without_fence, _without_tags):
            inner = peel(inner).strip(BLANKS)
        if inner == before:
            break
    return inner or text


def _without_introduction(text: str) -> str:
    for pattern in (_INTRODUCTION, _HEADING):
        match = pattern.match(text)
        if match is not None and text[match.end() :].strip(BLANKS):
            text = text[match.end() :].lstrip(BLANKS)
    return text


def _without_offer(text: str) -> str:
    """Without what is said to whoever asked, after the summary."""
    return _OFFER.sub("", text) if _wrapped_before_offer(text) else text


def _wrapped_before_offer(text: str) -> bool:
    """Only behind a fence or tags is a last line surely no part of the summary."""
    match = _OFFER.search(text)
    return match is not None and text[: match.start()].rstrip(BLANKS).endswith(("```", "~~~", ">"))


def _without_fence(text: str) -> str:
    """Without the fence that opens with the first line and closes with the last; not between two fences."""
    opening = _FENCE.match(text)
    if opening is None:
        return text
    mark, rest = opening["mark"], text[opening.end() :]
    inside, _, last = rest.rpartition("\n")
    if set(last.strip()) != {mark[0]} or not last.startswith(mark):
        return text if f"\n{mark}" in rest else rest  # it was never closed
    within = False
    for line in inside.split("\n"):
        if line.startswith(mark):
            named = line.strip(mark[0]).strip() != ""
            if not within and not named:
                return text  # it closes the first fence: what follows is another one
            within = not (within and not named)
    return text if within else inside


def _without_tags(text: str) -> str:
    """Without the tags of a summary around the whole; the closing one may be missing."""
    opening = _OPENING.match(text)
    if opening is None:
        return text
    closing = f"</{opening['tag']}>"
    inside = text[opening.end() :]
    at = inside.lower().rfind(closing.lower())
    if at < 0:
        return inside if inside.startswith(("\n", "\r")) else text
    return text if inside[at + len(closing) :].strip(BLANKS) else inside[:at]
