"""The domain classifier without training rows, and the rows least like them."""

import numpy as np
import pytest

from pricekit.insight.counts import Half
from pricekit.insight.domain import HASHES, Domain, sketch_vectors, some_half, vectors_of
from pricekit.insight.fields import documents_of
from pricekit.insight.sketch import distribution_of


def _auc(sketch, trained_on, vectors):
    domain, first = Domain(sketch, trained_on), some_half(len(vectors))
    scaled = domain.scaled(vectors)
    return domain.auc([Half.of(scaled[which]).moments() for which in (first, ~first)])


def _distances(sketch, trained_on, vectors):
    domain = Domain(sketch, trained_on)
    return domain.distances(domain.scaled(vectors))


def _rows(count, seed, shift=0.0, spread=1.0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, 0.1 * spread, (count, HASHES))
    rows[:, 0] += shift * 0.1
    return rows


@pytest.mark.parametrize("rows", [60, 400, 3000])
def test_rows_of_the_same_kind_are_not_told_apart(rows):
    found = [_auc(sketch_vectors(_rows(rows, seed), []), rows, _rows(rows, 100 + seed)) for seed in range(10)]
    assert np.mean(found) < 0.56
    assert max(found) < 0.68


@pytest.mark.parametrize(("shift", "auc"), [(1.0, 0.76), (2.0, 0.92), (10.0, 1.0)])
def test_the_auc_of_a_shift_of_normal_rows_is_the_known_one(shift, auc):
    sketch = sketch_vectors(_rows(4000, 0), [])
    assert _auc(sketch, 4000, _rows(4000, 1, shift)) == pytest.approx(auc, abs=0.02)


def test_training_rows_have_a_distance_of_about_one():
    sketch = sketch_vectors(_rows(4000, 0), [])
    distances = _distances(sketch, 4000, _rows(500, 1))
    assert distances.mean() == pytest.approx(1, abs=0.1)
    far = _distances(sketch, 4000, np.vstack([_rows(9, 1), _rows(1, 2, spread=5)]))
    assert far.argmax() == 9


def test_a_strangers_matrix_gives_finite_numbers():
    sketch = sketch_vectors(_rows(100, 0), [])
    odd = sketch.model_copy(
        update={"correlation": [1000, -1000] * (len(sketch.correlation) // 2), "deviation": [0.0] * HASHES}
    )
    assert np.isfinite(_auc(odd, 1, _rows(20, 1)))
    assert np.isfinite(_distances(odd, 1, _rows(20, 1))).all()


def test_vectors_have_words_and_ranks():
    documents = documents_of(["green tea", "green tea", "lamp", ""])
    values = np.array([[1.0], [1.0], [9.0], [5.0]])
    found = vectors_of(documents, values, [distribution_of(np.arange(10.0))])
    assert found.shape == (4, HASHES + 1)
    assert (found[0] == found[1]).all()
    assert np.linalg.norm(found[:, :HASHES], axis=1).tolist() == pytest.approx([1, 1, 1, 0])
    assert found[2, -1] > found[0, -1]
