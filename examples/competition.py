"""
A competition
=============

Cross-validate two losses, compare them, combine their models, and write a submission.
"""

import tempfile
from pathlib import Path

import pandas as pd

import pricekit as pk

workspace = tempfile.TemporaryDirectory()
folder = Path(workspace.name)
catalog = pk.make_catalog(600)
train, test = catalog[:500], catalog[500:].drop(columns="price")

# %%
# Which loss is better?
# ---------------------
#
# Cross-validation predicts each row with a model that has not seen it. The difference of two scores needs its
# interval: the verdict is "cannot tell" if 0 lies inside. To save time, the models here have no boosted trees, and are
# not trained a second time on all rows of their folds.

options = {"folds": 2, "epochs": 5, "features": "optimized22", "settings": {"training.refit": False}}
smape = pk.cross_validate(train, loss="smape", out=folder / "smape", **options)
squares = pk.cross_validate(train, loss="log-l2", out=folder / "squares", **options)
table = pk.compare(smape, squares).to_frame()
print(table.rename(index=lambda path: Path(path).name)[["score", "difference", "low", "high", "verdict"]])

# %%
# Combine them
# ------------
#
# The runs of both cross-validations become one model, weighed by their predictions of held-out rows.

both = pk.ensemble([smape, squares], out=folder / "both")
print(f"the ensemble: SMAPE {both.metrics['smape']:.2f} on held-out rows, of {len(both.members)} runs")

# %%
# The submission
# --------------

submission = pd.DataFrame({"sample_id": test["sample_id"], "price": both.predict(test)})
submission.to_csv(folder / "submission.csv", index=False)
print(submission.head(3))
workspace.cleanup()
