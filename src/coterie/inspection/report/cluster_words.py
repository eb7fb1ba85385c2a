"""The words of the partitions for each cluster: their most common labels in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.consensus.diagnostics import fitted_consensus
from coterie.labels.encode import LabelMatrix
from coterie.runtime.wording import visible

__all__ = ["MOST_QUOTED", "cluster_words"]

#: With more voting partitions, the ones that agree most with the consensus are quoted.
MOST_QUOTED = 6


def cluster_words(estimator: Any, names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return for each cluster the names of voting partitions and their most common label in it.

    A partition without a label in the cluster is left out. The lists are empty if all labels are
    numbers, which say nothing, or if partitions are soft.

    >>> from coterie import EvidenceAccumulation
    >>> est = EvidenceAccumulation(2).fit([["red", 1], ["red", 1], ["red", 1], ["blue", 2]])
    >>> cluster_words(est, ["anna", "ben"])
    [[('anna', 'red'), ('ben', '1')], [('anna', 'blue'), ('ben', '2')]]
    """
    consensus = fitted_consensus(estimator)
    vocabulary, table = consensus._vocabulary, consensus._tables.table
    voting = np.flatnonzero(consensus.partition_weights_ > 0)
    words: list[list[tuple[str, str]]] = [[] for _ in range(table.shape[1])]
    if not isinstance(vocabulary, LabelMatrix):
        return words
    if not any(vocabulary.categories[v].dtype.kind == "U" for v in voting):
        return words
    counts = np.split(table[consensus._tuples.recode], np.cumsum(vocabulary.n_labels)[:-1])
    by_agreement = voting[np.argsort(-consensus.partition_agreement_[voting], kind="stable")]
    for v in np.sort(by_agreement[:MOST_QUOTED]).tolist():
        for cluster, own in enumerate(counts[v].T):
            if own.any():
                label = vocabulary.categories[v][own.argmax()]
                words[cluster].append((names[v], visible(str(label))))
    return words
