"""The schema of manifest.json."""

from pricekit.bundle.manifest import Verified


def test_manifests_of_version_0_1_call_batch_sensitivity_company():
    facts = {"shapes": [[1, 1]], "max_relative_difference": 0.0}
    old = Verified.model_validate({**facts, "company_relative_difference": 0.1, "company_share_of_sd": 0.2})
    new = Verified.model_validate(
        {**facts, "batch_sensitivity_relative_difference": 0.1, "batch_sensitivity_share_of_sd": 0.2}
    )
    assert old == new
    assert (new.batch_sensitivity_relative_difference, new.batch_sensitivity_share_of_sd) == (0.1, 0.2)
