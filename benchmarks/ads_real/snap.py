"""Text segments against prices, on the political ads of Snap.

An advertiser's price is its eCPM, a thousand times its spend over its impressions. Its text is what
its ads say of it: who pays, who is advertised, the candidate and the interests aimed at. Two
questions: how much of the variance of log eCPM between advertisers do text segments explain, beyond
segments filled at random; and how well does the mean of a segment predict the eCPM of an advertiser
that was never seen, compared with the mean of all?
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from benchmarks.harness import Context
from benchmarks.results import OKABE_ITO, Marks, Table, best_cells, dot_plot
from coterie.ads.curves.shrinkage import pooled_rates
from coterie.ads.histograms.ipinyou import PublicData, files_of, read_columns
from coterie.ads.segments.text_view import TextView, characteristic_words
from coterie.ads.segments.views import text_clusters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SNAP = PublicData(
    "snap_political_ads",
    ("snap_political_ads.csv.gz",),
    "join the yearly files of the Snap Political Ads Library",
)

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Strengths to choose from, in advertisers; infinity is the mean of all.
STRENGTHS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, np.inf)
_SHOWN = 8
_RUNS = 10
_FOLDS = 5
# the file has whole dollars, so rounding alone changes ten dollars by up to 5%
_LEAST_SPEND = 10
_TEXTS = ("organization", "candidate_ballot", "advertiser", "interests")
_WAYS = {"global": "mean of all", "ridge": "ridge regression on the text vectors"}


def measure(context: Context) -> dict[str, Any]:
    """Answer both questions from the file of the ads."""
    texts, ecpm, notes = read_snap(files_of(SNAP, context.data)[0])
    quick: dict[str, Any] = (
        {"numbers": (8, 32), "permutations": 200, "repeats": 1} if context.quick else {}
    )
    return {"notes": notes, **results_of(texts, ecpm, **quick)}


def read_snap(path: Path) -> tuple[list[str], Floats, dict[str, int]]:
    """Read the ads paid in dollars; return text and eCPM in dollars of A advertisers, and notes.

    Advertisers that spent less than ten dollars are dropped. The notes count ads and advertisers of
    the file, and those left out for a reason.
    """
    kinds = dict.fromkeys((*_TEXTS, "currency"), "string")
    kinds |= dict.fromkeys(("spend", "impressions"), "float64")
    table = read_columns(path, kinds)
    kept = (table["currency"] == "USD") & (table["impressions"] > 0)
    names, advertiser = np.unique(table["advertiser"][kept].astype(str), return_inverse=True)
    spend, impressions = (
        np.bincount(advertiser, table[name][kept]) for name in ("spend", "impressions")
    )
    # every name and interest of an advertiser's ads once, field by field
    words: list[dict[str, None]] = [{} for _ in names]
    for field in _TEXTS:
        for a, value in zip(advertiser.tolist(), table[field][kept], strict=True):
            parts = value.split(",") if field == "interests" else [value]
            words[a].update((word.strip(), None) for word in parts if word.strip())
    enough = np.flatnonzero(spend >= _LEAST_SPEND)
    notes = {
        "ads": len(kept),
        "ads_in_dollars": int((table["currency"] == "USD").sum()),
        "advertisers_in_dollars": len(names),
        "advertisers_spending_too_little": len(names) - len(enough),
        "least_spend": _LEAST_SPEND,
        "advertisers": len(enough),
    }
    return [" ".join(words[a]) for a in enough], 1000 * (spend / impressions)[enough], notes


def explained_share(labels: Labels, values: Floats) -> Floats:
    """Return η² of each column of values (A, R): variance between segments over all variance."""
    _, segment = np.unique(labels, return_inverse=True)
    deviation = values - values.mean(axis=0)
    member = np.eye(segment.max() + 1)[segment]
    between = np.sum((member.T @ deviation) ** 2 / member.sum(axis=0)[:, None], axis=0)
    total = np.sum(deviation**2, axis=0)
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def leave_one_out_strength(
    labels: Labels, values: Floats, strengths: Sequence[float] = STRENGTHS
) -> float:
    """Return the strength with the least squared error of each member from the others.

    The mean of a segment is shrunk to that of all, μ, as (Σ y + m·μ) / (n + m) over the n members,
    where m is the strength.
    """
    inside = labels >= 0
    y, segment = values[inside], labels[inside]
    size = np.bincount(segment).astype(np.float64)[segment] - 1
    others = np.bincount(segment, y)[segment] - y
    mean = (values.sum() - y) / max(len(values) - 1, 1)

    def squares(strength: float) -> float:
        predicted = pooled_rates(others, size, mean, strength)
        return float(np.sum((y - predicted) ** 2))

    return min(strengths, key=squares)


def results_of(
    texts: Sequence[str],
    ecpm: Floats,
    *,
    numbers: Sequence[int] = (4, 8, 16, 32),
    permutations: int = 1000,
    repeats: int = 4,
) -> dict[str, Any]:
    """Return η² by number of segments, errors of held-out advertisers, and the segments.

    Terms, vectors, segments and strength are learned on the training folds alone. Held-out
    advertisers are predicted by the mean of all ("global"), of the segment ("K = …"), and by ridge
    regression on the text vectors ("ridge").
    """
    y = np.log(ecpm)
    vectors = TextView(random_state=0).fit_transform(texts)
    names = ["global", *(f"K = {k}" for k in numbers), "ridge"]
    predicted = {name: np.zeros((repeats, len(y))) for name in names}
    for repeat in range(repeats):
        fold = np.random.default_rng(repeat).permutation(np.arange(len(y)) % _FOLDS)
        for held in range(_FOLDS):
            test = fold == held
            for name, values in _predict(texts, y, test, numbers).items():
                predicted[name][repeat, test] = values
    return {
        "median_ecpm": float(np.exp(np.median(y))),
        "explained": [
            {"n_segments": k, **_explained(vectors, k, y, permutations)} for k in numbers
        ],
        "folds": _FOLDS,
        "repeats": repeats,
        "predicted": {
            name: _errors(found, predicted["global"], y) for name, found in predicted.items()
        },
        "segments": _segments(texts, ecpm, text_clusters(vectors, [_SHOWN], random_state=0)[:, 0]),
    }


def tables(data: dict[str, Any]) -> list[Table]:
    """Return what segments explain, what they predict, and their words and prices."""
    figures = ("eta_squared", "sd_of_runs", "by_chance", "by_chance_95", "p")
    explained = [
        (str(found["n_segments"]), *(f"{found[name]:.3f}" for name in figures))
        for found in data["explained"]
    ]
    predicted = []
    for name, found in data["predicted"].items():
        way = _WAYS.get(name, f"mean of the text segment, {name}")
        gap = found["rmse_less_global"]
        difference = "" if name == "global" else f"{gap['mean']:+.3f} ± {gap['se']:.3f}"
        predicted.append((way, f"{found['rmse_log']:.3f}", f"{found['wape']:.3f}", difference))
    errors = [[found["rmse_log"], found["wape"]] for found in data["predicted"].values()]
    prices = [
        (", ".join(s["words"]), str(s["advertisers"]), *(f"{q:.2f}" for q in s["quartiles"]))
        for s in data["segments"]
    ]
    return [
        Table(
            "Snap: share of the variance of log eCPM explained by text segments",
            ("text segments", "η²", "SD of runs", "by chance", "95% of chance below", "p"),
            explained,
        ),
        Table(
            f"Snap: advertisers held out, {data['folds']} folds, {data['repeats']} repeats",
            ("predicted by", "RMSE of log eCPM", "WAPE of eCPM", "RMSE minus that of the mean"),
            predicted,
            bold=best_cells(errors, 1, by="column", lowest=True, digits=9),
        ),
        Table(
            "Snap: text segments and their prices, USD",
            ("typical words", "advertisers", "lower quartile", "median eCPM", "upper quartile"),
            prices,
        ),
    ]


def plot(data: dict[str, Any]) -> Figure:
    """Draw every advertiser's eCPM by text segment, with median and quartiles."""
    segments = data["segments"]
    rows = np.repeat(np.arange(len(segments)), [len(s["ecpm"]) for s in segments])
    scattered = rows + np.random.default_rng(0).uniform(-0.25, 0.25, len(rows))
    prices = [price for segment in segments for price in segment["ecpm"]]
    quartiles = np.array([segment["quartiles"] for segment in segments]).reshape(-1, 3).T
    pale = {"markersize": 4, "alpha": 0.4}
    marks = [
        Marks("advertisers", "grey", ".", prices, scattered.tolist(), settings=pale),
        Marks("median", "blue", "o", quartiles[1].tolist(), settings={"markersize": 7}),
    ]
    names = [f"{', '.join(s['words'][:3])} ({s['advertisers']})" for s in segments]
    label = "eCPM, USD (bars: quartiles; dashed: median of all)"
    figure = dot_plot(names, {"": marks}, label, width=8.5, row_height=0.5)
    (axes,) = figure.axes
    axes.hlines(range(len(segments)), quartiles[0], quartiles[2], color=OKABE_ITO["blue"], lw=3)
    axes.axvline(data["median_ecpm"], color="#666666", lw=0.8, ls="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    return figure


def _explained(vectors: Floats, k: int, y: Floats, permutations: int) -> dict[str, float]:
    """Return η² of K text segments and of random ones, means over several runs of k-means."""
    rng = np.random.default_rng(0)
    dealt = rng.permuted(np.repeat(y[:, None], permutations, axis=1), axis=0)
    columns = np.column_stack([y, dealt])
    segments = [text_clusters(vectors, [k], random_state=seed)[:, 0] for seed in range(_RUNS)]
    shares = np.stack([explained_share(labels, columns) for labels in segments])
    share, chance = shares[:, 0].mean(), shares[:, 1:].mean(axis=0)
    return {
        "eta_squared": float(share),
        "sd_of_runs": float(shares[:, 0].std(ddof=1)),
        "by_chance": float(chance.mean()),
        "by_chance_95": float(np.quantile(chance, 0.95)),
        "p": float((1 + np.sum(chance >= share)) / (1 + permutations)),
    }


def _predict(
    texts: Sequence[str], y: Floats, test: NDArray[np.bool_], numbers: Sequence[int]
) -> dict[str, Floats]:
    """Return the predictions of the held-out advertisers by every way."""
    view = TextView(random_state=0)
    known = view.fit_transform([texts[a] for a in np.flatnonzero(~test).tolist()])
    new = view.transform([texts[a] for a in np.flatnonzero(test).tolist()])
    values, mean = y[~test], y[~test].mean()
    predicted = {"global": np.full(len(new), mean)}
    for k, labels in zip(numbers, text_clusters(known, numbers, random_state=0).T, strict=True):
        strength = leave_one_out_strength(labels, values)
        member = np.equal.outer(np.arange(labels.max() + 1), labels).astype(np.float64)
        size = member.sum(axis=1)
        means = pooled_rates(member @ values, size, np.array(mean), strength)
        # a held-out advertiser is of the segment with the nearest centre, or of none without words
        centres = (member @ known) / size[:, None]
        nearest = np.argmin(np.sum(centres**2, axis=1) - 2 * new @ centres.T, axis=1)
        predicted[f"K = {k}"] = np.where(new.any(axis=1), means[nearest], mean)
    ridge = RidgeCV(np.logspace(-1, 3, 9)).fit(known, values)
    return {**predicted, "ridge": ridge.predict(new)}


def _errors(predicted: Floats, reference: Floats, y: Floats) -> dict[str, Any]:
    """Return RMSE of log eCPM, its difference from the reference's, and WAPE of eCPM."""
    square, other = ((found - y) ** 2 for found in (predicted, reference))
    rmse, before = (float(np.sqrt(s.mean())) for s in (square, other))
    # the repeats hold out the same advertisers: average them first
    gaps = (square - other).mean(axis=0)
    # a² − b² = (a − b)(a + b)
    se = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)) / (rmse + before))
    ecpm = np.exp(y)
    return {
        "rmse_log": rmse,
        "wape": float(np.abs(np.exp(predicted) - ecpm).mean() / ecpm.mean()),
        "rmse_less_global": {"mean": rmse - before, "se": se},
    }


def _segments(texts: Sequence[str], ecpm: Floats, labels: Labels) -> list[dict[str, Any]]:
    """Return words, sizes and prices of the segments, the most expensive first."""
    words = characteristic_words(texts, labels, n=5)
    prices = [np.sort(ecpm[labels == s]) for s in range(len(words))]
    found = [
        {
            "words": some,
            "advertisers": len(own),
            "quartiles": np.quantile(own, [0.25, 0.5, 0.75]).tolist(),
            "ecpm": own.tolist(),
        }
        for some, own in zip(words, prices, strict=True)
    ]
    return sorted(found, key=lambda segment: -segment["quartiles"][1])
