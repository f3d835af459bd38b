"""Rules in the languages of ``rule_words.toml``, in several words and four forces, and drafts that keep or reverse them."""

# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

#: What is acted on; none is a word that changes its form.
_OBJECTS: Final = (
    "orders",
    "invoices",
    "billing",
    "staging",
    "customers",
    "ledger",
    "audit",
    "gateway",
    "replica",
)
_MUST, _MUST_NOT, _MAY, _NEED_NOT = "must", "must not", "may", "need not"
#: Forces whose exchange turns a rule into its opposite.
OPPOSITES: Final = {
    _MUST: (_MUST_NOT, _NEED_NOT, _MAY),
    _MUST_NOT: (_MUST, _MAY, _NEED_NOT),
    _MAY: (_MUST_NOT,),
    _NEED_NOT: (_MUST, _MUST_NOT),
}


@dataclass(frozen=True, slots=True)
class Language:
    """Sentences of one language; ``{o}`` is an object, ``{v}`` the verb with it."""

    name: str
    acts: tuple[tuple[str, str], ...]  #: object phrase and verb
    forms: dict[str, tuple[str, ...]]  #: by force
    filler: tuple[str, ...]  #: what says nothing of a rule


LANGUAGES: Final = (
    Language(
        "English",
        (
            ("the {x} table", "re-index"),
            ("the {x} cluster during business hours", "restart"),
            ("the {x} queue by hand", "drain"),
            ("secrets of the {x} service in the log", "print"),
            ("the {x} backups after ninety days", "delete"),
        ),
        {
            _MUST: (
                "You must {v} {o}.",
                "Always {v} {o}.",
                "It is mandatory to {v} {o}.",
                "We have to {v} {o}.",
                "Operators are required to {v} {o}.",
                "**Make sure** to {v} {o}.",
            ),
            _MUST_NOT: (
                "You must not {v} {o}.",
                "Never {v} {o}.",
                "Do not {v} {o}.",
                "It is forbidden to {v} {o}.",
                "Operators may not {v} {o}.",
                "Under no circumstances {v} {o}.",
                "You mustn't {v} {o}.",
                "Don't ever {v} {o}.",
                "It is not allowed to {v} {o}.",
            ),
            _MAY: ("You may {v} {o}.", "It is allowed to {v} {o}.", "Feel free to {v} {o}."),
            _NEED_NOT: (
                "You do not have to {v} {o}.",
                "There is no need to {v} {o}.",
                "You need not {v} {o}.",
                "It is not necessary to {v} {o}.",
                "It is no longer required to {v} {o}.",
            ),
        },
        ("The meeting went well and everybody was pleased.", "Somebody brought a cake with nuts."),
    ),
    Language(
        "German",
        (
            ("die Tabelle {x}", "neu indizieren"),
            ("den Cluster {x} tagsüber", "neu starten"),
            ("die Warteschlange {x} von Hand", "leeren"),
            ("Geheimnisse des Dienstes {x} im Protokoll", "ausgeben"),
            ("die Sicherungen von {x}", "löschen"),
        ),
        {
            _MUST: (
                "Man muss {o} {v}.",
                "Ihr sollt {o} immer {v}.",
                "Es ist Pflicht, {o} zu {v}.",
                "Du musst {o} unbedingt {v}.",
            ),
            _MUST_NOT: (
                "Man darf {o} nicht {v}.",
                "{o} niemals {v}.",
                "Es ist verboten, {o} zu {v}.",
                "Auf keinen Fall {o} {v}.",
                "Du darfst {o} unter keinen Umständen {v}.",
                "Es ist nicht erlaubt, {o} zu {v}.",
            ),
            _MAY: ("Man darf {o} {v}.", "Es ist erlaubt, {o} zu {v}."),
            _NEED_NOT: (
                "Man muss {o} nicht {v}.",
                "Es ist nicht nötig, {o} zu {v}.",
                "Ihr braucht {o} nicht zu {v}.",
            ),
        },
        ("Das Treffen verlief gut und alle waren zufrieden.", "Jemand brachte einen Kuchen mit."),
    ),
    Language(
        "Chinese",
        (
            ("{x}表的索引", "重建"),
            ("{x}集群", "在白天重启"),
            ("{x}队列", "手动清空"),
            ("{x}服务的密钥", "在日志中打印"),
            ("{x}的备份", "删除"),
        ),
        {
            _MUST: ("必须{v}{o}。", "务必{v}{o}。", "应当{v}{o}。", "一定要{v}{o}。"),
            _MUST_NOT: (
                "禁止{v}{o}。",
                "不得{v}{o}。",
                "不能{v}{o}。",
                "严禁{v}{o}。",
                "绝不能{v}{o}。",
                "请勿{v}{o}。",
                "不允许{v}{o}。",
                "不要{v}{o}。",
            ),
            _MAY: ("可以{v}{o}。", "允许{v}{o}。"),
            _NEED_NOT: ("不必{v}{o}。", "无需{v}{o}。", "不需要{v}{o}。"),
        },
        ("会议开得很好，大家都很高兴。", "有人带来了蛋糕。"),
    ),
    Language(
        "Japanese",
        (
            ("{x}テーブルの索引", "再構築"),
            ("日中に{x}クラスタ", "再起動"),
            ("{x}キュー", "削除"),
            ("{x}サービスの秘密", "表示"),
            ("{x}のバックアップ", "消去"),
        ),
        {
            _MUST: (
                "{o}を{v}しなければならない。",
                "必ず{o}を{v}してください。",
                "{o}を{v}する必要があります。",
                "{o}は{v}すべきです。",
            ),
            _MUST_NOT: (
                "{o}を{v}してはいけない。",
                "{o}を{v}しないでください。",
                "{o}の{v}は禁止です。",
                "{o}を{v}してはなりません。",
                "{o}を{v}すべきではない。",
                "絶対に{o}を{v}しないこと。",
            ),
            _MAY: ("{o}を{v}してもよい。", "{o}を{v}しても構いません。"),
            _NEED_NOT: ("{o}を{v}しなくてもよい。", "{o}を{v}する必要はありません。"),
        },
        ("会議はうまくいき、みんな喜んでいた。", "誰かがケーキを持ってきた。"),
    ),
)


@dataclass(frozen=True, slots=True)
class RuleCase:
    """A source with rules and a draft of it."""

    language: str
    source: str
    draft: str
    reversed: tuple[tuple[str, str], ...]  #: rule of the source, and what the draft says
    kept: int  #: rules that the draft tells with their force


def rule_cases(seed: int, per_language: int) -> Iterator[RuleCase]:
    """Sources of five rules, with drafts that turn some round and tell the others in the same or other words."""
    chance = random.Random(seed)
    for language in LANGUAGES:
        for _ in range(per_language):
            yield _case(language, chance)


def _case(language: Language, chance: random.Random) -> RuleCase:
    source, draft, turned = [], [], []
    kept = 0
    for obj, verb in language.acts:
        name = chance.choice(_OBJECTS)
        force = chance.choice((_MUST, _MUST_NOT, _MUST_NOT, _MAY, _NEED_NOT))
        rule = _told(language, force, obj, verb, name, chance)
        source += [rule, chance.choice(language.filler)]
        fate = chance.random()
        if fate < 0.4:
            opposite = _told(language, chance.choice(OPPOSITES[force]), obj, verb, name, chance)
            draft.append(opposite)
            turned.append((rule, opposite))
        elif fate < 0.65:
            draft.append(_told(language, force, obj, verb, name, chance))
            kept += 1
        elif fate < 0.9:
            draft.append(chance.choice(("- {}", "* **{}**", "{}", "> {}")).format(rule))
            kept += 1
    chance.shuffle(draft)
    header = "[2026-03-02 09:14 UTC | user]\n"
    return RuleCase(language.name, header + "\n".join(source), "\n".join(draft), tuple(turned), kept)


def _told(language: Language, force: str, obj: str, verb: str, name: str, chance: random.Random) -> str:
    said = chance.choice(language.forms[force]).format(o=obj.format(x=name), v=verb)
    return said[0].upper() + said[1:]
