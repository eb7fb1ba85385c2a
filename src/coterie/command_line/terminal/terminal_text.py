"""Text as a terminal may show it, and as a file or a pipe should get it."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from coterie.runtime.wording import visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["one_line", "summary_console"]

_BREAKS = str.maketrans({"\n": "␊", "\t": "␉"})


def one_line(text: object) -> str:
    r"""The text on one line, without anything that a terminal would obey.

    >>> one_line("a\x1b[2Jb\nc")
    'a␛[2Jb␊c'
    """
    return visible(str(text)).translate(_BREAKS)


def summary_console(**settings: Any) -> Console:
    """Rich's console on the standard output stream; what is piped has no blanks at ends of lines.

    Parameters
    ----------
    **settings
        Of :class:`rich.console.Console`.
    """
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, **settings)
    return Console(highlight=False, file=_Trimmed(), **settings)  # type: ignore[arg-type]


class _Trimmed:
    """The standard output stream, for texts that end with their last line."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r"[ ]+$", "", text, flags=re.MULTILINE))

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)
