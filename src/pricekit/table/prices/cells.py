"""One cell that should hold a price: which of its characters are the number, and what is sure about it."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pricekit.table.model import NO_PRICE, NOT_A_NUMBER
from pricekit.table.prices.currency import currency_in, find_currency, without_signs
from pricekit.table.prices.multiplier import is_han, letter, multiplier
from pricekit.table.prices.price_text import NUMBER, WORD, in_one_writing, is_named, plain_of

MAX_CHARS = 200
_MAX_LETTERS = (
    20  # of a cell without the sign of a currency: beyond it the cell is a sentence with a number in it
)

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
    """A price as written.

    Attributes:
        digits: the number, of digits, "." and "," alone.
        mark: its decimal mark where the number itself shows it, "." or ",", or else None.
        open: "." or "," where this one stands before the last three digits and may be either, or else "".
        factor: what the number is multiplied by; below 0 where the price is.
        currency: as of `find_currency`.
        several: the cell holds more prices than this one.
        pence: it is a small number with a "p", a hundredth where the column is in pounds.
        start: where in the cell the number begins, -1 where its characters are not those of the cell one by one.
        length: of the number there, with what parts its groups.
    """

    digits: str
    mark: str | None
    open: str
    factor: float
    currency: str | None
    several: bool
    start: int = -1
    length: int = 0
    pence: bool = False

    def value(self, decimal: str, *, strict: bool = False) -> float | None:
        """Return the price where an open mark is decided by `decimal`; None where no number is so written.

        Args:
            decimal: the decimal mark of the column.
            strict: it holds for every cell, also for one that shows another.
        """
        mark = decimal if strict or not self.mark else self.mark
        group = "," if mark == "." else "."
        if strict and self.mark not in (None, decimal):
            return None
        whole, _, rest = self.digits.partition(mark)
        return self.factor * float(f"{whole.replace(group, '') or '0'}.{rest or '0'}")


@lru_cache(maxsize=1 << 16)
def read_cell(text: str) -> Cell | str:
    """Return the price that a cell holds, or the reason why it holds none."""
    shown = html.unescape(text)  # &#8377; 1,299
    if len(shown) > MAX_CHARS or "\0" in shown or _FRACTION.search(shown):
        return NOT_A_NUMBER
    plain = plain_of(shown)
    if _FREE.fullmatch(plain.strip()):
        return Cell("0", None, "", 1.0, None, False)
    if _MISSING.fullmatch(plain.strip()):
        return NO_PRICE
    plain = in_one_writing(plain)
    found = [price for price in _numbers(plain) if price is not None]
    signed = [price for price in found if price.currency]
    chosen = signed or found
    if not chosen or (not signed and not _bare_price(plain)):
        return NOT_A_NUMBER
    price = _behind_now(plain, chosen) or chosen[0]
    if _is_torn(plain, price):
        return NOT_A_NUMBER
    there = _NO_DIGIT.sub("", text[price.start : price.start + price.length]) == price.digits
    currency = price.currency or currency_in(plain)
    return replace(price, currency=currency, several=len(chosen) > 1, start=price.start if there else -1)


def _is_torn(text: str, price: Cell) -> bool:
    """Say whether a number goes on in the next one, or began in the one before: $1, 368, 268, 83 €, $268 83."""
    if price.mark or price.open:
        return False
    ahead = _TORN.match(text, price.start + price.length)
    is_rest = price.length in (2, 3) and not is_named(text)
    return bool(ahead) or (is_rest and bool(_TORN_BEFORE.search(text[: price.start])))


def _behind_now(text: str, prices: list[Cell]) -> Cell | None:
    """Return the price of "was $20, now $15" that holds now.

    The word for it stands right before; or anywhere before, where a word for the old price stands before that.
    """
    for now in _NOW.finditer(text):
        told = _WAS.search(text[: now.start()])
        price = next((price for price in prices if price.start >= now.end()), None)
        if price is None:
            break
        between = without_signs(text[now.end() : price.start])
        plain = told and not _WAS.search(between) and not NUMBER.search(_PER_CENT.sub("", between))
        if plain or _UP_TO_PRICE.fullmatch(between):
            return price
    return None


def _bare_price(text: str) -> bool:
    """Whether a text without the sign of a currency may be a price: one number, or a range, and few words."""
    before = text[: number.start()] if (number := NUMBER.search(text)) else ""
    if not all(map(_BEFORE.fullmatch, WORD.findall(before))):
        return False
    if any(map(_MONTH.fullmatch, WORD.findall(text))):  # 05-Jan, as Excel writes what it took for a day
        return False
    between = NUMBER.split(text)[2:-1:2]  # every other part is the group that the pattern captures
    return (
        len(between) <= 1
        and all(map(_RANGE.fullmatch, between))
        and sum(map(str.isalpha, text)) <= _MAX_LETTERS
    )


def _numbers(text: str) -> list[Cell | None]:
    """All numbers of a text, None for each that is no price."""
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
            found[-1] = _sum(before, number, sure=is_han(gaps[i]))  # 1万2800円
            continue
        between = gaps[i][multiplier(gaps[i])[1] :]
        if before and number and _are_ends(before, number, gaps[i - 1], between):
            found[-1], number = _range(before, number)
        found.append(number)
    return found


def _times(before: str, after: str, sign: str, *, last: bool) -> tuple[float, str | None]:
    """What a number is multiplied by, and the currency of the whole."""
    # A sign behind the letter may be that of the next number, which may also be a part of the word: M8.
    seen = after if last else f"{after}0"
    factor, end = letter(seen, find_currency(sign, after.lstrip()[1:] if last else ""))
    if factor == 1.0:
        factor, end = multiplier(seen)
    currency = find_currency(before, after[end:])
    return factor, currency


def _range(low: Cell, high: Cell) -> tuple[Cell, Cell]:
    """Return both ends of a range with the sign and the unit that only one of them has: 22 - 68 €, 2.3-2.9 lakh."""
    factor = high.factor if low.factor == 1.0 < high.factor else low.factor
    currency = low.currency or high.currency
    return replace(low, currency=currency, factor=factor), replace(high, currency=currency)


def _are_ends(low: Cell, high: Cell, before: str, between: str) -> bool:
    """Say whether two numbers may be a range: no name with a number in it, no 2024 - 12 €, 500-2k or 5/12 €."""
    digits = [sum(map(str.isdigit, cell.digits.partition(cell.mark or " ")[0])) for cell in (low, high)]
    named = not low.currency and not all(map(_BEFORE.fullmatch, WORD.findall(before)))
    touching = _RANGE.fullmatch(between) and between.strip() != "/"
    most = 1 if between != between.strip() else 2  # 5-100 €, but 2 - 450 € may be two of something
    return bool(touching) and not named and 0 <= digits[1] - digits[0] <= most


def _number(
    place: re.Match[str], before: str, after: str, sign: str, *, first: bool, last: bool
) -> Cell | None:
    """One number with what stands around it and the sign that it is under, None where it is no price."""
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
    behind = last and mark and _MINUS_BEHIND.fullmatch(without_signs(after)) and not dash
    if (first and _NEGATIVE.fullmatch(without_signs(before).strip())) or behind:
        factor = -factor
    pence = not currency and len(digits) <= 3 and digits.isdigit() and bool(_PENCE.match(after))
    return Cell(digits, mark, either, factor, currency, False, place.start(), len(place[0]), pence)


def _sum(first: Cell, second: Cell, *, sure: bool) -> Cell | None:
    """Two numbers that are one, such as 1万 and 2800; None where their marks may be read in two ways."""
    if not sure and (first.open or second.open):
        return None
    total = first.value(".") or 0.0
    rest = second.value(".") or 0.0
    digits = np.format_float_positional(abs(total) + abs(rest), trim="-")
    mark = "." if "." in digits else None
    return Cell(digits, mark, "", math.copysign(1.0, total), first.currency or second.currency, False)


def _marks(digits: str) -> tuple[str | None, str] | None:
    """The decimal mark that a number shows, and the mark that it leaves open; None where it is no number."""
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
    """Whether the last group has three digits and those before it two or three, as in India."""
    first, *groups = digits.split(mark)
    if not groups:
        return False
    return (
        len(groups[-1]) == 3 and 1 <= len(first) <= 3 and all(len(group) in (2, 3) for group in groups[:-1])
    )
