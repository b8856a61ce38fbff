"""The settings in which models differ."""

from pricekit.answers.leaderboard import differences


def settings(**changes):
    return {
        "seed": 0,
        "loss.name": "smape",
        "features": ["a"],
        **{k.replace("__", "."): v for k, v in changes.items()},
    }


def test_only_settings_that_differ_are_named():
    assert differences([[settings()], [settings()]]) == [{}, {}]
    assert differences([[settings()]]) == [{}]
    found = differences([[settings()], [settings(features=["a", "b"])], [settings(loss__name="l1")]])
    assert found == [
        {"loss": "smape", "features": ["a"]},
        {"loss": "smape", "features": ["a", "b"]},
        {"loss": "l1", "features": ["a"]},
    ]


def test_options_are_compared_between_models_with_the_same_plugin():
    focal = {"loss__name": "focal", "loss__gamma": 1.0}
    other = {"loss__name": "l1", "loss__delta": 3}
    assert differences([[settings(**focal)], [settings(**other)]]) == [{"loss": "focal"}, {"loss": "l1"}]
    sharper = focal | {"loss__gamma": 2.0}
    assert differences([[settings(**focal)], [settings(**sharper)], [settings(**other)]]) == [
        {"loss": "focal", "loss.gamma": 1.0},
        {"loss": "focal", "loss.gamma": 2.0},
        {"loss": "l1"},
    ]


def test_values_of_equal_text_but_another_type_differ():
    assert differences([[settings(x=None)], [settings(x="null")]]) == [{"x": None}, {"x": "null"}]
    assert differences([[settings(x=1)], [settings(x=True)]]) == [{"x": 1}, {"x": True}]


def test_an_ensemble_has_the_settings_that_its_members_share():
    both = [settings(seed=1, features=["b"]), settings(seed=2, features=["b"])]
    assert differences([both, [settings(seed=1)]]) == [{"features": ["b"]}, {"seed": 1, "features": ["a"]}]
    assert differences([both, both[::-1]]) == [{}, {}]
