"""Drift needs none of the libraries of training."""

import subprocess
import sys

import pricekit as pk

BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        blocked = "torch transformers sklearn onnx safetensors scipy matplotlib jinja2".split()
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Block())
import pricekit as pk
print(pk.load(sys.argv[1], "ort-cpu").drift(sys.argv[2]).verdict)
"""


def test_a_bundle_is_compared_without_torch(bundle, tmp_path):
    pk.make_catalog(120, seed=9).to_csv(tmp_path / "t.csv", index=False)
    words = [sys.executable, "-c", BLOCKED, str(bundle), str(tmp_path / "t.csv")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "No drift: the table resembles the training table.\n"
