"""Detection of encodings, delimiters and headers, and files that are not text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import Columns, ReadOptions, Table, iter_table, read_table
from pricekit.table.delimited import guess_delimiter, looks_like_data

COLUMNS = Columns(("name",), id=None)


def read(path: Path, columns: Columns = COLUMNS, **said: object) -> tuple[Table, str]:
    heard: list[str] = []
    table = read_table(path, columns, read_options=ReadOptions(**said), notices=heard.append)  # type: ignore[arg-type]
    return table, " ".join(heard)


TEXTS = {
    "cp1252": ["Käsehobel", "Türschloß", "Crème brûlée", "It’s tea – €5"],
    "cp1250": ["Żurek śląski", "Chleb żytni", "Mleko świeże"],
    "cp1251": ["Чай зелёный крупнолистовой", "Кофе растворимый", "Шоколад молочный"],
    "cp1253": ["Ελληνικός καφές", "Ελαιόλαδο εξαιρετικό παρθένο"],
    "cp1254": ["Türk kahvesi şekerli", "Ahşap sandalye ağır", "Işıklı masa lambası"],
    "koi8_r": ["Чай зелёный крупнолистовой", "Кофе растворимый", "Шоколад молочный"],
    "shift_jis": ["緑茶 特選", "コーヒー豆", "ノートパソコン 大容量"],
    "euc_jp": ["緑茶 特選", "コーヒー豆", "ノートパソコン 大容量"],
    "gb18030": ["绿茶 新鲜", "咖啡豆烘焙", "笔记本电脑", "高级手机配件"],
    "big5": ["綠茶 新鮮", "咖啡豆烘焙", "筆記型電腦"],
    "cp949": ["녹차 신선한", "커피 원두", "노트북 컴퓨터"],
    "utf-16-le": ["Tee", "緑茶"],
    "utf-16-be": ["Tee", "Käse"],
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_the_encoding_is_detected_and_reported(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    texts = TEXTS[encoding] * 3
    path.write_bytes(("name,price\n" + "".join(f"{text},5\n" for text in texts)).encode(encoding))
    table, said = read(path)
    assert table.text.tolist() == texts
    assert "is not UTF-8 but looks like" in said
    assert said.count("Set encoding") == 1


@pytest.mark.parametrize(
    ("encoding", "texts"),
    [
        (
            "cp1252",
            ["camisa", "calção", "pão de açúcar", "feijão", "xícara", "maçã", "sabão"],
        ),  # in words, "chaos"
        ("cp1250", ["őszibarack", "tűző", "kávé", "sütemény", "hűtő"]),
        ("cp1250", ["fő", "kávéfőző", "esőkabát", "cipő"]),  # õ in Portuguese
        ("cp1250", ["cană", "haină", "brăţară", "pernă"]),  # ã in Portuguese
        ("iso8859_2", ["żurek śląski", "chleb żytni", "gęś", "świeże mąki"]),
        ("cp1250", ["mebel 5 zł", "kość słoniowa", "mały biały stół", "żaba", "główka"]),
        ("cp1251", ["ЧАЙНИК ЭЛЕКТРИЧЕСКИЙ", "ЧЁРНЫЙ ЧАЙ", "СТОЛ БОЛЬШОЙ", "КНИГА", "ЖЁЛТЫЙ ЯЩИК"]),
        ("koi8_r", ["ЧАЙНИК ЭЛЕКТРИЧЕСКИЙ", "ЧЁРНЫЙ ЧАЙ", "СТОЛ БОЛЬШОЙ", "КНИГА", "ЖЁЛТЫЙ ЯЩИК"]),
        ("cp1252", ["irmãs", "manhãs", "lãs"]),
        ("cp1252", ["sõna", "tõde", "õhuke", "köök"]),
        ("cp1252", ["niño", "muñeca", "¡qué taza!", "¿té?", "camión"]),
        ("cp1252", ["poster 10×15 cm", "±5 mm", "12 µm"]),
        ("cp1252", ["cadeira nº 5", "2ª edição", "mesa nº 7"]),
        ("cp1251", ["Чайник электрический", "чайник чёрный", "чехол белый", "ящик жёлтый"]),
        ("koi8_r", ["Чайник электрический", "чайник чёрный", "чехол белый", "ящик жёлтый"]),
        ("cp866", ["Чайник электрический", "чайник чёрный", "чехол белый", "ящик жёлтый"]),
        ("cp1253", ["Καρέκλα", "τραπέζι ξύλινο", "φλιτζάνι", "χαλί"]),
        ("cp1255", ["תה ירוק גדול", "שולחן עץ", "כיסא מתכת", "טלפון נייד", "נעליים עור", "ילדים שמלה"]),
        ("cp1256", ["كرسي خشب", "طاولة كبيرة", "مصباح", "زيت زيتون", "خبز", "غطاء", "ذهب"]),
        (
            "cp1254",
            ["gömlek", "çanta", "ışık", "şapka", "kağıt", "üzüm", "İpek"],
        ),  # Greek letters beside Latin ones
    ],
)
def test_letters_of_one_alphabet(tmp_path: Path, encoding: str, texts: list[str]) -> None:
    path = tmp_path / "t.csv"
    names = [f"{texts[number % len(texts)]} {number}" for number in range(20)]
    rows = [f"{number};{name};{number + 1},50\n" for number, name in enumerate(names)]
    path.write_bytes(("id;name;price\n" + "".join(rows)).encode(encoding))
    assert read(path)[0].text.tolist() == names


def test_one_letter_beyond_ascii_is_western(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"name,price\n" + b"tea,1\n" * 20_000 + b"caf\xe9,2\n")
    assert read(path)[0].text.iloc[-1] == "café"


@pytest.mark.parametrize("tail", [b"", b"caf\xc3"])
def test_damaged_utf8_is_still_read_as_utf8(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "t.csv"
    bad = b"" if tail else b"t\xffe,5\n"
    path.write_bytes(b"name,price\n" + bad + "thé,5\n".encode() * 40 + tail)
    table, said = read(path)
    assert table.text.iloc[5] == "thé"
    assert "\ufffd" in table.text.str.cat()
    assert "is UTF-8 except for some bytes" in said


def test_a_guess_that_fails_later_is_a_clear_error(tmp_path: Path, raises) -> None:
    path = tmp_path / "t.jsonl"
    first = '{"name": "緑茶 コーヒー豆 ノート", "price": 5}\n'.encode("shift_jis")
    path.write_bytes(first * 3000 + b'{"name": "\x81 ", "price": 1}\n')
    with raises(DataError, "encoding", encoding="cp932", position=141010):
        read(path)


def test_binary_data_is_reported_as_binary(tmp_path: Path, raises) -> None:
    (tmp_path / "t.csv").write_bytes(os.urandom(20_000))
    (tmp_path / "u.csv").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "v.csv").write_bytes(b"<!DOCTYPE html><html>")
    for name in ("t.csv", "u.csv", "v.csv"):
        with raises(DataError, "table"):
            read(tmp_path / name)


def test_plain_files_cause_no_notices(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,price\nthé,5.5\n", "utf-8")
    (tmp_path / "t.tsv").write_text("name\tprice\nthé, vert\t5\n", "utf-8")
    assert read(tmp_path / "t.csv")[1] == read(tmp_path / "t.tsv")[1] == ""


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_delimiter_is_found(tmp_path: Path, mark: str, end: str) -> None:
    path = tmp_path / "t.txt"
    cells = ['"a; b, c"', '"d | e"', "f"]
    rows = [
        "name|price".replace("|", mark),
        *(f'{cell}{mark}"{i},50"' for i, cell in enumerate(cells, start=1)),
    ]
    path.write_bytes(end.join(rows).encode())
    table, said = read(path)
    assert table.text.tolist() == ["a; b, c", "d | e", "f"]
    assert table.known_price.tolist() == [1.5, 2.5, 3.5]
    assert "the detected delimiter is" in said


@pytest.mark.parametrize(
    ("text", "default", "found"),
    [
        ("a;b\nTisch;12,50\nStuhl;5,00\n", ",", ";"),
        ("Tisch;12,50;1,00\nStuhl;5,00;2,00\n", ",", ";"),
        ("a,b\n1,2\n3,4\n", ",", ","),
        ("a,b\nx;y,1\nz;w,2\n", ",", ","),
        ("a\tb\nx, y\t1\nz, w\t2\n", ",", "\t"),
        ("text\nred, green\nblue\n", ",", ","),
        ("a,b\n", "\t", ","),
        ("sep=|\r\na|b\r\n", ",", "|"),
    ],
)
def test_the_detected_delimiter(text: str, default: str, found: str) -> None:
    assert guess_delimiter(text, default) == found


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(
        st.lists(st.text('ab ,;|\t"\n', max_size=6), min_size=2, max_size=2), min_size=3, max_size=12
    ),
    mark=st.sampled_from(",;\t|"),
)
def test_quoted_cells_do_not_mislead(cells: list[list[str]], mark: str) -> None:
    rows = [["name", "price"], *cells]
    quoted = [mark.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    assert guess_delimiter("\n".join(quoted), ",") == mark


def test_a_delimiter_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name^price\na,b;c^5\n")
    table, said = read(path, delimiter="^")
    assert (table.text.tolist(), said) == (["a,b;c"], "")


def test_the_delimiter_line_of_excel_is_not_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfsep=;\r\nname;price\r\ntea;5,20\r\n")
    assert read(path)[0].known_price.tolist() == [5.2]


def test_a_file_without_a_header(tmp_path: Path, raises) -> None:
    path = tmp_path / "t.csv"
    path.write_text("https://x.vn/1,Bàn phím,565.000₫\nhttps://x.vn/2,Chuột,25.000₫\n", "utf-8")
    with raises(
        DataError,
        "text",
        "columns",
        column="name",
        candidates=["https://x.vn/1", "Bàn phím", "565.000₫"],
        suggestion=None,
    ):
        read(path)
    table, _ = read(path, names=("url", "name", "price"))
    assert table.text.tolist() == ["Bàn phím", "Chuột"]
    assert table.known_price.tolist() == [565_000, 25_000]
    named = read(path, Columns(("name",), None, None), names=("url", "name"))[0]
    assert list(named.frame) == [
        "url",
        "name",
        "column 3",
    ]
    with raises(DataError, "columns", "delimiter", names=["a", "b", "c", "d"], fields=3):
        read(path, names=tuple("abcd"))


def test_given_names_that_equal_the_header_do_not_make_it_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,price\ntea,5\n")
    assert read(path, names=("name", "price"))[0].text.tolist() == ["tea"]


def test_a_first_line_with_duplicate_values_asks_for_column_names(tmp_path: Path, raises) -> None:
    path = tmp_path / "t.csv"
    path.write_text("tea,5,5\ncoffee,6,7\n")
    with raises(DataError, "columns", duplicates=["5"]):
        read(path)


def test_chunks_know_the_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"tea {i},{i}\n" for i in range(1, 8)))
    chunks = iter_table(
        path, COLUMNS, rows=3, read_options=ReadOptions(names=("name", "price")), notices=lambda _: None
    )
    assert [chunk.known_price.tolist() for chunk in chunks] == [[1, 2, 3], [4, 5, 6], [7]]


@pytest.mark.parametrize("value", ["https://a.b", "4.8", "565.000₫", "$5,000", "12", "1 234 €"])
def test_values_that_are_not_header_names(value: str) -> None:
    assert looks_like_data(["name", value]) == value


def test_values_that_can_be_header_names() -> None:
    assert (
        looks_like_data(["name", "Price (INR)", "S.N.", "column 1", "Q1", "f0", "2nd", "12 kg", ""]) is None
    )
