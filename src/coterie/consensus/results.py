"""The results of a fitted consensus for people: a summary, data frames, a table in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import Floats
from coterie.consensus.diagnostics import (
    cluster_report,
    fitted_consensus,
    k_choice_of,
    partition_report,
    row_index,
    runner_up_clusters,
)
from coterie.consensus.facts import Summary, consensus_facts, summary
from coterie.consensus.parameters import check_choice
from coterie.errors import CoterieError, InvalidParameterError
from coterie.runtime.imports import import_pandas


class ConsensusResults:
    """Mixin of consensus functions, and of clusterers with a consensus function ``consensus_``."""

    labels_: NDArray[np.int32]
    confidence_: Floats
    margin_: Floats

    def summary(self) -> Summary:
        """Describe the fitted consensus in a few lines of text.

        The lines are on clusters, confidence, the least certain points, the objective and its
        bound, the partitions that agree or dissent, and the reason for the answer. A notebook
        shows them as a table.

        Examples
        --------
        >>> from coterie import EvidenceAccumulation
        >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
        >>> print(EvidenceAccumulation(2).fit(P).summary())
        5 points in 3 partitions, 3 distinct label tuples
        clusters    2, of 3 and 2 points
        confidence  ... on average (estimated probability that a label is right)
        uncertain   rows 2 ...
        """
        return summary(self)

    def to_frame(self, what: str = "points") -> Any:
        """Return results as a pandas DataFrame.

        Parameters
        ----------
        what : {"points", "partitions", "clusters", "k"}, default="points"
            "points": ``label``, ``confidence``, ``margin`` and ``runner_up`` of each point, the
            cluster with the largest share of votes besides its own (−1 if there is none). If the
            labels of the partitions are words, ``word`` is that of the cluster. The index is that
            of the fitted table. "partitions": the fields of
            :class:`~coterie.consensus.diagnostics.PartitionRow`, by falling agreement. "clusters":
            ``word``, ``size``, mean ``confidence`` and ``consensus`` of each cluster, the mean
            co-association of its points. "k": the criteria for each number of clusters, if the
            number was chosen.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> from coterie import EvidenceAccumulation
        >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
        >>> EvidenceAccumulation(2).fit(P).to_frame("clusters").round(2)
                 size  confidence  consensus
        cluster
        0           3        0.88       0.78
        1           2        0.88       1.00
        """
        check_choice("what", what, ("points", "partitions", "clusters", "k"))
        check_is_fitted(self)
        pandas = import_pandas()
        words = getattr(fitted_consensus(self), "label_names_", None)
        if what == "points":
            columns = {
                "label": self.labels_,
                **({} if words is None else {"word": np.array([*words, ""])[self.labels_]}),
                "confidence": self.confidence_,
                "margin": fitted_consensus(self).margin_,
                "runner_up": runner_up_clusters(self),
            }
            return pandas.DataFrame(columns, index=row_index(self))
        if what == "partitions":
            rows = [asdict(row) for row in partition_report(self)]
            return pandas.DataFrame(rows).set_index("name")
        if what == "clusters":
            frame = pandas.DataFrame([asdict(row) for row in cluster_report(self)])
            if words is not None:
                frame.insert(1, "word", words)
            return frame.set_index("cluster").astype({"consensus": float})
        if (choice := k_choice_of(self)) is None:
            raise InvalidParameterError(
                f"this {type(self).__name__} did not choose the number of clusters; fit it with "
                "n_clusters=None if it has this choice, or compare numbers by coterie.choose_k(P)"
            )
        return choice.to_frame()

    @property
    def _repr_html_(self) -> Callable[[], str]:
        # scikit-learn raises AttributeError unless its setting ``display`` is "diagram"
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + _summary_table(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += _summary_table(self)
        return bundle


def _summary_table(estimator: Any) -> str:
    """Return the summary as an HTML table; empty if the estimator is not fitted."""
    if not hasattr(estimator, "labels_"):
        return ""
    try:
        return Summary.of(consensus_facts(estimator, find_dissent=False))._repr_html_()
    except CoterieError:  # the consensus function of a clusterer may be a class of the user
        return ""
