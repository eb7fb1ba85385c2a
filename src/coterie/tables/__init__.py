"""Consensus of a label table that stays in its engine, DuckDB or Spark.

========  ==============================================================================
function  :func:`consensus_table`: label columns in, ids with label and margin out
result    :class:`TableConsensus`: the fitted consensus, the path taken and its cost
========  ==============================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import lazy_names

# Each public name is listed once, here; lazy_names reads the list.
if TYPE_CHECKING:
    from coterie.tables.consensus import TableConsensus as TableConsensus
    from coterie.tables.consensus import consensus_table as consensus_table
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
