"""Self-contained HTML pages: templates that escape, a strict policy, and embedded numbers.

Texts from data may be hostile. Templates escape them, and the policy of a page allows only the
scripts and the style that the page was written with.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.runtime import wording as words

if TYPE_CHECKING:
    import jinja2


def page_templates(
    package: str, filters: Mapping[str, Callable[..., Any]] | None = None
) -> jinja2.Environment:
    """Return the Jinja environment of the folder ``page`` of a package, with wording's filters."""
    import jinja2

    folder = Path(str(import_module(package).__file__)).with_name("page")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        name: function
        for name, function in vars(words).items()
        if isfunction(function) and function.__module__ == words.__name__
    }
    made.filters |= filters or {}
    return made


def content_policy(scripts: Sequence[str], style: str) -> str:
    """Return the Content-Security-Policy that allows these scripts, this style and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(fingerprint, scripts))}",
            f"style-src {fingerprint(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def fingerprint(text: str) -> str:
    """Return the SHA-256 of a script or style, as a Content-Security-Policy writes it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def embedded_json(data: Any) -> str:
    """Return JSON without characters that have a meaning in HTML or end a line in JavaScript."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
