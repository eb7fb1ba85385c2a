"""Point links to the files of the examples to their pages in the gallery.

Pages link to ``../examples/plot_NAME.py``, which a code host shows. In the build these links lead
to the pages that sphinx-gallery writes from the files, and ``../examples/README.rst`` to its index.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

__all__ = ["in_gallery", "setup"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Change the links before a page is parsed."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def in_gallery(text: str) -> str:
    """Return the text of a page with its links to examples pointing to the gallery.

    Examples
    --------
    >>> in_gallery("[one](../../examples/plot_one.py), [all](../examples/README.rst)")
    '[one](/gallery/plot_one.rst), [all](/gallery/index.rst)'
    """
    text = re.sub(r"\]\((?:\.\./)+examples/README\.rst\)", "](/gallery/index.rst)", text)
    return re.sub(r"\]\((?:\.\./)+examples/(plot_\w+)\.py\)", r"](/gallery/\1.rst)", text)


def _read(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = in_gallery(source[0])
