"""Files, templates and fingerprints that the report and the page of the service share.

Scripts, style and templates are in the folder ``page``. The report embeds them, the service
serves them as separate files; both show the same panel, drawn by the same scripts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from coterie.errors import MissingExtraError
from coterie.runtime import wording as words

if TYPE_CHECKING:
    import jinja2

__all__ = ["SHARED_SCRIPTS", "STYLE", "WEEKDAYS", "environment", "fingerprint", "page_file"]

# A script uses only scripts before it.
SHARED_SCRIPTS = (
    "nodes.js",
    "numbers.js",
    "entered_numbers.js",
    "charts.js",
    "combobox.js",
    "forecast_words.js",
    "what_if.js",
    "segment_charts.js",
)
STYLE = "page.css"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def page_file(name: str) -> str:
    """Return the text of one file of the folder ``page``.

    >>> page_file("nodes.js").splitlines()[0]
    '"use strict";'
    """
    return resources.files("coterie.ads").joinpath("page", name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """Return the SHA-256 of a script or style, as a Content-Security-Policy writes it.

    >>> fingerprint("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def environment(
    filters: Mapping[str, Callable[..., Any]] | None = None, *, extra: str = "ads"
) -> jinja2.Environment:
    """Return the Jinja environment of the folder ``page``; all values are escaped.

    Parameters
    ----------
    filters : mapping of str to callable, optional
        In addition to those of :mod:`coterie.runtime.wording`.
    extra : str
        The extra that installs jinja2, for the error message.

    Returns
    -------
    jinja2.Environment

    Raises
    ------
    MissingExtraError
        If jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError(
            f"the page needs jinja2, which is not installed: pip install 'coterie[{extra}]'"
        ) from error
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("coterie.ads", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {name: getattr(words, name) for name in words.__all__}
    made.filters |= filters or {}
    return made
