"""Whether a model's answer can be a draft, and the steps from a source text to the text of a summary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import Final

from lcm_core.base.javascript import first_units, trimmed, well_formed
from lcm_core.base.text import BLANKS, late_pattern
from lcm_core.base.tokens import Estimator, estimate, utf16_length
from lcm_core.base.values import Record, replace
from lcm_core.checks import summaries as texts
from lcm_core.engine.markers import (
    DIRECTIVE_MARKER,
    FALLBACK_MARKER,
    MARKER_LIKE,
    copy_of_source,
    is_capped,
    is_error,
)
from lcm_core.engine.rules import EngineRules
from lcm_core.writers.request import (
    HELD_KEY,
    NO_USAGE,
    StopReason,
    Summarizer,
    SummaryReply,
    SummaryRequest,
    Usage,
)
from lcm_core.writers.retention import Checked, Reversal, Rulebook

# -- acceptance ------------------------------------------------------------------------------------------
# A fault refuses an answer; a caution is shown beside it.
#
# An operator may still choose a refused text by hand; no rule of a batch can. What models add around a
# summary against their instructions is removed first (`without_wrapping`), for rewrite and repair alone:
# the engine stores an answer as it comes, and so do ``compact`` and `Engine`.

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


_introduction: Final = late_pattern(
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
    for pattern in (_introduction(), _HEADING):
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


class DraftVerdict(Record, frozen=True):
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
        elif copy_of_source(text, [source]) is not None:
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
    """That rules were not compared, or not all of them (docs/spec/retention.md, "Rules not checked")."""
    some = "Some rules" if checked is Checked.PART else "Rules"
    return f"{some} not checked: the source or the draft has text in a language that lcm-tui does not know."


def reversal_sentence(turned: Sequence[Reversal]) -> str:
    """Which rule was turned into its opposite, and how many there are."""
    first = turned[0]
    more = f" ({len(turned) - 1:,} more)" if len(turned) > 1 else ""
    rule, draft = (_in_short(one.text) for one in (first.rule, first.draft))
    return f"It reverses a rule of the source: “{rule}” became “{draft}” ({first.words}).{more}"


def _in_short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 160 else f"{plain[:159]}…"


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


#: What frames turns in the templates of chat models, where it frames something; else it is a word.
_template: Final = late_pattern(
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
    if _template().search(text) or _SYSTEM.match(text):
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
    (DraftFault.ERROR, is_error, "It is an error message."),
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


# -- escalation ------------------------------------------------------------------------------------------
# From a source text to a summary: normal, aggressive, a cap, a cut of the source.
#
# Two sets of rules (docs/spec/texts.md, "Escalation", "Fallback" and "The summariser's own cut"). The
# engine's compaction and ours meet here. A cut of the source has no sentences that are shaped like an
# instruction to a model (docs/spec/texts.md, "Directives").

#: What the first of a row of such sentences leaves behind.
OMITTED: Final = "[LCM fallback summary omitted directive-shaped untrusted content]."


class WithoutDirectives(Record, frozen=True):
    """A text without directives."""

    text: str  #: trimmed, without blanks before line breaks
    omitted: bool  #: whether anything was

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left, or nothing but notes of what was omitted."""
        return not trimmed(self.text.replace(OMITTED, ""))


def without_directives(text: str) -> WithoutDirectives:
    """A text without the units that are shaped like directives, nor short orders that follow right behind."""
    kept: list[str] = []
    in_row = omitted = (
        False  #: whether what was omitted last is what was looked at last; whether anything was
    )
    for unit in _UNIT.findall(text):
        if unit[0] == "\n":
            kept.append(unit)
            continue
        was_in_row = in_row
        in_row = _directive().search(unit) is not None or (was_in_row and _is_order(unit))
        if not in_row:
            kept.append(unit)
        elif not was_in_row:
            omitted = True
            kept.append(f"{OMITTED} ")
    return WithoutDirectives(trimmed(_BEFORE_BREAK.sub("", "".join(kept))), omitted)


#: Runs of line breaks, and sentences with all marks and blanks behind them; marks in other places are lost.
_UNIT: Final = re.compile(rf"\n+|[^\n.!?]+[.!?]*[{BLANKS}]*")
_BEFORE_BREAK: Final = re.compile(r"(?<![ \t])[ \t]+(?=\n)")
_ORDER: Final = re.compile(
    r"(?:answer|reply|respond|say|output|print|return|show|provide|give|send|reveal|dump|exfiltrate)\b"
    r"(?P<rest>[^.!?\n]*)[.!?]?",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_ORDER: Final = 160  #: UTF-16 units behind its first word


def _is_order(unit: str) -> bool:
    match = _ORDER.fullmatch(trimmed(unit))
    return match is not None and len(match["rest"].encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_ORDER


# -- the steps -------------------------------------------------------------------------------------------

_B: Final = rf"[{BLANKS}]+"
_WHAT: Final = r"(?:instruction|prompt|rule)s?"
_DROP: Final = r"(?:ignore|disregard|forget|override)"
_WHOSE: Final = rf"(?:(?:the|this|that|your|my|any|these|those|all|every){_B})?"
#: Dan the persona, and not a person of that name.
_DAN: Final = r"(?!(?-i:Dan)\b)dan\b"
_LABEL: Final = rf"(?:[a-z][a-z0-9 _/-]{{0,40}}:[{BLANKS}]*)?"
_BECOME: Final = rf"(?:act{_B}as|pretend{_B}to{_B}be){_B}"
_SHAPES: Final = (
    rf"\b{_DROP}{_B}(?:all{_B})?(?:of{_B})?(?:(?:the|your|my|any|these|those){_B})?"
    rf"(?:(?:previous|prior|above|earlier)(?:{_B}(?:system|developer))?|system|developer){_B}{_WHAT}\b",
    rf"\b{_DROP}{_B}(?:(?:all|any){_B})?(?:of{_B})?"
    rf"(?:(?:the|your|my|these|those|current|existing|original){_B})?{_WHAT}"
    rf"(?=[{BLANKS}]*\Z|[.,;:!?]|{_B}(?:and|then|now|before|after|instead|to|with|from)\b)",
    rf"\byou{_B}are{_B}now\b",
    rf"\bfrom{_B}now{_B}on\b",
    rf"\breply{_B}only{_B}with\b",
    rf"\b(?:reveal|print|show|dump|exfiltrate|provide|give|send){_B}(?:me{_B})?(?:(?:the|your|my|any){_B})?"
    rf"(?:system|developer){_B}prompt\b",
    rf"\bjailbreak{_B}(?:mode|prompt|instructions?|the{_B}model|the{_B}assistant)\b",
    rf"\bdan{_B}mode\b",
    rf"\byou{_B}are{_B}dan\b",
    rf"\banswer{_B}(?:me|us|{_WHOSE}(?:future{_B})?(?:user|request|question|prompt|message)s?){_B}as{_B}dan\b",
    rf"\A{_LABEL}{_BECOME}dan\b",
    rf"\b{_BECOME}{_DAN}",
    rf"\b(?:enable|activate|unlock|enter|start|use){_B}{_DAN}",
)


@cache
def _directive() -> re.Pattern[str]:
    return re.compile("|".join(_SHAPES), re.IGNORECASE | re.ASCII)


class Level(StrEnum):
    """How a text came about, as the engine names it."""

    NORMAL = "normal"
    AGGRESSIVE = "aggressive"
    FALLBACK = "fallback"  #: no model made it: a cut of the source
    CAPPED = "capped"  #: a model made it, and it was cut


class Escalated(Record, frozen=True):
    """What came of the attempts to summarise a text."""

    content: str
    tokens: int  #: estimate of the content
    source_tokens: int  #: estimate of the text that was to be summarised
    level: Level
    model: str  #: what ``summaries.model`` records
    calls: int
    usage: Usage
    is_cut: bool = False  #: no model wrote it: a cut of the source, or all of it
    as_made: str = ""  #: the content before halves of characters became U+FFFD, which a sweep hands on

    @property
    def way(self) -> str:
        """The level for people; a cut that counts as an answer is named."""
        is_own = self.is_cut and self.level is not Level.FALLBACK
        return f"{self.level}, a cut" if is_own else str(self.level)


def target_tokens(depth: int, source_tokens: int, *, aggressive: bool, rules: EngineRules) -> int:
    """The most tokens that the prompt allows for an answer (docs/spec/texts.md, "Targets")."""
    if depth > 0:
        return max(512, rules.compaction.condensed_target_tokens)
    if not aggressive:
        return max(192, min(rules.compaction.leaf_target_tokens, math.floor(0.35 * source_tokens)))
    cap = rules.escalation.aggressive_leaf_cap
    if cap is None:
        cap = math.floor(0.55 * rules.compaction.leaf_target_tokens)
    return max(96, min(cap, math.floor(0.20 * source_tokens)))


def _tokens(text: str, estimator: Estimator) -> int:
    """The same of a text that JSON may have given halves of characters: each counts as one."""
    return estimate(well_formed(text), estimator)


async def escalate(
    summarizer: Summarizer,
    text: str,
    depth: int,
    *,
    previous: str | None,
    rules: EngineRules,
) -> Escalated:
    """Summarise a source text for a summary of *depth*, at any cost in quality.

    Raises:
        ProviderAuthError: the key was refused; nothing may be written.
        SummarizerError: no answer came back.
    """
    text = trimmed(text)
    if not text:
        return _escalated(_truncated_note(0), Level.FALLBACK, 0, [], rules)
    size = max(1, _tokens(text, rules.estimator))
    asked: list[SummaryReply] = []
    for aggressive in (False, True):
        target = target_tokens(depth, size, aggressive=aggressive, rules=rules)
        request = SummaryRequest(
            text=text,
            aggressive=aggressive,
            depth=depth,
            target_tokens=target,
            previous=previous,
            instructions=rules.escalation.custom_instructions,
            estimator=rules.estimator,
        )
        asked.append(await summarizer(request))
        is_cut = asked[-1].is_missing
        came = summarizer_cut(text, target, rules) if is_cut else asked[-1].as_came
        answer = trimmed(came) if rules.escalation.trims else came
        if not answer and not rules.escalation.accepts_empty:
            break  # the engine does not ask again after an empty answer
        if not (asked[-1].finished or is_cut):
            continue  # cut off, or a refusal: the engine would keep it, and nothing would ever show it
        if _tokens(answer, rules.estimator) < size:
            level = Level.AGGRESSIVE if aggressive else Level.NORMAL
            return replace(_kept(answer, level, depth, size, asked, rules), is_cut=is_cut)
    return _escalated(fallback(text, rules), Level.FALLBACK, size, asked, rules)


def _kept(
    answer: str,
    level: Level,
    depth: int,
    size: int,
    asked: list[SummaryReply],
    rules: EngineRules,
) -> Escalated:
    """An answer that is smaller than its source, cut when it is far over target."""
    target = rules.compaction.condensed_target_tokens if depth > 0 else rules.compaction.leaf_target_tokens
    limit = math.ceil(target * rules.escalation.summary_max_overage_factor)
    if not rules.escalation.caps or _tokens(answer, rules.estimator) <= limit:
        return _escalated(answer, level, size, asked, rules)
    return _escalated(capped(answer, limit, rules.estimator), Level.CAPPED, size, asked, rules)


def _escalated(
    content: str, level: Level, size: int, asked: list[SummaryReply], rules: EngineRules
) -> Escalated:
    made, content = content, well_formed(content)  # JSON in a source may escape halves of characters
    usage = sum((reply.usage for reply in asked), NO_USAGE)
    tokens = _tokens(content, rules.estimator)
    model = asked[-1].model if asked else "unknown"
    return Escalated(content, tokens, size, level, model, len(asked), usage, level is Level.FALLBACK, made)


# -- deterministic texts ---------------------------------------------------------------------------------


def capped(text: str, limit: int, estimator: Estimator) -> str:
    """A text cut to *limit* tokens, with the longest note of it that fits; maybe the note alone."""
    tokens = _tokens(text, estimator)
    for note in (f"\n[Capped from {tokens} tokens to ~{limit}]", f"\n[Capped to ~{limit}]", "\n[Capped]"):
        first_units = longest_prefix(text, limit - _tokens(note, estimator), estimator) + note
        if _tokens(first_units, estimator) <= limit:
            return first_units
    return longest_prefix(text, limit, estimator)


#: Tokens that the fallback keeps where fewer than `LEAST_FALLBACK` are set.
USUAL_FALLBACK: Final = 512
LEAST_FALLBACK: Final = 64


def fallback(text: str, rules: EngineRules) -> str:
    """A cut of the source, for when no model gave a shorter text, with the note that says so."""
    text = trimmed(text)
    note = _truncated_note(max(1, _tokens(text, rules.estimator)))
    if rules.escalation.fallback_units is not None:
        return f"{well_formed(first_units(text, rules.escalation.fallback_units))}\n{note}"
    sound = _sound(text, rules)
    if sound.omitted:
        note = f"{DIRECTIVE_MARKER}\n{note}"
    return note if sound.is_empty else _noted(sound.text, note, rules)


#: UTF-16 units that the summariser's own cut may always keep, and how many for each token of the target.
LEAST_UNITS: Final = 256
UNITS_OF_TOKEN: Final = 4


def summarizer_cut(text: str, target: int, rules: EngineRules) -> str:
    """What the engine's own summariser hands back when no model gave it an answer that can be used.

    *target*: the tokens that were asked for. It is an answer like any other, and judged like one; without a
    note it is the source (docs/spec/texts.md, "The summariser's own cut").
    """
    text, most = trimmed(text), max(LEAST_UNITS, UNITS_OF_TOKEN * target)
    if rules.escalation.fallback_units is not None:
        return text if utf16_length(text) <= most else f"{first_units(text, most)}\n{FALLBACK_MARKER}"
    sound = _sound(text, rules)
    note = DIRECTIVE_MARKER if sound.omitted else FALLBACK_MARKER
    if rules.escalation.fallback_max_tokens is not None:
        return _noted(sound.text, note, rules)
    if not sound.omitted and utf16_length(sound.text) <= most:
        return sound.text
    return f"{first_units(sound.text, most).rstrip(BLANKS)}\n{note}"


def _sound(text: str, rules: EngineRules) -> WithoutDirectives:
    return (
        without_directives(text)
        if rules.escalation.omits_directives
        else WithoutDirectives(text, omitted=False)
    )


def _noted(text: str, note: str, rules: EngineRules) -> str:
    """As much of a text as the tokens of a fallback allow, with its note; maybe the note alone."""
    limit = rules.escalation.fallback_max_tokens
    if limit is None or limit < LEAST_FALLBACK:
        limit = USUAL_FALLBACK
    room = math.floor(limit) - _tokens(f"\n{note}", rules.estimator)
    kept = longest_prefix(text, room, rules.estimator).rstrip(BLANKS)
    return f"{kept}\n{note}" if kept else note


def _truncated_note(tokens: int) -> str:
    return f"[Truncated from {tokens} tokens]"


def longest_prefix(text: str, limit: int, estimator: Estimator) -> str:
    """The longest beginning of a text, in whole characters, that is not over *limit* tokens."""
    if limit <= 0:
        return ""
    if _tokens(text, estimator) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _tokens(text[:middle], estimator) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]
