"""What a run takes over from the run that it continues: the tokenizer, the features and the weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.config import RunConfig
from pricekit.core.calls import plugin_call
from pricekit.features.fit import continue_features, uses_price
from pricekit.model.network import ModelPlugins, PriceModel, build_model
from pricekit.preprocess import Preprocessor, without_price
from pricekit.runs.folder.contents import read_architecture
from pricekit.runs.folder.opened import LoadedRun, open_run
from pricekit.runs.warm.seen import NOTHING, Seen, read_seen
from pricekit.support.log import logger
from pricekit.support.text import counted
from pricekit.table import Table
from pricekit.table.currency import require_same_currency
from pricekit.tokens import Tokens
from pricekit.training.batches import PricedInputs

CONTAINED = 0.5
"""Share of the earlier texts that a table contains from which on features are fitted again, to all of its rows."""


@dataclass(frozen=True)
class WarmStart:
    """A finished run to continue from.

    Attributes:
        run: the run, opened.
        seen: the texts that it and those before it were trained on.
    """

    run: LoadedRun
    seen: Seen

    @classmethod
    def open(cls, folder: Path) -> WarmStart:
        """Open the run in a folder; raises TrainingError, PluginError."""
        return cls(open_run(folder), read_seen(folder))

    @property
    def architecture(self) -> dict[str, Any]:
        """The values that the backbone stores to rebuild its encoder."""
        return read_architecture(self.run.path)

    def fit(self, rows: Table) -> tuple[Preprocessor, dict[str, Any]]:
        """Adapt the features to the rows of the new run.

        Args:
            rows: training rows and, unless the user chose them, validation rows.

        Returns:
            The preprocessor, and facts about what was kept.
        """
        require_same_currency(self.run.facts["currency"], rows.currency, "to continue with")
        before = self.run.preprocessor
        row = self.seen.rows_of(rows.text)
        held = len(np.unique(row[row >= 0])) / max(1, len(self.seen.text))
        table = without_price(rows, before.columns)
        features, done = continue_features(before.features, table, rows.known_price, again=held >= CONTAINED)
        new = int((row < 0).sum())
        self._log(done, new, len(rows))
        share = self.run.model.estimate_share
        facts = {"run": str(self.run.path), "new_rows": new, "features": done, "estimate_share": share}
        return replace(before, features=features), facts

    def out_of_fold(self, rows: Table) -> dict[str, np.ndarray]:
        """Return the columns that learn from prices, float32 (N,) by name, as of rows that were not learned from.

        New rows have those of the earlier run, which does not know them, and earlier rows those of that time.
        """
        features, row = self.run.preprocessor.features, self.seen.rows_of(rows.text)
        table = without_price(rows, self.run.preprocessor.columns)
        names = [name for part in features.parts if uses_price(part.plugin) for name in part.plugin.names]
        if not names:
            return {}
        new, found = np.flatnonzero(row < 0), {}
        block = features.transform(table.take(new))
        for name in names:
            column = self.seen.columns[name][row]
            column[new] = block[:, features.names.index(name)]
            found[name] = column
        return found

    def _log(self, done: Mapping[str, str], new: int, rows: int) -> None:
        said = {state: [name for name, what in done.items() if what == state] for state in set(done.values())}
        kept = ", ".join(["weights", "tokenizer", *said.pop("kept", [])])
        others = "".join(f"; {state}: {', '.join(names)}" for state, names in sorted(said.items()))
        logger.info(
            f"continuing from {self.run.path}: {new:,} of {counted(rows, 'row')} are new; "
            f"kept: {kept}{others}. Each epoch takes the new rows and as many of the others"
        )

    def model(
        self, plugins: ModelPlugins, config: RunConfig, preprocessor: Preprocessor, tokens: Tokens
    ) -> PriceModel:
        """Return a model with the weights of the run.

        Args:
            plugins: of the run.
            config: of the new run.
            preprocessor: of the new run.
            tokens: of the training rows, for an encoder that can learn new terms.
        """
        model = build_model(plugins, config, preprocessor, self.architecture, None)
        model.load_state_dict(self.run.model.state_dict())
        if (extend := getattr(model.encoder, "extend", None)) is not None:
            with plugin_call("backbone", config.backbone.name, "extending its encoder to more texts"):
                extend(tokens)
        return model


def seen_of(
    warm: WarmStart | None,
    preprocessor: Preprocessor,
    names: Iterable[str],
    parts: Iterable[tuple[Table, PricedInputs]],
) -> Seen:
    """Return the texts of a run and of those that it continues, with the out-of-fold columns of its rows.

    Args:
        warm: the run that it continues.
        preprocessor: of the run.
        names: of the out-of-fold columns.
        parts: rows with their inputs.
    """
    found = NOTHING if warm is None else warm.seen.as_earlier()
    place = {name: preprocessor.features.names.index(name) for name in names}
    for table, priced in parts:
        columns = {name: priced.inputs.features[:, number] for name, number in place.items()}
        found = found.with_rows(table.text, columns)
    return found
