"""Texts from outside, such as names of files, made fit for logs and answers."""

from __future__ import annotations

__all__ = ["printable"]

_MOST = 300


def printable(text: str, most: int = _MOST) -> str:
    r"""A text in one line that any encoder takes, cut to a length.

    What cannot be printed is written as Python writes it: a control character, a half of a
    character that a name of a file may hold.

    Examples
    --------
    >>> print(printable("a\nb\udcff"), printable("abcdef", 4))
    a\nb\udcff abc…
    """
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text[: most + 1]
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
