"""The study: proposals, early stops, importance."""

import pytest

from conftest import tiny_config
from pricekit.runs import study
from pricekit.runs.study import dimensions

SPACE = dimensions(tiny_config())


@pytest.fixture
def made(tmp_path):
    """Open a study with finished trials; each is given by the scores of its folds after each epoch."""

    def make(*trials, space=SPACE):
        found = study.open_study(tmp_path, 0)
        for folds in trials:
            one, _ = study.ask(found, space)
            scores = []
            for fold, epochs in enumerate(folds):
                for epoch, score in enumerate(epochs, 1):
                    study.report(one, fold, epoch, score)
                scores.append(epochs[-1])
                study.report(one, fold, None, epochs[-1])
            one.set_user_attr(study.SECONDS, 1.0)
            found.tell(one, sum(scores) / len(scores))
        return found

    return make


def test_a_trial_falls_behind_if_it_is_worse_than_the_median_of_the_others(made):
    found = made(*([[10.0 + n, 5.0 + n]] for n in range(4)))
    many = 10**8
    assert not study.falls_behind(found, 0, 1, 11.5, many)
    assert study.falls_behind(found, 0, 1, 11.6, many)
    assert study.falls_behind(found, 0, 2, 6.6, many)
    assert study.falls_behind(found, 0, 9, 6.6, many)  # the others ended earlier
    assert study.falls_behind(found, 0, None, 6.6, many)
    assert not study.falls_behind(found, 1, 1, 99.0, many)  # none came so far


def test_a_difference_that_may_be_chance_stops_no_trial(made):
    found = made(*([[100.0 + n]] for n in range(-2, 3)))
    assert not study.falls_behind(found, 0, 1, 102.9, rows=100)
    assert study.falls_behind(found, 0, 1, 103.1, rows=100)
    assert study.falls_behind(found, 0, 1, 102.9, rows=400)


def test_no_trial_falls_behind_before_some_are_finished(made):
    found = made(*([[10.0 + n]] for n in range(study.LEAST_PEERS - 1)))
    assert not study.falls_behind(found, 0, 1, 99.0, 100)


def test_an_easier_fold_does_not_save_a_trial(made):
    """The scores of the second fold are compared with those of the second fold alone."""
    found = made(*([[1.0], [10.0 + n]] for n in range(4)))
    assert study.falls_behind(found, 1, 1, 12.0, 10**8)
    assert not study.falls_behind(found, 1, 1, 11.0, 10**8)


def test_the_first_trial_is_repeated_until_it_is_finished(made, tmp_path):
    found = study.open_study(tmp_path, 0)
    one, values = study.ask(found, SPACE)
    assert values == {each.name: each.value for each in SPACE}
    study.repair(tmp_path)  # it was running
    again, same = study.ask(study.open_study(tmp_path, 0), SPACE)
    assert (again.number, same) == (one.number + 1, values)
    assert study.base_trial(found) is None


def test_later_trials_stay_near_the_best_one(made):
    found = made([[10.0]], [[9.0]])
    best = study.best_trial(found)
    assert best.number == 1
    _, values = study.ask(found, SPACE)
    changed = {name.partition(".")[0] for name, value in values.items() if value != best.params[name]}
    assert changed <= {"training", "head"} or changed <= {"backbone"}
    assert changed


def test_settings_that_are_known_to_be_good_come_second(made):
    found = made([[10.0]])
    known = [{"backbone.lead": 5.0}, {"backbone.width": 30}]
    study.enqueue(found, SPACE, known)
    start = {each.name: each.value for each in SPACE}
    for values in known:
        assert study.ask(found, SPACE)[1] == start | values
    study.enqueue(found, SPACE, known)  # as a resumed search does
    assert study.ask(found, SPACE)[1] not in [start | values for values in known]


def test_the_time_of_a_trial_counts_the_features_that_it_found_in_the_cache(tmp_path):
    space = dimensions(tiny_config({"features": ["fast15", "neighbours"]}))
    found, k, power = (
        study.open_study(tmp_path, 0),
        *[f"feature_options.neighbours.{n}" for n in ("k", "power")],
    )
    known = [{k: 9}, {k: 9, "backbone.lead": 5.0}, {power: 2.0}]
    for number, (seconds, score) in enumerate([(50.0, 9.0), (100.0, 8.0), (30.0, 7.0), (500.0, 9.5)]):
        one, _ = study.ask(found, space)
        one.set_user_attr(study.SECONDS, seconds)
        found.tell(one, score)
        assert study.uncached_seconds(found) == (50.0, 100.0, 100.0, 100.0)[number]
        study.enqueue(found, space, known)


def test_importance_needs_two_finished_trials_with_different_scores(made):
    assert study.importances(made([[10.0]])).empty
    assert list(study.importances(made([[10.0]])).columns) == ["setting", "importance"]
    found = study.importances(made([[9.0]], [[8.0]], [[8.5]]))
    assert found["importance"].sum() == pytest.approx(1)
    assert found["importance"].is_monotonic_decreasing


def test_a_torn_line_of_the_journal_is_dropped(made, tmp_path):
    made([[10.0]], [[9.0]])
    file = tmp_path / study.JOURNAL
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"op_code": 7, "tri')
    (tmp_path / f"{study.JOURNAL}.lock").symlink_to(file)
    study.repair(tmp_path)
    assert file.read_bytes().startswith(whole)
    assert b"tri\n" not in file.read_bytes()
    assert [trial.value for trial in study.finished_trials(study.open_study(tmp_path, 0))] == [9.0, 10.0]


def test_nothing_is_logged_by_optuna(made, capfd, caplog):
    made([[10.0]], [[9.0]])
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
