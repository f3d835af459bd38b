"""Facts in eleven languages: near misses that are inventions, and other ways to say the same that are none."""

# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_SENTENCES: Final = {
    "English": (
        "The timeout of the {t} job is {x}.",
        "We settled on {x} for {t} yesterday.",
        "{t}: {x} was confirmed by the team.",
    ),
    "German": (
        "Der Wert für {t} beträgt {x}.",
        "Für {t} haben wir uns auf {x} geeinigt.",
        "Bei {t} wurde {x} bestätigt.",
    ),
    "French": (
        "La valeur pour {t} est {x}.",
        "Pour {t} on a retenu {x} hier.",
        "Avec {t} on a confirmé {x}.",
    ),
    "Spanish": ("El valor para {t} es {x}.", "Para {t} elegimos {x} ayer.", "En {t} se confirmó {x}."),
    "Portuguese": ("O valor para {t} é {x}.", "Para {t} ficou {x} ontem.", "Em {t} foi confirmado {x}."),
    "Russian": ("Значение для {t}: {x}.", "Для {t} выбрали {x} вчера.", "По {t} подтвердили {x}."),
    "Hebrew": ("הערך עבור {t} הוא {x}.", "עבור {t} בחרנו {x} אתמול.", "ב {t} אושר {x}."),
    "Arabic": ("القيمة في {t} هي {x}.", "اخترنا في {t} القيمة {x} أمس.", "تم تأكيد {x} في {t}."),
    "Chinese": ("{t}的值是{x}。", "昨天{t}定为{x}。", "{t}已确认：{x}。"),
    "Japanese": ("{t}の値は{x}です。", "昨日{t}は{x}に決まった。", "{t}で{x}を確認した。"),
    "Korean": ("{t} 값은 {x} 입니다.", "어제 {t} 값을 {x} 로 정했다.", "{t} 에서 {x} 확인."),
}
#: Seconds, minutes, hours and days as each language writes them.
_TIMES: Final = {
    "English": ("seconds", "minutes", "hours", "days"),
    "German": ("Sekunden", "Minuten", "Stunden", "Tage"),
    "French": ("secondes", "minutes", "heures", "jours"),
    "Spanish": ("segundos", "minutos", "horas", "días"),
    "Portuguese": ("segundos", "minutos", "horas", "dias"),
    "Russian": ("секунд", "минут", "часов", "дней"),
    "Hebrew": ("שניות", "דקות", "שעות", "ימים"),
    "Arabic": ("ثانية", "دقيقة", "ساعة", "يوم"),
    "Chinese": ("秒", "分钟", "小时", "天"),
    "Japanese": ("秒", "分", "時間", "日間"),
    "Korean": ("초", "분", "시간", "일"),
}
_DAYS: Final = {
    "English": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "German": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "French": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "Spanish": "lunes martes miércoles jueves viernes sábado domingo",
    "Portuguese": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
    "Russian": "понедельник вторник среда четверг пятница суббота воскресенье",
    "Chinese": "星期一 星期二 周三 周四 星期五 周六 星期日",
    "Japanese": "月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日",
    "Korean": "월요일 화요일 수요일 목요일 금요일 토요일 일요일",
    "Hebrew": "יום_שני יום_שלישי יום_רביעי יום_חמישי יום_שישי שבת יום_ראשון",
    "Arabic": "الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت الأحد",
}
_PEOPLE: Final = {
    "English": ("Alice", "Marco", "Ingrid", "Priya", "Tomas", "Yusuf", "Beatrix", "Olga"),
    "French": ("Amélie", "Bastien", "Cléa", "Mathis", "Noémie", "Thibault"),
    "Spanish": ("Lucía", "Mateo", "Ramón", "Ximena", "Joaquín", "Paloma"),
    "Portuguese": ("Beatriz", "Thiago", "Larissa", "Caio", "Fernanda", "Otávio"),
    "Russian": ("Марина", "Григорий", "Светлана", "Тимур", "Полина", "Руслан"),
}
_PEOPLE_SAID: Final = {
    "English": (
        "The rollout was approved by {p} after lunch.",
        "{p} approved the rollout after lunch.",
        "We agreed that {p} owns the {t} job.",
    ),
    "French": (
        "Le déploiement a été validé par {p} hier.",
        "{p} a validé le déploiement hier.",
        "On a dit que {p} garde {t}.",
    ),
    "Spanish": (
        "El despliegue fue aprobado por {p} ayer.",
        "{p} aprobó el despliegue ayer.",
        "Dijimos que {p} lleva {t}.",
    ),
    "Portuguese": (
        "A entrega foi aprovada por {p} ontem.",
        "{p} aprovou a entrega ontem.",
        "Dissemos que {p} cuida de {t}.",
    ),
    "Russian": ("Выкладку вчера подтвердил {p}.", "Мы решили, что {p} ведёт {t}."),
}
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
_FOLDERS: Final = ("services", "workers", "web", "api", "core", "jobs", "admin", "tools")
_FILES: Final = (
    "refund.py",
    "queue.go",
    "schema.sql",
    "handler.ts",
    "deploy.yaml",
    "Importer.java",
    "report.md",
)
_SLUGS: Final = (
    "refund-flow",
    "login-form",
    "retry-queue",
    "dark-mode",
    "cache-keys",
    "new-parser",
    "audit-log",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact as the source tells it, near misses of it, and equal ways to tell it."""

    kind: str
    told: str
    misses: tuple[str, ...]
    equal: tuple[str, ...]
    sentence: str = ""  #: with a place for it; empty: any


@dataclass(frozen=True, slots=True)
class InventionCase:
    """A source and a draft; *planted* are the near misses in the draft."""

    language: str
    source: str
    draft: str
    planted: tuple[tuple[str, str], ...]  #: kind and text
    facts: int  #: told faithfully


Maker = Callable[[str, random.Random], Fact]


def _time(language: str, chance: random.Random) -> Fact:
    seconds, minutes, hours, days = _TIMES[language]
    number = chance.choice((2, 3, 5, 12, 15, 18, 25, 30, 35, 45, 75, 90))
    space = "" if language in ("Chinese", "Japanese") else " "
    unit, other, size = chance.choice(
        (
            (seconds, minutes, 1),
            (minutes, seconds, 60),
            (minutes, hours, 60),
            (hours, minutes, 3600),
            (days, hours, 86400),
        )
    )
    total = number * size
    equal = [f"{number}{space}{unit}", f"{number}\u00a0{unit}" if space else f"{number}{unit}"]
    if size == 1:
        equal += [
            f"{number} s",
            f"{number * 1000} ms",
            f"{number / 60:.6g} min" if number % 3 == 0 else f"{number}s",
        ]
    elif size == 60:
        equal += [
            f"{number} min",
            f"{total} s",
            f"{total // 3600} h {total % 3600 // 60} min" if number > 60 and number % 60 else f"{number}min",
        ]
    elif size == 3600:
        equal += [f"{number} h", f"{number * 60} min"]
    else:
        equal += [f"{number * 24} h"]
    misses = (f"{number}{space}{other}", f"{number + 1}{space}{unit}", f"{number * 10}{space}{unit}")
    return Fact("number", f"{number}{space}{unit}", misses, tuple(equal))


def _size(language: str, chance: random.Random) -> Fact:
    number = chance.choice((12, 25, 48, 64, 96, 120, 250, 512, 750))
    unit, other = chance.choice((("MB", "GB"), ("GB", "MB"), ("KB", "MB"), ("TB", "GB")))
    smaller = {"MB": "KB", "GB": "MB", "KB": "B", "TB": "GB"}[unit]
    equal = (
        f"{number}{unit}",
        f"{number} {unit}",
        f"{number * 1000:,} {smaller}",
        f"{number * 1024} {smaller}",
    )
    return Fact("number", f"{number} {unit}", (f"{number} {other}", f"{number + 3} {unit}"), equal)


def _count(language: str, chance: random.Random) -> Fact:
    thousands = chance.choice((3, 4, 7, 12, 24, 65, 128))
    number = thousands * 1000
    equal = (
        f"{number} tokens",
        f"{number:,} tokens",
        f"{thousands}k tokens",
        f"{thousands} k tokens",
        f"{thousands}.000 tokens",
    )
    misses = (f"{number + 500:,} tokens", f"{thousands}M tokens", f"{number * 10} tokens")
    return Fact("number", f"{number:,} tokens", misses, equal)


def _percent(language: str, chance: random.Random) -> Fact:
    number = chance.choice((12, 17, 23, 35, 42, 58, 64, 81)) + chance.choice((0, 0.5))
    comma = str(number).replace(".", ",")
    equal = (
        f"{number:g}%",
        f"{number:g} %",
        f"{comma} %" if "," in comma and not comma.endswith(",0") else f"{number:g}％",
    )
    return Fact("number", f"{number:g} %", (f"{number + 4:g} %", f"{number:g} ms"), equal)


def _money(language: str, chance: random.Random) -> Fact:
    number = chance.choice((40, 75, 120, 450, 900, 1200))
    sign, word = chance.choice((("$", "USD"), ("€", "EUR")))
    return Fact(
        "number",
        f"{sign}{number}",
        (f"{sign}{number * 10}", f"{number} GBP"),
        (f"{number} {word}", f"{sign}{number:,}"),
    )


def _path(language: str, chance: random.Random) -> Fact:
    one, two, other = chance.sample(_FOLDERS, 3)
    file = chance.choice(_FILES)
    root = chance.choice(("", "/srv/app/", "src/", "packages/"))
    path = f"{root}{one}/{two}/{file}"
    misses = (f"{root}{one}/{other}/{file}", f"{root}{other}/{two}/{file}", f"{root}{one}/{two}/old_{file}")
    return Fact("path", path, misses, (path, f"{two}/{file}", file, f"`{path}`"))


def _windows(language: str, chance: random.Random) -> Fact:
    one, two, other = chance.sample(_FOLDERS, 3)
    path = f"C:\\{one}\\{two}\\{chance.choice(_FILES)}"
    return Fact(
        "path",
        path,
        (path.replace(f"\\{two}\\", f"\\{other}\\"), "D" + path[1:]),
        (path, path.replace("\\", "/")[3:]),
    )


def _branch(language: str, chance: random.Random) -> Fact:
    prefix, other = chance.sample(("feature", "fix", "hotfix", "release", "chore"), 2)
    slug, wrong = chance.sample(_SLUGS, 2)
    return Fact(
        "branch",
        f"{prefix}/{slug}",
        (f"{prefix}/{wrong}", f"{other}/{slug}"),
        (f"{prefix}/{slug}", f"`{prefix}/{slug}`", f"origin/{prefix}/{slug}"),
    )


def _named_branch(language: str, chance: random.Random) -> Fact:
    slug, wrong = chance.sample(_SLUGS, 2)
    word = {
        "German": "Branch",
        "French": "branche",
        "Spanish": "rama",
        "Portuguese": "branch",
        "Russian": "ветка",
        "Hebrew": "ענף",
        "Arabic": "فرع",
        "Chinese": "分支",
        "Japanese": "ブランチ",
        "Korean": "브랜치",
    }.get(language, "branch")
    return Fact(
        "branch",
        f"{word} {slug}",
        (f"{word} {wrong}", f"{word} {slug}-2"),
        (f"{word} {slug}", f"{word} `{slug}`"),
    )


def _ticket(language: str, chance: random.Random) -> Fact:
    number = chance.randrange(1000, 9000)
    name = chance.choice(("OPS", "WEB", "PAY"))
    return Fact(
        "id",
        f"{name}-{number}",
        (f"{name}-{number + 9}", f"{name}X-{number}"),
        (f"{name}-{number}", f"({name}-{number})"),
    )


def _hash(language: str, chance: random.Random) -> Fact:
    digits = "".join(chance.choice("0123456789abcdef") for _ in range(10)) + "7e"
    other = digits[:6] + ("0" if digits[6] != "0" else "1") + digits[7:]
    return Fact(
        "id",
        digits,
        (other, digits[:8] + "0000ff"),
        (
            digits,
            digits[:8] if any(map(str.isalpha, digits[:8])) and any(map(str.isdigit, digits[:8])) else digits,
        ),
    )


def _version(language: str, chance: random.Random) -> Fact:
    major, minor, patch = chance.randrange(2, 9), chance.randrange(1, 30), chance.randrange(1, 30)
    return Fact(
        "id",
        f"v{major}.{minor}.{patch}",
        (f"v{major}.{minor}.{patch + 1}", f"v{major + 1}.{minor}.{patch}"),
        (f"{major}.{minor}.{patch}", f"v{major}.{minor}.{patch}"),
    )


def _url(language: str, chance: random.Random) -> Fact:
    number = chance.randrange(100, 900)
    base = f"https://ci.{chance.choice(_TOPICS)}.example.com/runs"
    return Fact(
        "id",
        f"{base}/{number}",
        (f"{base}/{number}1", f"{base[:-1]}/{number}"),
        (f"{base}/{number}", f"<{base}/{number}>", base),
    )


def _port(language: str, chance: random.Random) -> Fact:
    port = chance.randrange(3000, 9000)
    return Fact(
        "id", f"localhost:{port}", (f"localhost:{port + 1}",), (f"localhost:{port}", f"`localhost:{port}`")
    )


def _flag(language: str, chance: random.Random) -> Fact:
    one, other = chance.sample(
        ("--dry-run", "--no-verify", "--max-workers", "--fail-fast", "--skip-tests"), 2
    )
    return Fact("id", one, (f"{one}-all", other.rpartition("-")[0] + "-soon"), (one, f"`{one}`"))


def _weekday(language: str, chance: random.Random) -> Fact:
    one, *others = chance.sample(_DAYS[language].split(), 3)
    clean = [day.replace("_", " ") for day in (one, *others)]
    return Fact("weekday", clean[0], tuple(clean[1:]), (clean[0],))


def _person(language: str, chance: random.Random) -> Fact:
    one, *others = chance.sample(_PEOPLE[language], 3)
    said = chance.choice(_PEOPLE_SAID[language]).replace("{p}", "{x}")
    return Fact("person", one, tuple(others), (one,), said)


_MAKERS: Final[tuple[Maker, ...]] = (
    *(_time, _time, _size, _count, _percent, _money, _path, _windows, _branch, _named_branch),
    *(_ticket, _hash, _version, _url, _port, _flag),
)
_FILLER: Final = {
    "English": ("The meeting ran late and nobody minded.", "Lunch was good today."),
    "German": ("Das Treffen dauerte lange.", "Das Essen war heute gut."),
    "French": ("La réunion a duré longtemps.", "Le repas était bon."),
    "Spanish": ("La reunión duró mucho.", "La comida estuvo bien."),
    "Portuguese": ("A reunião demorou muito.", "O almoço estava bom."),
    "Russian": ("Встреча затянулась.", "Обед был хорош."),
    "Hebrew": ("הפגישה התארכה.", "הארוחה הייתה טובה."),
    "Arabic": ("طال الاجتماع.", "كان الغداء جيدا."),
    "Chinese": ("会议拖得很晚。", "午饭不错。"),
    "Japanese": ("会議は長引いた。", "昼食はおいしかった。"),
    "Korean": ("회의가 길어졌다.", "점심이 좋았다."),
}


def invention_cases(seed: int, per_language: int) -> Iterator[InventionCase]:
    """Sources of ten facts, with drafts that tell some, some otherwise but equal, and plant near misses."""
    chance = random.Random(seed)
    for language in _SENTENCES:
        for _ in range(per_language):
            yield _case(language, chance)


def _case(language: str, chance: random.Random) -> InventionCase:
    makers = [*chance.sample(_MAKERS, 8), _weekday]
    if language in _PEOPLE:
        makers.append(_person)
    source, draft, planted = [], [], []
    told = 0
    used = [maker(language, chance) for maker in makers]
    for fact in used:
        topic = chance.choice(_TOPICS)
        said = fact.sentence or chance.choice(_SENTENCES[language])
        source += [said.format(t=topic, x=fact.told), chance.choice(_FILLER[language])]
        fate = chance.random()
        if fate < 0.3:
            # Only what no other fact of the source happens to tell.
            miss = chance.choice(fact.misses)
            ends = miss.rpartition(" ")[2].rpartition("/")[2]
            if (
                not any(ends in told for other in used for told in (other.told, *other.equal))
                or fact.kind == "path"
            ):
                draft.append(said.format(t=topic, x=miss))
                planted.append((fact.kind, miss))
        elif fate < 0.9:
            draft.append(_dressed(said.format(t=topic, x=chance.choice(fact.equal)), chance))
            told += 1
    chance.shuffle(draft)
    whole = "\n".join(source)
    header = "[2026-03-02 09:14 UTC | user]\n" if language != "Hebrew" else ""
    joined = "\n".join(draft) if chance.random() < 0.6 else " ".join(draft)
    return InventionCase(language, header + whole, joined, tuple(planted), told)


def _dressed(sentence: str, chance: random.Random) -> str:
    """What writers of summaries do to a sentence."""
    return chance.choice(
        ("{}", "{}", "- {}", "* {}", "> {}", "1. {}", "**{}**", "({})", "- Decided: {}")
    ).format(sentence)
