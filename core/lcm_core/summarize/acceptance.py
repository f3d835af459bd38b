"""Whether a model's answer may stand as a draft. A fault refuses it; a caution is shown beside it.

An operator may still choose a refused text by hand; no rule of a batch can.
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
from lcm_core.summarize.request import HELD_KEY, SummaryReply, SummaryRequest
from lcm_core.summarize.rulebook import Reversal, Rulebook
from lcm_core.tokens import Estimator, estimate

_REASONING_TAG: Final = re.compile(
    r"</?\s*(?:think|thinking|thought|analysis|reasoning|scratchpad|antthinking|reflection)\s*>",
    re.IGNORECASE,
)


class Fault(StrEnum):
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


class Caution(StrEnum):
    """What an operator should know of a draft."""

    OVER_TARGET = "over target"
    NO_CLOSING = "no closing line"
    ORDERS = "gives orders"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one text."""

    tokens: int
    faults: tuple[Fault, ...]
    cautions: tuple[Caution, ...]
    sentences: tuple[str, ...]  #: one for each fault and caution, in their order

    @property
    def accepted(self) -> bool:
        """Whether it may stand as a draft."""
        return not self.faults


def judge(reply: SummaryReply, request: SummaryRequest) -> Verdict:
    """Whether the answer to *request* may stand as a draft."""
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
    stop_reason: str = "end_turn",
    previous: str = "",
) -> Verdict:
    """Whether *text*, by a model or by hand, may stand as a draft for *source*.

    *previous* is the previous context it was made with, whose rules it may tell too.
    """
    tokens, source_tokens = estimate(text, estimator), estimate(source, estimator)
    faults: list[tuple[Fault, str]] = []
    if stop_reason == HELD_KEY:
        said = "The answer held the key that it was asked with, and is not kept: the source may hold it too."
        return Verdict(tokens, (Fault.HELD_KEY,), (), (said,))
    if stop_reason == "refusal":
        faults.append((Fault.REFUSED, "The model refused to answer."))
    elif not finished:
        faults.append((Fault.CUT_OFF, f"The model did not finish ({stop_reason}): the end is missing."))
    if not text.strip(BLANKS):
        faults.append((Fault.EMPTY, "There is no text."))
    else:
        faults += [(fault, sentence) for fault, holds, sentence in _FAULTS if holds(text)]
        if tokens >= source_tokens:
            faults.append(
                (
                    Fault.NOT_SMALLER,
                    f"It is no smaller than its source ({tokens:,} of {source_tokens:,} tokens).",
                )
            )
        elif texts.copied(text, [source]) is not None:
            faults.append((Fault.COPY, "It is a copy of the beginning of its source, and no summary."))
        turned = Rulebook(source, previous).compare(text).reversed
        if turned:
            faults.append((Fault.REVERSED, reversal_sentence(turned)))
    cautions: list[tuple[Caution, str]] = []
    if tokens > target_tokens:
        sentence = f"It is longer than was asked for ({tokens:,} of {target_tokens:,} tokens)."
        cautions.append((Caution.OVER_TARGET, sentence))
    if text.strip(BLANKS):
        cautions += [(caution, sentence) for caution, holds, sentence in _CAUTIONS if holds(text)]
    return Verdict(
        tokens,
        tuple(fault for fault, _ in faults),
        tuple(caution for caution, _ in cautions),
        tuple(sentence for _, sentence in (*faults, *cautions)),
    )


def reversal_sentence(turned: Sequence[Reversal]) -> str:
    """Which rule was turned into its opposite, and how many there are."""
    first = turned[0]
    more = f" ({len(turned) - 1:,} more)" if len(turned) > 1 else ""
    rule, told = (_in_short(one.text) for one in (first.rule, first.told))
    return f"It reverses a rule of the source: “{rule}” became “{told}” ({first.words}).{more}"


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
    """Whether nothing but marks and numbers, or a word for nothing, stands there."""
    return _NOTHING_SAID.fullmatch(text) is not None or not any(map(str.isalpha, text))


def _speaks_as_another(text: str) -> bool:
    """Whether a text is a turn of somebody in the conversation, or several, and not an account of it."""
    if _TEMPLATE.search(text) or _SYSTEM.match(text):
        return True
    turns = list(_TURN.finditer(text))
    first = bool(turns) and not text[: turns[0].start()].strip()
    return first or len({turn["role"].lower() for turn in turns}) > 1


_FAULTS: Final[tuple[tuple[Fault, Callable[[str], bool], str], ...]] = (
    (
        Fault.MARKER,
        _holds_marker,
        "It holds a mark that says that something was cut; one in the source is copied.",
    ),
    (Fault.NO_WORDS, _has_no_words, "There are no words in it."),
    (Fault.ROLE, _speaks_as_another, "It speaks as somebody in the conversation: it goes on with it."),
    (Fault.REASONING, _holds_reasoning, "It holds what the model thought or said before the summary."),
    (Fault.REFUSED, texts.is_refusal, "It reads like a refusal."),
    (Fault.ERROR, texts.is_error, "It is the message of an error."),
)
_CAUTIONS: Final[tuple[tuple[Caution, Callable[[str], bool], str], ...]] = (
    (
        Caution.NO_CLOSING,
        lambda text: not texts.has_expansion_hint(text),
        "The last line does not say what can be expanded.",
    ),
    (Caution.ORDERS, texts.gives_orders, "It holds a sentence that a model could take for an order."),
    (Caution.BINARY, texts.has_binary, "It holds what looks like a file in text form."),
)
