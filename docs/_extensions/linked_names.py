"""Link public names in the text of Markdown pages to their pages in the API.

Pages write names as code, ``RobustConsensus``, which reads well everywhere. In the build such a
name, or a call of it without arguments, becomes a link if :mod:`coterie`, :mod:`coterie.ads` or
:mod:`coterie.errors` has it. Headings and links stay as they are.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import coterie
from coterie import ads, errors

__all__ = ["link_names", "setup", "target_of"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Look for names when a page has been read."""
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def target_of(text: str) -> str | None:
    """Return the full name of a public name, or None.

    Examples
    --------
    >>> target_of("choose_k"), target_of("ads.evaluate"), target_of("evaluate")
    ('coterie.choose_k', 'coterie.ads.evaluate', None)
    """
    name = text.removesuffix("()")
    module, _, last = name.rpartition(".")
    if not module and last.islower() and "_" not in last:
        return None  # a common word, such as summary
    if module in ("", "coterie") and last in coterie.__all__:
        return f"coterie.{last}"
    if module in ("", "ads", "coterie.ads") and last in ads.__all__:
        return f"coterie.ads.{last}"
    if (
        module in ("", "coterie.errors")
        and getattr(getattr(errors, last, None), "__module__", "") == "coterie.errors"
    ):
        return f"coterie.errors.{last}"
    return None


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Wrap each literal that is a public name into a reference to it."""
    page = app.env.docname
    if page.startswith(("api/generated/", "gallery/")):
        return
    for literal in list(doctree.findall(nodes.literal)):
        target = target_of(literal.astext())
        if target is None or _is_inside(literal, (nodes.title, nodes.reference, pending_xref)):
            continue
        link = pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refdoc=page, refexplicit=True
        )
        literal.replace_self(link)
        link += literal


def _is_inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False
