"""What makes a sentence a rule, and which way it points, in eleven languages: docs/retention.md, "Rules".

Words of scripts written with spaces are phrases of whole words; ``*`` lets a word go on, ``(…*)`` looks at
the next word and leaves it. Chinese, Japanese and Korean, where a modal sticks to its verb, are patterns.
"""

# Tables of phrases: a line is a language's, however wide its characters are.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final


class Atom(StrEnum):
    """What one word or phrase does to its clause."""

    MUST = "must"  #: an obligation; negated: a prohibition (must not, soll nicht, ne doit pas)
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


_ENGLISH: Final = {
    Atom.MUST: "must/shall/should/ought to/make sure/ensure/ensures/be sure",
    Atom.NEED: """
        have to/has to/having to/had to/need to/needs to/needed/required/requires/require/mandatory
        necessary/obligatory/compulsory/obliged to/obligation
    """,
    Atom.MAY: "may/allowed/permitted/free to/okay to/ok to/fine to/permission to/entitled to/permissible",
    Atom.CAN: "can/able to",
    Atom.BAN: """
        forbidden/prohibited/prohibits/forbids/banned/disallowed/off limits/off-limits/no go/no-go/unacceptable
    """,
    Atom.OPTIONAL: "need not/needn't/no need/optional/no obligation/not necessarily/without having to",
    Atom.ALWAYS: "always/at all times/every time/without exception/in all cases/in any case",
    Atom.ONLY: """
        only/solely/exclusively/no one but/nobody but/no one except/nobody except/no one other than
        nobody other than/none but/nothing but
    """,
    Atom.NEVER: """
        never/never ever/under no circumstances/under no circumstance/in no case/at no time/by no means
        on no account/no one/nobody
    """,
    Atom.DO_NOT: "do not/don't/dont",
    Atom.NOT: """
        not/isn't/aren't/wasn't/weren't/doesn't/didn't/won't/hasn't/haven't/hadn't/no longer/no/none
        does not/did not/neither/nor
    """,
    Atom.AVOID: "avoid/avoids/avoiding/refrain from/stay away from/keep away from/abstain from",
    Atom.OMIT: "forget/forgets/fail to/fails to/neglect to",
    Atom.WITHOUT: "without/unless/except/except for/other than",
    Atom.UNTIL: "until/till/before/prior to",
    Atom.IF: "if/when/whenever/while/because/since/in case/as long as/provided",
    Atom.AT_MOST: """
        at most/no more than/not more than/maximum/up to/not exceed/never exceed/not over/not above
        no later than
    """,
    Atom.AT_LEAST: "at least/no less than/not less than/no fewer than/not fewer than/minimum/exceed/exceeds",
    Atom.NOTHING: "not only/not just/not merely/only just/no problem/no doubt/no matter/may be/if only/must have been",
}
_GERMAN: Final = {
    Atom.MUST: "soll/sollst/sollen/sollt/sollte/sollten/sollest/stelle sicher/stellt sicher/sicherstellen",
    Atom.NEED: """
        muss/muß/musst/müssen/müsst/müßt/müsse/brauche/braucht/brauchen/brauchst/erforderlich/notwendig/nötig
        pflicht/obligatorisch/zwingend/verpflichtend/verpflichtet/vorgeschrieben
    """,
    Atom.MAY: "darf/darfst/dürfen/dürft/dürfe/erlaubt/zulässig/gestattet",
    Atom.CAN: "kann/kannst/können/könnt",
    Atom.BAN: "verboten/untersagt/unzulässig/unerlaubt/tabu/verbietet",
    Atom.OPTIONAL: "freiwillig/nicht unbedingt/nicht zwingend",
    Atom.ALWAYS: "immer/stets/jederzeit/in jedem fall/grundsätzlich/unbedingt",
    Atom.ONLY: "nur/ausschließlich/ausschliesslich/lediglich",
    Atom.NEVER: """
        nie/niemals/nimmer/auf keinen fall/keinesfalls/unter keinen umständen/in keinem fall/niemand/nie wieder
    """,
    Atom.NOT: "nicht/kein/keine/keinen/keinem/keiner/keines/nicht mehr",
    Atom.AVOID: "vermeide/vermeiden/vermeidet/unterlasse/unterlassen",
    Atom.OMIT: "vergiss/vergessen/vergesst/versäume/versäumen",
    Atom.WITHOUT: "ohne/außer/ausser/es sei denn/ausgenommen",
    Atom.UNTIL: "bis/bevor/ehe/vor",
    Atom.IF: "wenn/falls/sofern/weil/denn/solange/sobald",
    Atom.AT_MOST: "höchstens/maximal/nicht mehr als/bis zu/nicht überschreiten/spätestens",
    Atom.AT_LEAST: "mindestens/wenigstens/nicht weniger als/zumindest",
    Atom.NOTHING: "nicht nur/kein problem",
}
_FRENCH: Final = {
    Atom.MUST: """
        doit/dois/devez/devons/doivent/devra/devront/devrait/devraient/faut/faudra/assurez-vous/assure-toi/veillez à
    """,
    Atom.NEED: """
        besoin/nécessaire/nécessaires/obligatoire/obligatoires/obligé/obligée/obligés/requis/requise/requises
        exigé/exigée/indispensable/tenu de/tenus de/tenue de/contraint de
    """,
    Atom.MAY: "peut/peux/peuvent/pouvez/pouvons/pourra/pourront/autorisé*/permis/permise/permises/le droit de",
    Atom.BAN: "interdit/interdite/interdits/interdites/défendu*/prohibé*/proscrit*/défense de/hors de question",
    Atom.OPTIONAL: "facultatif/facultative/optionnel/optionnelle/inutile de",
    Atom.ALWAYS: "toujours/systématiquement/en toutes circonstances/dans tous les cas/à chaque fois",
    Atom.ONLY: "seulement/uniquement/exclusivement/seul/seule/seuls/seules",
    Atom.NEVER: "jamais/en aucun cas/sous aucun prétexte/à aucun moment/personne/en aucune circonstance",
    Atom.NOT: "ne/n'/pas/non/ni/aucun/aucune/rien",
    Atom.DO_NOT: "ne pas/ne jamais/prière de ne pas",
    Atom.AVOID: "évite/évitez/éviter/évitons/abstenez-vous/s'abstenir",
    Atom.OMIT: "oublie/oubliez/oublier/omettre/omettez",
    Atom.WITHOUT: "sans/sauf/à moins que/à moins de/à moins qu'/excepté/hormis",
    Atom.UNTIL: "avant/jusqu'*/jusque/d'ici",
    Atom.IF: "si/lorsque/lorsqu'/quand/parce que/parce qu'/puisque/tant que",
    Atom.AT_MOST: "au plus/au maximum/pas plus de/pas dépasser/jamais dépasser",
    Atom.AT_LEAST: "au moins/au minimum/pas moins de",
    Atom.NOTHING: "pas seulement/non seulement/pas de problème",
}
_SPANISH: Final = {
    Atom.MUST: """
        debe/debes/deben/debemos/debéis/deberá/deberán/debería/deberían/hay que/ha de/asegúrate/asegúrese
    """,
    Atom.NEED: """
        tiene que/tienen que/tienes que/tenemos que/necesario/necesaria/obligatorio/obligatoria/obligatorios
        obligatorias/requiere/requieren/requerido/requerida/necesita/necesitan/imprescindible/preciso/hace falta
    """,
    Atom.MAY: "puede/puedes/pueden/podemos/podrá/podrán/permitid*/permite/autorizad*",
    Atom.BAN: "prohibid*/prohíbe/prohibe/vedado/vedada",
    Atom.OPTIONAL: "opcional/opcionales/sin necesidad",
    Atom.ALWAYS: "siempre/en todo momento/en todos los casos/en todo caso",
    Atom.ONLY: "solo/sólo/solamente/únicamente/exclusivamente",
    Atom.NEVER: """
        nunca/jamás/en ningún caso/bajo ningún concepto/bajo ninguna circunstancia/de ninguna manera/nadie
    """,
    Atom.NOT: "no/ni/tampoco/ningún/ninguna/ninguno/nada",
    Atom.AVOID: "evita/evite/eviten/evitar/evitad/absténgase de/abstente de",
    Atom.OMIT: "olvide/olvides/olvidar/olviden",
    Atom.WITHOUT: "sin/salvo/excepto/a menos que/a no ser que",
    Atom.UNTIL: "antes/hasta",
    Atom.IF: "si/cuando/porque/mientras/siempre que",
    Atom.AT_MOST: "como máximo/a lo sumo/no más de/no superar/no exceder/no debe superar",
    Atom.AT_LEAST: "al menos/como mínimo/por lo menos/no menos de",
    Atom.NOTHING: "no solo/no sólo/no solamente",
}
_PORTUGUESE: Final = {
    Atom.MUST: "deve/devem/deves/devemos/deverá/deverão/deveria/deveriam/certifique-se/garanta",
    Atom.NEED: """
        precisa/precisam/precisas/precisamos/tem que/tem de/têm que/têm de/temos que/temos de/necessário/necessária
        obrigatório/obrigatória/obrigatórios/obrigatórias/exigido/exigida/requer/requerem
    """,
    Atom.MAY: "pode/podem/podes/podemos/poderá/poderão",
    Atom.BAN: "proibid*/proíbe/vedado/vedada",
    Atom.NEVER: """
        em nenhum caso/em hipótese alguma/em hipótese nenhuma/de forma alguma/em nenhuma circunstância/ninguém
    """,
    Atom.ALWAYS: "sempre/em todos os casos/em qualquer caso",
    Atom.ONLY: "só/somente/apenas/unicamente",
    Atom.NOT: "não/nem/nenhum/nenhuma",
    Atom.AVOID: "evitem/abstenha-se de",
    Atom.OMIT: "esqueça/esqueças/esquecer/deixe de",
    Atom.WITHOUT: "sem/exceto/a menos que/a não ser que",
    Atom.UNTIL: "até",
    Atom.IF: "quando/enquanto/sempre que",
    Atom.AT_MOST: "no máximo/não mais de/não mais que/não exceder",
    Atom.AT_LEAST: "pelo menos/no mínimo/ao menos/não menos de",
    Atom.NOTHING: "não só/não apenas/não somente",
}
_ITALIAN: Final = {
    Atom.MUST: "devi/devono/dobbiamo/dovete/dovrà/dovranno/dovrebbe/bisogna/assicurati",
    Atom.NEED: "necessario/necessari/necessarie/obbligatori*/richiest*/occorre/è tenuto",
    Atom.MAY: "può/puoi/possono/potete/possiamo/permess*/consentit*/ammess*/autorizzat*",
    Atom.BAN: "vietat*/proibit*",
    Atom.NEVER: "in nessun caso/per nessun motivo/nessuno",
    Atom.ONLY: "soltanto/esclusivamente",
    Atom.NOT: "nessun/nessuna/mai",
    Atom.AVOID: "evitate/evitare",
    Atom.OMIT: "dimenticare/dimenticate",
    Atom.WITHOUT: "senza/tranne/eccetto/a meno che",
    Atom.UNTIL: "prima/fino/finché",
    Atom.AT_MOST: "al massimo/non più di/non superare",
    Atom.AT_LEAST: "almeno/non meno di",
    Atom.NOTHING: "non solo",
}
_RUSSIAN: Final = {
    Atom.MUST: "должен/должна/должно/должны/следует",
    Atom.NEED: """
        нужно/нужен/нужна/нужны/надо/необходимо/необходим/необходима/обязан*/требуется/требуются/обязательно
        обязателен/обязательна/обязательны/приходится
    """,
    Atom.MAY: """
        можно/может/могут/можете/можем/можешь/разрешен*/разрешён*/разрешает*/разрешают*/допускает*/допустимо
        вправе/позволен*/позволяется/разреши*
    """,
    Atom.BAN: "нельзя/запрещен*/запрещён*/запрещает*/запрещают*/воспрещ*/недопустим*/запрет/запрета/запрету",
    Atom.OPTIONAL: "необязательн*/незачем/нет необходимости/нет нужды/нет надобности/нет смысла",
    Atom.ALWAYS: "всегда/каждый раз/неизменно/в любом случае",
    Atom.ONLY: "только/лишь/исключительно",
    Atom.NEVER: "никогда/ни в коем случае/ни при каких обстоятельствах/ни при каких условиях/никто/никому/ни за что",
    Atom.NOT: "не/ни/нет",
    Atom.AVOID: "избегай/избегайте/избегать/избегаем",
    Atom.OMIT: "забудь/забудьте/забывай/забывайте/забыть/забывать",
    Atom.WITHOUT: "без/кроме/если не/если только не/если только",
    Atom.UNTIL: "до/пока/пока не/прежде/перед",
    Atom.IF: "если/когда/потому что/так как/поскольку",
    Atom.AT_MOST: "не более/не больше/максимум/не превышать",
    Atom.AT_LEAST: "не менее/не меньше/минимум/по крайней мере/хотя бы",
    Atom.NOTHING: "не только",
}
_HEBREW: Final = {
    Atom.MUST: "יש (ל*)",
    Atom.NEED: "חייב/חייבת/חייבים/חייבות/צריך/צריכה/צריכים/צריכות/חובה/נדרש*/דרוש*/הכרחי*/מחויב*/נחוץ",
    Atom.MAY: "מותר*/רשאי*/אפשר/ניתן/יכול*/מורש*",
    Atom.BAN: "אסור*/אין (ל*)/נאסר*/איסור",
    Atom.OPTIONAL: "אין צורך/אין חובה/אופציונלי*/רשות",
    Atom.ALWAYS: "תמיד/בכל מקרה/בכל פעם/בכל עת",
    Atom.ONLY: "רק/בלבד/אך ורק",
    Atom.NEVER: "לעולם/לעולם לא/לעולם אין/לעולם אל/אף פעם/אף פעם לא/בשום אופן/בשום אופן לא/בשום פנים/בשום מקרה/אף אחד",
    Atom.DO_NOT: "אל (ת*)/לא (ל*)/נא לא",
    Atom.NOT: "לא/אינו/אינה/אינם/אינן/בלתי",
    Atom.AVOID: "הימנע*/להימנע/הימנעו",
    Atom.OMIT: "תשכח*/לשכוח",
    Atom.WITHOUT: "בלי/ללא/אלא אם/אלא אם כן/למעט/מלבד/חוץ",
    Atom.UNTIL: "עד/לפני/בטרם",
    Atom.IF: "אם/כאשר/כי/משום/מפני",
    Atom.AT_MOST: "לכל היותר/לא יותר/מקסימום",
    Atom.AT_LEAST: "לפחות/לא פחות/מינימום",
    Atom.NOTHING: "לא רק/יש לנו/יש לי/יש לו/יש לה/יש להם/יש לך/יש לכם/אין לנו/אין לי/אין לו/אין לה/אין להם/אין לך/אין לכם",
}
_ARABIC: Final = {
    Atom.MUST: "يجب/ينبغي/لا بد/لابد/يتعين/عليك/عليكم/تأكد/تاكد",
    Atom.NEED: "يلزم/لازم/ضروري/الضروري/إلزامي/الزامي/مطلوب/يتطلب/واجب/إجباري/اجباري/يشترط",
    Atom.MAY: "يجوز/يمكن*/يسمح/مسموح*/المسموح/جائز/بإمكان*/يحق/مباح/تستطيع/يستطيع",
    Atom.BAN: "ممنوع*/محظور*/يمنع/تمنع/يحظر/تحظر/محرم/ممنوعا",
    Atom.OPTIONAL: "لا داعي/لا حاجة/اختياري*/لا ضرورة/ليس ضروريا",
    Atom.ALWAYS: "دائما/دوما/كل مرة/على الدوام/باستمرار",
    Atom.ONLY: "فقط/حصرا/لا غير",
    Atom.NEVER: "أبدا/ابدا/مطلقا/بأي حال/تحت أي ظرف/إياك/قط/نهائيا/لا أحد",
    Atom.DO_NOT: "لا (ت*)",
    Atom.NOT: "لا/لن/لم/ليس/ليست/غير/ألا/عدم",
    Atom.AVOID: "تجنب/تجنبوا/امتنع",
    Atom.OMIT: "تنس/تنسى/تنسوا",
    Atom.WITHOUT: "بدون/دون/من دون/إلا/إلا إذا/الا اذا/ما لم/باستثناء/سوى",
    Atom.UNTIL: "قبل/حتى",
    Atom.IF: "إذا/اذا/لو/عندما/لأن/بسبب/طالما",
    Atom.AT_MOST: "على الأكثر/كحد أقصى/بحد أقصى/لا يزيد/لا يتجاوز/لا تتجاوز",
    Atom.AT_LEAST: "على الأقل/كحد أدنى/بحد أدنى/لا يقل/لا تقل",
    Atom.NOTHING: "ليس فقط/لا مشكلة",
}
#: Words that say two things at once.
_DOUBLE: Final = {
    (Atom.CAN, Atom.NOT): "cannot/can't/couldn't",
    (Atom.MUST, Atom.NOT): "mustn't/shouldn't/shan't/mustnt/oughtn't/يجب ألا/يجب الا/ينبغي ألا",
    (Atom.MAY, Atom.NOT): "mayn't/disallow",
}
_LANGUAGES: Final = (
    *(_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _PORTUGUESE, _ITALIAN, _RUSSIAN, _HEBREW, _ARABIC),
)


def _phrases() -> Iterator[tuple[str, tuple[Atom, ...]]]:
    single = [((atom,), phrases) for language in _LANGUAGES for atom, phrases in language.items()]
    for atoms, phrases in (*single, *_DOUBLE.items()):
        for line in phrases.splitlines():
            yield from ((phrase.strip(), tuple(atoms)) for phrase in line.split("/") if phrase.strip())


#: The phrases of every language written with spaces, and what they do.
PHRASES: Final[tuple[tuple[str, tuple[Atom, ...]], ...]] = tuple(_phrases())

#: Chinese, Japanese and Korean: the first alternative that fits wins, so longer ones are first.
_DENSE_PATTERNS: Final[tuple[tuple[tuple[Atom, ...], str], ...]] = (
    (
        (Atom.NOTHING,),
        "不仅|不僅|不只|不光|不但|只要|だけでなく|のみならず|뿐만 아니라|没问题|不要紧|是不是|要不要|能不能",
    ),
    ((Atom.AT_MOST,), "最多|至多|不得?能?可?超[过過]|上限|以内|以內|最大|以下|이하|이내|최대"),
    (
        (Atom.AT_LEAST,),
        "至少|最少|不得?能?可?少于|不得?能?可?低于|起码|以上|少なくとも|最低|이상|최소|적어도",
    ),
    (
        (Atom.MUST,),
        "不得不|不能不|不可不|ないわけにはいか(?:ない|ません)|지 않으면 (?:안 ?(?:된다|됩니다|돼요?|되)|아니 ?되)",
    ),
    (
        (Atom.OPTIONAL,),
        "不必|不用|[无無毋][需须須]|不需要?|[没沒]有?必要|不一定|不[强強]制|可[选選]的?|非必[须須]|不是必[须須]"
        "|(?:な|無)くても?(?:よい|良い|いい|構わない|かまわない|構いません|よろしい)|(?:な|無)くて(?:いい|よい)"
        "|必要(?:は|が|も)?(?:ない|無い|ありません|なし)|不要(?=です|だ|で|に|。|$)|任意|必ずしも"
        "|지 ?않아도 ?(?:된다|됩니다|돼요?|되|좋)?\\S*|안 ?해도 ?\\S*|필요(?:는|가|도)? ?없\\S*|선택 ?사항",
    ),
    (
        (Atom.BAN,),
        "禁止|[严嚴]禁|不得|不要|不可以?|不能(?:够|夠)?|不[许許准]|不[应應][该該当當]?|不[该該]|不允[许許]|不准[许許]"
        "|切勿|[请請]勿|勿|[绝絕]不(?:能|可|得|要|允许|許)?|[决決]不(?:能|可|得)?|永不|从不|從不|从来不"
        "|千万(?:别|不要|不能)|(?<![区區特分级級类類识識个個性辨告])[别別](?![的人处處名])|杜[绝絕]"
        "|(?:て|で)は(?:いけ(?:ない|ません)|なら(?:ない|ず|ぬ)|なりません|だめ|ダメ|駄目)(?:です|だ)?|ちゃ(?:だめ|いけない)"
        "|厳禁|ないで(?:ください|下さい|くれ)|ないこと|べきでは?(?:ない|ありません)|べきじゃない|べからず"
        "|許可(?:され|し)(?:て(?:い)?)?(?:ない|ません)|許され(?:ない|ません)|認められ(?:ない|ません)|不可|(?<=[るうくすつむぶぐぬ])な(?=[。！!]|$)"
        "|(?:하)?면 ?안 ?(?:된다|됩니다|돼요?|되\\S*|됨)|(?:해)?서는 ?안 ?(?:된다|됩니다|돼요?|되\\S*|됨)|금지(?:된다|됩니다|되어 있\\S*|한다|합니다|됨)?"
        "|지 ?(?:마(?:라|세요|십시오|시오)?|말(?:라|고|것)?)(?: ?것)?|말 ?것|지 ?말아야 ?\\S*|말아야 ?\\S*|불가(?:능(?:하다|합니다)?)?|불허"
        "|허용(?:되|하)지 ?않\\S*|허용 ?안 ?\\S*",
    ),
    (
        (Atom.MUST,),
        "必[须須]|[务務]必|一定要|[应應][当當该該]|总是|總是|始[终終]|一律|必要时?须|必[应應]|[须須](?!知)|需要|(?<![主重不只需想将就快简摘概提首])要(?![求点點素么麼是不件闻聞])"
        "|(?:な|無)ければ(?:なら(?:ない|ず|ぬ)|なりません|いけ(?:ない|ません))|(?:な|無)くては(?:なら(?:ない|ず)|なりません|いけ(?:ない|ません))"
        "|ねばなら(?:ない|ず|ぬ)|ないと(?:いけ(?:ない|ません)|だめ)|なきゃ(?:いけない|ならない)?|べき(?:だ|です|である)?"
        "|必ず|必須|必要(?:が|も)?(?:ある|あります)|必要(?:です|だ)?|義務(?:付け|づけ)?|(?:て|で)(?:ください|下さい)"
        "|(?<=[るうくすつむぶぐぬ])こと(?=[。．\\s]*$)|ものとする|せよ|しろ(?=[。！!]|$)|常に|いつも"
        "|(?:하)?여?야 ?(?:한다|합니다|하며|하고|해요?|할|함|됩니다|된다)|해야 ?(?:한다|합니다|하며|하고|해요?|할|함|됩니다|된다)?"
        "|[어아]야 ?(?:한다|합니다|하며|하고|해요?|할|함|됩니다|된다)|필수(?:이다|입니다|다)?|반드시|꼭|항상|언제나|하십시오|하세요|할 것"
        "|필요(?:가)? ?(?:있|하|합)\\S*|의무(?:이다|입니다)?",
    ),
    (
        (Atom.ONLY,),
        "才(?:能|可以?|[准許许])|方可|只(?:能|有|可|准|[许許]|允[许許]|限)|[仅僅]限?|のみ|だけ|しか|만(?=\\s)|오직",
    ),
    (
        (Atom.MAY,),
        "可以|允[许許]|准[许許]|[许許]可|(?<![不非])能够|(?<![不非可功性])能(?=[在从從把被由用直])"
        "|(?:て|で)も(?:よい|良い|いい|よろしい|構わない|かまわない|構いません)(?:です)?|(?:て|で)(?:よい|いい)(?:です)?"
        "|可能(?:です|だ|である)?|でき(?:る|ます)|許可(?:され(?:て(?:いる|います)|る|ます)?)?|許され(?:る|ます)|認められ(?:る|ます)"
        "|(?:해)?도 ?(?:된다|됩니다|돼요?|되\\S*|좋\\S*|괜찮\\S*)|허용(?:된다|됩니다|되\\S*|한다|합니다)?|가능(?:하다|합니다)?|[할을ㄹ] ?수 ?있\\S*|허가(?:된다|됩니다)?",
    ),
    ((Atom.CAN, Atom.NOT), "でき(?:ない|ません)|[할을] ?수 ?없\\S*|못 ?(?:한다|합니다)"),
    ((Atom.AVOID,), "避免|避け(?:る|て|ること)?|피(?:하|해)\\S*"),
    ((Atom.OMIT,), "忘记?|忘記|忘れ|漏掉|잊"),
    ((Atom.WITHOUT,), "除非|除了|未[经經]|なしで|なしに|ない限り|以外|を除き|を除いて|없이|제외|외에는?"),
    ((Atom.UNTIL,), "之前|以前|直到|前に|まで|전에(?:는)?|까지"),
    (
        (Atom.NOT,),
        "不|[没沒]|(?<!除)非|ません|ない|ず(?:に)|ぬ(?=[。．]?$)|지 ?않\\S*|(?<![가-힣])안 (?=[가-힣])|없\\S*",
    ),
)
DENSE: Final = re.compile(
    "|".join(f"(?P<a{at}>{pattern})" for at, (_, pattern) in enumerate(_DENSE_PATTERNS))
)
DENSE_ATOMS: Final = tuple(atoms for atoms, _ in _DENSE_PATTERNS)
#: A part of a sentence that ends so is a condition (Japanese, Korean), or begins so (Chinese).
DENSE_CONDITION: Final = re.compile(
    r"^\s*(?:如果|若|假如|要是|只要|当|當|因为|因為|由于)"
    r"|(?:たら|れば|なら|場合(?:に?は)?|とき(?:に?は)?|時(?:に?は)|ため|ので|면|경우(?:에?는?)|때(?:에?는?)|때문에)\s*$"
)

_CONTRASTS_WORDS: Final = """
but however and or aber sondern und oder mais et ou pero sino y o mas e ma но а и или אבל אך לכן
لكن بل
"""

_EVENTS_WORDS: Final = """
is are was were has have had did does do will would can could found failed passed remain
remained occurred exist exists appeared came went seen happened needs need required
"""

_HELPERS_WORDS: Final = """
werden wird worden sein sind be been being être ser быть
"""

_PORTUGUESE_WORDS: Final = """
não o os as a de que para por do da dos das em nos nas ao um uma você com são é pelo pela
"""

_SPANISH_WORDS: Final = """
el la los las de en que por para con del al un una se lo su
"""

_ENGLISH_WORDS: Final = """
the of in to on for with is are was and that this it at from by
"""
#: Words that begin another statement.
CONTRASTS: Final = frozenset(_CONTRASTS_WORDS.split())
#: Verbs with which an English sentence reports an event.
EVENTS: Final = frozenset(_EVENTS_WORDS.split())
#: Verbs that accompany another verb.
HELPERS: Final = frozenset(_HELPERS_WORDS.split())
#: Words that distinguish languages in which *no* means something else.
PORTUGUESE: Final = frozenset(_PORTUGUESE_WORDS.split())
SPANISH: Final = frozenset(_SPANISH_WORDS.split())
ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())
