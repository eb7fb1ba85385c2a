"""Render formulas as MathML, which needs no script or font from the network."""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

__all__ = ["setup"]

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer for ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _displayed(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append(_mathml(node, as_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def _mathml(node: nodes.math | nodes.math_block, as_block: bool) -> str:
    """Return the formula as MathML, or log a warning and return its source."""
    try:
        return latex2mathml.tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        _log.warning("cannot convert the formula %r: %s", node.astext(), error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"
