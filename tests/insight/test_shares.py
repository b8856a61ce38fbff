"""How much the shares of two tables differ, and what chance gives."""

import math

import numpy as np
import pytest

from pricekit.insight.shares import difference, psi_of, surprise


def test_psi_is_the_sum_over_the_bins():
    then, now = np.array([5000, 3000, 2000]), np.array([2000, 3000, 5000])
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    assert psi_of(then, now)[0] == pytest.approx(np.sum((q - p) * np.log(q / p)), rel=1e-2)


def test_an_empty_bin_does_not_make_psi_infinite():
    assert math.isfinite(psi_of(np.array([100, 0]), np.array([0, 100]))[0])


@pytest.mark.parametrize(("n", "m"), [(300, 60), (2000, 400), (5000, 5000)])
def test_chance_alone_hardly_exceeds_its_psi(n, m):
    rng = np.random.default_rng(0)
    found = [psi_of(rng.multinomial(n, [0.1] * 10), rng.multinomial(m, [0.1] * 10)) for _ in range(300)]
    over = np.mean([psi > chance for psi, chance in found])
    assert over < 0.08
    assert max(psi - chance for psi, chance in found) < 0.1


def test_a_difference_is_less_what_chance_and_held_out_rows_give():
    then, now = np.array([500, 500]), np.array([350, 650])
    found = difference(then, now, ordered=True)
    psi, chance = psi_of(then, now)
    assert (found.psi, found.chance) == pytest.approx((psi - chance, chance))
    assert found.distance == pytest.approx(0.15 - 1.36 * math.sqrt(2 / 1000))
    assert difference(then, now, ordered=True, own=0.05).psi == pytest.approx(found.psi - 0.05)
    assert difference(then, now, ordered=True, own_distance=1.0).distance == 0


def test_the_distance_of_values_is_that_of_one_of_them():
    then, now = np.array([4000, 3000, 3000]), np.array([5000, 2000, 3000])
    chance = 1.36 * math.sqrt(2 / 10_000)
    assert difference(then, now, ordered=False).distance == pytest.approx(0.1 - chance)


def test_a_value_is_surprising_if_ten_rows_were_expected_and_none_came():
    then, now = np.array([10_000, 10_000, 10_000]), np.array([0, 10, 5])
    found = surprise(then, 1_000_000, now, 1000)
    assert found[0] == pytest.approx(20, rel=0.02)
    assert found[1] == pytest.approx(0, abs=0.01)
    assert found[2] < 5
