"""
An engine of your own
=====================

An engine executes the graph of a bundle. The engine ``ort-cpu`` uses all cores; this one uses a single core, and leaves
the others to the programs with which it shares the machine.

``pricekit plugins check examples/own_engine.py`` checks it, and ``pricekit predict bundle new.csv --out prices.csv
--plugin examples/own_engine.py --engine one-core`` prices with it.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pricekit as pk
from pricekit.plugin import BundleError, PluginError

# %%
# The engine
# ----------
#
# ``load`` gets the graph of the bundle, and returns a function that turns a batch into prices. The batch has
# ``input_ids`` and ``attention_mask``, int64 (B, L), and ``features``, float32 (B, K). The prices are float32 (B,).
#
# If a library is missing, the engine says so with a ``PluginError``. If the graph is damaged, a ``BundleError`` tells
# the user that the bundle is the problem.


@pk.plugin.engine("one-core")
class OneCore(pk.plugin.Engine):
    """ONNX Runtime on one core"""

    streams = 1  # one batch at a time; ort-cpu has one per core

    def load(self, graph):
        """Return the function that prices a batch."""
        try:
            import onnxruntime
        except ModuleNotFoundError:
            raise PluginError("one-core needs onnxruntime; install pricekit[cpu]") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(graph.model, options, ["CPUExecutionProvider"])
        except Exception as error:
            raise BundleError(f"the graph cannot be loaded: {error}") from error
        return lambda batch: session.run(["price"], dict(batch))[0]


# %%
# Price with both engines
# -----------------------
#
# ``use_plugins`` loads this file as a plugin, which imports it a second time. The condition keeps that import from
# training, too. When the engine prices, pricekit compares some of its prices with those of ``ort-cpu``.
#
# On an idle machine with many cores, ``ort-cpu`` is faster. If other programs use the cores, one core may be as fast.

if __name__ == "__main__":
    pk.use_plugins(sys.argv[0])  # this file
    catalog = pk.make_catalog(600)

    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        run = pk.train(catalog, features="optimized22", epochs=3, settings={"training.refit": False})
        run.export(bundle)

        texts = pk.make_catalog(10_000, seed=1)
        prices = {}
        for engine in ("ort-cpu", "one-core"):
            model = pk.load(bundle, engine=engine)
            model.predict(texts[:500])  # the first call prepares more than later ones
            started = time.perf_counter()
            prices[engine] = model.predict(texts)
            print(f"{engine}: {len(texts) / (time.perf_counter() - started):,.0f} rows/s")

    difference = np.abs(prices["one-core"] / prices["ort-cpu"] - 1).max()
    print(f"The largest difference between their prices is {difference:.1e} of a price.")
