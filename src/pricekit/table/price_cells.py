"""Read one cell of a price column: its number, decimal mark, multiplier and currency."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pricekit.table.currency import currency_in, find_currency, without_signs
from pricekit.table.table import NO_PRICE, NOT_A_NUMBER

PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A pattern for Arrow: a cell that contains only a number as programs write it."""

# Groups of three digits with a space or an apostrophe between them, or any digits, commas and points.
NUMBER = re.compile(
    r"\d{1,3}(?:([ '])\d{3})(?:\1\d{3})*(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*|(?<![\w/])[.,]\d+", re.ASCII
)
"""A number anywhere in a price; group 1 is the space or apostrophe between its groups."""

WORD = re.compile(r"[^\W\d_]+")

MAX_CHARS = 200
"""A longer cell is not a price."""
_MAX_LETTERS = 20
"""A cell without a currency sign and with more letters is a sentence that contains a number."""

_TORN = re.compile(r"(?:\s?[.,]\s|\s(?=\d\d\W*$))\d{2,3}(?!\d|\s?%|\s?[^\W\d_])")
_TORN_BEFORE = re.compile(r"\d\s?[.,]\s$")
_PENCE = re.compile(r"p(?![^\W_])")
_NOW = re.compile(r"\b(?:now|sale|jetzt|ahora|maintenant|adesso|agora|teraz|сейчас)\b", re.IGNORECASE)
_UP_TO_PRICE = re.compile(
    r"[\s:=!]*(?:\(?-?\d{1,2}\s?%\)?[\s:=!]*)?(?:(?:only|just|for|from|down|reduced|to|at|price|nur|noch|ab|für|solo|sólo|por|a"
    r"|à|partir|de|seulement|apenas|tylko|już|od|za|только|от|за)\b[\s:=!]*)*",
    re.IGNORECASE,
)
_WAS = re.compile(
    r"\b(?:was|were|statt|instead|reg|regular|rrp|msrp|uvp|list|old|before|antes|avant|prima|vorher|było|было|раньше)\b",
    re.IGNORECASE,
)
_DISCOUNT = re.compile(r"\s*%|[^\w%]{0,3}off\b", re.IGNORECASE)
_PER_CENT = re.compile(r"\d+\s?%")
_COUNT = re.compile(r"\s?/\s?[€£$₹]\s?")
_FRACTION = re.compile("[¼½¾⅓⅔]")
_MINUS_BEHIND = re.compile(r"-\W*")
_RANGE = re.compile(r"\s*(?:-|/|~|〜|～|\.{2,3}|…|to|or|bis|oder|до|или|à|ou|a|o)\s*")
_DASH_AS_DECIMALS = re.compile(r"([.,])\s?-")
_NEGATIVE = re.compile(r"[^\w(]*-\s*[^\w]*|\(\s*[^\w]*")
_LETTER_BEFORE = re.compile(r"[A-Za-z]$")
_FREE = re.compile(r"free|gratis|for free|kostenlos|gratuit|бесплатно|無料|免费|무료|miễn phí", re.IGNORECASE)
_NO_DIGIT = re.compile("[^0-9.,]")
_BEFORE = re.compile(
    r"from|price|only|just|about|ca|circa|approx|ab|nur|preis|vb|von|à|partir|de|prix|desde|precio|solo|da|prezzo|od|cena"
    r"|от|цена|около|从|约|約|価格|定価|税込|税抜|价格|售价|가격|약|từ|giá|chỉ",
    re.IGNORECASE,
)
_MISSING = re.compile(r"#?n/a|na|n\.a\.|none|null|nil|unknown|tb[da]|-{1,3}|\?+|\.{1,3}", re.IGNORECASE)
_MONTH = re.compile(
    r"jan|janv|feb|febr|févr|fev|mar|mär|märz|mrz|mrt|mars|apr|avr|abr|kwi|mai|may|maj|mag|mei|jun|juni|juin|giu|cze|jul"
    r"|juli|juil|lug|lip|aug|août|ago|sie|sep|sept|wrz|oct|okt|ott|paź|nov|nov|lis|dec|dez|déc|dic|dzi|gru|sty|lut|ene|gen"
    r"|янв|фев|мар|апр|май|мая|июн|июл|авг|сен|окт|ноя|дек",
    re.IGNORECASE,
)
_UNCLEAR = re.compile(r"\s?mil\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cell:
    """A price as it is written in a cell.

    Attributes:
        digits: the number: digits, "." and "," only.
        decimal_mark: "." or "," if the number itself shows its decimal mark; else None.
        ambiguous_mark: "." or "," if it precedes the last three digits and may be a decimal mark or separate
            thousands; else "".
        factor: multiplies the number; negative for a negative price.
        currency: as `find_currency` returns it.
        has_several: the cell contains other prices, too.
        in_pence: the number is small and followed by "p": a hundredth in a column in pounds.
        start: position of the number in the cell; -1 if the number is not a substring of the cell.
        length: of that substring.
    """

    digits: str
    decimal_mark: str | None = None
    ambiguous_mark: str = ""
    factor: float = 1.0
    currency: str | None = None
    has_several: bool = False
    start: int = -1
    length: int = 0
    in_pence: bool = False

    def value(self, decimal: str) -> float:
        """Return the price; `decimal` is the decimal mark unless the number itself shows its mark."""
        mark = self.decimal_mark or decimal
        group = "," if mark == "." else "."
        whole, _, rest = self.digits.partition(mark)
        return self.factor * float(f"{whole.replace(group, '') or '0'}.{rest or '0'}")


@lru_cache(maxsize=1 << 16)
def read_cell(text: str) -> Cell | str:
    """Return the price in a cell, or the reason for its absence.

    Example:
        >>> read_cell("1.299,00 €").value(","), read_cell("on request")
        (1299.0, 'price not a number')
    """
    shown = html.unescape(text)  # &#8377; 1,299
    if len(shown) > MAX_CHARS or "\0" in shown or _FRACTION.search(shown):
        return NOT_A_NUMBER
    plain = to_ascii(shown)
    if _FREE.fullmatch(plain.strip()):
        return Cell("0")
    if _MISSING.fullmatch(plain.strip()):
        return NO_PRICE
    plain = normalize(plain)
    prices = [price for price in _numbers(plain) if price is not None]
    signed = [price for price in prices if price.currency]
    chosen = signed or prices
    if not chosen or (not signed and not _bare_price(plain)):
        return NOT_A_NUMBER
    price = _price_after_now(plain, chosen) or chosen[0]
    if _is_torn(plain, price):
        return NOT_A_NUMBER
    there = _NO_DIGIT.sub("", text[price.start : price.start + price.length]) == price.digits
    currency = price.currency or currency_in(plain)
    return replace(price, currency=currency, has_several=len(chosen) > 1, start=price.start if there else -1)


def _is_torn(text: str, price: Cell) -> bool:
    """Return whether a number continues before or after the match, as in $1, 368 and $268 83."""
    if price.decimal_mark or price.ambiguous_mark:
        return False
    ahead = _TORN.match(text, price.start + price.length)
    is_rest = price.length in (2, 3) and not has_words_before(text)
    return bool(ahead) or (is_rest and bool(_TORN_BEFORE.search(text[: price.start])))


def _price_after_now(text: str, prices: list[Cell]) -> Cell | None:
    """Return the current price of "was $20, now $15"; None if no word marks one.

    The word directly precedes the price; or is anywhere before it if a word for the old price precedes the word.
    """
    for now in _NOW.finditer(text):
        old_price = _WAS.search(text[: now.start()])
        price = next((price for price in prices if price.start >= now.end()), None)
        if price is None:
            break
        between = without_signs(text[now.end() : price.start])
        only_price = old_price and not _WAS.search(between) and not NUMBER.search(_PER_CENT.sub("", between))
        if only_price or _UP_TO_PRICE.fullmatch(between):
            return price
    return None


def _bare_price(text: str) -> bool:
    """Return whether a text without a currency sign may be a price: one number or a range, and few words."""
    before = text[: number.start()] if (number := NUMBER.search(text)) else ""
    if not all(map(_BEFORE.fullmatch, WORD.findall(before))):
        return False
    if any(map(_MONTH.fullmatch, WORD.findall(text))):  # 05-Jan: a number that Excel has turned into a date
        return False
    between = NUMBER.split(text)[2:-1:2]  # every other part is group 1 of the pattern
    return (
        len(between) <= 1
        and all(map(_RANGE.fullmatch, between))
        and sum(map(str.isalpha, text)) <= _MAX_LETTERS
    )


def _numbers(text: str) -> list[Cell | None]:
    """Return all numbers of a text, with None for each that is not a price."""
    places = list(NUMBER.finditer(text))
    ends = [0, *(place.end() for place in places)]
    starts = [*(place.start() for place in places), len(text)]
    gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    prices: list[Cell | None] = []
    for i, place in enumerate(places):
        sign = gaps[i - 1] if i and _RANGE.fullmatch(gaps[i]) else gaps[i]  # ₹ 90 - 95 L
        number = _number(place, gaps[i], gaps[i + 1], sign, first=i == 0, last=i == len(places) - 1)
        before = prices[-1] if prices else None
        end = multiplier(gaps[i])[1]
        touching = end == len(gaps[i].rstrip())
        if before and number and touching and before.factor > max(number.factor, 1):
            # After 万, "." is the decimal mark: 1万2800円.
            prices[-1] = _sum(before, number, sure=bool(_HAN_TIMES.match(gaps[i])))
            continue
        between = gaps[i][end:]
        if before and number and _is_range(before, number, gaps[i - 1], between):
            prices[-1], number = _completed(before, number)
        prices.append(number)
    return prices


def _completed(low: Cell, high: Cell) -> tuple[Cell, Cell]:
    """Return both ends of a range with the sign and the multiplier that one end has: 22 - 68 €, 2.3-2.9 lakh."""
    factor = high.factor if low.factor == 1.0 < high.factor else low.factor
    currency = low.currency or high.currency
    return replace(low, currency=currency, factor=factor), replace(high, currency=currency)


def _is_range(low: Cell, high: Cell, before: str, between: str) -> bool:
    """Return whether two numbers may be a range: not a name with a number, nor 2024 - 12 €, 500-2k or 5/12 €."""
    digits = [
        sum(map(str.isdigit, cell.digits.partition(cell.decimal_mark or " ")[0])) for cell in (low, high)
    ]
    named = not low.currency and not all(map(_BEFORE.fullmatch, WORD.findall(before)))
    touching = _RANGE.fullmatch(between) and between.strip() != "/"
    most = 1 if between != between.strip() else 2  # 5-100 €, but 2 - 450 € may be two of something
    return bool(touching) and not named and 0 <= digits[1] - digits[0] <= most


def _number(
    place: re.Match[str], before: str, after: str, sign: str, *, first: bool, last: bool
) -> Cell | None:
    """Return a number as a price, or None if it is not one; `sign` is the text with its currency sign."""
    digits = place[0].replace(" ", "").replace("'", "")
    # A sign after the letter may belong to the next number, and that number may be part of a word: M8.
    seen = after if last else f"{after}0"
    factor, end = letter_multiplier(seen, find_currency(sign, after.lstrip()[1:] if last else ""))
    if factor == 1.0:
        factor, end = multiplier(seen)
    currency = find_currency(before, after[end:])
    if _DISCOUNT.match(after) or (_LETTER_BEFORE.search(before) and not currency):
        return None
    if _UNCLEAR.match(after) and currency in ("$", "USD"):
        return None
    if _COUNT.fullmatch(after) and not find_currency(before, ""):  # 3/$5
        return None
    dash = _DASH_AS_DECIMALS.match(after)
    marks = (dash[1], "") if dash and dash[1] not in digits else _marks(digits)
    if marks is None:
        return None
    mark, either = marks
    minus_after = last and mark and _MINUS_BEHIND.fullmatch(without_signs(after)) and not dash
    if (first and _NEGATIVE.fullmatch(without_signs(before).strip())) or minus_after:
        factor = -factor
    pence = not currency and len(digits) <= 3 and digits.isdigit() and bool(_PENCE.match(after))
    return Cell(digits, mark, either, factor, currency, False, place.start(), len(place[0]), pence)


def _sum(first: Cell, second: Cell, *, sure: bool) -> Cell | None:
    """Return the sum of two parts of a number, such as 1万 and 2800; None if a mark is ambiguous."""
    if not sure and (first.ambiguous_mark or second.ambiguous_mark):
        return None
    total = first.value(".")
    digits = np.format_float_positional(abs(total) + abs(second.value(".")), trim="-")
    return Cell(
        digits,
        "." if "." in digits else None,
        factor=math.copysign(1.0, total),
        currency=first.currency or second.currency,
    )


def _marks(digits: str) -> tuple[str | None, str] | None:
    """Return the decimal mark that a number shows, and its ambiguous mark; None if it is not a number."""
    points, commas = digits.count("."), digits.count(",")
    if not points and not commas:
        return None, ""
    if points and commas:
        mark = max(".,", key=digits.rfind)
        group = "," if mark == "." else "."
        whole = digits.partition(mark)[0]
        return (mark, "") if digits.count(mark) == 1 and _in_groups(whole, group) else None
    mark = "." if points else ","
    other = "," if points else "."
    if points + commas > 1:
        return (other, "") if _in_groups(digits, mark) else None
    whole, _, rest = digits.partition(mark)
    either = len(rest) == 3 and 1 <= len(whole) <= 3 and whole != "0"
    return (None, mark) if either else (mark, "")


def _in_groups(digits: str, mark: str) -> bool:
    """Return whether digits are grouped: three in the last group, two (as in India) or three in the others."""
    first, *groups = digits.split(mark)
    lengths = [len(group) for group in groups]
    return lengths[-1:] == [3] and 1 <= len(first) <= 3 and all(length in (2, 3) for length in lengths)


_SIGN_AS_MARK = re.compile(r"(?<![\d.,'€£$])(\d{1,3}(?:[., ']\d{3})+|\d+)([€£$])(\d\d)(?!\d|[.,]\d|\s?[€£$])")

_SPACES = re.compile(r"(?<=\d)[^\S\n]{2}(?=\d{3}(?!\d))")

_SPACED_MARK = re.compile(r"(?<=\d)\s(?=[.,]\d)")

_APOSTROPHE_AS_MARK = re.compile(r"(?<=\d)'(?=\d\d(?!\d))")

_SUPERSCRIPT = re.compile("(?<=[0-9])[⁰¹²³⁴⁵⁶⁷⁸⁹]{2}")

_FROM_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")

_SPACED_SIGN = re.compile(r"\s*(\d{1,3}(?:[ .,']?\d{3})*) ?€ ?(\d\d)\s*")

_COLON_AS_MARK = re.compile(r"(?<=\d):(?=\d\d\s?(?:kr|SEK))", re.IGNORECASE)

_SMALL_UNIT = re.compile(
    r"(?<=\d)\s?(zł|руб|р|грн|лв|€|\$|£|TL)\.?\s?(\d\d)\s?(?:gr|коп|ст|cents?|ct|p|kr)\b"
    r"|(?<=\d)(元)(\d)角"
)


def to_ascii(text: str) -> str:
    """Return a text with the digits of all scripts, all spaces and all punctuation of numbers in ASCII."""
    return text if text.isascii() else text.translate(_ASCII)


def normalize(text: str) -> str:
    """Return an ASCII text with each price as one number, its cents as decimals.

    Example:
        >>> [normalize(text) for text in ("1  299 €", "22 ,91", "22'91", "268⁹⁹ €", "35€99", "12:50 kr", "12 zł 50 gr")]
        ['1 299 €', '22,91', '22,91', '268,99 €', '35,99 €', '12,50 kr', '12,50 zł']
    """
    text = _APOSTROPHE_AS_MARK.sub(",", text)
    if not has_words_before(text):
        text = _SPACED_MARK.sub("", _SPACES.sub(" ", text))
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda cents: "," + cents[0].translate(_FROM_SUPERSCRIPT), text)
    if spaced := _SPACED_SIGN.fullmatch(text):
        text = f"{spaced[1]}€{spaced[2]}"
    text = _SIGN_AS_MARK.sub(r"\1.\3 \2" if "," in text else r"\1,\3 \2", text)
    return _SMALL_UNIT.sub(r",\2\4 \1\3", _COLON_AS_MARK.sub(",", text))


def has_words_before(text: str) -> bool:
    """Return whether words precede the first number, which may then belong to a name: Size 38  120 €."""
    number = NUMBER.search(text)
    return number is not None and bool(WORD.search(without_signs(text[: number.start()])))


class _ToAscii(dict[int, str]):
    """A table for `str.translate`: digits of all scripts and all spaces to ASCII; filled as characters come."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        digit = unicodedata.decimal(character, None)
        if digit is not None:
            replacement = str(digit)
        elif character.isspace():
            replacement = " "
        else:
            replacement = "" if unicodedata.category(character) == "Cf" else character
        self[code] = replacement
        return replacement


_ASCII = _ToAscii({ord(odd): "'" for odd in "’‘`´ʼ′٬"})
_ASCII |= {ord(odd): "-" for odd in "−–—‐‑‒－"} | {ord(odd): "." for odd in "．·٫"}
_ASCII |= {ord("，"): ",", ord("、"): ",", ord("،"): ",", ord("％"): "%", ord("（"): "(", ord("）"): ")"}

_HAN = {"十": 10, "십": 10, "百": 100, "백": 100, "千": 1e3, "천": 1e3, "万": 1e4, "萬": 1e4, "만": 1e4}
_HAN |= {"億": 1e8, "亿": 1e8, "억": 1e8}

_HAN_TIMES = re.compile(rf"\s?([{''.join(_HAN)}]+)")

_TIMES = (
    (re.compile(r"[kK](?![^\W_])|\s?[kK](?=€|\$|£|EUR)|\s?T(?=€|EUR)"), 1e3),
    (re.compile(r"[MB](?![^\W_])|\s[M](?=€|\$|£|EUR)|\s?M(?=Ft)"), {"M": 1e6, "B": 1e9}),
    # "mil" is a million in Czech, Slovak and Romanian; a thousand in Spanish and Portuguese, without a point.
    (re.compile(r"\s?mil(?:\.|(?=\s?(?:Kč|Sk|lei)))", re.IGNORECASE), 1e6),
    (
        re.compile(
            r"\s?(?:(?:тыс|тис|хил|хиляди|nghìn|ngàn|rb|ribu|tys|tis|tsd|tausend|mila|mil|ezer|thousand|tusen|tusind|ألف"
            r"|آلاف|هزار|אלף)\b|т\.?(?=\s?р)|bin(?=\s?(?:TL|₺|lira|TRY|$))|พัน|हज़ार|हज़ार|हजार|হাজার)",
            re.IGNORECASE,
        ),
        1e3,
    ),
    (
        re.compile(
            r"\s?(?:(?:mln|mio|millions?|millionen|млн|triệu|juta|milyon|milhão|milhões|millón|millones|milione|milioni|millió"
            r"|milion|miliony|milionów|miljoner|miljoonaa|milj|mkr|مليون|ملايين|میلیون|מיליון)\b|mill(?=\.|\s?(?:kr|NOK|DKK))|ล้าน)",
            re.IGNORECASE,
        ),
        1e6,
    ),
    (re.compile(r"\s?(?:tr|jt)\b"), 1e6),
    (
        re.compile(
            r"\s?(?:mrd|mld|mlrd|bn|billion|milliarden?|miliar|milyar|miljard|miljardia|tỷ|tỉ|млрд|مليار|میلیارد|מיליארד)\b",
            re.IGNORECASE,
        ),
        1e9,
    ),
    (re.compile(r"\s?(?:(?:lakhs?|lacs?)\b|लाख|লাখ|লক্ষ)", re.IGNORECASE), 1e5),
    (re.compile(r"\s?(?:(?:crores?|cr)\b|करोड़|करोड़|কোটি)", re.IGNORECASE), 1e7),
    (re.compile(r"\s?(?:[¢￠]|(?:cents?|ct|коп|pence|paise)\b)", re.IGNORECASE), 0.01),
)

# With a currency sign: a separate capital or a small letter next to the number; not a size (M / L) or name (M8).
_LETTER = re.compile(r"(?:\s?(mi|mn|MM|[kKMBL])|([mb]))(?![^\W_]|\s?[/-])")

_LETTERS = {"k": 1e3, "m": 1e6, "mn": 1e6, "mm": 1e6, "b": 1e9}

_INDIA = {"k": 1e3, "l": 1e5}

_LETTERS_OF = {"INR": _INDIA, "Rs": _INDIA, "IDR": _LETTERS | {"m": 1e9}, "BRL": _LETTERS | {"mi": 1e6}}


def multiplier(after: str) -> tuple[float, int]:
    """Return the multiplier at the start of a text, for the number before it, and its number of characters."""
    if han := _HAN_TIMES.match(after):
        return math.prod(_HAN[sign] for sign in han[1]), han.end()
    for pattern, times in _TIMES:
        if word := pattern.match(after):
            return (times[word[0].strip()] if isinstance(times, dict) else times), word.end()
    return 1.0, 0


def letter_multiplier(after: str, currency: str | None) -> tuple[float, int]:
    """Return the same for a letter, which only counts with a currency sign: $1.2 M, £1.63m, ₹22.9 L, R$ 1,2 mi."""
    letter = _LETTER.match(after) if currency else None
    times = letter and _LETTERS_OF.get(currency or "", _LETTERS).get((letter[1] or letter[2]).lower())
    return (times, letter.end()) if letter and times else (1.0, 0)
