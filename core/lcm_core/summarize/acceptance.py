"""Whether a model's answer can be a draft. A fault refuses it; a caution is shown beside it.

An operator may still choose a refused text by hand; no rule of a batch can. What models put around a
summary although they were asked not to is removed first (`without_wrapping`), for rewrite and repair alone:
the engine stores an answer as it comes, and so do ``compact`` and `Engine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lcm_core.checks import texts
from lcm_core.dag.markers import MARKER_LIKE, is_capped
from lcm_core.javascript import BLANKS
from lcm_core.summarize.request import HELD_KEY, StopReason, SummaryReply, SummaryRequest
from lcm_core.summarize.rulebook import Checked, Reversal, Rulebook
from lcm_core.tokens import Estimator, estimate

#: Layers that are taken off, at most: a fence in tags after an introduction is three.
_LAYERS: Final = 5
_FENCE: Final = re.compile(r"(?P<mark>`{3,}|~{3,})[^\S\n]*(?P<info>[\w.+-]*)[^\S\n]*\n")
_TAGS: Final = "summary|conversation_summary|final_summary|answer|final_answer|output|response|result"
_OPENING: Final = re.compile(rf"<(?P<tag>{_TAGS})(?:\s[^<>\n]{{0,100}})?>", re.IGNORECASE)
#: "Here is the summary", in eleven languages.
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


def without_wrapping(text: str) -> str:
    """*text* without a code fence, tags of a summary, or words of introduction around the whole of it.

    What is inside is left as it is. A text of which nothing would be left stays whole.
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


_REASONING_TAG: Final = re.compile(
    rf"</?\s*(?:{texts.THOUGHT_TAGS}|reflection)\s*>",
    re.IGNORECASE,
)


class DraftFault(StrEnum):
    """Why a text is no draft."""

    CUT_OFF = "cut off"
    REFUSED = "refused"
    EMPTY = "empty"
    NO_WORDS = "no words"
    ROLE = "another role"
    HELD_KEY = "held our key"
    MARKER = "marker"
    REASONING = "reasoning"
    ERROR = "error"
    NOT_SMALLER = "not smaller"
    COPY = "copy"
    REVERSED = "reversed"


class DraftCaution(StrEnum):
    """What an operator should know of a draft."""

    OVER_TARGET = "over target"
    NO_CLOSING = "no closing line"
    ORDERS = "gives orders"
    BINARY = "binary"
    RULES = "rules not checked"


@dataclass(frozen=True, slots=True)
class DraftVerdict:
    """What was found of one text."""

    tokens: int
    faults: tuple[DraftFault, ...]
    cautions: tuple[DraftCaution, ...]
    sentences: tuple[str, ...]  #: one for each fault and caution, in their order

    @property
    def accepted(self) -> bool:
        """Whether it can be a draft."""
        return not self.faults


def judge(reply: SummaryReply, request: SummaryRequest) -> DraftVerdict:
    """Whether the answer to *request* can be a draft."""
    return judge_text(
        reply.text,
        source=request.text,
        previous=request.previous or "",
        target_tokens=request.target_tokens,
        estimator=request.estimator,
        finished=reply.finished,
        stop_reason=reply.stop_reason,
    )


def judge_text(
    text: str,
    *,
    source: str,
    target_tokens: int,
    estimator: Estimator,
    finished: bool = True,
    stop_reason: str = StopReason.END_TURN,
    previous: str = "",
) -> DraftVerdict:
    """Whether *text*, by a model or by hand, can be a draft for *source*.

    *previous* is the previous context it was made with, whose rules it may repeat.
    """
    tokens, source_tokens = estimate(text, estimator), estimate(source, estimator)
    faults: list[tuple[DraftFault, str]] = []
    cautions: list[tuple[DraftCaution, str]] = []
    if stop_reason == HELD_KEY:
        said = "The answer contained the API key and was discarded: the source may contain it too."
        return DraftVerdict(tokens, (DraftFault.HELD_KEY,), (), (said,))
    if stop_reason == StopReason.REFUSAL:
        faults.append((DraftFault.REFUSED, "The model refused to answer."))
    elif not finished:
        faults.append((DraftFault.CUT_OFF, f"The model did not finish ({stop_reason}): the end is missing."))
    if not text.strip(BLANKS):
        faults.append((DraftFault.EMPTY, "The text is empty."))
    else:
        faults += [(fault, sentence) for fault, holds, sentence in _FAULTS if holds(text)]
        if tokens >= source_tokens:
            faults.append(
                (
                    DraftFault.NOT_SMALLER,
                    f"It is not shorter than its source ({tokens:,} of {source_tokens:,} tokens).",
                )
            )
        elif texts.copied(text, [source]) is not None:
            faults.append((DraftFault.COPY, "It is a copy of the beginning of its source, not a summary."))
        rules = Rulebook(source, previous).compare(text)
        if rules.reversed:
            faults.append((DraftFault.REVERSED, reversal_sentence(rules.reversed)))
        if rules.checked is not Checked.ALL:
            cautions.append((DraftCaution.RULES, unchecked_sentence(rules.checked)))
    if tokens > target_tokens:
        sentence = f"It is longer than requested ({tokens:,} of {target_tokens:,} tokens)."
        cautions.append((DraftCaution.OVER_TARGET, sentence))
    if text.strip(BLANKS):
        cautions += [(caution, sentence) for caution, holds, sentence in _CAUTIONS if holds(text)]
    return DraftVerdict(
        tokens,
        tuple(fault for fault, _ in faults),
        tuple(caution for caution, _ in cautions),
        tuple(sentence for _, sentence in (*faults, *cautions)),
    )


def unchecked_sentence(checked: Checked) -> str:
    """That rules were not compared, or not all of them (docs/retention.md, "Rules not checked")."""
    return f"Rules {checked.words}: the source or the draft has text in a language whose rules are not known."


def reversal_sentence(turned: Sequence[Reversal]) -> str:
    """Which rule was turned into its opposite, and how many there are."""
    first = turned[0]
    more = f" ({len(turned) - 1:,} more)" if len(turned) > 1 else ""
    rule, draft = (_in_short(one.text) for one in (first.rule, first.draft))
    return f"It reverses a rule of the source: “{rule}” became “{draft}” ({first.words}).{more}"


def _in_short(text: str, most: int = 160) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _holds_marker(text: str) -> bool:
    lowered = text.lower()
    return is_capped(text) or any(marker.lower() in lowered for marker in MARKER_LIKE)


def _holds_reasoning(text: str) -> bool:
    return texts.has_reasoning(text) or _REASONING_TAG.search(text) is not None


_ROLES: Final = (
    r"user|human|assistant|ai assistant|chatbot|benutzer|nutzer|assistent|utilisateur|usuario|usuário|utente"
    r"|asistente|assistente|пользователь|ассистент|用户|用戶|使用者|助手|助理|ユーザー|アシスタント|사용자"
    r"|어시스턴트"
)
#: A turn of a conversation at the beginning of a line; a line of a list that begins with a role is none.
_TURN: Final = re.compile(
    r"^[#>\s]{0,6}(?:\[[^\]\n]{1,40}\][^\S\n]*)?(?:\*\*|__|[\[(\"'])?"
    rf"(?P<role>{_ROLES})[*_\])\"']{{0,3}}\s*[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_SYSTEM: Final = re.compile(
    r"[\s#*_>\[(]{0,6}(?:system[*_\])]{0,3}\s*[:：]\s*)?you are (?:a|an|the) (?:\w+[ -]){0,4}"
    r"(?:assistant|model|agent|chatbot)\b",
    re.IGNORECASE,
)
_FRAME: Final = (
    r"<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id|user|assistant|system|endoftext|end)\|>"
    r"|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|</?(?:user|human|assistant|system)>"
)
#: What frames turns in the templates of chat models, where it frames something; elsewhere it is a word.
_TEMPLATE: Final = re.compile(
    rf"^\s*(?:{_FRAME})|(?:{_FRAME})\s*\Z|^\#{{2,4}} (?:instruction|response|human|assistant):?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_NOTHING_SAID: Final = re.compile(
    r"\W*(?:n/?a|none|null|nil|undefined|nan|todo|tbd|empty|no summary|no content|nothing)\W*", re.IGNORECASE
)


def _has_no_words(text: str) -> bool:
    """Whether the text is nothing but marks and numbers, or a word for nothing."""
    return _NOTHING_SAID.fullmatch(text) is not None or not any(map(str.isalpha, text))


def _speaks_as_another(text: str) -> bool:
    """Whether a text is a turn of somebody in the conversation, or several, and not an account of it."""
    if _TEMPLATE.search(text) or _SYSTEM.match(text):
        return True
    turns = list(_TURN.finditer(text))
    first = bool(turns) and not text[: turns[0].start()].strip()
    return first or len({turn["role"].lower() for turn in turns}) > 1


_FAULTS: Final[tuple[tuple[DraftFault, Callable[[str], bool], str], ...]] = (
    (
        DraftFault.MARKER,
        _holds_marker,
        "It contains a truncation marker, or copies one from the source.",
    ),
    (DraftFault.NO_WORDS, _has_no_words, "It contains no words."),
    (DraftFault.ROLE, _speaks_as_another, "It continues the conversation instead of summarising it."),
    (DraftFault.REASONING, _holds_reasoning, "It contains reasoning or a preamble of the model."),
    (DraftFault.REFUSED, texts.is_refusal, "It reads like a refusal."),
    (DraftFault.ERROR, texts.is_error, "It is an error message."),
)
_CAUTIONS: Final[tuple[tuple[DraftCaution, Callable[[str], bool], str], ...]] = (
    (
        DraftCaution.NO_CLOSING,
        lambda text: not texts.has_expansion_hint(text),
        "The last line does not say what can be expanded.",
    ),
    (
        DraftCaution.ORDERS,
        texts.gives_orders,
        "It contains a sentence that a model could read as an instruction.",
    ),
    (DraftCaution.BINARY, texts.has_binary, "It contains what looks like a file encoded as text."),
)
