"""Label tables that stay in an engine: DuckDB or Spark counts, joins and writes; we decide.

========  ================================================================================
in, out   :func:`consensus_table`: a table of labels in, ids with label and confidence out
result    :class:`TableConsensus`: the fitted consensus, the way taken and what it cost
========  ================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.lazy_names import import_name

_HOME = {"consensus_table": "table_consensus", "TableConsensus": "table_result"}

__all__ = ["TableConsensus", "consensus_table"]

if TYPE_CHECKING:
    from coterie.engines.label_tables.table_consensus import consensus_table
    from coterie.engines.label_tables.table_result import TableConsensus


def __getattr__(name: str) -> object:
    return import_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
