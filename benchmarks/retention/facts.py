"""Two hundred facts planted in long texts, and how many the offline writer keeps beside a cut of the source."""

# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.base.tokens import estimate_weighted
from lcm_core.writers.extractive import extract
from lcm_core.writers.request import SummaryRequest

FACTS: Final = 200
_TOPICS: Final = (
    "billing",
    "export",
    "ingest",
    "mirror",
    "search",
    "upload",
    "gateway",
    "cleanup",
    "backup",
    "reports",
)
_NAMES: Final = (
    *(
        "Alice",
        "Bob",
        "Carla",
        "Dmitri",
        "Elena",
        "Farid",
        "Greta",
        "Hiro",
        "Ines",
        "Jonas",
        "Kemal",
        "Lena",
        "Mara",
    ),
    *(
        "Nils",
        "Olga",
        "Pavel",
        "Quinn",
        "Rosa",
        "Sven",
        "Tara",
        "Uwe",
        "Vera",
        "Wanda",
        "Xenia",
        "Yara",
        "Zoe",
    ),
)
#: A fact's sentence by language and kind; {f} is what has to come through.
_TELLS: Final = {
    "English": {
        "path": "The change is in {f} now.",
        "id": "It is tracked as {f} since then.",
        "version": "We are on {f} there.",
        "url": "The run is at {f} for reference.",
        "number": "The {t} limit was measured at {f} today.",
        "decision": "We decided that {f}.",
        "prohibition": "{f}",
    },
    "German": {
        "path": "Die Änderung liegt jetzt in {f}.",
        "id": "Das läuft seitdem unter {f}.",
        "version": "Dort gilt jetzt {f}.",
        "url": "Der Lauf ist unter {f} zu sehen.",
        "number": "Für {t} wurden heute {f} gemessen.",
        "decision": "Wir haben beschlossen: {f}.",
        "prohibition": "{f}",
    },
    "Chinese": {
        "path": "修改在 {f} 里。",
        "id": "之后由 {f} 跟踪。",
        "version": "那里现在是 {f}。",
        "url": "运行记录在 {f} 。",
        "number": "今天测得{t}为 {f} 左右。",
        "decision": "我们决定{f}。",
        "prohibition": "{f}",
    },
    "Japanese": {
        "path": "変更は {f} にあります。",
        "id": "以後は {f} で追跡します。",
        "version": "そこは今 {f} です。",
        "url": "実行結果は {f} にあります。",
        "number": "今日の{t}は {f} でした。",
        "decision": "{f}ことに決定しました。",
        "prohibition": "{f}",
    },
}
_DECISIONS: Final = {
    "English": "{n} rebuilds the {t} worker first",
    "German": "{n} baut zuerst den Dienst {t} um",
    "Chinese": "由{n}先重写{t}服务",
    "Japanese": "{n}が先に{t}を作り直す",
}
_PROHIBITIONS: Final = {
    "English": (
        "Never give {n} access to {t} number {k}.",
        "You must not return {k} from {t}.",
        "Do not restart {t} node {k}.",
    ),
    "German": ("{n} darf auf {t} {k} nicht zugreifen.", "Niemals {t} {k} neu starten."),
    "Chinese": ("禁止{n}访问{t}的{k}号节点。", "不得重启{t}的{k}号节点。"),
    "Japanese": ("{n}に{t}の{k}番を渡してはいけない。", "{t}の{k}番を再起動しないでください。"),
}
_FILLER: Final = {
    "English": "That sounds reasonable to me and I think we can talk about it a little more when everybody is back|I had a look at it in the morning and the coffee machine was broken once more|Thanks for the explanation, that makes it a good deal clearer than it was before|Let me think about it for a while and come back to you with a proper answer|The weather turned out quite pleasant and some of us went for a walk after lunch",
    "German": "Das klingt für mich vernünftig und wir können später noch darüber sprechen|Ich habe es mir am Morgen angesehen und die Kaffeemaschine war wieder kaputt|Danke für die Erklärung, das macht es viel klarer als vorher|Das Wetter war recht angenehm und einige sind spazieren gegangen",
    "Chinese": "我觉得这个听起来很合理，等大家都回来以后我们可以再聊一聊|早上我看了一下，咖啡机又坏了，大家都有点着急|谢谢你的解释，这样就比以前清楚多了|天气很好，有些同事午饭以后去散步了",
    "Japanese": "それは妥当だと思いますので、みんなが戻ったらもう少し話しましょう|朝に見てみたら、またコーヒーメーカーが壊れていました|説明ありがとうございます、前よりずっと分かりやすくなりました|天気がとても良くて、昼食の後に散歩に行った人もいました",
    "code": "for item in items:|    result.append(item)|    return result|}|else {|    total += value;|)|import os|try:|    pass|def run(self):|        continue",
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A text and what was planted in it."""

    name: str
    text: str
    facts: tuple[str, ...]
    prohibitions: tuple[str, ...]
    target: int  #: tokens


@dataclass(frozen=True, slots=True)
class Kept:
    """How many facts of how many came through."""

    name: str
    facts: int
    written: int
    cut: int
    used: float  #: share of the target
    prohibitions: float | None  #: share kept; None: they do not fit in half of the target

    @property
    def times(self) -> float:
        """As many facts as a cut of the source keeps."""
        return self.written / max(self.cut, 1)


def long_sparse(seed: int, language: str) -> Planted:
    """Two hundred facts among some fifty thousand tokens of talk."""
    return _planted(f"sparse {language}", random.Random(seed), language, FACTS, filler=10, target=2_000)


def engine_text(seed: int, language: str) -> Planted:
    """A leaf's source of twenty thousand tokens, as a host writes it: questions, answers, output of tools."""
    return _planted(f"leaf {language}", random.Random(seed), language, FACTS, filler=4, target=2_400)


def small_chunks(seed: int, language: str) -> Iterator[Planted]:
    """Ten chunks of some two thousand tokens, twenty facts each."""
    chance = random.Random(seed)
    for _ in range(10):
        yield _planted(f"chunk {language}", chance, language, FACTS // 10, filler=3, target=450)


def kept(one: Planted) -> Kept:
    """What the writer and a cut of the source keep at the same target."""
    text = extract(SummaryRequest(one.text, False, 0, one.target))
    cut = _cut(one.text, one.target)
    body = sum(estimate_weighted(rule) for rule in one.prohibitions)
    fits = body <= one.target / 2
    share = (
        sum(rule in text for rule in one.prohibitions) / len(one.prohibitions)
        if fits and one.prohibitions
        else None
    )
    return Kept(
        one.name,
        len(one.facts),
        sum(fact in text for fact in one.facts),
        sum(fact in cut for fact in one.facts),
        estimate_weighted(text) / one.target,
        share,
    )


def _cut(text: str, target: int) -> str:
    size = len(text)
    while estimate_weighted(text[:size]) > target:
        size = size * 19 // 20
    return text[:size]


def _planted(
    name: str, chance: random.Random, language: str, count: int, *, filler: int, target: int
) -> Planted:
    tongue = "English" if language == "code" else language
    facts: list[str] = []
    rules: list[str] = []
    lines: list[str] = []
    kinds = ("path", "id", "version", "url", "number", "decision", "prohibition")
    used: set[str] = set()
    for number in range(count):
        kind = kinds[number % len(kinds)]
        fact = _fact(kind, tongue, chance)
        while fact in used:
            fact = _fact(kind, tongue, chance)
        used.add(fact)
        facts.append(fact)
        if kind == "prohibition":
            rules.append(fact)
        told = _TELLS[tongue][kind].format(f=fact, t=chance.choice(_TOPICS))
        lines += [
            *_talk(language, chance, filler),
            _as_output(told, kind, number) if language == "code" else told,
        ]
    return Planted(name, "\n\n".join(_messages(lines, chance, language)), tuple(facts), tuple(rules), target)


def _fact(kind: str, language: str, chance: random.Random) -> str:
    topic, number = chance.choice(_TOPICS), chance.randrange(100, 999)
    match kind:
        case "path":
            return f"services/{topic}/{chance.choice(_NAMES).lower()}/mod_{number}.py"
        case "id":
            return f"OPS-{number}{chance.randrange(10, 99)}"
        case "version":
            return f"v{chance.randrange(2, 9)}.{number}.{chance.randrange(1, 9)}"
        case "url":
            return f"https://ci.example.com/{topic}/runs/{number}{chance.randrange(10, 99)}"
        case "number":
            return f"{number}.{chance.randrange(1, 9)} {chance.choice(('ms', 'MB', 's', 'GB'))}"
        case "decision":
            return _DECISIONS[language].format(n=chance.choice(_NAMES), t=f"{topic}-{number}")
        case _:
            return chance.choice(_PROHIBITIONS[language]).format(n=chance.choice(_NAMES), t=topic, k=number)


def _talk(language: str, chance: random.Random, count: int) -> Iterator[str]:
    """Talk with a word or two that no other line has."""
    for _ in range(chance.randrange(count, 2 * count)):
        said = chance.choice(_FILLER[language].split("|"))
        if language == "code":
            yield said
        elif language in ("Chinese", "Japanese"):
            yield f"{said}，{chance.choice(_TOPICS)}{chance.randrange(90)}。"
        else:
            yield f"{said}, {chance.choice(_TOPICS)} or {chance.choice(_TOPICS)}, day {chance.randrange(90)}."


def _as_output(told: str, kind: str, number: int) -> str:
    if kind in ("decision", "prohibition"):
        return f"# {told}"
    return f"2026-03-02T10:{number % 60:02}:07Z INFO worker-{number % 7}: {told}"


def _messages(lines: Sequence[str], chance: random.Random, language: str) -> Iterator[str]:
    at, minute = 0, 0
    while at < len(lines):
        count = chance.randrange(6, 18)
        minute += chance.randrange(1, 9)
        role = (
            "tool" if language == "code" and chance.random() < 0.7 else chance.choice(("user", "assistant"))
        )
        yield (
            f"[2026-03-{2 + minute // 1200:02} {minute // 60 % 20:02}:{minute % 60:02} UTC | {role}]\n"
            + "\n".join(lines[at : at + count])
        )
        at += count


LANGUAGES: Final = ("English", "German", "Chinese", "Japanese", "code")
