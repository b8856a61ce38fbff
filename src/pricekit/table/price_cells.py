"""Read one cell of a price column: its number, decimal mark, multiplier and currency."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pricekit.table.currency import currency_in, find_currency, may_mean, sign_pattern, without_signs
from pricekit.table.price_words import (
    Units,
    is_han_size,
    is_strange_size,
    letter_size,
    size_of,
    without_units,
)
from pricekit.table.table import NO_PRICE, NOT_A_NUMBER
from pricekit.text.normal import PlainCharacters
from pricekit.text.numbers import MISSING, marks_of
from pricekit.text.patterns import lazy_pattern
from pricekit.text.words import LETTERS

PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A pattern for Arrow: a cell that contains only a number as programs write it."""

# Groups of three digits with a space or an apostrophe between them, or any digits, commas and points.
NUMBER = lazy_pattern(
    r"\d{1,3}(?:(?P<space>[ '])\d{3})(?:(?P=space)\d{3})*(?!\d)(?:[.,]\d+)?"
    r"|(?P<digits>\d+(?:[.,]\d+)*)(?:[eE](?P<exponent>[+-]?\d{1,3})(?![\w.,]))?|(?<![\w/.,])[.,]\d+",
    re.ASCII,
)
"""A number anywhere in a price, with the exponent that programs write, as in 1e+05."""

MAX_CHARS = 200
"""A longer cell is not a price."""
_PARTS = 3
"""A shorter number after a word such as million is not the rest of its amount, except in Vietnamese."""
_LARGE_HAN = 1e8
_MAX_LETTERS = 20
"""A cell without a currency sign and with more letters is a sentence that contains a number."""

_MAX_LETTERS_WITH_UNITS = 60
"""The same with the letters of its units."""

_TORN = lazy_pattern(r"(?:\s?[.,]\s|\s(?=\d\d(?:\s\d\d)*(?:[.,]\d+)?\W*$))\d{2,3}(?!\d|\s?%|\s?[^\W\d_])")
_TORN_BEFORE = lazy_pattern(r"\d\s?[.,]\s$")
_PENCE = lazy_pattern(r"p(?![^\W_])")
_NOW = lazy_pattern(
    r"\b(?:now|sale|jetzt|ahora|maintenant|adesso|agora|teraz|сейчас|зараз|nu|nå|nyt|nyní|teď|acum|şimdi|yerine|helyett)\b"
    r"|เหลือ|现价|現價|特价|特價|판매가|할인가",
    re.IGNORECASE,
)
_UP_TO_PRICE = lazy_pattern(
    r"[\s:=!]*(?:\(?-?\d{1,2}\s?%\)?[\s:=!]*)?(?:(?:only|just|for|from|down|reduced|to|at|price|nur|noch|ab|für|solo|sólo|por|a"
    r"|à|partir|de|seulement|apenas|tylko|już|od|za|только|от|за)\b[\s:=!]*)*",
    re.IGNORECASE,
)
_OLD = (
    "was|were|statt|instead(?: of)?|rrp|mrp|msrp|uvp|list|old|before|antes|avant|prima|vorher|było|было|раньше|було"
    "|старая цена|før|původně|pret vechi|eski fiyat|früher|(?:preis)?empf|compare at|orig|originally|retail|ancien prix"
    "|prix barré|pvp|pvpr|adviesprijs|كان|ปกติ|giá gốc|原价|原價|定価|通常価格|정가"
)
_WAS = lazy_pattern(rf"\b(?:{_OLD}|reg|regular)(?!\w)", re.IGNORECASE)
_INSTEAD_OF = lazy_pattern(rf"\b(?:{_OLD})(?!\w)\W*$", re.IGNORECASE)
_STRAY_MARK = lazy_pattern(r"\s+[.,]\s*$|[.,]{2}\d")
_STRAY_MARK_BEFORE = lazy_pattern(r"(?:^|\s|[.,])[.,]$")
_UP_TO = lazy_pattern(
    r"\W*(?:max(?:imal|imum)?|(?:you )?save|spare|up to|under|below|less than|bis(?: zu)?|unter|jusqu'à|hasta|até"
    r"|fino a|tot|do|до|upp till|op+ til|emi(?: from)?|moins de|menos de|meno di|minder dan|poniżej|mniej niż|меньше"
    r"|дешевле|spar|<)\W*",
    re.IGNORECASE,
)
_TIMES = lazy_pattern(
    r"\d\s?(?:[x×@]|[^\W\d_]+\.?\s?[àx@]|(?:\S+ )?(?:payments|instal+ments|fois|raten|cuotas|msi|rate|rat"
    r"|parcelas|taksit|splátek|платеж\w*)|回払い?|期|개월|เดือน)"
    r"\s?(?:(?:sem juros|sin intereses)\s)?(?:(?:de|of|da|zu|po|по)\s?)?$",
    re.IGNORECASE,
)
"""Instalments: what precedes one of several equal prices."""
_EXTRA = (
    r"(?:shipping|delivery|deposit|postage|down payment|tax|tip|versand(?:kosten)?|pfand|porto|anzahlung|kaution"
    r"|frais de port|livraison|acompte|dont éco-part\w*|frete|envío|spedizione|verzendkosten|statiegeld|wysyłka"
    r"|kaucja|доставка|рассрочка|kargo|frakt|fragt|doprava|التوصيل|ค่าส่ง|phí ship|ongkir|dp|送料|頭金|运费|運費"
    r"|定金|首付|배송비|보증금|налог|discount|coupon|rabatt|скидка|立减)"
)
_ANY_EXTRA = lazy_pattern(_EXTRA, re.IGNORECASE)
_EXTRA_BEFORE = lazy_pattern(rf"\W*{_EXTRA}\W*", re.IGNORECASE)
_EXTRA_BEHIND = lazy_pattern(rf"\s?(?:{_EXTRA}\s*[,;+]|(?!deposit){_EXTRA}\s*$)", re.IGNORECASE)
"""Costs that are not the price: $5 shipping, $20."""
_AND = lazy_pattern(r"\s*(?:(?:and|und|et|y|e|en|och|og|ja|i|и|і|та|و|ve|dan|và)\s?)?", re.IGNORECASE)
_HALF = lazy_pattern(
    r"\s?(?:rưỡi|y medi[oa]|e mei[oa]|e mezzo|et demie?|с половиной|and a half|و نیم|و نصف)\b|半",
    re.IGNORECASE,
)
_AFTER_BIG = lazy_pattern(r"\s?(?:tỷ|tỉ|triệu|tr)\s?", re.IGNORECASE)
"""Words before a number that counts its parts: 6 tỷ 8 is 6.8 tỷ."""
_BETWEEN = lazy_pattern(
    r"\b(?:between|zwischen|entre|tra|fra|między|между|mellan|mellem|mellom|tussen)\s(\D{0,4}\d.*?)\s"
    r"(?:and|und|et|y|e|i|и|och|og|en)\s(?=\D{0,4}\d)",
    re.IGNORECASE,
)
_REDUCED_TO = lazy_pattern(r"\s*(?:→|=>|->)\s*|\W*(?:por|voor|auf)\W*", re.IGNORECASE)
_NOT_THE_PRICE = lazy_pattern(
    r"\s*[円元원]?\s?(?:以下|以内|未満|이하|미만|(?:altı|alatt|or less|or under)\b|[x×]\s?\d+\s?[期回])",
    re.IGNORECASE,
)
"""Words behind a limit or an instalment: 1,000円以下."""
_OVER = lazy_pattern(r"\d\s?/\s?$")  # 1/2 million
_LETTER_IN_FRONT = lazy_pattern(r"[€$£₹¥]\s?[A-TV-Za-z]$")
_LETTER_BEHIND = lazy_pattern(r"[OolIsw](?![^\W_])")
"""Letters that are digits on paper; and mid $400s."""
_DISCOUNT = lazy_pattern(
    r"\s*%|[^\w%]{0,3}(?:off|rebate|de (?:remise|descuento|desconto))\b|[^\d%]{0,10}تخفیف"
    r"|[^\w%]{0,3}(?:rabatt|zniżki|indirim|скидк\w+)\b"
    r"|\s?[円元원]?\s?(?:割引|引き|할인(?!가))",
    re.IGNORECASE,
)
_OF_EITHER = lazy_pattern(
    r"\d[^\d%]{0,8}\b(?:rabatt|zniżki|indirim|скидк\w+)\W*\d+(?!\d|\s?%)", re.IGNORECASE
)
"""A discount, which may be before or behind the word."""
_PER_CENT = lazy_pattern(r"\d+\s?%")
_COUNT = lazy_pattern(r"\s?/\s?[€£$₹]\s?")
_FRACTION = lazy_pattern("[¼½¾⅓⅔]")
_MINUS_BEHIND = lazy_pattern(r"-\W*")
_RANGE = lazy_pattern(r"\s*(?:-|/|~|〜|～|\.{2,3}|…|to|or|bis|oder|до|или|à|ou|a|o)\s*")
_DASH_AS_DECIMALS = lazy_pattern(r"([.,])\s?-")
_NEGATIVE = lazy_pattern(r"[^\w(]*-\s*[^\w]*|\(\s*[^\w]*")
_LETTER_BEFORE = lazy_pattern(r"[A-Za-z]$")
_FREE = lazy_pattern(
    r"free|gratis|for free|kostenlos|gratuit|бесплатно|無料|免费|무료|miễn phí", re.IGNORECASE
)
_DIGIT = lazy_pattern("[0-9]")
_NO_DIGIT = lazy_pattern("[^0-9.,]")
_BEFORE = lazy_pattern(
    r"from|från|fra|vanaf|dès|price|only|just|about|ca|circa|approx|ab|nur|preis|vb|von|à|partir|de|prix|desde|precio|solo|da|prezzo|od|cena"
    r"|от|цена|около|从|约|約|価格|定価|総額|家賃|总价|税込|税抜|价格|售价|가격|약|từ|giá|chỉ|nu",
    re.IGNORECASE,
)
_MISSING = lazy_pattern(MISSING, re.IGNORECASE)
_MONTH = lazy_pattern(
    r"jan|janv|feb|febr|févr|fev|mar|mär|märz|mrz|mrt|mars|apr|avr|abr|kwi|mai|may|maj|mag|mei|jun|juni|juin|giu|cze|jul"
    r"|juli|juil|lug|lip|aug|août|ago|sie|sep|sept|wrz|oct|okt|ott|paź|nov|nov|lis|dec|dez|déc|dic|dzi|gru|sty|lut|ene|gen"
    r"|янв|фев|мар|апр|май|мая|июн|июл|авг|сен|окт|ноя|дек",
    re.IGNORECASE,
)
_MIL = lazy_pattern(r"\s?mil\b(?!\.)", re.IGNORECASE)
_MIL_IS_A_MILLION = ("CZK", "RON", "SKK")
_MIL_IS_A_THOUSAND = "EUR BRL MXN ARS CLP COP PEN UYU CRC DOP BOB PYG AOA MZN"
_MEASURE = lazy_pattern(
    r"\s?(?:[ckm]?m|[km]?g|lbs?|oz|[cm]?l|kwh|[kmg]b|ha|m2|(?:star|review|rating|vote|bid)s?|sold)",
    re.IGNORECASE,
)
_CODE = lazy_pattern(r"(?![Pp]$)[A-Za-z]{1,2}|\s[BT]")
"""What may follow the number of a code, such as 7er, but of no price; and a size that may be another word: 12 B."""
_RATIO = lazy_pattern(r"[\d.,]+\s?/\s?\d+")
_CROSSED_OUT = lazy_pattern(
    r"(?:<(?:del|s|strike)\b[^<>]{0,60}>|^)[^<>]*</(?:del|s|strike)>|~~[^~]+~~", re.IGNORECASE
)
_TAG = lazy_pattern(r"</?[A-Za-z][^<>]{0,60}>")
_RAISED_CENTS = lazy_pattern(r"(?<=\d)<sup[^<>]{0,60}>(\d\d)</sup>", re.IGNORECASE)
_PER_TIME = ("hour", "day", "night", "week", "month", "year", "person")


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
        unit: what the price is for, such as "m2", "month" or "100 g"; None for a total.
        is_quantity: the cell is a number and a measure, such as 150,000 km, which is no price.
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
    unit: str | None = None
    is_quantity: bool = False

    def value(self, decimal: str) -> float:
        """Return the price; `decimal` is the decimal mark unless the number itself shows its mark."""
        return self.factor * self.number(decimal)

    def number(self, decimal: str) -> float:
        """Return the number without its factor."""
        mark = self.decimal_mark or decimal
        group = "," if mark == "." else "."
        whole, _, rest = self.digits.partition(mark)
        return float(f"{whole.replace(group, '') or '0'}.{rest or '0'}")


@lru_cache(maxsize=1 << 16)
def read_cell(text: str, wanted: str | None = None) -> Cell | str:
    """Return the price in a cell, or the reason for its absence.

    Args:
        text: the cell.
        wanted: of prices in several currencies, the one in this currency is read, named as by `canonical`.

    Example:
        >>> read_cell("1.299,00 €").value(","), read_cell("on request"), read_cell("$30 / €27", "EUR").value(".")
        (1299.0, 'price not a number', 27.0)
    """
    shown = html.unescape(text)  # &#8377; 1,299
    if len(shown) > MAX_CHARS or "\0" in shown or _FRACTION.search(shown):
        return NOT_A_NUMBER
    if "<" in shown or "~~" in shown:
        shown = _TAG.sub(" ", _CROSSED_OUT.sub(" ", _RAISED_CENTS.sub(r",\1", shown)))
    plain = shown if shown.isascii() else shown.translate(_ASCII)
    if _FREE.fullmatch(plain.strip()):
        return Cell("0")
    if _MISSING.fullmatch(plain.strip()):
        return NO_PRICE
    if _DIGIT.search(plain) is None:
        return NOT_A_NUMBER
    if sum(map(str.isalpha, plain)) > _MAX_LETTERS_WITH_UNITS and sign_pattern().search(plain) is None:
        return NOT_A_NUMBER
    plain, units = without_units(normalize(plain))
    amounts, gaps = _amounts(plain, units)
    chosen = _chosen([price for price in amounts if price and not _is_extra(plain, price)], wanted)
    if not chosen or (not chosen[0].currency and not _bare_price(plain, gaps)):
        return NOT_A_NUMBER
    price = _price_after_now(plain, chosen) or chosen[0]
    before, after = plain[: price.start], plain[price.start + price.length :]
    bare = without_signs(before)
    if (
        _is_torn(plain, price)
        or _OF_EITHER.search(plain)
        or _TIMES.search(bare.rstrip())  # 12x $9
        or _UP_TO.fullmatch(bare)  # up to $50
        or _NOT_THE_PRICE.match(without_signs(after))  # 1,000円以下
        or _LETTER_IN_FRONT.search(before)  # $l2.50
        or (price.factor == 1.0 and _LETTER_BEHIND.match(after))  # 12.5O
        or (price.currency in ("£", "GBP") and price.digits.isdigit() and _PENCE.match(after))  # £99p
        or any(_OVER.search(plain[: each.start]) for each in amounts if each and abs(each.factor) > 1)
    ):
        return NOT_A_NUMBER
    quantity = not price.currency and price.factor == 1.0 and _MEASURE.fullmatch(after.rstrip()) is not None
    there = price.length and _NO_DIGIT.sub("", text[price.start : price.start + price.length]) == price.digits
    currency = price.currency or currency_in(plain)
    return replace(
        price,
        currency=currency,
        has_several=len(chosen) > 1,
        start=price.start if there else -1,
        is_quantity=quantity,
    )


def _chosen(prices: list[Cell], wanted: str | None) -> list[Cell]:
    """Return the prices that the cell may be about: with a sign, in the wanted currency, totals before unit prices."""
    chosen = [price for price in prices if price.currency] or prices
    if wanted:
        chosen = [price for price in chosen if price.currency and may_mean(price.currency, wanted)] or chosen
    if chosen and chosen[0].unit is not None and chosen[0].unit not in _PER_TIME:
        chosen = [price for price in chosen if price.unit is None] or chosen
    return chosen


def _is_extra(text: str, price: Cell) -> bool:
    """Return whether a price is that of the shipping or a deposit: $5 shipping, $20."""
    if not _ANY_EXTRA.search(text):
        return False
    before = without_signs(text[: price.start])
    after = without_signs(text[price.start + price.length :])
    return bool(_EXTRA_BEFORE.fullmatch(before) or _EXTRA_BEHIND.match(after))


def _is_torn(text: str, price: Cell) -> bool:
    """Return whether a number continues before or after the match, as in $1, 368, $268 83 and €1 00,00."""
    if _STRAY_MARK.match(text, price.start + price.length) or _STRAY_MARK_BEFORE.search(text[: price.start]):
        return True
    if price.decimal_mark or price.ambiguous_mark or not price.length:
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
    if len(prices) != 2:
        return None
    before = without_signs(text[: prices[0].start])
    between = without_signs(text[prices[0].start + prices[0].length : prices[1].start])
    return prices[1] if _INSTEAD_OF.search(before) or _REDUCED_TO.fullmatch(between) else None


def _bare_price(text: str, gaps: list[str]) -> bool:
    """Return whether a text without a currency sign may be a price: one number or a range, and few words.

    Args:
        text: the cell.
        gaps: the texts between its numbers, without words of size.
    """
    before = text[: number.start()] if (number := NUMBER.search(text)) else ""
    dated = any(map(_MONTH.fullmatch, LETTERS.findall(text)))  # 05-Jan: Excel has made a date of a number
    if dated or _RATIO.fullmatch(text.strip()) or not all(map(_BEFORE.fullmatch, LETTERS.findall(before))):
        return False
    rest = NUMBER.split(text)[-1].rstrip()
    if _CODE.fullmatch(rest) and not _MEASURE.fullmatch(rest) and not size_of(rest)[1]:
        return False
    return len(gaps) <= 1 and all(map(_RANGE.fullmatch, gaps)) and sum(map(str.isalpha, text)) <= _MAX_LETTERS


def _amounts(text: str, units: Units) -> tuple[list[Cell | None], list[str]]:
    """Return the amounts of a text, with None for each number that is not one, and the texts between them.

    An amount is a number with its words of size, or several that are added: 2 million and 500 thousand.
    """
    places = list(NUMBER.finditer(text))
    ends = [0, *(place.end() for place in places)]
    starts = [*(place.start() for place in places), len(text)]
    gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    amounts: list[Cell | None] = []
    between: list[str] = []
    size, part = "", 1.0  # the words of size of the number before, and their factor
    for i, place in enumerate(places):
        gap = gaps[i][len(size) :]
        one = i and (_RANGE.fullmatch(gap) or (size and _AND.fullmatch(gap)))
        sign = gaps[i - 1] if one else gaps[i]  # ₹ 90 - 95 L, ₹1 Cr 20 L
        last = i == len(places) - 1
        after = gaps[i + 1]
        if not last and _is_sign_of_next(gaps[i], after, gaps[i + 2]):
            after = " "
        ahead = gaps[i]
        if i and not find_currency(gaps[i - 1], "") and find_currency("", ahead) and find_currency("", after):
            ahead = sign = " "  # 20 USD 18 EUR
        amount, end = _amount(place, ahead, after, sign, first=i == 0, last=last)
        unit = units.of(text, place.start(), place.end() + end, starts[i + 1])
        if amount is not None and unit is not None:
            amount = replace(amount, unit=unit)
        before, big, size = (amounts[-1] if amounts else None), size, gaps[i + 1][:end]
        by_program = place["exponent"] or (i and places[i - 1]["exponent"])
        if before and amount and not by_program and (joined := _joined(before, amount, big, gap, part)):
            amounts[-1], part = joined[0], abs(amount.factor)
            continue
        part = abs(amount.factor) if amount else 1.0
        if before and amount and _is_range(before, amount, gaps[i - 1], without_signs(gap)):
            amounts[-1], amount = _completed(before, amount)
        amounts.append(amount)
        between.append(gap)
    return amounts, between[1:]


def _is_sign_of_next(before: str, between: str, after: str) -> bool:
    """Return whether a currency sign between two numbers belongs to the second: iPhone 12 $500, iPhone 12 USD 500."""
    if without_signs(between).strip(" /|"):
        return False
    if own := find_currency(before, ""):
        return not may_mean(own, currency_in(between))
    if not between[:1].isspace() or without_signs(between).strip():
        return False
    if find_currency("", after) is not None:
        return False
    named = not all(map(_BEFORE.fullmatch, LETTERS.findall(before)))
    return not between[-1:].isspace() or (named and not after.strip())


def _joined(first: Cell, second: Cell, big: str, between: str, part: float) -> tuple[Cell | None] | None:
    """Return the sum of two parts of an amount, (None,) if its marks are ambiguous; None if they are not parts of one.

    Args:
        first: such as 2 million.
        second: such as 500 thousand.
        big: the words of size of the first part.
        between: the text between the parts, such as " and ".
        part: the factor of `big`, which is the last part of the first one: 1 crore 20 lakh.
    """
    word = _AND.fullmatch(without_signs(between))
    linked = _AND.fullmatch(between) or (word and word[0].strip())
    if not linked or not word or not part > abs(second.factor) or math.isinf(first.value(".")):
        return None
    han = is_han_size(big)
    if second.factor == 1.0 and not han:
        if _AFTER_BIG.fullmatch(big + between) and second.digits.isdigit() and second.length <= _PARTS:
            tenths = replace(second, digits=f".{second.digits}", decimal_mark=".", factor=part)
            return (_sum(first, tenths),)
        if not second.ambiguous_mark and len(second.digits.partition(".")[0]) <= _PARTS:
            return (None,) if word[0].strip() else None  # ₹1.5 Cr 3 rooms
    if second.factor < 1.0 and not (word[0].strip() and first.factor == 1.0 and not first.decimal_mark):
        return None  # only $5 and 99 cents
    if han and second.factor < 1e4 and part >= _LARGE_HAN:
        return (None,)  # 2억5000 and 2억 5천 mean 5000만, if they are not exact numbers
    # After 万, "." is the decimal mark: 1万2800円.
    unclear = not han and (first.ambiguous_mark or second.ambiguous_mark)
    return (None if unclear else _sum(first, second),)


def _completed(low: Cell, high: Cell) -> tuple[Cell, Cell]:
    """Return both ends of a range with the sign, the size and the unit that one has: 22 - 68 €, 2.3-2.9 lakh."""
    factor = high.factor if low.factor == 1.0 < high.factor else low.factor
    currency, unit = low.currency or high.currency, low.unit or high.unit
    low, high = (replace(end, factor=factor, currency=currency, unit=unit) for end in (low, high))
    return low, high


def _is_range(low: Cell, high: Cell, before: str, between: str) -> bool:
    """Return whether two numbers may be a range: not a name with a number, nor 2024 - 12 €, 500-2k or 5/12 €."""
    digits = [
        sum(map(str.isdigit, cell.digits.partition(cell.decimal_mark or " ")[0])) for cell in (low, high)
    ]
    named = not low.currency and not all(map(_BEFORE.fullmatch, LETTERS.findall(before)))
    touching = _RANGE.fullmatch(between) and between.strip() != "/"
    most = 1 if between != between.strip() else 2  # 5-100 €, but 2 - 450 € may be two of something
    return bool(touching) and not named and 0 <= digits[1] - digits[0] <= most


def _amount(
    place: re.Match[str], before: str, after: str, sign: str, *, first: bool, last: bool
) -> tuple[Cell | None, int]:
    """Return a number as an amount, or None if it is not one, and the number of characters of its words of size.

    `sign` is the text with its currency sign.
    """
    digits = (place["digits"] or place[0]).replace(" ", "").replace("'", "")
    # A sign after the letter may belong to the next number, and that number may be part of a word: M8.
    seen = after if last or not after.isascii() else f"{after}0"
    factor, end = letter_size(seen, find_currency(sign, after.lstrip()[1:] if last else ""))
    if factor == 1.0:
        factor, end = size_of(seen)
    end = min(end, len(after))
    currency = find_currency(before, after[end:] if last or factor >= 1.0 else "")  # 12 ct $9
    in_word = _LETTER_BEFORE.search(before) and (first or not _AFTER_BIG.fullmatch(before))  # 2k5, but 2tr5
    if in_word and not first and before.isalpha() and find_currency(before, "") is None:
        currency = None  # that of another number: 4G64 $120
    if _DISCOUNT.match(after) or (in_word and not currency):
        return None, end
    if factor == 1.0 and is_strange_size(after):
        return None, end
    named = find_currency(sign, after[end:])
    if _MIL.match(after) and factor == 1e3 and named and named not in _MIL_IS_A_THOUSAND.split():
        if named not in _MIL_IS_A_MILLION:
            return None, end
        factor = 1e6
    if _COUNT.fullmatch(after) and not find_currency(before, ""):  # 3/$5
        return None, end
    dash = _DASH_AS_DECIMALS.match(after)
    marks = (dash[1], "") if dash and dash[1] not in digits else marks_of(digits)
    if marks is None:
        return None, end
    mark, either = marks
    minus_after = last and mark and _MINUS_BEHIND.fullmatch(without_signs(after)) and not dash
    if (first and _NEGATIVE.fullmatch(without_signs(before).strip())) or minus_after:
        factor = -factor
    pence = not currency and len(digits) <= 3 and digits.isdigit() and bool(_PENCE.match(after))
    cell = Cell(digits, mark or None, either, factor, currency, False, place.start(), len(place[0]), pence)
    if place["exponent"]:  # a program's number: its mark is a decimal mark
        factor *= float(f"1e{place['exponent']}")
        return replace(
            cell, decimal_mark=mark or either or None, ambiguous_mark="", factor=factor, length=0
        ), end
    if factor > 1.0 and digits.isdigit() and (half := _HALF.match(after, end)):
        return replace(cell, digits=f"{digits}.5", decimal_mark=".", length=0), half.end()
    return cell, end


def _sum(first: Cell, second: Cell) -> Cell:
    """Return the sum of two amounts, such as 1万 and 2800, as one number."""
    total = first.value(".")
    digits = np.format_float_positional(abs(total) + abs(second.value(".")), trim="-")
    return replace(
        first,
        digits=digits,
        decimal_mark="." if "." in digits else None,
        ambiguous_mark="",
        factor=math.copysign(1.0, total),
        currency=first.currency or second.currency,
        length=0,
        unit=first.unit or second.unit,
    )


_SIGN_AS_MARK = lazy_pattern(
    r"(?<![\d.,'€£$])(\d{1,3}(?:[., ']\d{3})+|\d+)([€£$])(\d\d)(?!\d|[.,]\d|\s?[€£$])"
)
_UNTIL = lazy_pattern(r"\bs/d\b")
_PER_ANNUM = lazy_pattern(r"\bLPA\b")
_SPACES = lazy_pattern(r"(?<=\d)[^\S\n]{2}(?=\d{3}(?!\d))")
_SPACED_MARK = lazy_pattern(r"(?<=\d)\s(?=[.,]\d)")
_APOSTROPHE_AS_MARK = lazy_pattern(r"(?<=\d)'(?=\d\d(?!\d))")
_SUPERSCRIPT = lazy_pattern("(?<=[0-9])[⁰¹²³⁴⁵⁶⁷⁸⁹]{2}")
_FROM_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_SPACED_SIGN = lazy_pattern(
    r"\s*(\d{1,3}(?:[ .,']?\d{3})*) ?(€|EUR|[Ee]uros?|Fr\.?) ?(?:(?:e|et|und|y) )?(\d\d)\s*"
)
_POUNDS_AND_PENCE = lazy_pattern(r"£ ?(\d+) (\d\d)p\b")
_COLON_AS_MARK = lazy_pattern(r"(?<=\d):(?=\d\d\s?(?:kr|SEK))", re.IGNORECASE)
_SMALL_UNIT = lazy_pattern(
    r"(?<=\d)\s?(zł(?:ot\w+)?|руб(?:л\w+)?|р|грн|лв|€|\$|£|TL|[Ee]uros?|dollars?|pounds?|reais|lei|kronor)\.?"
    r"\s?(?:(?:and|und|et|y|e|și|con|i|и|och)\s)?(\d\d)"
    r"\s?(?:gr(?:oszy)?|коп\w*|ст|[Cc]ents?|ct|p|pence|kr|centavos|centimes|céntimos|centesimi|bani|kuruş|öre)\b"
    r"|(?<=\d)(元|块)(\d)(?!\d)角?"
)


def normalize(text: str) -> str:
    """Return an ASCII text with each price as one number, its cents as decimals.

    Example:
        >>> [normalize(text) for text in ("1  299 €", "22 ,91", "22'91", "268⁹⁹ €", "35€99", "12:50 kr", "12 zł 50 gr")]
        ['1 299 €', '22,91', '22,91', '268,99 €', '35,99 €', '12,50 kr', '12,50 zł']
    """
    text = _PER_ANNUM.sub("L p.a", _UNTIL.sub("-", text))
    text = _BETWEEN.sub(r"\1 - ", _APOSTROPHE_AS_MARK.sub(",", text))
    if not has_words_before(text):
        text = _SPACED_MARK.sub("", _SPACES.sub(" ", text))
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda cents: "," + cents[0].translate(_FROM_SUPERSCRIPT), text)
    text = _POUNDS_AND_PENCE.sub(r"£\1.\2", text)
    if spaced := _SPACED_SIGN.fullmatch(text):
        text = f"{spaced[1]}{'.' if ',' in spaced[1] else ','}{spaced[3]} {spaced[2]}"
    text = _SIGN_AS_MARK.sub(r"\1.\3 \2" if "," in text else r"\1,\3 \2", text)
    return _SMALL_UNIT.sub(r",\2\4 \1\3", _COLON_AS_MARK.sub(",", text))


def has_words_before(text: str) -> bool:
    """Return whether words precede the first number, which may then belong to a name: Size 38  120 €."""
    number = NUMBER.search(text)
    return number is not None and bool(LETTERS.search(without_signs(text[: number.start()])))


_ODD, _PLAIN = "’‘`´ʼ′٬−–—‐‑‒－．·٫⹁﹐､，、،％（）", "'''''''-------...,,,,,,%()"
_ASCII = PlainCharacters(zip(map(ord, _ODD), _PLAIN, strict=True))
_ASCII |= {ord("\u095b"): "\u091c\u093c", ord("\u095c"): "\u0921\u093c"}
