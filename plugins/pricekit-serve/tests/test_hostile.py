"""Requests that nobody should send: each gets a status, a sentence and the field, and the server goes on."""

import json
import struct

import pyarrow as pa
import pytest
from pricekit_serve import Limits, app
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import COMPARABLES
from pricekit_serve.rows import KnownColumns, rows_of_arrow, rows_of_json
from starlette.testclient import TestClient

JSON = {"content-type": "application/json"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
ROW = '{"catalog_content": "tea"}'


@pytest.fixture(scope="module")
def client(served):
    with TestClient(app(served, engine="ort-cpu", limits=Limits(max_bytes=200_000, max_rows=50))) as found:
        yield found
        assert found.post("/predict", json={"rows": [{"catalog_content": "tea"}]}).status_code == 200


@pytest.fixture(scope="module")
def refused(conforms):
    """Check the answer to a wrong request."""

    def check(answer, status, *, field=None, words=""):
        assert answer.status_code == status, answer.text
        conforms(answer.json(), "Error")
        assert answer.json().get("field") == field, answer.text
        assert words in answer.json()["error"]
        assert "Traceback" not in answer.text

    return check


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"tea",
        b"{",
        b'{"rows": [}',
        b'{"rows": [{"catalog_content": NaN}]}',
        b'{"rows": [], "interval": Infinity}',
        b'{"rows": [{"catalog_content": "\xff\xfe"}]}',
        b"\xff\xfe{\x00}\x00",
        '{"rows": []}'.encode("utf-16"),
        b'{"rows": ' + b"[" * 1_200,
        b'{"a":' * 1_200,
        b"\x00" * 100,
    ],
)
def test_what_is_not_json_is_a_bad_request(client, refused, body):
    refused(client.post("/predict", content=body, headers=JSON), 400)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("[]", None),
        ("3", None),
        ("null", None),
        ("{}", "rows"),
        ('{"rows": {}}', "rows"),
        ('{"rows": "tea"}', "rows"),
        ('{"rows": [], "row": 1}', "row"),
        (f'{{"rows": [{ROW}, 3]}}', "rows[1]"),
        (f'{{"rows": [{ROW}, null]}}', "rows[1]"),
        (f'{{"rows": [{ROW}, {ROW}, {{"catalog_content": []}}]}}', "rows[2].catalog_content"),
        (f'{{"rows": [{ROW}, {ROW}, {{"catalog_content": {{"a": 1}}}}]}}', "rows[2].catalog_content"),
        (f'{{"rows": [{ROW}, {{}}]}}', "rows[1].catalog_content"),
        ('{"rows": [{"catalog_contnt": "tea"}]}', "rows[0].catalog_content"),
        ('{"rows": [{"catalog_content": "tea", "colour": "red"}]}', "rows[0].colour"),
        ('{"rows": [{"catalog_content": "' + "x" * 50_001 + '"}]}', "rows[0].catalog_content"),
        (f'{{"rows": [{ROW}], "interval": "0.9"}}', "interval"),
        (f'{{"rows": [{ROW}], "interval": true}}', "interval"),
        (f'{{"rows": [{ROW}], "interval": 1}}', "interval"),
        (f'{{"rows": [{ROW}], "interval": -1e999}}', "interval"),
        (f'{{"rows": [{ROW}], "interval": 0.9999999}}', "interval"),
        *(
            (f'{{"rows": [{ROW}], "quantiles": {shares}}}', "quantiles")
            for shares in ("0.5", '"0.5"', "[]", "[0.5, 0.5]", "[null]", "[[0.5]]", "[1e-9]", "[1e999]", "{}")
        ),
        *(
            (f'{{"rows": [{ROW}], "within": {factor}}}', "within")
            for factor in ("1", "0.5", '"2"', "[2]", "true", "1e999", "-2")
        ),
        *(
            (f'{{"rows": [{ROW}], "within": 2, "confidence": {share}}}', "confidence")
            for share in ("1", "0", '"0.9"', "false", "0.9999999", "95")
        ),
        (f'{{"rows": [{ROW}], "confidence": 0.9}}', "confidence"),
        (f'{{"rows": [{ROW}], "explain": 1}}', "explain"),
        (f'{{"rows": [{ROW}], "explain": "yes"}}', "explain"),
        (f'{{"rows": [{ROW}], "comparables": -1}}', "comparables"),
        (f'{{"rows": [{ROW}], "comparables": 2.5}}', "comparables"),
        (f'{{"rows": [{ROW}], "comparables": 1e400}}', "comparables"),
        (f'{{"rows": [{ROW}], "comparables": {"9" * 5000}}}', "comparables"),
        (f'{{"rows": [{ROW}], "comparables": {COMPARABLES + 1}}}', "comparables"),
        (f'{{"rows": [{ROW}], "comparables": [5]}}', "comparables"),
    ],
)
def test_wrong_values_are_named(client, refused, body, field):
    refused(client.post("/predict", content=body, headers=JSON), 422, field=field)


def test_a_misspelled_column_is_corrected(client, refused):
    asked = {"rows": [{"catalog_content": "tea", "sample_di": 3}]}
    refused(
        client.post("/predict", json=asked), 422, field="rows[0].sample_di", words="Did you mean 'sample_id'?"
    )


def test_odd_texts_are_priced(client):
    odd = [
        "",
        " ",
        "\x00",
        "a\x00b",
        "\ud800",
        "\udfff tea",
        "\u202e\u2066",
        "😀" * 999,
        "\r\n" * 99,
        "x" * 50_000,
    ]
    body = json.dumps({"rows": [{"catalog_content": text} for text in odd], "explain": True})
    answer = client.post("/predict", content=body, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert all(row["price"] > 0 for row in answer.json()["rows"])


def test_odd_names_come_back_harmless(client, refused):
    body = '{"rows": [{"catalog_content": "tea", "\\ud800\\u001b[2J\\u202e' + "n" * 9999 + '": "red"}]}'
    answer = client.post("/predict", content=body, headers=JSON)
    refused(answer, 422, field=answer.json()["field"])
    assert "\x1b" not in answer.json()["error"]
    assert len(answer.json()["error"]) < 999


def test_huge_numbers_are_texts(client):
    body = '{"rows": [{"catalog_content": ' + "9" * 20_000 + "}]}"
    assert client.post("/predict", content=body, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        '{"rows": [], "rows": []}',
        '{"rows": [{"catalog_content": "a", "catalog_content": "a"}]}',
        '{"rows": [{"catalog_content": "a", "catalog\\u005fcontent": "b"}]}',
        f'{{"rows": [{ROW}], "comparables": {{"a": 1, "a": 1}}}}',
    ],
)
def test_keys_that_are_there_twice_are_refused(client, refused, body):
    refused(client.post("/predict", content=body, headers=JSON), 400, words="twice")


def test_large_requests_are_refused(client, refused):
    refused(client.post("/predict", content=b" " * 200_001, headers=JSON), 413, words="200,000 bytes")
    claimed = JSON | {"content-length": "9" * 30}
    refused(client.post("/predict", content=b"{}", headers=claimed), 413)

    def parts():
        for _ in range(300):
            yield b" " * 1000

    refused(client.post("/predict", content=parts(), headers=JSON), 413)
    refused(client.post("/predict", json={"rows": [{"catalog_content": ""}] * 51}), 413, field="rows")
    lines = {"content-type": "application/jsonl"}
    refused(client.post("/predict", content=b"{}\n" * 51, headers=lines), 413, field="rows")
    explained = {"rows": [{"catalog_content": ""}] * 17, "explain": True}
    refused(client.post("/predict", json=explained), 413, field="rows", words="at most 16")


MOST_VALUES = 1_300
"""Of 50 rows with two columns."""


@pytest.mark.parametrize(
    "body",
    [
        b'{"rows":[' + b"0," * 90_000 + b"0]}",
        b'{"rows":[' + b'"",' * 60_000 + b'""]}',
        b'{"rows":[' + b"[]," * 60_000 + b"[]]}",
        b'{"rows":[{' + b",".join(b'"%x":0' % number for number in range(20_000)) + b"}]}",
        b'{"rows":[{"catalog_content":"' + b'\\"' * 999 + b'"}' + b",{}" * MOST_VALUES + b"]}",
        b'{"rows": ' + b"[" * 90_000,
        b'{"a":' * 30_000,
        b'"' * 100_000,
    ],
)
def test_values_are_counted_before_they_are_parsed(client, refused, body):
    words = f"over {MOST_VALUES:,} JSON values"
    refused(client.post("/predict", content=body, headers=JSON), 413, words=words)
    lines = {"content-type": "application/jsonl"}
    refused(client.post("/predict", content=body, headers=lines), 413, words=words)
    refused(client.post("/v2/models/shop/infer", content=body, headers=JSON), 413, words=words)


def test_lines_are_counted_before_they_are_parsed(client, refused):
    lines = {"content-type": "application/jsonl"}
    refused(client.post("/predict", content=b"\n" * 100_000, headers=lines), 413, words="lines")
    assert client.post("/predict", content=b"\r\n" * 1_000, headers=lines).status_code == 200


def test_signs_in_texts_are_not_values(client):
    body = json.dumps({"rows": [{"catalog_content": text} for text in ('[{",\\",' * 6_000, ",\\\\" * 9_000)]})
    assert client.post("/predict", content=body, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "multipart/form-data; boundary=x"},
        JSON | {"content-encoding": "gzip"},
        JSON | {"content-encoding": "br, gzip"},
    ],
)
def test_other_formats_are_refused(client, refused, headers):
    refused(client.post("/predict", content=b"{}", headers=headers), 415)


def test_json_lines_name_the_line(client, refused):
    lines = {"content-type": "application/jsonl"}
    body = f"{ROW}\n\n{ROW}\n{{".encode()
    refused(client.post("/predict", content=body, headers=lines), 400, words="line 4")
    refused(client.post("/predict", content=f"{ROW}\n[]", headers=lines), 422, field="rows[1]")
    for query, field in (
        ("interval=tea", "interval"),
        ("explain=1", "explain"),
        ("rows=3", "rows"),
        ("interval=nan", "interval"),
        ("quantiles=", "quantiles"),
        ("quantiles=a,b", "quantiles"),
        ("quantiles=0.9,0.1", "quantiles"),
        ("quantiles=" + ",".join(["0.5"] * 2000), "quantiles"),
    ):
        refused(client.post(f"/predict?{query}", content=ROW, headers=lines), 422, field=field)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("interval=0.9", 'set the field "interval" of the body instead'),
        ("explain=true", 'set the field "explain" of the body instead'),
        ("comparables=3", 'set the field "comparables" of the body instead'),
        ("intervall=0.9", "is unknown in the query; a JSON body has the fields rows, interval"),
    ],
)
def test_a_json_body_has_no_options_in_the_query(client, refused, query, words):
    field = query.partition("=")[0]
    for path in ("/predict", f"/models/{client.get('/models').json()['models'][0]['name']}/predict"):
        refused(
            client.post(f"{path}?{query}", json={"rows": [json.loads(ROW)]}), 422, field=field, words=words
        )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("explain=true", "cannot be used with Arrow"),
        ("comparables=3", "cannot be used with Arrow"),
        (
            "intervall=0.9",
            "is unknown in the query; expected interval, quantiles, within, confidence, explain, comparables",
        ),
    ],
)
def test_arrow_has_no_options_that_its_answer_cannot_hold(client, refused, query, words):
    field = query.partition("=")[0]
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    refused(
        client.post(f"/predict?{query}", content=arrow(TEXT), headers=headers), 422, field=field, words=words
    )


def arrow(table, batches=1, **options):
    """A stream of a table, and of more batches without rows."""
    found, sink = pa.table(table), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(found)
        for _ in range(1, batches):
            writer.write_batch(found.to_batches()[0].slice(0, 0))
    return bytes(sink.getvalue())


TEXT = {"catalog_content": ["tea"]}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not an Arrow IPC stream"),
        (b"ARROW1\0\0", 400, "not an Arrow IPC stream"),
        (arrow(TEXT)[:-60], 400, "not an Arrow IPC stream"),
        (arrow(TEXT, compression="zstd"), 415, "without compression"),
        (arrow(TEXT, compression="lz4"), 415, "without compression"),
        (arrow({"catalog_content": [["tea"]]}), 422, "expected texts"),
        (arrow({"catalog_content": [None]}), 422, "expected texts"),
        (arrow({"catalog_content": [b"tea"]}), 422, "expected texts"),
        (arrow({"catalog_content": pa.array(["tea"]).dictionary_encode()}), 422, "expected texts"),
        (arrow({"title": ["tea"]}), 422, "is missing"),
        (arrow(TEXT | {"colour": ["red"]}), 422, "is not a column"),
        (arrow({"catalog_content": ["tea"] * 51}), 413, "51 rows"),
        (arrow({"catalog_content": ["x" * 50_001]}), 422, "50,001 characters"),
        (arrow({str(number): [""] for number in range(300)}), 413, "over 256 different columns"),
        (arrow(TEXT, batches=52), 413, "over 50 batches"),
        (arrow({"x" * 99_999: ["tea"]}), 422, "is missing"),
    ],
)
def test_odd_streams_are_refused(client, refused, body, status, words):
    answer = client.post("/predict", content=body, headers=ARROW)
    refused(answer, status, field=answer.json().get("field"), words=words)


def test_damaged_streams_never_break_the_server(client):
    """Each byte of a stream is changed in turn."""
    whole = arrow({"catalog_content": ["green tea", "jam"]})
    for place in range(0, len(whole), 3):
        body = bytearray(whole)
        body[place] ^= 0xFF
        answer = client.post("/predict", content=bytes(body), headers=ARROW)
        assert answer.status_code in (200, 400, 413, 415, 422), answer.text


def test_texts_that_are_not_utf_8_are_refused(client, refused):
    body = arrow({"catalog_content": ["teatea"]}).replace(b"teatea", b"tea\xff\xfea")
    refused(client.post("/predict", content=body, headers=ARROW), 400)


def test_unknown_addresses_and_methods(client, refused):
    refused(client.get("/nothing"), 404)
    refused(client.get("/../../etc/passwd"), 404)
    refused(client.get("/predict"), 405)
    refused(client.put("/predict", content=b""), 405)
    refused(client.post("/predict/", content=b""), 404)
    refused(client.get("/v2/models/%2e%2e%2fshop"), 404)
    refused(client.get("/v2/models/shop/versions/7"), 404)


def test_columns_that_share_their_bytes_are_refused(raises):
    """Otherwise 256 columns would make 2.5 GB of 10 MB."""
    known = KnownColumns(("text",), any=True)
    whole = arrow({"text": ["t" * 700], "more": ["m" * 8], "other": ["o" * 8]})
    assert rows_of_arrow(whole, known, 10).cells["other"] == ["o" * 8]
    for start in (712, 728):  # the buffers of the other columns become those of the first
        buffers = struct.pack("<4q", start, 8, start + 8, 8)
        assert whole.count(buffers) == 1
        whole = whole.replace(buffers, struct.pack("<4q", 0, 8, 8, 700))
    with raises(RequestError) as refused:
        rows_of_arrow(whole, known, 10)
    assert refused.value.status == 400


def test_columns_are_bounded_if_a_model_allows_any(raises):
    """All rows get all columns, so rows with columns of their own would multiply."""
    known = KnownColumns(("text",), any=True)
    own = [{"text": "tea"} | {f"{row} {number}": "" for number in range(20)} for row in range(30)]
    wide = pa.table({"text": ["tea"], **{str(number): [""] for number in range(300)}})
    for read in (lambda: rows_of_json(own, known, 100), lambda: rows_of_arrow(arrow(wide), known, 100)):
        with raises(RequestError) as refused:
            read()
        assert refused.value.status == 413
    assert len(rows_of_json(own[:9], known, 100).cells) == 181
