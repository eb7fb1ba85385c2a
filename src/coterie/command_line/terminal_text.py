"""Text from outside, such as an id or a file's name, as a terminal may show it."""

from __future__ import annotations

from coterie.ads.report_words import visible

__all__ = ["one_line"]

_BREAKS = str.maketrans({"\n": "␊", "\t": "␉"})


def one_line(text: object) -> str:
    r"""The text on one line, without anything that a terminal would obey.

    >>> one_line("a\x1b[2Jb\nc")
    'a␛[2Jb␊c'
    """
    return visible(str(text)).translate(_BREAKS)
