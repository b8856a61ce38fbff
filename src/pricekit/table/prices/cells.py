"""Read one cell of a price column: its number, decimal mark and currency."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pricekit.table.model import NO_PRICE, NOT_A_NUMBER
from pricekit.table.prices.currency import currency_in, find_currency, without_signs
from pricekit.table.prices.price_text import (
    NUMBER,
    WORD,
    has_words_before,
    is_han_multiplier,
    letter_multiplier,
    multiplier,
    normalize,
    to_ascii,
)

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
    decimal_mark: str | None
    ambiguous_mark: str
    factor: float
    currency: str | None
    has_several: bool
    start: int = -1
    length: int = 0
    in_pence: bool = False

    def value(self, decimal: str, *, strict: bool = False) -> float | None:
        """Return the price; None if the number is not written with that decimal mark.

        Args:
            decimal: the decimal mark of the column.
            strict: use it for every cell, even one that shows the other mark.
        """
        mark = decimal if strict or not self.decimal_mark else self.decimal_mark
        group = "," if mark == "." else "."
        if strict and self.decimal_mark not in (None, decimal):
            return None
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
        return Cell("0", None, "", 1.0, None, False)
    if _MISSING.fullmatch(plain.strip()):
        return NO_PRICE
    plain = normalize(plain)
    found = [price for price in _numbers(plain) if price is not None]
    signed = [price for price in found if price.currency]
    chosen = signed or found
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
    found: list[Cell | None] = []
    for i, place in enumerate(places):
        sign = gaps[i - 1] if i and _RANGE.fullmatch(gaps[i]) else gaps[i]  # ₹ 90 - 95 L
        number = _number(place, gaps[i], gaps[i + 1], sign, first=i == 0, last=i == len(places) - 1)
        before = found[-1] if found else None
        touching = multiplier(gaps[i])[1] == len(gaps[i].rstrip())
        if before and number and touching and before.factor > max(number.factor, 1):
            found[-1] = _sum(before, number, sure=is_han_multiplier(gaps[i]))  # 1万2800円
            continue
        between = gaps[i][multiplier(gaps[i])[1] :]
        if before and number and _is_range(before, number, gaps[i - 1], between):
            found[-1], number = _completed(before, number)
        found.append(number)
    return found


def _times(before: str, after: str, sign: str, *, last: bool) -> tuple[float, str | None]:
    """Return the multiplier and the currency of a number."""
    # A sign after the letter may belong to the next number, and that number may be part of a word: M8.
    seen = after if last else f"{after}0"
    factor, end = letter_multiplier(seen, find_currency(sign, after.lstrip()[1:] if last else ""))
    if factor == 1.0:
        factor, end = multiplier(seen)
    currency = find_currency(before, after[end:])
    return factor, currency


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
    factor, currency = _times(before, after, sign, last=last)
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
    total = first.value(".") or 0.0
    rest = second.value(".") or 0.0
    digits = np.format_float_positional(abs(total) + abs(rest), trim="-")
    mark = "." if "." in digits else None
    return Cell(digits, mark, "", math.copysign(1.0, total), first.currency or second.currency, False)


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
    if not groups:
        return False
    return (
        len(groups[-1]) == 3 and 1 <= len(first) <= 3 and all(len(group) in (2, 3) for group in groups[:-1])
    )
