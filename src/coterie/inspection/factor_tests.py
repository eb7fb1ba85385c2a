"""Tests of clusters against known factors: chi-squared, Fisher's exact test, Kruskal–Wallis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats

from coterie.arrays import AnyArray, Floats, Ints
from coterie.ensembles.input_checks import check_whole
from coterie.errors import CoterieWarning, InvalidLabelsError, InvalidParameterError
from coterie.runtime.imports import import_pandas
from coterie.runtime.messages import warn_user

#: Cochran's rule: χ² needs expected counts of 5 in this share of the cells, and of 1 in all.
_SHARE_OF_LARGE_CELLS = 0.8
#: Least number of values in every cluster for the χ² distribution of Kruskal–Wallis.
_FEWEST_VALUES = 5
#: With more values, ranks are not permuted: the distribution of H is near χ² anyway.
_MOST_PERMUTED = 10_000
#: Cells of permuted tables or ranks that are in memory together.
_MOST_CELLS = 1 << 22
_ROUNDING = 1e-9
#: Whole numbers look like codes if at most 10 are different, each in 3 points on average.
_MOST_CODES = 10
_POINTS_OF_A_CODE = 3


@dataclass(frozen=True)
class FactorTest:
    """The test of one factor.

    Attributes
    ----------
    factor : str
    test : str
        "chi-squared", "Fisher exact" or "Kruskal-Wallis", with ", permuted" if the p-value comes
        from permutations; "none" if the factor or the clusters do not vary.
    n : int
        Number of points with a label and a value.
    statistic : float
        χ², the odds ratio, or H.
    effect : str
        "Cramer's V" or "epsilon squared".
    effect_size : float
        In [0, 1]; 0 is no association, 1 the strongest possible one.
    p_value : float
    p_adjusted : float
        By Benjamini and Hochberg, over all factors that were tested.
    """

    factor: str
    test: str
    n: int
    statistic: float
    effect: str
    effect_size: float
    p_value: float
    p_adjusted: float = np.nan


@dataclass(frozen=True)
class FactorTests:
    """The tests of all factors, in the given order; ``print`` shows them by rising p-value."""

    rows: tuple[FactorTest, ...]

    def to_frame(self) -> Any:
        """Return the tests as a pandas DataFrame, one row for each factor, in the given order."""
        frame = import_pandas().DataFrame([asdict(row) for row in self.rows])
        return frame.set_index("factor")

    def __str__(self) -> str:
        lines: list[tuple[str, ...]] = [("factor", "test", "n", "effect", "", "p", "adjusted")]
        # nan is last: it compares as larger here
        for row in sorted(self.rows, key=lambda row: (np.isnan(row.p_value), row.p_adjusted)):
            numbers = map(_number, (row.effect_size, row.p_value, row.p_adjusted))
            lines.append((row.factor, row.test, f"{row.n:,}", row.effect, *numbers))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [*"<<><>>>"]
        return "\n".join(
            "  ".join(
                f"{text:{a}{w}}" for text, a, w in zip(line, aligned, widths, strict=True)
            ).rstrip()
            for line in lines
        )


def factor_tests(
    labels: Any,
    factors: Any,
    *,
    categories: Sequence[str] | None = None,
    n_permutations: int = 9_999,
    random_state: Any = None,
) -> FactorTests:
    """Test whether known factors, such as age, sex or batch, differ between the clusters.

    A factor of texts, truth values or categories is compared by the contingency table O of
    clusters and values, with E the product of its margins divided by n:

        χ² = Σ (O − E)² / E,   V = √(χ² / (n · (min(rows, columns) − 1)))    (Cramér)

    Its p-value is from the χ² distribution if at least 80 % of the E are 5 or more and all are 1 or
    more (Cochran's rule). Otherwise a 2 × 2 table is tested by Fisher's exact test, and a larger
    one by random tables with the same margins.

    A factor of numbers or dates is compared by its ranks (Kruskal and Wallis):

        H = 12 / (n (n + 1)) Σ_b R_b² / n_b − 3 (n + 1),   ε² = H / (n − 1)

    with R_b the sum of the n_b ranks of cluster b, corrected for ties. If a cluster has fewer than
    5 values and n is at most 10,000, the ranks are permuted. Numbers may be codes of categories,
    such as 0 and 1: name these factors in ``categories``. A warning names factors of at most ten
    different whole numbers, because they look like codes.

    The p-values are adjusted for the number of factors by Benjamini and Hochberg.

    Parameters
    ----------
    labels : (n,) labels, or fitted estimator with ``labels_``
        −1, NaN and None are points without a cluster, which are left out.
    factors : pandas, polars or arrow table with n rows, or mapping of names to columns (n,)
        NaN, None and empty texts are missing: the factor is tested without these points.
    categories : sequence of str, optional
        Names of factors whose numbers are codes of categories. Give ``[]`` if there are none, which
        also stops the warning.
    n_permutations : int, default=9999
        Number of permutations, B. The smallest p-value of a permuted test is 1/(B + 1).
    random_state : int, Generator or None, default=None

    Returns
    -------
    FactorTests

    Notes
    -----
    **Do not test what you clustered by.** A factor that was a feature of the clustering, or was
    computed from one, differs between the clusters even if there is no group at all: clusters are
    made to differ in it. Its p-value means nothing. The effect size still describes the clusters.
    A small p-value of another factor says that it goes with the clusters, not why. Points are taken
    as independent: repeated measurements of one subject are not.

    Examples
    --------
    >>> labels = [0] * 20 + [1] * 20
    >>> factors = {"sex": ["m", "f"] * 20, "age": [*range(20, 40), *range(35, 55)]}
    >>> print(factor_tests(labels, factors))
    factor  test             n  effect                       p  adjusted
    age     Kruskal-Wallis  40  epsilon squared  0.660  <0.001    <0.001
    sex     chi-squared     40  Cramer's V       0.000   1.000     1.000
    """
    check_whole("n_permutations", n_permutations)
    names = factors
    if not isinstance(factors, Mapping):
        names = getattr(factors, "column_names", getattr(factors, "columns", None))
    if names is None:
        raise InvalidParameterError(
            f"factors is a {type(factors).__name__} without names of columns; give a table of "
            "pandas, polars or arrow, or a dict of columns"
        )
    if len(set(names)) < len(names):
        raise InvalidParameterError("factors has two columns of the same name; rename one of them")
    columns = {str(name): factors[name] for name in names}
    if isinstance(categories, str):
        raise InvalidParameterError(f"categories={categories!r}: give a list of names")
    if unknown := [name for name in categories or () if name not in columns]:
        raise InvalidParameterError(
            f"categories names {unknown[0]!r}, but the factors are {', '.join(map(repr, columns))}"
        )
    points = _as_column(getattr(labels, "labels_", labels))
    if points.ndim != 1 or not len(points):
        raise InvalidLabelsError(
            f"labels have shape {points.shape}; give one label for each point, not a table"
        )
    clusters = _value_codes(points)
    if points.dtype.kind in "if":
        clusters[points == -1] = -1
    if not (clusters >= 0).any():
        raise InvalidLabelsError("no point has a label; every label is missing")
    rng = np.random.default_rng(random_state)
    rows, coded = [], []
    for name, values in columns.items():
        column = _as_column(values)
        if column.shape != clusters.shape:
            raise InvalidParameterError(
                f"factor {name!r} has shape {column.shape} for {len(clusters)} labels; give one "
                "value for each point"
            )
        # a column of pandas with categories, whose values may be numbers
        is_coded = type(getattr(values, "dtype", None)).__name__ == "CategoricalDtype"
        is_category = is_coded or name in (categories or ())
        numbers = None if is_category else _as_numbers(column)
        if numbers is None:
            rows.append(_test_categories(name, clusters, _value_codes(column), n_permutations, rng))
            continue
        rows.append(_test_numbers(name, clusters, numbers, n_permutations, rng))
        known = numbers[~np.isnan(numbers)]
        few = 1 < len(np.unique(known)) <= min(_MOST_CODES, len(known) // _POINTS_OF_A_CODE)
        if few and column.dtype.kind not in "mM" and (known == np.floor(known)).all():
            coded.append(name)
    if coded and categories is None:
        warn_user(
            "tested as numbers (Kruskal-Wallis) though they have few different values: "
            f"{', '.join(coded)}; if these are codes, name them in categories",
            CoterieWarning,
        )
    tested = [i for i, row in enumerate(rows) if not np.isnan(row.p_value)]
    if tested:
        adjusted = stats.false_discovery_control([rows[i].p_value for i in tested])
        for i, p in zip(tested, adjusted.tolist(), strict=True):
            rows[i] = replace(rows[i], p_adjusted=p)
    return FactorTests(tuple(rows))


def _test_categories(
    name: str, clusters: Ints, values: Ints, B: int, rng: np.random.Generator
) -> FactorTest:
    """Test a factor with codes (n,) of its values; −1 is missing."""
    known = (clusters >= 0) & (values >= 0)
    n = int(known.sum())
    _, a = np.unique(clusters[known], return_inverse=True)
    _, b = np.unique(values[known], return_inverse=True)
    observed = np.zeros((a.max(initial=-1) + 1, b.max(initial=-1) + 1), dtype=np.int64)
    np.add.at(observed, (a, b), 1)
    if min(observed.shape) < 2:
        return FactorTest(name, "none", n, np.nan, "Cramer's V", np.nan, np.nan)
    chi2, p, _, expected = stats.chi2_contingency(observed, correction=False)
    effect = float(np.sqrt(chi2 / (n * (min(observed.shape) - 1))))
    test, statistic = "chi-squared", float(chi2)
    if expected.min() < 1 or (expected >= _FEWEST_VALUES).mean() < _SHARE_OF_LARGE_CELLS:
        if observed.shape == (2, 2):
            test, (statistic, p) = "Fisher exact", stats.fisher_exact(observed)
        else:
            margins = stats.random_table(observed.sum(axis=1), observed.sum(axis=0))

            def permuted(size: int) -> Floats:
                tables: Floats = margins.rvs(size, random_state=rng) ** 2 / expected
                return tables.sum(axis=(-2, -1))

            limit = float((observed**2 / expected).sum())
            test, p = f"{test}, permuted", _permuted_p(B, observed.size, permuted, limit)
    return FactorTest(name, test, n, float(statistic), "Cramer's V", min(effect, 1.0), float(p))


def _test_numbers(
    name: str, clusters: Ints, values: Floats, B: int, rng: np.random.Generator
) -> FactorTest:
    """Test a factor of numbers (n,); nan is missing."""
    known = (clusters >= 0) & ~np.isnan(values)
    n = int(known.sum())
    _, group, sizes = np.unique(clusters[known], return_inverse=True, return_counts=True)
    ranks = stats.rankdata(values[known])
    if len(sizes) < 2 or (ranks == ranks[0]).all():
        return FactorTest(name, "none", n, np.nan, "epsilon squared", np.nan, np.nan)
    # with ties, H is (n − 1) times the share of the variance of the ranks between clusters
    centred = ranks - ranks.mean()
    scale = (n - 1) / (centred @ centred)
    H = float(scale * (np.bincount(group, centred) ** 2 / sizes).sum())
    test, p = "Kruskal-Wallis", float(stats.chi2.sf(H, len(sizes) - 1))
    if sizes.min() < _FEWEST_VALUES and n <= _MOST_PERMUTED:
        starts = np.cumsum(sizes) - sizes

        def permuted(size: int) -> Floats:
            ranks = rng.permuted(np.broadcast_to(centred, (size, n)), axis=1)
            between: Floats = (np.add.reduceat(ranks, starts, axis=1) ** 2 / sizes).sum(axis=1)
            return between

        test, p = f"{test}, permuted", _permuted_p(B, n, permuted, H / scale)
    return FactorTest(name, test, n, H, "epsilon squared", min(H / (n - 1), 1.0), p)


def _permuted_p(B: int, cells: int, permuted: Callable[[int], Floats], observed: float) -> float:
    """Return the share of B permuted statistics that are as large as the observed, and one more.

    ``permuted(size)`` draws some of them, each from as many ``cells``.
    """
    step, larger = max(_MOST_CELLS // cells, 1), 0
    for start in range(0, B, step):
        drawn = permuted(min(step, B - start))
        larger += int((drawn >= observed * (1 - _ROUNDING)).sum())
    return (larger + 1) / (B + 1)


def _as_column(values: Any) -> AnyArray:
    column: AnyArray = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if column.dtype.kind in "US" and not hasattr(values, "dtype"):
        column = np.asarray(values, dtype=object)  # numpy would turn numbers into texts
    return column


def _as_numbers(column: AnyArray) -> Floats | None:
    """Return numbers or dates as floats, with nan for missing ones; None for categories."""
    if column.dtype.kind in "mM":
        return np.where(np.isnat(column), np.nan, column.astype(np.int64).astype(np.float64))
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    if column.dtype.kind != "O":
        return None
    missing = np.array([_is_missing(value) for value in column])
    numbers = (isinstance(v, Real) and not isinstance(v, bool | np.bool_) for v in column[~missing])
    if missing.all() or not all(numbers):
        return None
    return np.array([np.nan if gone else float(v) for v, gone in zip(column, missing, strict=True)])


def _value_codes(column: AnyArray) -> Ints:
    """Return codes of the values of a category, −1 for missing ones."""
    code_of: dict[str, int] = {}
    return np.array(
        [-1 if _is_missing(v) else code_of.setdefault(str(v), len(code_of)) for v in column],
        dtype=np.int64,
    )


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT, NA or an empty text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str):
        return not value.strip()
    return isinstance(value, Real) and bool(np.isnan(float(value)))


def _number(value: float) -> str:
    if np.isnan(value):
        return "–"
    return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}"
