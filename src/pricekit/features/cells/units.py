"""Units of measure: their spellings in several languages, and their sizes in a common measure.

The sizes are exact by definition (NIST SP 811, appendix B.8), except those of containers, which count pieces.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

COMMON = {
    "none": "",
    "weight": "g",
    "volume": "ml",
    "count": "pieces",
    "length": "mm",
    "area": "m²",
    "box": "mm³",
    "distance": "km",
    "power": "W",
    "charge": "mAh",
    "energy": "Wh",
    "storage": "GB",
    "voltage": "V",
    "frequency": "MHz",
    "time": "minutes",
    "share": "%",
    "resolution": "megapixels",
}
"""The classes of units and their common measures; "area" and "box" are also products of two and three lengths."""

KINDS = tuple(COMMON)
NONE, WEIGHT, VOLUME, COUNT, LENGTH, AREA, BOX = range(7)

_SPELLINGS: dict[tuple[str, float], str] = {
    ("weight", 0.001): "mg milligram milligrams milligramm мг",
    ("weight", 1.0): (
        "g gr gm gms gms. gram grams gramm gramms gramme grammes gramo gramos grama gramas grammi grammo г гр грамм "
        "克 グラム 그램 กรัม غرام"
    ),
    ("weight", 1000.0): (
        "kg kgs kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramo kilogramos кг килограмм "
        "公斤 千克 キロ 킬로 กิโลกรัม كجم"
    ),
    ("weight", 1e6): "t tonne tonnes tonnen",
    ("weight", 28.349523125): "oz ozs onz ounce ounces onza onzas",
    ("weight", 453.59237): "lb lbs pound pounds libra libras pfund",
    (
        "volume",
        1.0,
    ): "ml mls milliliter milliliters millilitre millilitres mililitros mililitro cc мл 毫升 มล",
    ("volume", 10.0): "cl centiliter centiliters centilitre centilitres сл",
    ("volume", 100.0): "dl deciliter deciliters decilitre decilitres дл",
    ("volume", 1000.0): (
        "l lt ltr ltrs liter liters litre litres litro litros litri л литр литра литров 升 リットル 리터 ลิตร لتر"
    ),
    ("volume", 29.5735295625): "floz flozs flounce flounces fluidoz fluidounce fluidounces fz",
    ("volume", 473.176473): "pint pints pt pts",
    ("volume", 946.352946): "quart quarts qt qts",
    ("volume", 3785.411784): "gal gals gallon gallons",
    ("count", 1.0): (
        "count counts ct cts cnt each ea piece pieces pc pcs unit units item items bottle bottles jar jars can cans "
        "bag bags teabag teabags packet packets pouch pouches sachet sachets stick sticks bar bars pod pods capsule "
        "capsules caps tablet tablets tabs roll rolls sheet sheets tin tins tub tubs tube tubes carton cartons "
        "wipe wipes pack packs pk pks stück stk st stueck er pièce pièces pce pza pzas pieza piezas unidad unidades "
        "uds ud pezzi pezzo pz szt sztuk stuks stuk unidade unidades und adet шт штук 個 个 枚 本 入 袋 瓶 盒 개 입 매 "
        "ชิ้น قطعة viên cái hộp gói chai"
    ),
    ("count", 2.0): "pair pairs paar paire paires",
    ("count", 12.0): "dozen dozens dz dutzend",
    ("length", 1.0): "mm millimeter millimeters millimetre millimetres мм 毫米",
    ("length", 10.0): "cm cms centimeter centimeters centimetre centimetres см 厘米 公分",
    ("length", 1000.0): "m meter meters metre metres mtr mtrs metro metros м 米",
    ("length", 25.4): 'in inch inches " ″ zoll pouces pulgadas дюйм 英寸 インチ',
    ("length", 304.8): "ft foot feet",
    ("length", 914.4): "yd yds yard yards",
    ("area", 1.0): "m² m2 qm sqm squaremeter squaremeters squaremetre squaremetres кв.м м² м2 平方米 坪",
    ("area", 0.09290304): "ft² ft2 sqft squarefeet squarefoot sf",
    ("area", 4046.8564224): "acre acres",
    ("area", 10000.0): "ha hectare hectares hektar",
    ("distance", 1.0): "km kms kilometer kilometers kilometre kilometres км 公里",
    ("distance", 1.609344): "mi mile miles",
    ("power", 0.001): "mw",
    ("power", 1.0): "w watt watts vatios вт ватт 瓦",
    ("power", 1000.0): "kw kilowatt kilowatts квт",
    ("power", 745.69987158227022): "hp bhp",
    ("power", 735.49875): "ps cv ch pk л.с. лс 馬力",
    ("charge", 1.0): "mah",
    ("charge", 1000.0): "ah",
    ("energy", 1.0): "wh",
    ("energy", 1000.0): "kwh квтч",
    ("storage", 1e-6): "kb",
    ("storage", 1e-3): "mb мб",
    ("storage", 1.0): "gb go гб",
    ("storage", 1000.0): "tb to тб",
    ("voltage", 1.0): "v volt volts в вольт",
    ("frequency", 1e-6): "hz гц",
    ("frequency", 1e-3): "khz кгц",
    ("frequency", 1.0): "mhz мгц",
    ("frequency", 1000.0): "ghz ггц",
    ("time", 1 / 60): "s sec secs second seconds sekunden",
    ("time", 1.0): "min mins minute minutes minuten minuti minutos мин 分钟",
    ("time", 60.0): "h hr hrs hour hours std stunde stunden heure heures hora horas ч час часов 小时",
    ("time", 1440.0): "d day days tag tage tagen jour jours día días dia dias дней день 天",
    ("time", 10080.0): "week weeks woche wochen",
    ("time", 43830.0): "month months monat monate monaten mois mes meses мес месяцев",
    (
        "time",
        525960.0,
    ): "y yr yrs year years jahr jahre jahren an ans año años anno anni ano anos год года лет 年",
    ("share", 1.0): "% percent prozent pct vol abv",
    ("resolution", 1.0): "mp megapixel megapixels mpx мп",
}

FIRST_WORDS = ("fl", "fluid", "sq", "square", "us")
"""First words of units of two words, such as "fl oz"."""


def _rows() -> Iterator[tuple[str, int, float]]:
    seen: set[str] = set()
    for (kind, size), spellings in _SPELLINGS.items():
        for spelling in spellings.split():
            if spelling not in seen:
                seen.add(spelling)
                yield spelling, KINDS.index(kind), size


_TABLE = list(_rows())
SPELLINGS = frozenset(name for name, _, _ in _TABLE)
"""All spellings of units, in lower case."""
_NAMES = pa.array([name for name, _, _ in _TABLE], pa.large_string())
_KIND = np.array([kind for _, kind, _ in _TABLE] + [NONE], np.int8)
_SIZE = np.array([size for _, _, size in _TABLE] + [1.0])


def look_up(spellings: pa.LargeStringArray) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
    """Return the class and the size of units in lower case, each (M,); `NONE` and 1 for other words.

    Example:
        >>> kind, size = look_up(pa.array(["kg", "cl", "tea"], pa.large_string()))
        >>> [KINDS[k] for k in kind], size.tolist()
        (['weight', 'volume', 'none'], [1000.0, 10.0, 1.0])
    """
    place = pc.fill_null(pc.index_in(spellings, _NAMES), len(_NAMES)).to_numpy()
    return _KIND[place], _SIZE[place]
