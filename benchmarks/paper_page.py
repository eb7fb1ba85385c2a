"""Tables and figures of docs/paper.md: the printed ones next to ours.

They come from the results of ``table2``, ``table3`` and ``paper-ads``; table 1 comes from the
catalogue of datasets. ``python -m benchmarks pages`` writes them into the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper_ads import TARGETS, difference_of, mean_of, tables_of
from benchmarks.paper_table2 import RECIPES, TABLE2
from benchmarks.paper_table3 import TABLE3
from benchmarks.paper_tables import PaperTable
from benchmarks.results import Table, short_text
from coterie.consensus.registry import DEFAULT_METHOD
from coterie.datasets import dataset_info

#: Table 1: points, features and classes as printed.
PRINTED_SIZES = {
    "cstr": (475, 1000, 4),
    "glass": (214, 9, 7),
    "ionosphere": (351, 34, 2),
    "iris": (150, 4, 3),
    "reuters": (2900, 1000, 10),
    "soybean_small": (47, 35, 4),
    "wine": (178, 13, 3),
    "zoo": (101, 18, 7),
}
#: An accuracy agrees with the printed one if it differs by at most this.
NEAR = 0.02

Data = Mapping[str, Any]


def tables_of_page(name: str, data: Data) -> dict[str, Table]:
    """Return the tables that the page shows of a result, by their number."""
    if name == "table2":
        return {"1": _sizes(), "2": _table2(data)}
    if name == "table3":
        return {"3": _table3(data)}
    numbers = ("4", "5", "6", "7", "6 and 7, differences")
    return dict(zip(numbers, tables_of(data), strict=True))


def _sizes() -> Table:
    """Return table 1: points, features and classes, printed and ours."""
    rows = []
    for name, printed in PRINTED_SIZES.items():
        info = dataset_info(name)
        n = info.subsets["2900"] if name == "reuters" else info.n_samples
        ours = (n, info.n_features, len(info.class_sizes))
        pairs = zip(printed, ours, strict=True)
        rows.append((TABLE2.titles[name], *(text for pair in pairs for text in map(str, pair))))
    kinds = ("points", "features", "classes")
    headings = ("dataset", *(text for kind in kinds for text in (f"{kind}, printed", "ours")))
    return Table("Table 1", headings, rows)


def _table2(data: Data) -> Table:
    """Return table 2: of each method the printed row, and one of ours for every recipe.

    Ours are bold where they are within NEAR of the printed accuracy.
    """
    found = cells_by_condition(data)
    rows: list[tuple[str, ...]] = []
    bold = set()

    def add(name: str, figures: Sequence[float | None], digits: int) -> None:
        mean = None if None in figures else float(np.mean(np.array(figures, dtype=np.float64)))
        texts = [short_text(figure, digits) for figure in figures]
        rows.append((name, *texts, short_text(mean)))

    for column, key in _methods(TABLE2):
        printed = TABLE2.figures.get(column, ())
        if printed:
            add(f"{column}, printed", printed, TABLE2.digits)
        for recipe in RECIPES:
            cells = [found[f"{recipe}, fixed", dataset] for dataset in TABLE2.titles]
            ours = [cell.get(key, {}).get("mean") for cell in cells]
            bold |= {
                (len(rows), 1 + c)
                for c, pair in enumerate(zip(ours, printed, strict=False))
                if is_near(*pair)
            }
            is_first = not printed and recipe == RECIPES[0]
            add(f"{column}, {recipe}" if is_first else recipe, ours, 3)
    return Table("Table 2", ("method", *TABLE2.titles.values(), "mean"), rows, bold=bold)


def _table3(data: Data) -> Table:
    """Return table 3: a row for each method, printed and ours on every dataset."""
    found = cells_by_condition(data)
    rows: list[list[str]] = []
    bold = set()
    for column, key in _methods(TABLE3):
        row = [column]
        for place, dataset in enumerate(TABLE3.titles):
            printed = TABLE3.figures[column][place] if column in TABLE3.figures else None
            own = found["", dataset].get(key, {}).get("mean")
            if printed is not None and is_near(own, printed):
                bold.add((len(rows), len(row) + 1))
            row += [short_text(printed, TABLE3.digits), short_text(own)]
        rows.append(row)
    headings = [text for title in TABLE3.titles.values() for text in (f"{title}, printed", "ours")]
    return Table("Table 3", ("method", *headings), rows, bold=bold)


def _methods(paper: PaperTable) -> Iterator[tuple[str, str]]:
    """Yield the columns of a table of the paper with the keys of their methods, then ours."""
    for column in paper.figures:
        yield column, paper.columns.get(column, "")
    yield "coterie", DEFAULT_METHOD


def cells_by_condition(data: Data) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the figures of every method, by condition and dataset."""
    return {(cell["condition"], cell["dataset"]): cell["methods"] for cell in data["cells"]}


def is_near(own: float | None, printed: float) -> bool:
    """Return whether an accuracy agrees with the printed one.

    >>> is_near(0.7, 0.72), is_near(0.699, 0.72), is_near(None, 0.7)
    (True, False, False)
    """
    return own is not None and abs(own - printed) <= NEAR + 1e-9


# ---- Figures in sentences


def figures_of_table2(data: Data) -> dict[str, str]:
    """Return, by recipe with fixed K, the accuracies near the printed ones; means and gaps."""
    found = cells_by_condition(data)
    figures = {"draws": str(data["draws"])}
    for recipe in RECIPES:
        condition = f"{recipe}, fixed"
        near = [
            is_near(found[condition, dataset].get(key, {}).get("mean"), printed)
            for column, key in TABLE2.columns.items()
            for dataset, printed in zip(TABLE2.titles, TABLE2.figures[column], strict=True)
        ]
        figures[f"near-{recipe}"] = str(sum(near))
    conditions = dict.fromkeys(condition for condition, _ in found)
    gaps = []
    for condition in conditions:
        of_sets = [found[condition, dataset] for dataset in TABLE2.titles]
        rcc, l2 = (
            float(np.mean([one[method]["mean"] for one in of_sets])) for method in ("rcc", "l2")
        )
        gaps.append(abs(rcc - l2))
    figures["largest-gap-rcc-l2"] = short_text(max(gaps))

    def span(dataset: str, method: str) -> str:
        return _span([found[f"{one}, fixed", dataset][method]["mean"] for one in RECIPES])

    for dataset in TABLE2.titles:
        for method in ("k-means", "rcc", "l2", "hgpa", "correlation"):
            figures[f"{dataset}-{method}"] = span(dataset, method)
            for recipe in RECIPES:
                mean = found[f"{recipe}, fixed", dataset][method]["mean"]
                figures[f"{dataset}-{method}-{recipe}"] = short_text(mean, 2)
    return figures


def figures_of_table3(data: Data) -> dict[str, str]:
    """Return the accuracies of every method on every dataset, and the draws behind them."""
    found = cells_by_condition(data)
    figures = {}
    for (_, dataset), methods in found.items():
        for method, one in methods.items():
            figures[f"{dataset}-{method}"] = short_text(one["mean"])
            figures[f"{dataset}-{method}-draws"] = str(one["draws"])
    return figures


def figures_of_ads(data: Data) -> dict[str, str]:
    """Return ranges over the markets: gains of RCC over ℓ2, errors, agreement, and counts."""
    markets = data["markets"]
    figures = {"draws": str(data["draws"]), "markets": str(len(markets))}
    for way in ("alone", "moved", "pooled"):
        found = [difference_of(market, target, way) for market in markets for target in TARGETS]
        gaps = [-100 * gap for gap, _ in found]
        figures[f"gain-{way}"] = f"{_signed(min(gaps))} and {_signed(max(gaps))}"
        figures[f"clear-{way}"] = str(sum(gap < -2 * error for gap, error in found))
        figures[f"worse-{way}"] = str(sum(gap > 2 * error for gap, error in found))
    figures["comparisons"] = str(len(markets) * len(TARGETS))

    def shares(source: str) -> NDArray[np.float64]:
        return np.array([mean_of(m, "errors", t, source, "mape") for m in markets for t in TARGETS])

    gained = 100 * (shares("rcc") - shares("rcc moved"))
    figures["moving"] = f"{gained.min():.0f} to {gained.max():.0f}"
    figures["own-beats-rcc"] = str(int((shares("own") < shares("rcc")).sum()))
    return figures


def _signed(points: float) -> str:
    """Return percentage points with a sign.

    >>> _signed(-0.42), _signed(0.0)
    ('−0.4', '0.0')
    """
    return f"{points:z.1f}".replace("-", "−")


def _span(figures: Sequence[float]) -> str:
    """Return the smallest and the largest of some accuracies.

    >>> _span([0.5, 0.72]), _span([0.71, 0.712])
    ('.50 to .72', '.71')
    """
    texts = [short_text(figure, 2) for figure in (min(figures), max(figures))]
    return " to ".join(dict.fromkeys(texts))


#: By name of a result, what gives its figures by key.
FIGURES: dict[str, Callable[[Data], dict[str, str]]] = {
    "table2": figures_of_table2,
    "table3": figures_of_table3,
    "paper_ads": figures_of_ads,
}
