"""Words of written prices in many languages: words of size such as "million", and units such as "per month"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from pricekit.table.currency import currency_signs, without_signs
from pricekit.text.numbers import SIZE_WORDS, folded, size_named
from pricekit.text.patterns import lazy_pattern

_UNITS = """
piece   piece pieces pc pcs ea each unit units item items set sets pack packs box bag bottle pair stück
piece   stueck stk st apartment flat house car plot lot шт штуку штука ед szt sztuka sztukę ks kus kpl db
piece   buc бр adet pièce pz pezzo pza pieza ud uds unidad unidade un und stuk stuks 個 个 件 台 套 枚 本 袋 瓶 盒
piece   hộp gói chai lon thùng τεμ τμχ τεμάχιο 只 辆 개 대 ชิ้น buah chiếc cái căn bộ قطعة عدد יחידה
m2      m2 m² m^2 ㎡ qm sqm sq.m sq.meter sq.metre square.meter square.metre mq mp кв.м м2 м² 平米 平方米 平方公尺
m2      ตร.ม mkv kvm متر
m3      m3 m³ cbm м3 м³ 立方米
sqft    sqft sq.ft sq.feet ft2 ft² sf square.foot square.feet
sqyd    sqyd sq.yd sq.yard sq.yards gaj
acre    acre acres
ha      ha hectare hektar га
坪       坪 tsubo 평
month   month months mo mth mon monat mois mes mese mês maand miesiąc mies měsíc měs mesiac hónap hó lună
month   мес месяц міс місяць månad mån md mdr måned kk kuukausi ay tháng bulan bln 月 個月 个月 월 เดือน شهر
month   μήνα ماه חודש माह महीना মাস
week    week weeks wk woche semaine semana settimana tydzień týden неделю неделя нед тиждень vecka uke
week    uge viikko hafta tuần minggu 周 週 주 สัปดาห์ أسبوع هفته שבוע
day     day days tag jour día dia giorno dag dzień den день сутки сут добу päivä gün ngày hari 日 天 일 วัน
day     يوم روز יום दिन
night   night nacht nuit noche noite notte noc ночь ніч natt nat gece đêm malam 泊 晚 박 คืน ليلة شب לילה
hour    hour hours hr hrs h std stunde heure hora ora uur godz godzina hodina óra час ч година timme tim
hour    time tunti t saat giờ jam 小时 小時 時間 시간 ชั่วโมง ساعة ساعت שעה घंटा
year    year years yr yrs y annum jahr an année año ano anno jaar rok év год рік år vuosi yıl năm tahun 年
year    년 ปี سنة سال שנה वर्ष
kg      kg kilo kilogram kilogramm кг 公斤 千克 キロ กิโลกรัม กก كجم کیلو ק"ג
g       g gr gram gramm г 克 グラム กรัม
t       tonne tonnes ton tons тонна тонну тн 吨
lb      lb lbs pound
oz      oz ounce
l       l lt ltr liter litre litro litr л литр リットル 升 ลิตร لتر
ml      ml мл 毫升
gal     gal gallon
m       m meter metre metro mb м 米
ft      ft foot
km      km км 公里
mile    mi mile
kwh     kwh квтч
person  person pers pax guest guests personne persona pessoa чел человека osoba osobę osoby kişi người
person  orang 人 명 คน شخص נפש
"""
"""In each line a unit of prices and its spellings; a point stands for an optional point or space."""

_ADVERBS = """
month   pcm pm pppm p.c.m monthly monatlich monatl mtl mensuel mensuels mensal mensual mensile miesięcznie měsíčně
month   ежемесячно aylık شهريا ماهانه לחודש
week    pw pppw p.w weekly wöchentlich לשבוע
day     daily täglich ליום
night   nightly ללילה
hour    hourly לשעה
year    p.a yearly annually jährlich annuel לשנה
person  pp ppn
sqft    psf
m2      psm למ"ר
kg      לק"ג
"""
"""Adverbs and abbreviations that name the unit of a price by themselves, such as "monthly" and "pcm"."""

TOTAL = "total"
"""The name of prices that are not per a unit."""

_HAN = {"十": 10, "십": 10, "百": 100, "백": 100, "千": 1e3, "천": 1e3, "万": 1e4, "萬": 1e4, "만": 1e4}
_HAN |= {"億": 1e8, "亿": 1e8, "억": 1e8, "兆": 1e12, "조": 1e12}

_WITHOUT_SPACES = lazy_pattern("[\u3005\u0900-\u0dff\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7af¢￠㎡²]$")
"""Words that end in such a character may touch the next word."""


def _words(table: str) -> Iterator[tuple[str, str]]:
    """Yield the name at the start of each line of a table, with each of its spellings."""
    for line in table.strip().splitlines():
        name, *spellings = line.split()
        yield from ((name, spelling) for spelling in spellings)


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern of words, longest first; a point and a space in a word are optional, and a point may follow."""
    whole: list[str] = []
    touching: list[str] = []
    for word in sorted(words, key=len, reverse=True):
        letters = r"[. ]{0,2}".join(map(re.escape, re.split("[. ]", word))).replace(r"\*", r"[^\W\d_]*")
        (touching if _WITHOUT_SPACES.search(word) else whole).append(letters)
    # One class of characters for all words, in which case does not matter: to compile it takes long.
    patterns = [rf"(?:{'|'.join(whole)})(?-i:(?![^\W_\u3040-\u9fff\uac00-\ud7af]))"] if whole else []
    return "|".join(patterns + touching)


@cache
def _any_unit(least: int = 1) -> str:
    """Return a pattern of the spellings of units with at least a number of characters."""
    return _any_of(word for _, word in _words(_UNITS) if len(word) >= least)


_SIZE = lazy_pattern(lambda: rf"\s?(?P<word>{_any_of(SIZE_WORDS)})(?:\.(?![^\W_]))?", re.IGNORECASE)
_HAN_SIZE = lazy_pattern(lambda: rf"\s?([{''.join(_HAN)}]+)")
_ABBREVIATIONS = tuple(
    (lazy_pattern(pattern), factor)
    for pattern, factor in (
        # "mil" is a million in Czech, Slovak and Romanian; a thousand in Spanish and Portuguese, without a point.
        (r"\s?[mM][iI][lL](?:\.|(?=\s?(?:Kč|Sk|lei)))", 1e6),
        (r"\s?[mM][iI][lL](?![^\W_])", 1e3),
        (
            r"[kKк](?![^\W_]|\.\w)|\s[kK](?=\s*$)|\s?[kK](?=€|\$|£|EUR|kr\b)|\s?[tT](?=€|EUR|kr\b)|\s?T(?=\s(?:€|EUR))|\s?e(?=\s?Ft)|[kKtT](?=(?:NOK|SEK|DKK|USD|CHF)\b)",
            1e3,
        ),
        (
            r"\s?т\.?(?=\s?р)|\s?(?:тыр|тыщ\w*|rebu)\b|\sк(?=\s?[₽р]|\s*$)|\s?[bB][iİI][nN](?=\s?(?:TL|₺|lira|TRY|$))",
            1e3,
        ),
        (
            r"M(?![^\W_])|\s?M(?=€|\$|£|EUR)|m(?=€)|\s?[mM](?=Ft|kr\b)|\s?mn(?=kr\b)|\s?M(?=(?:NOK|SEK|DKK|USD|CHF)\b)",
            1e6,
        ),
        (r"\s?ลบ\.?|\s?лям\w*|\s?[mM]ill(?=\.|\s?(?:kr|NOK|DKK))|\s?tr(?![^\W\d_])", 1e6),
        (r"[wW](?=[元起])", 1e4),
        (r"B(?![^\W_])|\s?md(?=kr\b)", 1e9),
    )
)
"""Short forms, which mean a factor only next to some signs or without a space."""

_STRANGE_SIZE = lazy_pattern(
    r"\s?(?:[^\W\d_]*il[ijlh]{1,2}(?:on|oe?n|ard|ão|ón|õe)|ton\b|(?:juta|ribu)an\b|ล\.)", re.IGNORECASE
)

# With a currency sign: a separate capital or a small letter next to the number; not a size (M / L) or name (M8).
_LETTER = lazy_pattern(
    r"(?:(?P<apart>\s?)(?P<letter>mi|mn|bi|MM|tn|[kKMBLTwW])|(?P<small>[mb]|mm(?=\W*$)))"
    r"(?![^\W_]|\.\w|(?<=T)\s?(?:€|EUR)|\s?[/-]\s?(?:[SML]|X+[SL])\b|-[^\W\d_])"
)
_LETTERS = {"k": 1e3, "m": 1e6, "mn": 1e6, "mm": 1e6, "b": 1e9, "tn": 1e12, "t": 1e12}
_INDIA = {"k": 1e3, "l": 1e5}
_LETTERS_OF = dict.fromkeys(("INR", "Rs", "PKR", "BDT", "NPR", "LKR"), _INDIA)
_LETTERS_OF |= {"¥": _LETTERS | {"w": 1e4}, "CNY": _LETTERS | {"w": 1e4}}
_LETTERS_OF |= {"IDR": _LETTERS | {"m": 1e9}, "BRL": _LETTERS | {"mi": 1e6, "bi": 1e9}}

UNITS: dict[str, str] = {}
for _name, _word in _words(_UNITS):
    UNITS.setdefault(folded(_word.replace(".", "")), _name)
_ADVERB_UNITS = {folded(word.replace(".", "")): unit for unit, word in _words(_ADVERBS)}

_COUNT = r"(?:(?P<{}>1000?|100?|1)\s?)?"
_PER = lazy_pattern(
    lambda: (
        rf"(?:/|\b(?:per|pro|par|je|pr\.?)(?!\w)|ต่อ|प्रति)\s?{_COUNT.format('count')}(?P<unit>{_any_unit()})\.?"
        rf"|\b(?:(?:a|an|al|ao|o|le|la|por|die|der|das|im|am|i|om|в|за|na|za|mỗi)\s|(?:de\s)?l'){_COUNT.format('several')}(?P<weak>{_any_unit(2)})\.?"
        rf"|每\s?(?P<each>{_any_unit()})"
        r"|(?:/|\bper)\s?(?P<strange>[^\W\d_]{1,20})\.?"
        rf"|(?<![^\W\d_])(?P<adverb>{_any_of(word for _, word in _words(_ADVERBS))})\.?"
    ),
    re.IGNORECASE,
)
_AHEAD = """
month 月額 月給 月租 月々 月供 月 al.mes al.mese 월세 월급 월
year  年収 年俸 年額 연봉
day   日給 일당
hour  時給 시급
"""
"""Words before a price; adverbs may be there, too: monthly $5."""

_AHEAD_UNITS = _ADVERB_UNITS | {word.replace(".", ""): unit for unit, word in _words(_AHEAD)}
_BEFORE_PRICE = lazy_pattern(
    lambda: (
        rf"(?<![^\W_])(?P<word>{_any_of(word for _, word in _words(_AHEAD + _ADVERBS.strip()))})\.?"
        r"(?=[\s:]{0,2}(?:[^\W\d_]{1,3}|[^\w\s])?\s?[0-9])"
    ),
    re.IGNORECASE,
)
_EQUALS = lazy_pattern(
    lambda: rf"(?<![^\W_]){_COUNT.format('count')}(?P<unit>{_any_unit()})\.?\s?(?:=|あたり|につき)\s?",
    re.IGNORECASE,
)
_DIGIT = lazy_pattern("[0-9]")
_CLOTHES_SIZE = lazy_pattern("[SML]|X+[SL]")


def size_of(after: str) -> tuple[float, int]:
    """Return the factor of the words of size at the start of a text, and their number of characters.

    Example:
        >>> size_of(" Mio. €"), size_of(" lakh crore"), size_of("万円"), size_of(" pieces")
        ((1000000.0, 5), (1000000000000.0, 11), (10000.0, 1), (1.0, 0))
    """
    factor, end = _size_at(after, 0)
    while factor >= 1e3:  # such as "lakh crore" and "mil milhões"
        further, stop = _size_at(after, end)
        if further < factor or stop == end:
            break
        factor, end = factor * further, stop
    return factor, end


def _size_at(text: str, start: int) -> tuple[float, int]:
    if han := _HAN_SIZE.match(text, start):
        return math.prod(_HAN[sign] for sign in han[1]), han.end()
    if word := _SIZE.match(text, start):
        return size_named(word["word"]), word.end()
    for pattern, factor in _ABBREVIATIONS:
        if short := pattern.match(text, start):
            return factor, short.end()
    return 1.0, start


def is_han_size(after: str) -> bool:
    """Return whether a text starts with a word of size after which "." is the decimal mark: 1万2800円."""
    return _HAN_SIZE.match(after) is not None


def is_strange_size(after: str) -> bool:
    """Return whether a text starts with a word like "gazillion", which no language of the table has."""
    return _STRANGE_SIZE.match(after) is not None


def letter_size(after: str, currency: str | None) -> tuple[float, int]:
    """Return the same as `size_of` for a letter, which counts only with a currency: $1.2 M, £1.63m, ₹22.9 L."""
    letter = _LETTER.match(after) if currency else None
    if letter is None or (letter["letter"] == "T" and letter["apart"] and currency != "IDR"):
        return 1.0, 0
    factor = _LETTERS_OF.get(currency or "", _LETTERS).get((letter["letter"] or letter["small"]).lower())
    return (factor, letter.end()) if factor else (1.0, 0)


def unit_named(name: str) -> str:
    """Return the name of a unit that a user spells; an unknown one as it is.

    Example:
        >>> unit_named("sq.ft"), unit_named("Monat"), unit_named("100 g"), unit_named("desk"), unit_named("total")
        ('sqft', 'month', '100 g', 'desk', 'total')
    """
    count, word = re.fullmatch(r"\s*(\d*)\s*(.*?)\s*", name.lower(), re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{count} {_plain_unit(word)}".strip()


def _plain_unit(word: str) -> str:
    bare = folded(re.sub("[. ]", "", word))
    return UNITS.get(bare) or _ADVERB_UNITS.get(bare) or word.lower()


@dataclass(frozen=True)
class Units:
    """The units in a text; None stands for a piece, whose price is a total.

    Attributes:
        behind: the units that follow a price, by their start: "$5 per kg".
        before: those before one, by their end: "1 kg = $5".
    """

    behind: Mapping[int, str | None]
    before: Mapping[int, str | None]

    def of(self, text: str, start: int, end: int, limit: int) -> str | None:
        """Return the unit of a price in a text without units.

        Args:
            text: as `without_units` returns it.
            start: where the price starts.
            end: where it ends.
            limit: where the next one starts.
        """
        named: list[str] = []
        for place, unit in self.behind.items():
            between = text[end:place].lstrip(" (") if end <= place < limit else "("
            if "(" not in between and not (named and between.strip()):
                named += [unit] if unit else []
                end = place
        if named:
            return "/".join(named)
        return next((unit for place, unit in self.before.items() if _is_next(text, place, start)), None)


def _is_next(text: str, end: int, start: int) -> bool:
    return end <= start and not without_signs(text[end:start]).strip(" .")


def without_units(text: str) -> tuple[str, Units]:
    """Return a text of the same length with blanks in place of units such as "per month", and the units."""
    behind: dict[int, str | None] = {}
    before: dict[int, str | None] = {}
    spans = []
    first = _DIGIT.search(text)
    for match in _PER.finditer(text, first.end()) if first else ():
        word = next(filter(None, match.group("unit", "weak", "each", "strange", "adverb")))
        if _is_unit(text[: match.start()], word) and not (match["strange"] and word in currency_signs()):
            behind[match.start()] = _counted(match["count"] or match["several"], word)
            spans.append(match.span())
    for match in _EQUALS.finditer(text):
        before[match.end()] = _counted(match["count"], match["unit"])
        spans.append(match.span())
    for match in _BEFORE_PRICE.finditer(text):
        before[match.end()] = _AHEAD_UNITS[folded(re.sub("[. ]", "", match["word"]))]
        spans.append(match.span())
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text, Units(behind, before)


def _is_unit(before: str, word: str) -> bool:
    """Return whether a word behind "/" is a unit, and not a size of clothes (M / L)."""
    return not (_CLOTHES_SIZE.fullmatch(word) and before.rstrip()[-1:].isalpha())


def _counted(count: str | None, word: str) -> str | None:
    unit = _plain_unit(word)
    if unit == "piece":
        return None
    return unit if count in (None, "1") else f"{count} {unit}"
