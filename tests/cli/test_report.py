"""The command `report`."""


def test_the_report_is_written_and_its_size_is_shown(pricekit, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = pricekit("report", run, "--against", run)
    assert (code, out) == (0, "")
    assert "the report is in report.html, " in err
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Report on run" in page
    assert "differences are paired" in page


def test_a_bundle_without_a_table_is_one_sentence(pricekit, bundle, tmp_path):
    code, _, err = pricekit("report", bundle, "--out", tmp_path / "r.html")
    assert code == 1
    assert "is a bundle, which contains no held-out rows" in err
    assert not (tmp_path / "r.html").exists()
