"""Run the notebooks of docs/get_started and store their output: ``python docs/run_notebooks.py``.

Pictures are stored with a palette, which needs a third of the space.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent / "get_started"


def main(names: list[str]) -> None:
    """Run the named notebooks, or all."""
    for path in [FOLDER / name for name in names] or sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            resources = {"metadata": {"path": folder}}
            NotebookClient(
                notebook, timeout=600, resources=resources, record_timing=False
            ).execute()
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                if "image/png" in data:
                    data["image/png"] = _with_palette(data["image/png"])
        nbformat.write(notebook, path)


def _with_palette(encoded: str) -> str:
    picture, small = Image.open(io.BytesIO(base64.b64decode(encoded))), io.BytesIO()
    picture.convert("RGB").quantize(
        64, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    ).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


if __name__ == "__main__":
    main(sys.argv[1:])
