"""What ``coterie demo`` tells: the planted truth beside what was found, and how forecasts did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coterie.ads.forecasts.evaluation import Evaluation
    from coterie.ads.forecasts.forecast_figures import Forecast
    from coterie.ads.forecasts.forecaster import AdForecaster

__all__ = [
    "THIN",
    "PlantedTruth",
    "error_facts",
    "example_forecast",
    "read_truth",
    "recovery_facts",
]

#: The stratum of advertisers that segments are there for.
THIN = "10–199 bids"
#: The sources of curves that are shown.
SHOWN = ("own", "global", "robust+pooled")

_EXAMPLE_BIDS = 100
_EXAMPLE_SUPPLY = 100_000


@dataclass(frozen=True)
class PlantedTruth:
    """What the simulation knows of each of A advertisers.

    Attributes
    ----------
    segment : (A,) int array
    themes : list of str
        The name of each segment.
    outlier : (A,) bool array
        Whether it has a market of its own.
    """

    segment: NDArray[np.int64]
    themes: list[str]
    outlier: NDArray[np.bool_]


def read_truth(path: Path, advertisers: NDArray[np.str_]) -> PlantedTruth:
    """The truth of some advertisers, in their order, from the file the simulation wrote."""
    import numpy as np
    import pyarrow.parquet as pq

    columns = pq.read_table(path, columns=["advertiser_id", "segment", "theme", "outlier"])
    table = columns.to_pydict()
    row_of = {name: row for row, name in enumerate(table["advertiser_id"])}
    rows = np.array([row_of[str(name)] for name in advertisers])
    themes = dict(zip(table["segment"], table["theme"], strict=True))
    return PlantedTruth(
        np.array(table["segment"], dtype=np.int64)[rows],
        [themes.get(segment, "") for segment in range(max(themes) + 1)],
        np.array(table["outlier"], dtype=bool)[rows],
    )


def recovery_facts(model: AdForecaster, truth: PlantedTruth) -> dict[str, Any]:
    """How far the segments found are those planted, ready for JSON."""
    import numpy as np

    from coterie.inspection.scores import adjusted_rand_index

    found = np.isin(np.arange(len(model.labels_)), model.outliers_)
    return {
        "planted": len(np.unique(truth.segment)),
        "found": len(model.segments_),
        "adjusted_rand": float(adjusted_rand_index(truth.segment, model.labels_)),
        "segments": [_recovered(model, truth, s) for s in np.unique(truth.segment).tolist()],
        "outliers_planted": int(truth.outlier.sum()),
        "outliers_found": int(found.sum()),
        "outliers_right": int((found & truth.outlier).sum()),
    }


def error_facts(evaluation: Evaluation) -> dict[str, Any]:
    """WAPE of the sources that are shown: of impressions, of spend, and for thin advertisers."""
    found = evaluation.as_dict()
    (thin,) = (stratum for stratum in found["strata"] if stratum["name"] == THIN)
    return {
        name: {
            "impressions": found["sources"][name]["impressions"]["wape"],
            "spend": found["sources"][name]["spend"]["wape"],
            "impressions_of_thin": thin["sources"][name]["impressions"]["wape"],
        }
        for name in SHOWN
        if name in found["sources"]
    }


def example_forecast(model: AdForecaster) -> Forecast:
    """The forecast of an advertiser with few bids, at about what it bids."""
    import numpy as np

    doubtful = np.isin(np.arange(len(model.labels_)), [*model.outliers_, *model.doubtful_])
    far = np.abs(model.observations_ - _EXAMPLE_BIDS) + np.where(doubtful, np.inf, 0.0)
    row = int(np.argmin(far))
    bid = max(round(float(model.bid_[row]) / 1e6, 2), 0.01)
    found: Forecast = model.forecast(str(model.advertisers_[row]), bid, supply=_EXAMPLE_SUPPLY)
    return found


def _recovered(model: AdForecaster, truth: PlantedTruth, segment: int) -> dict[str, Any]:
    """A planted segment, and the one found that most of its advertisers are in."""
    import numpy as np

    labels = model.labels_[truth.segment == segment]
    sizes = np.bincount(labels, minlength=len(model.segments_))
    most = int(sizes.argmax())
    return {
        "planted": truth.themes[segment],
        "advertisers": len(labels),
        "found_as": model.segments_[most].name,
        "share": float(sizes[most] / len(labels)),
    }
