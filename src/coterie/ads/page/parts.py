"""What the report and the page of the service share: their files, templates and fingerprints.

Scripts, style and templates lie in the folder ``page``. The report carries them inside itself,
the service hands them out one by one; both show the same panel, drawn by the same scripts.
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

#: In the order in which they need each other.
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
    """The text of one file of the folder ``page``.

    >>> page_file("nodes.js").splitlines()[0]
    '"use strict";'
    """
    return resources.files("coterie.ads").joinpath("page", name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """A script or style as a Content-Security-Policy names it, by its SHA-256.

    >>> fingerprint("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def environment(
    filters: Mapping[str, Callable[..., Any]] | None = None, *, extra: str = "ads"
) -> jinja2.Environment:
    """The templates of the folder ``page``; whatever they are given is escaped.

    Parameters
    ----------
    filters : mapping of str to callable, optional
        Beside those of :mod:`coterie.runtime.wording`.
    extra : str
        The extra that brings jinja2 to the caller, for the message where it is missing.

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
    made.filters |= {
        "count": words.count,
        "exact": words.exact,
        "number_of": words.number_of,
        "percent": words.percent,
        "signed": words.signed,
        "cell": words.cell,
        "day": words.day,
        "moment": words.moment,
        "in_words": words.in_words,
        **(filters or {}),
    }
    return made
