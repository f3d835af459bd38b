"""Numbers with what they count, and sentences and words in any language. No model is needed for either."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from lcm_core.base.text import late_pattern
from lcm_core.base.values import Record, T

# -- the words of rules ----------------------------------------------------------------------------------
# As ``rule_words.toml`` lists them (docs/spec/retention.md, "Another language").


class Atom(StrEnum):
    """What one word or phrase does to its clause."""

    MUST = "must"  #: an obligation; negated: a prohibition (must not, soll nicht)
    NEED = "need"  #: an obligation; a negation before it takes it away (not have to, muss nicht)
    MAY = "may"  #: a permission; negated: a prohibition
    CAN = "can"  #: an ability, which may be meant as a permission
    BAN = "ban"  #: forbidden
    OPTIONAL = "optional"  #: need not
    ALWAYS = "always"
    ONLY = "only"
    NEVER = "never"  #: a negation that is a rule without a modal
    DO_NOT = "do not"  #: a negated order
    NOT = "not"  #: a negation, which may describe an event
    AVOID = "avoid"  #: an order that negates what follows
    OMIT = "omit"  #: forget, fail: negates what follows when it is negated itself
    WITHOUT = "without"  #: begins an exception: unless, without, except
    UNTIL = "until"  #: begins a time that may be said from the other side: before, until
    IF = "if"  #: begins a condition or a reason, which is no part of the rule
    AT_MOST = "at most"
    AT_LEAST = "at least"
    NOTHING = "nothing"  #: swallows what looks like one of these: not only, no problem


#: The keys of a language and what their words do, in the order in which patterns are tried: long ones first.
_KEYS: Final[Mapping[str, tuple[Atom, ...]]] = {
    "nothing": (Atom.NOTHING,),
    "at_most": (Atom.AT_MOST,),
    "at_least": (Atom.AT_LEAST,),
    "double_negation": (Atom.MUST,),
    "optional": (Atom.OPTIONAL,),
    "ban": (Atom.BAN,),
    "must": (Atom.MUST,),
    "need": (Atom.NEED,),
    "only": (Atom.ONLY,),
    "may": (Atom.MAY,),
    "cannot": (Atom.CAN, Atom.NOT),
    "must_not": (Atom.MUST, Atom.NOT),
    "may_not": (Atom.MAY, Atom.NOT),
    "can": (Atom.CAN,),
    "always": (Atom.ALWAYS,),
    "never": (Atom.NEVER,),
    "do_not": (Atom.DO_NOT,),
    "avoid": (Atom.AVOID,),
    "omit": (Atom.OMIT,),
    "without": (Atom.WITHOUT,),
    "until": (Atom.UNTIL,),
    "if": (Atom.IF,),
    "not": (Atom.NOT,),
}
#: Matches nothing.
_NEVER: Final = r"(?!)"


class RuleWords(Record, frozen=True):
    """The words of all languages together."""

    phrases: tuple[tuple[str, tuple[Atom, ...]], ...]  #: of languages written with spaces
    dense: re.Pattern[str]  #: the phrases of the others, a group for each of `dense_atoms`: ``a0`` ...
    dense_atoms: tuple[tuple[Atom, ...], ...]  #: what each group does
    dense_letter: re.Pattern[str]  #: a letter of a language written without spaces
    letters: re.Pattern[str]  #: a word of no other letters than those of some language
    common: frozenset[str]  #: words by which a language written with spaces is known
    contrasts: frozenset[str]  #: begin another statement
    events: frozenset[str]  #: verbs that report an event
    helpers: frozenset[str]  #: verbs that accompany another verb
    verb_last: re.Pattern[str]  #: where it is found, in a sentence in lower case, the verb comes last
    verb_last_letters: re.Pattern[str]  #: where it is found, the word of the rule follows its verb
    condition: re.Pattern[str]  #: a piece of a sentence that is a condition
    question: re.Pattern[str]
    behind: re.Pattern[str]  #: words for "without" that follow what they except
    ending: re.Pattern[str]  #: of a verb
    particles: re.Pattern[str]
    past: re.Pattern[str]  #: marks an event


@cache
def _languages() -> Mapping[str, Mapping[str, str]]:
    read = files("lcm_core.writers").joinpath("rule_words.toml").read_text("utf-8")
    found: Mapping[str, Mapping[str, str]] = tomllib.loads(read)
    return found


def _values(key: str, *, spaced: bool) -> Iterator[str]:
    """What the languages written with spaces, or the others, say for *key*."""
    for language in _languages().values():
        if key in language and ("common" in language) is spaced:
            yield language[key]


def phrases_of(key: str) -> tuple[str, ...]:
    """The phrases of *key* in the languages written with spaces."""
    lines = (line for value in _values(key, spaced=True) for line in value.splitlines())
    return tuple(phrase.strip() for line in lines for phrase in line.split("/") if phrase.strip())


def pattern_of(key: str) -> str:
    """The patterns of *key* in the languages written without spaces; matches nothing where there are none."""
    return (
        "|".join(line for value in _values(key, spaced=False) for line in value.split("\n") if line) or _NEVER
    )


def _words(key: str) -> frozenset[str]:
    return frozenset(word for value in _values(key, spaced=True) for word in value.split())


@cache
def rule_words() -> RuleWords:
    """The words of rules; read when they are first needed."""
    groups = [(pattern, atoms) for key, atoms in _KEYS.items() if (pattern := pattern_of(key)) != _NEVER]
    dense_letters = "".join(_values("letters", spaced=False))
    letters = "".join(_values("letters", spaced=True))
    phrases = tuple((phrase, atoms) for key, atoms in _KEYS.items() for phrase in phrases_of(key))
    last = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in phrases_of("verb_last"))
    return RuleWords(
        phrases=phrases,
        dense=re.compile("|".join(f"(?P<a{at}>{pattern})" for at, (pattern, _) in enumerate(groups))),
        dense_atoms=tuple(atoms for _, atoms in groups),
        dense_letter=re.compile(f"[{dense_letters}]"),
        letters=re.compile(f"[{letters}{dense_letters}'’]+"),
        common=_words("common").union(*map(phrases_of, ("must", "ban", "avoid"))),
        contrasts=_words("contrasts"),
        events=_words("events"),
        helpers=_words("helpers"),
        verb_last=re.compile(rf"\b(?:{last or _NEVER})\b"),
        verb_last_letters=re.compile(f"[{''.join(_values('verb_last_letters', spaced=False))}]"),
        condition=re.compile(pattern_of("condition")),
        question=re.compile(pattern_of("question")),
        behind=re.compile(pattern_of("behind")),
        ending=re.compile(pattern_of("ending")),
        particles=re.compile(pattern_of("particles")),
        past=re.compile(pattern_of("past")),
    )


# -- sentences and words ---------------------------------------------------------------------------------
# Sentences, words and telling phrases of a text in any language.
#
# Words of scripts that are written with spaces count by their beginning (``deploys`` and ``deployed``
# agree); scripts without them, and those that attach prefixes (Hebrew, Arabic), count by runs of
# characters.

Span = tuple[int, int]  #: characters of a text, from the first to before the second

#: The line above a message or summary in a source text (docs/spec/texts.md, "The block of a message"). What
#: a sender is called may hold brackets and be long; as JSON it is one line.
HEADER: Final = re.compile(
    r"^\[(?P<first>(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|NaN-NaN-NaN)[^\]\n]{0,100}?)"
    r"(?: - (?P<last>(?:[0-9]{4}|NaN)-[^\]\n]{0,100})"
    r"| \| speaker \(untrusted metadata\): \{[^\n]*\})?\][ \t]*$",
    re.MULTILINE,
)


_boundary: Final = late_pattern(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡؟۔]+[」』”’）]*|\n+")


#: Within these, on one line, no sentence ends.
_ENCLOSED: Final = re.compile(r"`[^`\n]{1,200}`|\([^()\n]{1,200}\)|\[[^\[\]\n]{1,200}\]|\{[^{}\n]{1,200}\}")
#: What comes before and behind a stop that ends no sentence: the number of a list or a rank, a pause, a path such
#: as ``./...``.
_NUMBER_BEFORE: Final = re.compile(r"\s*(?:[-*+] )?[0-9]{1,3}")
_SMALL_BEHIND: Final = re.compile(r"[ \t]+[^\W\dA-Z_]")
_DENSE: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_GLUED: Final = "\u0590-\u05ff\u0600-\u06ff\u0750-\u077f"


_runs: Final = late_pattern(
    rf"(?P<dense>[{_DENSE}]+)|(?P<glued>[{_GLUED}]+)|(?P<number>[0-9][0-9.,:]*[0-9]|[0-9])"
    rf"|(?P<word>[^\W\d_{_DENSE}{_GLUED}]+)"
)


_STEM: Final = 6
_SHORTEST: Final = 3
_ENDING: Final = re.compile(r"(?:ing|ed|es|s|e)$")
_COMMON_WORDS: Final = """
about after again also and any are because been before being but can could did does doing done each for from
get had has have how into its just let more most not now off once one only other our out over same she should
some such than that the their them then there these they this those through too under until use very was way
were what when where which while who why will with would you your
der die das und ist nicht mit für auf ein eine
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())


_QUESTION: Final = re.compile(r"[?？؟]\s*$")


class Cue(StrEnum):
    """What a sentence announces, besides rules (`modality`)."""

    DECISION = "decision"
    OPEN = "open"


@cache
def _cue(cue: Cue) -> re.Pattern[str]:
    """Phrases that are whole words, in lower case, and patterns, which may be anywhere.

    That a word begins where it is found is checked afterwards: that is four times as fast.
    """
    spaced = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in phrases_of(cue))
    return re.compile(rf"(?P<word>{spaced})(?![^\W\d_])|{pattern_of(cue)}")


def sentences(text: str) -> Iterator[Span]:
    """Where the sentences of *text* are; a line break ends one, header lines and blanks are left out."""
    start = 0
    enclosed = [found.span() for found in _ENCLOSED.finditer(text)]
    for match in (*_boundary().finditer(text), None):
        if match is not None and _goes_on(text, start, match, enclosed):
            continue
        end = len(text) if match is None else match.end()
        piece = text[start:end]
        stripped = piece.strip()
        if stripped and not (stripped[0] == "[" and HEADER.fullmatch(stripped)):
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(stripped)
        start = end


def _goes_on(text: str, start: int, stop: re.Match[str], enclosed: Sequence[Span]) -> bool:
    """Whether a sentence that begins at *start* does not end with a *stop* in it."""
    if stop[0][0] == "\n":
        return False
    before, behind = text[stop.start() - 1 : stop.start()], text[stop.end() : stop.end() + 1]
    small = _SMALL_BEHIND.match(text, stop.end()) is not None
    at = bisect_left(enclosed, (stop.start(), 0)) - 1
    if at >= 0 and stop.start() < enclosed[at][1]:
        return small or stop.end() < enclosed[at][1]
    if stop[0] == "." and _NUMBER_BEFORE.fullmatch(text, start, stop.start()):
        return behind != "\n"
    return stop[0].startswith(("..", "…")) and (small or before in ("/", "\\"))


def has_cue(sentence: str, cue: Cue) -> bool:
    """Whether a sentence announces *cue*, in a language of ``rule_words.toml``; a question is open in any."""
    lowered = sentence.lower()
    if cue is Cue.OPEN and _QUESTION.search(lowered):
        return True
    return any(
        found["word"] is None or not lowered[found.start() - 1 : found.start()].isalpha()
        for found in _cue(cue).finditer(lowered)
    )


def terms(text: str) -> list[str]:
    """What the meaning of *text* hangs on: stems of words, numbers, runs of characters; with repeats."""
    found: list[str] = []
    for match in _runs().finditer(text.casefold()):
        piece = match[0]
        kind = match.lastgroup
        if kind == "word":
            if len(piece) >= _SHORTEST and piece not in _COMMON:
                found.append(_stem(piece))
        elif kind == "number":
            found.append(piece.strip(".,:"))
        else:
            size = 2 if kind == "dense" else 3
            found += [piece[at : at + size] for at in range(max(len(piece) - size + 1, 1))]
    return found


def _stem(word: str) -> str:
    """The beginning of a word, without an English ending."""
    if word.isascii() and len(word) > _SHORTEST + 1:
        bare = _ENDING.sub("", word)
        if len(bare) >= _SHORTEST:
            word = bare[:-1] if len(bare) > _SHORTEST and bare[-1] == bare[-2] else bare
    return word[:_STEM]


def word_table(rows: Iterable[tuple[T, str]]) -> tuple[dict[str, T], dict[str, T]]:
    """What each word of some rows means; the second table has the beginnings of words, written with ``*``.

    The first row that has a word decides.
    """
    whole: dict[str, T] = {}
    begun: dict[str, T] = {}
    for meaning, words in rows:
        for word in words.split():
            table = begun if word.endswith("*") else whole
            table.setdefault(word.removesuffix("*"), meaning)
    return whole, begun


def is_dense(text: str) -> bool:
    """Whether most of *text* is in a script that is written without spaces."""
    letters = sum(map(str.isalpha, text))
    return letters > 0 and 2 * len("".join(re.findall(rf"[{_DENSE}]", text))) > letters


# Tables: a line is a unit, however wide its characters are.
# ruff: noqa: E501


# -- numbers ---------------------------------------------------------------------------------------------
# Which ways of writing numbers are equal (docs/spec/retention.md, "Numbers").
#
# ``1,250`` may be more than a thousand or a fraction: a number that can be read in several ways has several
# values, and two numbers agree when one of the values does. So do 4000 and 4k, 30 s and 0.5 min. Units and
# words for numbers are known in eleven languages.


class Unit(Record, frozen=True):
    """What a word behind a number may mean."""

    name: str  #: as the report writes it
    readings: tuple[
        tuple[str, float], ...
    ]  #: dimension and size in its base unit; several where it is not clear

    @property
    def counts(self) -> bool:
        """Whether it is a thing that is counted, and no measure."""
        return all(dimension.startswith("#") for dimension, _ in self.readings)


#: Names of units: dimension, sizes, and the words for them. ``*`` lets a word go on.
_TABLE: Final = """
ns|time:1e-9|ns nanosecond nanoseconds nanosekunde nanosekunden нс
µs|time:1e-6|µs μs us microsecond microseconds mikrosekunde mikrosekunden мкс 微秒
ms|time:1e-3|ms msec msecs millis millisecond milliseconds millisekunde millisekunden milliseconde millisecondes milisegundo milisegundos millisecondi мс миллисекунд* מילישניות מילישנייה ms 毫秒 ミリ秒 밀리초 ميلي مللي ميللي
s|time:1|s sec secs second seconds sek sekunde sekunden seconde secondes segundo segundos secondo secondi сек секунд* с שנייה שניה שניות ثانية ثوان ثواني ثوانٍ 秒 秒钟 秒鐘 秒間 초
min|time:60|min mins minute minutes minuten minuto minutos minuti мин минут* דקה דקות دقيقة دقائق 分 分钟 分鐘 分間 분 분간
h|time:3600|h hr hrs hour hours std stunde stunden heure heures hora horas ora ore час часа часов часам ч שעה שעות ساعة ساعات 小时 小時 个小时 個小時 時間 시간
d|time:86400|d day days tag tage tagen jour jours día días dia dias giorno giorni день дня дней дн יום ימים يوم يوما أيام ايام 天 日 日間 일 일간
week|time:604800|week weeks wk woche wochen semaine semaines semana semanas settimana settimane недел* שבוע שבועות أسبوع أسابيع اسبوع اسابيع 周 週 星期 个星期 週間 주 주일 주간
month|month:1|month months monat monate monaten mois mes meses mês mese mesi месяц* חודש חודשים شهر أشهر اشهر شهور 个月 個月 か月 ヶ月 カ月 ヵ月 月 개월 달
year|month:12|year years yr yrs jahr jahre jahren an ans année années año años ano anos anno anni год года лет שנה שנים سنة سنوات عام أعوام 年 年間 년
B|byte:1|b byte bytes octet octets байт байта байтов בייט בתים بايت 字节 字節 位元組 バイト 바이트
KB|byte:1e3,1024|kb kib kilobyte kilobytes ko кб килобайт* كيلوبايت 千字节 キロバイト 킬로바이트
MB|byte:1e6,1048576|mb mib megabyte megabytes mo мб мегабайт* מגה מגהבייט ميغابايت ميجابايت 兆字节 兆 メガバイト 메가바이트 megaoctets
GB|byte:1e9,1073741824|gb gib gigabyte gigabytes go гб гигабайт* גיגה גיגהבייט جيجابايت غيغابايت 吉字节 ギガバイト 기가바이트 gigaoctets
TB|byte:1e12,1099511627776|tb tib terabyte terabytes to тб терабайт* טרהבייט تيرابايت 太字节 テラバイト 테라바이트
PB|byte:1e15,1125899906842624|pb pib petabyte petabytes
bit|bit:1|bit bits 比特 ビット 비트
kbit|bit:1e3|kbit kbits kilobit kilobits
Mbit|bit:1e6|mbit mbits megabit megabits
Gbit|bit:1e9|gbit gbits gigabit gigabits
kbps|bit/time:1e3|kbps
Mbps|bit/time:1e6|mbps
Gbps|bit/time:1e9|gbps
Hz|cycle:1|hz hertz герц*
kHz|cycle:1e3|khz
MHz|cycle:1e6|mhz
GHz|cycle:1e9|ghz
rps|#request/time:1|rps qps
tps|#transaction/time:1|tps
rpm|turn/time:0.016666666666666666|rpm
fps|frame/time:1|fps
%|percent:1|% percent pct prozent процент* אחוז אחוזים بالمئة بالمائة パーセント 퍼센트 porcento
pp|point:1|pp
px|px:1|px pixel pixels пикселей 像素 ピクセル 픽셀
pt|pt:1|pt
em|em:1|em rem
mm|length:1e-3|mm
cm|length:1e-2|cm
m|length:1;time:60;byte:1e6,1048576|m
metre|length:1|metre metres meter meters metern mètre mètres metro metros метр* 米 メートル 미터
km|length:1e3|km kilometer kilometers kilometre kilometres kilometern kilómetros 公里 キロ
mile|length:1609.344|mile miles
inch|length:0.0254|inch inches
ft|length:0.3048|ft feet foot
mg|mass:1e-6|mg
g|mass:1e-3|g gram grams gramm
kg|mass:1|kg kilogram kilograms kilo кг 公斤
°C|celsius:1|°c ℃ grad
°F|fahrenheit:1|°f ℉
mV|volt:1e-3|mv
V|volt:1|v volt volts
mW|watt:1e-3|mw
W|watt:1|w watt watts
kW|watt:1e3|kw
kWh|watthour:1e3|kwh
mA|ampere:1e-3|ma
mAh|amperehour:1e-3|mah
dB|decibel:1|db
x|times:1|x × fold times mal fois veces vezes volte раз раза פעמים مرات 倍 次 回 배 번
USD|$:1|$ usd us$ dollar dollars dólar dólares dollari доллар* דולר דולרים دولار دولارات 美元 ドル 달러
cent|$:0.01;€:0.01|¢ cent cents
EUR|€:1|€ eur euro euros евро אירו يورو 欧元 歐元 ユーロ 유로
GBP|£:1|£ gbp pound pounds pfund
JPY|jpy:1|jpy yen 円 日元 엔
CNY|cny:1|cny rmb yuan 元 人民币 块钱
yen or yuan|jpy:1;cny:1|¥ ￥
KRW|krw:1|₩ krw 원
ILS|ils:1|₪ ils nis שקל שקלים
RUB|rub:1|₽ rub руб рубль рубля рублей
INR|inr:1|₹ inr rupees
token|#token:1|token tokens токен* טוקנים 令牌 トークン 토큰
line|#line:1|line lines zeile zeilen ligne lignes línea líneas linha linhas righe riga строк строка строки שורות سطر أسطر اسطر 行 줄
row|#row:1|row rows 行数据
file|#file:1|file files datei dateien fichier fichiers archivo archivos arquivo arquivos ficheiro ficheiros файл* קבצים ملف ملفات 文件 个文件 個文件 ファイル 파일
test|#test:1|test tests тест* בדיקות اختبار اختبارات 测试 个测试 テスト 테스트
message|#message:1|message messages nachricht nachrichten mensaje mensajes mensagem mensagens messaggi сообщен* הודעות رسالة رسائل 消息 条消息 條消息 メッセージ 메시지
user|#user:1|user users benutzer nutzer utilisateur utilisateurs usuario usuarios usuário usuários utenti пользовател* משתמשים مستخدم مستخدمين 用户 个用户 名用户 ユーザー 사용자
request|#request:1|request requests req reqs anfrage anfragen requête requêtes solicitud solicitudes solicitação solicitações richieste запрос* בקשות طلب طلبات 请求 个请求 請求 リクエスト 요청
"""
_EXACT_TABLE: Final = """
k|one:1e3;byte:1e3,1024|K k
M|one:1e6;byte:1e6,1048576|M
G|byte:1e9,1073741824|G
T|byte:1e12,1099511627776|T
Mb|byte:1e6,1048576;bit:1e6|Mb
Gb|byte:1e9,1073741824;bit:1e9|Gb
Kb|byte:1e3,1024;bit:1e3|Kb
A|ampere:1|A
"""
#: Words that multiply the number before them.
_MULTIPLIERS: Final = """
1e3|thousand tausend tsd mille mil mila тысяч тысяча тысячи тыс אלף אלפים ألف الف آلاف الاف 千 천
1e4|万 萬 만
1e6|million millions millionen mio mln millón millones milhão milhões milione milioni миллион* млн מיליון מיליוני مليون ملايين 百万 百萬 百만
1e8|亿 億 억
1e9|billion billions bn milliarde milliarden mrd milliard milliards miliardi миллиард* млрд מיליארד مليار
"""
_NUMBER_TABLE: Final = """
2|two zwei deux dos dois duas due два две שני שתי שניים שתיים
3|three drei trois tres três tre три שלוש שלושה ثلاث ثلاثة
4|four vier quatre cuatro quatro quattro четыре ארבע ארבעה أربع أربعة اربع اربعة
5|five fünf cinq cinco cinque пять חמש חמישה خمس خمسة
6|six sechs seis sei шесть שש שישה ست ستة
7|seven sieben sept siete sete sette семь שבע שבעה سبع سبعة
8|eight acht huit ocho oito otto восемь שמונה ثماني ثمانية
9|nine neun neuf nueve nove девять תשע תשעה تسع تسعة
10|ten zehn dix diez dez dieci десять עשר עשרה عشر عشرة
11|eleven elf onze once undici одиннадцать
12|twelve dozen dutzend douzaine docena dúzia dozzina дюжина zwölf douze doce doze dodici двенадцать
13|thirteen dreizehn treize trece treze
14|fourteen vierzehn quatorze catorce
15|fifteen fünfzehn quinze quince quindici пятнадцать
16|sixteen sechzehn seize
20|twenty zwanzig vingt veinte vinte venti двадцать עשרים عشرون عشرين
24|twenty-four vierundzwanzig vingt-quatre
25|twenty-five fünfundzwanzig vingt-cinq veinticinco
30|thirty dreißig dreissig trente treinta trinta trenta тридцать שלושים ثلاثون ثلاثين
40|forty vierzig quarante cuarenta quarenta quaranta сорок ארבעים أربعون أربعين
45|forty-five fünfundvierzig quarante-cinq
48|forty-eight achtundvierzig quarante-huit
50|fifty fünfzig cinquante cincuenta cinquenta cinquanta пятьдесят חמישים خمسون خمسين
60|sixty sechzig soixante sesenta sessenta sessanta шестьдесят שישים ستون ستين
70|seventy siebzig soixante-dix setenta settanta семьдесят שבעים سبعون سبعين
80|eighty achtzig quatre-vingts quatre-vingt ochenta oitenta ottanta восемьдесят שמונים ثمانون ثمانين
90|ninety neunzig quatre-vingt-dix noventa novanta девяносто תשעים تسعون تسعين
100|hundred hundert cent cien ciento cem cento сто מאה مائة مئة
1000|thousand tausend mille mil тысяча אלף ألف
"""
#: Words for half an hour.
HALF_AN_HOUR: Final = re.compile(
    "half an hour|half hour|halbe stunde|halben stunde|demi-heure|media hora|meia hora|mezz'ora|полчаса"
    "|חצי שעה|نصف ساعة|半小时|半小時|半個小時|半个小时|半時間|반시간",
    re.IGNORECASE,
)


#: What says that a number is rounded.
_roughly: Final = late_pattern(
    r"(?:[~≈約约]|\b(?:about|around|roughly|approximately|approx\.?|almost|nearly|over|ca\.?|circa|rund|etwa|ungefähr|fast"
    r"|environ|presque|unos|unas|aproximadamente|cerca de|casi|quase|около|примерно|почти|בערך|כמעט|حوالي|تقريبا)"
    r"|大约|大約|大概|左右|およそ|ほぼ|약)\s*$",
    re.IGNORECASE,
)


def _readings(written: str) -> tuple[tuple[str, float], ...]:
    found = []
    for one in written.split(";"):
        dimension, _, sizes = one.rpartition(":")
        found += [(dimension, float(size)) for size in sizes.split(",")]
    return tuple(found)


def _units(table: str) -> Iterator[tuple[Unit, str]]:
    for line in table.strip().splitlines():
        name, readings, words = line.split("|")
        yield Unit(name, _readings(readings)), words


_WHOLE, _BEGUN = word_table(_units(_TABLE))
_EXACT, _ = word_table(_units(_EXACT_TABLE))
MULTIPLIERS: Final[Mapping[str, float]] = {
    word: float(size)
    for line in _MULTIPLIERS.strip().splitlines()
    for size, words in (line.split("|"),)
    for word in words.split()
    if not word.endswith("*")
}
_MULTIPLIERS_BEGUN: Final = {"миллион": 1e6, "миллиард": 1e9}
DENSE_MULTIPLIER: Final = re.compile("百?[万萬만千천]|[亿億억]|百[万萬만]")
NUMBER_WORDS: Final[Mapping[str, int]] = {
    word: int(value)
    for line in _NUMBER_TABLE.strip().splitlines()
    for value, words in (line.split("|"),)
    for word in words.split()
}
_LONGEST_PREFIX: Final = 10


def unit_of(word: str) -> Unit | None:
    """The unit that a word or sign names."""
    found = _EXACT.get(word) or _WHOLE.get(word) or _WHOLE.get(word.lower())
    if found is not None:
        return found
    lowered = word.lower()
    for length in range(min(len(lowered), _LONGEST_PREFIX), 3, -1):
        found = _BEGUN.get(lowered[:length])
        if found is not None:
            return found
    return None


def multiplier_of(word: str) -> float | None:
    """What a word such as *million* multiplies by."""
    lowered = word.lower().rstrip(".")
    found = MULTIPLIERS.get(lowered)
    if found is not None:
        return found
    return next((size for begun, size in _MULTIPLIERS_BEGUN.items() if lowered.startswith(begun)), None)


_CHINESE_DIGITS: Final = {
    **{
        sign: value
        for value, signs in enumerate(("零〇", "一", "二两兩", "三", "四", "五", "六", "七", "八", "九"))
        for sign in signs
    }
}
_TENS: Final = {"十": 10, "百": 100, "千": 1000}
CHINESE_NUMBER: Final = re.compile("[零〇一二两兩三四五六七八九十百千]{1,12}[万萬]?半?")


def chinese_number(written: str) -> float | None:
    """The value of a Chinese numeral below a hundred million; None when it is none."""
    half = 0.5 if written.endswith("半") else 0.0
    plain = written.rstrip("半")
    scale = 1
    if plain and plain[-1] in "万萬":
        scale, plain = 10_000, plain[:-1]
    total, digit = 0, 0
    for sign in plain:
        if sign in _TENS:
            total += (digit or 1) * _TENS[sign]
            digit = 0
        else:
            digit = _CHINESE_DIGITS[sign]
    value = (total + digit) * scale
    return value + half if value else None


#: A dimension and the size in its base unit; ``one`` counts nothing that is known.
Value = tuple[str, float]
#: The dimension of a number without a unit.
ONE: Final = "one"


class Quantity(Record, frozen=True):
    """A number in a text, with its unit when it has one."""

    place: Span
    values: frozenset[Value]  #: all that it can mean
    key: str  #: the number and its unit in short
    unit: str  #: empty: none that is known
    bare: bool = False  #: nothing is said of what it counts, as behind ``timeout=``
    parts: tuple[frozenset[Value], ...] = ()  #: of a time in several units
    rough: float = 0.0  #: how far off, as a share, it may be: it says "about"


_numeral: Final = late_pattern(
    r"(?P<money>(?:US)?[$€£¥₪₩₽₹]\s?)?"
    r"(?:(?<![\w.:/#])(?<![A-Za-z_]-)(?<!\d[.,])|(?<=\d[hmd]))"
    r"(?P<value>\d{1,3}(?:[\u00a0\u202f\u2009'_]\d{3})+(?:[.,]\d+)?(?!\d)"
    r"|\d{1,3}(?: \d{3})+(?:[.,]\d+)?(?!\d)(?=\s?[^\W\d_%]|\s?%)"
    r"|\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?)(?![.,]?\d)",
    re.ASCII,
)


#: A letter of a script with spaces: in the others a unit sticks to what follows.
_LETTER: Final = "[^\\W\\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
_OTHER_LETTER: Final = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"


_unit_words: Final = late_pattern(
    rf"[ \u00a0\u202f\u2009]{{0,2}}-?(?P<word>%|°[CcFf]|[$€£¥₪₩₽₹¢×℃℉]|{_LETTER}+)"
    rf"(?:(?!{_LETTER}|[0-9_])|(?<=\d[hmd])(?=\d))"
)


@cache
def _dense_at() -> re.Pattern[str]:
    """Units of scripts without spaces, the longest first; a date's 日 or 月 follows a number too."""
    units = sorted((word for word in _WHOLE if re.match(_OTHER_LETTER, word)), key=lambda word: -len(word))
    return re.compile(
        rf"[ \u00a0]?(?:(?P<multiplier>{DENSE_MULTIPLIER.pattern})[ \u00a0]?)?(?:多|余)?"
        rf"(?P<unit>{'|'.join(units)})?"
    )


_PER: Final = re.compile(
    r"\s?/\s?(?P<word>[^\W\d_]+)|\s(?:per|a|an|pro|par|por|al|в|за)\s(?P<said>[^\W\d_]+)", re.IGNORECASE
)
_RANGE: Final = re.compile(
    r"\s?(?:-|\u2013|\u2014|\.{2,3}|~|〜|～|to|bis|a|à|до|עד|إلى|الى|到|至|から|and|und|et|y|и)\s?",
    re.IGNORECASE,
)
_JOINED: Final = re.compile(r"[ \u00a0]?(?:,|and|und|et|y|e|и|ו|و)?[ \u00a0]?", re.IGNORECASE)
#: 4k tokens
_SIZES: Final = {"k": 1e3, "K": 1e3, "M": 1e6}
_TOLD: Final = re.compile(r"[=:|]\s*[\"'`]?$")
_PERCENT_FIRST: Final = re.compile(r"百分之\s?$")


_ANY_NUMBER_WORD: Final = "|".join(sorted(map(re.escape, NUMBER_WORDS), key=lambda word: -len(word)))


_worded_number: Final = late_pattern(
    rf"(?<![\w-])(?P<number>{_ANY_NUMBER_WORD})[ -](?P<unit>[^\W\d_]+)", re.IGNORECASE
)


_number_word: Final = late_pattern(rf"(?<![^\W_])(?:{_ANY_NUMBER_WORD})(?![^\W_])", re.IGNORECASE)


_word_behind: Final = late_pattern(
    rf"(?:[ \u00a0\u202f]{{1,2}}|-){_LETTER}[^\s\d.,:;!?)]|[ \u00a0]?{_OTHER_LETTER}"
)


_chinese: Final = late_pattern(
    rf"(?<![\d第零〇一二两兩三四五六七八九十百千])(?P<percent>百分之)?(?P<number>{CHINESE_NUMBER.pattern})"
    r"(?(percent)|(?P<unit>个?小时|個?小時|小时|分钟|分鐘|分間|秒钟|秒|毫秒|時間|天|周|週間|个月|個月|か月|ヶ月|年|兆字?节?|字节|元|円))"
)


#: Decimals to which two values are equal.
_DIGITS: Final = 9


def readings(written: str) -> frozenset[float]:
    """The values that a number can have as it is written; empty when it is none.

    A point or comma before three digits may part thousands or the fraction.
    """
    plain = re.sub(r"(?<=\d)[ \u00a0\u202f\u2009'_](?=\d)", "", written)
    mantissa, _, exponent = plain.lower().partition("e")
    power = 10.0 ** min(max(int(exponent), -300), 300) if exponent else 1.0
    marks = [sign for sign in mantissa if sign in ".,"]
    if not marks:
        found = {float(mantissa)}
    elif len(set(marks)) == 2:
        last = max(mantissa.rfind("."), mantissa.rfind(","))
        if marks.count(mantissa[last]) > 1:
            return frozenset()
        found = {float(re.sub(r"[.,]", "", mantissa[:last]) + "." + mantissa[last + 1 :])}
    elif len(marks) > 1:
        groups = re.split(r"[.,]", mantissa)
        if len(groups[-1]) != 3 or any(len(group) not in (2, 3) for group in groups[1:]):
            return frozenset()
        found = {float("".join(groups))}
    else:
        whole, fraction = re.split(r"[.,]", mantissa)
        found = {float(f"{whole}.{fraction}")}
        if fraction == "000" and len(whole) <= 3 and not whole.startswith("0"):
            found = {float(whole + fraction)}
        elif len(fraction) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0"):
            found.add(float(whole + fraction))
    return frozenset(value * power for value in found if value * power < 1e300)


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text whose digits are ASCII (`identifiers.folded`), in order."""
    found = [*_written(text), *_worded(text)]
    found.sort(key=lambda one: one.place)
    return list(_joined(_ranged(found, text), text))


_MONEY: Final = {"USD", "EUR", "GBP", "JPY", "CNY", "yen or yuan", "KRW", "ILS", "RUB", "INR", "cent"}


def _written(text: str) -> Iterator[Quantity]:
    for match in _numeral().finditer(text):
        numbers = readings(match["value"])
        if not numbers:
            continue
        start, at = match.start("value"), match.end("value")
        unit, factor, end = _unit_at(text, at)
        if unit is None and match["money"]:
            unit = unit_of(match["money"].strip())
        if match["money"] and unit is not None and (unit.name in ("k", "M") or unit.name not in _MONEY):
            # $4k
            sized = _SIZES.get(unit.name, factor)
            unit, factor = unit_of(match["money"].strip()), sized
        if match["money"]:
            start = match.start("money")
        before = text[max(start - 16, 0) : start]
        if unit is None and _PERCENT_FIRST.search(before):
            unit = unit_of("%")
        yield _quantity(text, (start, end), numbers, unit, factor, before, match["value"])


def _unit_at(text: str, at: int) -> tuple[Unit | None, float, int]:
    """The unit right behind a number, what multiplies it, and where that ends."""
    factor = 1.0
    while True:
        match = _unit_words().match(text, at)
        if match is None:
            break
        word = match["word"]
        more = multiplier_of(word)
        if more is not None and factor == 1.0:
            factor, at = more, match.end()
            if text[at : at + 1] == ".":
                at += 1
            continue
        unit = unit_of(word)
        following = _unit_words().match(text, match.end())
        if word in _SIZES and factor == 1.0 and following is not None and unit_of(following["word"]):
            factor, at = _SIZES[word], match.end()
            continue
        if unit is not None:
            return _per(text, unit, match.end(), factor)
        break
    dense = _dense_at().match(text, at)
    if dense is not None and dense.end() > at and (dense["multiplier"] or dense["unit"]):
        factor *= (
            multiplier_of(dense["multiplier"]) or _dense_factor(dense["multiplier"])
            if dense["multiplier"]
            else 1.0
        )
        unit = unit_of(dense["unit"]) if dense["unit"] else None
        return unit, factor, dense.end()
    return None, factor, at


def counts_of_anything(text: str, found: Iterable[Quantity]) -> Iterator[Quantity]:
    """Of the numbers *found* in a text those from 2 to 99 with a word behind them that is no unit we know.

    0 and 1 are told in many ways: no retries, a retry.
    """
    for one in found:
        start, end = one.place
        written = "" if one.unit else text[start:end]
        if written.isdigit() and 2 <= int(written[:3]) < 100 and _word_behind().match(text, end):
            yield one


def told_numbers(text: str) -> frozenset[float]:
    """The numbers that a text has in words, whatever they count."""
    told: set[float] = set()
    before, end = 0, -1
    for match in _number_word().finditer(text):
        number = NUMBER_WORDS[match[0].lower()]
        told.add(float(number))
        if number < 10 and 20 <= before < 100 and text[end : match.start()] in ("-", " "):  # thirty-two
            told.add(float(before + number))
        before, end = number, match.end()
    return frozenset(told | {value for one in CHINESE_NUMBER.findall(text) if (value := chinese_number(one))})


def unit_behind(text: str, at: int) -> bool:
    """Whether a number that ends at *at* has a unit."""
    unit, factor, _ = _unit_at(text, at)
    return unit is not None or factor != 1.0


def _dense_factor(written: str) -> float:
    product = 1.0
    for sign in written:
        product *= {"百": 100.0}.get(sign) or multiplier_of(sign) or 1.0
    return product


def _per(text: str, unit: Unit, at: int, factor: float) -> tuple[Unit, float, int]:
    """``/s``, per second."""
    match = _PER.match(text, at)
    below = unit_of(match["word"] or match["said"]) if match else None
    if match is None or below is None or below.counts or below.name == unit.name:
        return unit, factor, at
    readings_of = tuple(
        (f"{above}/{under}", size / under_size)
        for above, size in unit.readings
        for under, under_size in below.readings
    )
    return Unit(f"{unit.name}/{below.name}", readings_of), factor, match.end()


def _quantity(
    text: str,
    place: Span,
    numbers: Iterable[float],
    unit: Unit | None,
    factor: float,
    before: str,
    written: str,
) -> Quantity:
    sizes = unit.readings if unit is not None else ((ONE, 1.0),)
    values = {(name, _rounded(number * factor * size)) for number in numbers for name, size in sizes}
    value = min(numbers) if unit is None or len(list(numbers)) == 1 else max(numbers)
    short = f"{_short(value * factor if unit is None else value)} {unit.name if unit else ''}".rstrip()
    if unit is not None and factor != 1.0:
        short = f"{_short(value * factor)} {unit.name}"
    behind = text[place[1] : place[1] + 2].strip()
    bare = unit is None and (bool(_TOLD.search(before)) or behind.startswith("|"))
    rough = 0.0
    if _roughly().search(before):
        digits = len(re.sub(r"\D", "", written).strip("0")) or 1
        rough = 0.5 * 10.0 ** -(digits - 1)
    return Quantity(place, frozenset(values), short, unit.name if unit else "", bare, (), rough)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _short(value: float) -> str:
    return f"{value:.15g}"


def _worded(text: str) -> Iterator[Quantity]:
    """Numbers in words, only with a measure: thirty seconds, 三十秒, half an hour."""
    for match in _worded_number().finditer(text):
        unit = unit_of(match["unit"])
        if unit is not None and not unit.counts and unit.name not in ("x", "m", "an"):
            number = float(NUMBER_WORDS[match["number"].lower()])
            unit, factor, end = _per(text, unit, match.end(), 1.0)
            yield _quantity(text, (match.start(), end), (number,), unit, factor, "", "")
    for match in _chinese().finditer(text):
        value = chinese_number(match["number"])
        unit = unit_of("%") if match["percent"] else unit_of(match["unit"])
        if value is not None and value > 1 and unit is not None:
            yield _quantity(text, match.span(), (value,), unit, 1.0, "", "")
    hour = unit_of("h")
    for match in HALF_AN_HOUR.finditer(text):
        yield _quantity(text, match.span(), (0.5,), hour, 1.0, "", "")


def _ranged(found: list[Quantity], text: str) -> list[Quantity]:
    """The first number of a range has the unit of the second."""
    for at in range(len(found) - 2, -1, -1):
        one, other = found[at], found[at + 1]
        gap = text[one.place[1] : other.place[0]]
        if not one.unit and other.unit and len(gap) < 8 and _RANGE.fullmatch(gap):
            numbers = [value for name, value in one.values if name == ONE]
            unit = unit_of(other.unit.partition("/")[0])
            if unit is not None and "/" not in other.unit:
                values = {
                    (name, _rounded(number * size)) for number in numbers for name, size in unit.readings
                }
                key = f"{_short(min(numbers))} {unit.name}"
                found[at] = Quantity(one.place, frozenset(values), key, unit.name, False, (), one.rough)
    return found


_TIME_UNITS: Final = ("week", "d", "h", "min", "m", "s", "ms")


def _joined(found: Iterable[Quantity], text: str) -> Iterator[Quantity]:
    """1 h 30 min is one time."""
    last: Quantity | None = None
    for one in found:
        if last is not None and one.place[0] < last.place[1]:
            continue  # a number in words within another
        if last is not None and _continues(last, one, text):
            sums = {
                ("time", _rounded(more + less))
                for name, more in last.values
                for other, less in one.values
                if name == other == "time"
            }
            parts = (*(last.parts or (last.values,)), one.values)
            key = f"{last.key} {one.key}"
            last = Quantity((last.place[0], one.place[1]), frozenset(sums), key, one.unit, False, parts)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _continues(one: Quantity, other: Quantity, text: str) -> bool:
    return (
        one.unit in _TIME_UNITS
        and other.unit in _TIME_UNITS
        and _TIME_UNITS.index(one.unit) < _TIME_UNITS.index(other.unit)
        and len(text[one.place[1] : other.place[0]]) < 6
        and _JOINED.fullmatch(text[one.place[1] : other.place[0]]) is not None
    )


class KnownQuantities:
    """The numbers of a source, to look others up in."""

    def __init__(self, found: Iterable[Quantity]) -> None:
        self._values: set[Value] = set()
        self._bare: set[float] = set()
        self._any: set[float] = set()
        self._sizes: dict[str, list[float]] = {}
        for one in found:
            for values in (one.values, *one.parts):
                self._values |= values
                for name, size in values:
                    self._sizes.setdefault(name, []).append(size)
            if not one.unit:
                plain = {value for name, value in one.values if name == ONE}
                self._any |= plain
                if one.bare:
                    self._bare |= plain

    def holds(self, one: Quantity) -> bool:
        """Whether the source has *one* in any way that is equal."""
        if not self._values.isdisjoint(one.values):
            return True
        if one.parts and all(not self._values.isdisjoint(part) for part in one.parts):
            return True
        numbers = readings_of_key(one.key)
        if one.unit and not numbers.isdisjoint(self._bare):
            return True
        counts = bool(one.unit) and all(name.startswith("#") for name, _ in one.values)
        if counts and not numbers.isdisjoint(self._any):
            return True
        return bool(one.rough) and any(
            abs(size - told) <= one.rough * abs(told)
            for name, told in one.values
            for size in self._sizes.get(name, ())
        )


def readings_of_key(key: str) -> frozenset[float]:
    """The number at the beginning of a key, as it is."""
    try:
        return frozenset({_rounded(float(key.partition(" ")[0]))})
    except ValueError:
        return frozenset()
