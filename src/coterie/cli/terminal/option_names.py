"""Messages of the library in the words of the program: options instead of Python parameters."""

from __future__ import annotations

import re

__all__ = ["in_options"]

#: What the library writes, and what the program writes instead. ``\1`` is the value.
_VALUE = r"='?([^\s':;,]+)'?"
_REPLACED = {
    rf"\bn_clusters{_VALUE}": r"-k \1",
    r"\bn_clusters\b": "-k",
    rf"\bn_partitions{_VALUE}": r"--partitions \1",
    r"\bn_partitions\b": "--partitions",
    rf"\bn_jobs{_VALUE}": r"--jobs \1",
    r"\bdevice='(auto|cpu|cuda)'": r"--device \1",
    r"\brelaxation='(\w+)'": r"--relaxation \1",
    r"\burl='([^']*)'": r"--engine \1",
    r"\bmemory_limit\b": "--memory-limit",
    r"\bmetric='precomputed'": "--distances",
    r"\bgive supply\b": "give --supply",
    r"\bname them in categories$": "name them in --categories",
    r"\buse ConsensusClusterer\b": "use coterie cluster",
    r"\braise max_iter or tol\b": "in Python, raise max_iter or tol",
    r"\bpass it in ids \(in the program: --id\)": "name it in --id",
    r"\bleave it out \(in the program: --id\)": "name it in --id",
    r"\(in the program: (--[^)]*)\)": r"(\1)",
    r" of X\b": "",
    r"\bX has shape\b": "the table has shape",
}


def in_options(message: str) -> str:
    """Return a message with the options of the program in place of parameters of Python.

    >>> in_options("n_clusters=500 is more than the 178 rows of X; give 178 or fewer")
    '-k 500 is more than the 178 rows; give 178 or fewer'
    """
    for pattern, option in _REPLACED.items():
        message = re.sub(pattern, option, message)
    return message
