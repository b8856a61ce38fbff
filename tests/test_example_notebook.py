"""The Kaggle notebook in examples/ runs from a clean state, and is stored without outputs."""

import json
from pathlib import Path

import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOK = FOLDER / "kaggle_notebook.ipynb"


@pytest.mark.examples
def test_the_notebook_runs(tmp_path, monkeypatch):
    reason = "the notebook is executed with nbclient and ipykernel: pip install nbclient ipykernel"
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "work"
    folder.mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()

    assert [path.name for path in folder.iterdir()] == ["submission.csv"]
    submission = pd.read_csv(folder / "submission.csv")
    assert submission.columns.tolist() == ["sample_id", "price"]
    assert len(submission) == 200
    assert submission["price"].gt(0).all()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum(any(kind.startswith("image/") for kind in data) for data in shown) == 2


def test_the_stored_notebook_has_no_outputs():
    stored = json.loads(NOTEBOOK.read_text("utf-8"))
    assert stored["nbformat"] == 4
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


def test_the_readme_names_the_notebook():
    assert f"({NOTEBOOK.name})" in (FOLDER / "README.md").read_text("utf-8")
