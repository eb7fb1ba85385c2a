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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.harness import Context
from benchmarks.results import OKABE_ITO, Marks, Table, best_cells, dot_plot
from coterie.ads.histograms.ipinyou import PublicData, files_of, read_columns
from coterie.ads.segments.text_view import TextView, characteristic_words, text_clusters
from coterie.errors import TableError

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
_LEAST_SPEND = 10
_TEXTS = ("organization", "candidate_ballot", "advertiser", "interests")
_WAYS = {"global": "mean of all", "ridge": "ridge regression on the text vectors"}


def measure(context: Context) -> dict[str, Any]:
    """Answer both questions from the file of the ads."""
    data = read_snap(files_of(SNAP, context.data)[0])
    if context.quick:
        return results_of(data, numbers=(8, 32), permutations=200, repeats=1)
    return results_of(data)


class SnapAdvertisers(NamedTuple):
    """A advertisers with a text and a price; the spend is in whole dollars.

    ``notes`` count the ads and advertisers of the file, and those left out for a reason.
    """

    names: list[str]
    texts: list[str]
    spend: Floats
    impressions: Floats
    notes: dict[str, int]

    @property
    def log_ecpm(self) -> Floats:
        """Return log(1000 · spend / impressions), (A,)."""
        return np.log(1000 * self.spend / self.impressions)


def read_snap(path: Path, least_spend: float = _LEAST_SPEND) -> SnapAdvertisers:
    """Read the ads paid in dollars and sum them by advertiser.

    Advertisers that spent less than ``least_spend`` are dropped: the file has whole dollars, so
    rounding alone changes ten dollars by up to 5%.
    """
    kinds = dict.fromkeys(_TEXTS, "string") | {
        "currency": "string",
        "spend": "float64",
        "impressions": "float64",
    }
    table = read_columns(path, kinds)
    kept = (table["currency"] == "USD") & (table["impressions"] > 0)
    if not kept.any():
        raise TableError(f"{path} has no ad paid in dollars with impressions; get the file again")
    names, advertiser = np.unique(table["advertiser"][kept].astype(str), return_inverse=True)
    sums = [np.bincount(advertiser, table[name][kept]) for name in ("spend", "impressions")]
    spend, impressions = (np.asarray(column, dtype=np.float64) for column in sums)
    rows = {name: table[name][kept] for name in _TEXTS}
    enough = np.flatnonzero(spend >= least_spend)
    texts = _texts_by_advertiser(rows, advertiser, len(names))
    return SnapAdvertisers(
        names=names[enough].tolist(),
        texts=[texts[a] for a in enough],
        spend=spend[enough],
        impressions=impressions[enough],
        notes={
            "ads": len(kept),
            "ads_in_dollars": int((table["currency"] == "USD").sum()),
            "advertisers_in_dollars": len(names),
            "advertisers_spending_too_little": len(names) - len(enough),
            "least_spend": int(least_spend),
            "advertisers": len(enough),
        },
    )


def explained_share(labels: ArrayLike, values: ArrayLike) -> Floats:
    """Return η² of each column of values (A, R): variance between segments over all variance.

    >>> explained_share([0, 0, 1, 1], [[1.0, 1.0], [1.0, 3.0], [3.0, 1.0], [3.0, 3.0]]).tolist()
    [1.0, 0.0]
    """
    _, segment = np.unique(np.asarray(labels), return_inverse=True)
    y = np.asarray(values, dtype=np.float64)
    deviation = y - y.mean(axis=0)
    member = np.eye(segment.max() + 1)[segment]
    between = np.sum((member.T @ deviation) ** 2 / member.sum(axis=0)[:, None], axis=0)
    total = np.sum(deviation**2, axis=0)
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def shrunken_means(labels: Labels, values: Floats, strength: float) -> Floats:
    """Return the mean of each segment shrunk to that of all, (K + 1,); the last is that of all.

    (Σ y + m·μ) / (n + m) over the n members, where m is the strength and μ the mean of all.

    >>> shrunken_means(np.array([0, 0, 1]), np.array([3.0, 3.0, 0.0]), 1.0).round(3).tolist()
    [2.667, 1.0, 2.0]
    """
    inside = labels >= 0
    mean = values.mean()
    size = np.bincount(labels[inside], minlength=int(labels.max(initial=-1)) + 1)
    total = np.bincount(labels[inside], values[inside], minlength=len(size))
    drawn = np.full(len(size) + 1, mean)
    if np.isfinite(strength):
        drawn[:-1] = (total + strength * mean) / (size + strength)
    return drawn


def leave_one_out_strength(
    labels: Labels, values: Floats, strengths: Sequence[float] = STRENGTHS
) -> float:
    """Return the strength with the least squared error of each member from the others.

    >>> y = np.repeat([0.0, 5.0, 9.0], 10) + np.tile([-0.1, 0.1], 15)
    >>> leave_one_out_strength(np.repeat([0, 1, 2], 10), y, [0.5, 5.0, np.inf])
    0.5
    """
    inside = labels >= 0
    y, segment = values[inside], labels[inside]
    size = np.bincount(segment)[segment] - 1
    others = np.bincount(segment, y)[segment] - y
    mean = (values.sum() - y) / max(len(values) - 1, 1)

    def squares(strength: float) -> float:
        predicted = mean if np.isinf(strength) else (others + strength * mean) / (size + strength)
        return float(np.sum((y - predicted) ** 2))

    return min(strengths, key=squares)


def results_of(
    data: SnapAdvertisers,
    *,
    numbers: Sequence[int] = (4, 8, 16, 32),
    permutations: int = 1000,
    folds: int = 5,
    repeats: int = 4,
) -> dict[str, Any]:
    """Return η² by number of segments, errors of held-out advertisers, and the segments.

    Terms, vectors, segments and strength are learned on the training folds alone. Held-out
    advertisers are predicted by the mean of all ("global"), of the segment ("K = …"), and by ridge
    regression on the text vectors ("ridge").
    """
    vectors = TextView(random_state=0).fit_transform(data.texts)
    shown = text_clusters(vectors, [_SHOWN], random_state=0)[:, 0]
    y = data.log_ecpm
    predicted = _held_out(data.texts, y, numbers, folds, repeats)
    return {
        "notes": data.notes,
        "median_ecpm": float(np.exp(np.median(y))),
        "sd_log_ecpm": float(np.std(y, ddof=1)),
        "runs": _RUNS,
        "permutations": permutations,
        "explained": [
            {"n_segments": k, **_explained(vectors, k, y, permutations)} for k in numbers
        ],
        "folds": folds,
        "repeats": repeats,
        "predicted": {
            name: _errors(found, predicted["global"], y) for name, found in predicted.items()
        },
        "segments": _segments(data, shown),
    }


def tables(data: dict[str, Any]) -> list[Table]:
    """Return what segments explain, what they predict, and their words and prices."""
    figures = ("eta_squared", "sd_of_runs", "by_chance", "by_chance_95", "p")
    explained = Table(
        "Snap: share of the variance of log eCPM explained by text segments",
        ("text segments", "η²", "SD of runs", "by chance", "95% of chance below", "p"),
        [
            (str(r["n_segments"]), *(f"{r[name]:.3f}" for name in figures))
            for r in data["explained"]
        ],
    )
    prices = [
        (
            ", ".join(s["words"]) or "(none)",
            str(s["advertisers"]),
            *(f"{q:.2f}" for q in s["quartiles"]),
        )
        for s in data["segments"]
    ]
    headings = ("typical words", "advertisers", "lower quartile", "median eCPM", "upper quartile")
    segments = Table("Snap: text segments and their prices, USD", headings, prices)
    return [explained, _predicted_table(data), segments]


def _predicted_table(data: dict[str, Any]) -> Table:
    rows = []
    for name, found in data["predicted"].items():
        gap = found["rmse_less_global"]
        difference = f"{gap['mean']:+.3f} ± {gap['se']:.3f}".replace("-", "−")
        way = f"mean of the text segment, {name}" if name.startswith("K") else _WAYS[name]
        errors = (f"{found['rmse_log']:.3f}", f"{found['wape']:.3f}")
        rows.append((way, *errors, "" if name == "global" else difference))
    figures = [[found["rmse_log"], found["wape"]] for found in data["predicted"].values()]
    bold = best_cells(figures, 1, by="column", lowest=True, digits=9)
    headings = ("predicted by", "RMSE of log eCPM", "WAPE of eCPM", "RMSE minus that of the mean")
    title = f"Snap: advertisers held out, {data['folds']} folds, {data['repeats']} repeats"
    return Table(title, headings, rows, bold=bold)


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
    ticks = [0.5, 1, 2, 5, 10, 20, 50]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    return figure


def _texts_by_advertiser(rows: dict[str, Any], advertiser: Labels, n: int) -> list[str]:
    """Return every name and interest of an advertiser's ads once, field by field."""
    found: list[dict[str, None]] = [{} for _ in range(n)]
    for field in _TEXTS:
        for a, value in zip(advertiser.tolist(), rows[field], strict=True):
            parts = value.split(",") if field == "interests" else [value]
            found[a].update((part.strip(), None) for part in parts if part.strip())
    return [" ".join(words) for words in found]


def _explained(vectors: Floats, k: int, y: Floats, permutations: int) -> dict[str, float]:
    """Return η² of K text segments and of random ones, means over several runs of k-means."""
    rng = np.random.default_rng(0)
    dealt = rng.permuted(np.repeat(y[:, None], permutations, axis=1), axis=0)
    columns = np.column_stack([y, dealt])
    shares = np.stack(
        [
            explained_share(text_clusters(vectors, [k], random_state=seed)[:, 0], columns)
            for seed in range(_RUNS)
        ]
    )
    share, chance = shares[:, 0].mean(), shares[:, 1:].mean(axis=0)
    return {
        "eta_squared": float(share),
        "sd_of_runs": float(shares[:, 0].std(ddof=1)),
        "by_chance": float(chance.mean()),
        "by_chance_95": float(np.quantile(chance, 0.95)),
        "p": float((1 + np.sum(chance >= share)) / (1 + permutations)),
    }


def _held_out(
    texts: list[str], y: Floats, numbers: Sequence[int], folds: int, repeats: int
) -> dict[str, Floats]:
    """Return the prediction of every advertiser when it is held out, (repeats, A) each."""
    names = ["global", *(f"K = {k}" for k in numbers), "ridge"]
    predicted = {name: np.zeros((repeats, len(y))) for name in names}
    for repeat in range(repeats):
        fold = np.random.default_rng(repeat).permutation(np.arange(len(y)) % folds)
        for held in range(folds):
            train, test = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
            for name, values in _predicted(texts, y, train, test, numbers).items():
                predicted[name][repeat, test] = values
    return predicted


def _predicted(
    texts: list[str],
    y: Floats,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    numbers: Sequence[int],
) -> dict[str, Floats]:
    from sklearn.linear_model import RidgeCV

    view = TextView(random_state=0)
    known = view.fit_transform([texts[i] for i in train])
    new = view.transform([texts[i] for i in test])
    predicted = {"global": np.full(len(test), y[train].mean())}
    labels = text_clusters(known, list(numbers), random_state=0)
    for k, column in zip(numbers, labels.T, strict=True):
        strength = leave_one_out_strength(column, y[train])
        predicted[f"K = {k}"] = shrunken_means(column, y[train], strength)[
            _nearest(known, column, new)
        ]
    ridge = RidgeCV(np.logspace(-1, 3, 9)).fit(known, y[train])
    predicted["ridge"] = np.asarray(ridge.predict(new), dtype=np.float64)
    return predicted


def _nearest(known: Floats, labels: Labels, new: Floats) -> Labels:
    """Return the segment with the nearest centre to each new row; −1 for a row of zeros."""
    centres = np.stack([known[labels == s].mean(axis=0) for s in range(int(labels.max()) + 1)])
    distance = np.sum(centres**2, axis=1) - 2 * new @ centres.T
    return np.where(new.any(axis=1), np.argmin(distance, axis=1), -1).astype(np.int64)


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


def _segments(data: SnapAdvertisers, labels: Labels) -> list[dict[str, Any]]:
    """Return words, sizes and prices of the segments, the most expensive first."""
    words = characteristic_words(data.texts, labels, n=5)
    ecpm = np.exp(data.log_ecpm)
    found = [
        {
            "words": words[s],
            "advertisers": int((labels == s).sum()),
            "quartiles": np.quantile(ecpm[labels == s], [0.25, 0.5, 0.75]).tolist(),
            "ecpm": np.sort(ecpm[labels == s]).tolist(),
        }
        for s in range(int(labels.max(initial=-1)) + 1)
    ]
    return sorted(found, key=lambda segment: -segment["quartiles"][1])
