from release.audit import verdict

CLEAN = {"name": "a", "version": "1", "vulns": []}
WRONG = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1"}, {"id": "CVE-2"}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


def test_a_vulnerable_package_is_named_and_fails():
    good, summary = verdict([CLEAN, WRONG, UNKNOWN])
    assert not good
    assert summary == "2 packages audited, 1 vulnerable\n  b 2 (CVE-1, CVE-2); 1 not audited: c"


def test_no_vulnerability_passes():
    assert verdict([CLEAN]) == (True, "1 package audited, 0 vulnerable")


def test_it_is_said_if_nothing_was_audited():
    for nothing in ([], [UNKNOWN]):
        good, summary = verdict(nothing)
        assert good
        assert summary.startswith("nothing was audited")
