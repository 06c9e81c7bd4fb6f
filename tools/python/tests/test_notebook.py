"""The notebook of examples/python, executed."""

import nbformat
from conftest import QUICKSTART
from nbclient import NotebookClient

FOLDER = QUICKSTART.parent / "python"


def test_the_notebook_runs_and_finds_the_digits():
    notebook = nbformat.read(FOLDER / "quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}}).execute()
    text = [cell.outputs[-1].get("data", cell.outputs[-1]) for cell in notebook.cells if cell.get("outputs")]
    results = [output.get("text/plain", output.get("text", "")).strip() for output in text]
    assert "shapes={'image': (1, 1, 8, 8)}" in results
    shares = [float(result) for result in results if result.replace(".", "", 1).isdigit()]
    assert len(shares) == 2 and min(shares) > 0.97, results
