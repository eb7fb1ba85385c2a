"""Label tuples packed into a few 64-bit integers by the engine, and unpacked by numpy.

Label ℓ of partition v becomes the digit d_v = ℓ − low_v + 1 (0 if it is missing) of radix
r_v = high_v − low_v + 2. Partitions share a key while the product of their radices is below 2⁶³:

    key = (…(d_1 · r_2 + d_2) · r_3 + …) · r_k + d_k

So 40 columns of ten clusters become three integers, and keys are equal exactly if the tuples are.
Text, and integers in a wide range, are first numbered by a join with the list of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.engines.label_tables.label_profile import LabelColumn, Profile
from coterie.engines.queries import fetch
from coterie.errors import InvalidLabelsError
from coterie.labels.encode import MISSING, LabelMatrix
from coterie.labels.kernels import unpack_keys
from coterie.runtime.devices import map_row_blocks
from coterie.runtime.wording import short_repr

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["HASH_RANGE", "KeyLayout", "lay_out"]

#: A prime; hashes of keys are below it.
HASH_RANGE = 2**31 - 1

_WIDEST_RANGE = 1 << 16
_MOST_VALUES = 1 << 20
_LARGEST_KEY = 2**63
_MULTIPLIER = 630_360_016
#: Primes whose product exceeds 2⁶³, so that the three remainders identify a key.
_MODULI = (2_097_169, 2_097_211, 2_097_223)

Keys = Sequence[NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class KeyLayout:
    """The digit and key of each partition, and the label of each digit."""

    columns: tuple[LabelColumn, ...]
    labels: tuple[NDArray[Any], ...]  # for each partition, the labels of its digits from 1 up
    groups: tuple[tuple[int, ...], ...]  # for each key, its partitions; the last is the lowest

    __repr__ = short_repr

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(f"coterie_key_{g}" for g in range(len(self.groups)))

    @property
    def radices(self) -> NDArray[np.int64]:
        """The radices r_v, shape (V,)."""
        return np.array([len(labels) + 1 for labels in self.labels], dtype=np.int64)

    @property
    def n_listed(self) -> list[int]:
        """Number of labels of each partition if they were listed, otherwise 0."""
        pairs = zip(self.columns, self.labels, strict=True)
        return [0 if _is_ranged(column) else len(labels) for column, labels in pairs]

    @property
    def has_missing(self) -> bool:
        """Whether any label of the table is missing."""
        return any(column.has_missing for column in self.columns)

    @property
    def hash_factors(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """For each key, the moduli of its remainders and the factors m_j of :meth:`key_hash`."""
        return {
            name: tuple(
                (modulus, pow(_MULTIPLIER, 3 * g + j + 1, HASH_RANGE))
                for j, modulus in enumerate(_MODULI)
            )
            for g, name in enumerate(self.key_names)
        }

    def packed(
        self, table: ir.Table, carried: Sequence[str], put: Callable[[pa.Table], ir.Table]
    ) -> ir.Table:
        """Return the carried columns and the keys of every row, in the engine.

        ``put`` copies an Arrow table to the engine, as ``ibis.memtable`` does.
        """
        values = {f"coterie_value_{v}": column.values for v, column in enumerate(self.columns)}
        rows = table.select(*carried, **values)
        for v, column in enumerate(self.columns):
            if not _is_ranged(column):
                digits = np.arange(1, len(self.labels[v]) + 1, dtype=np.int64)
                numbered = {f"coterie_label_{v}": self.labels[v], f"coterie_digit_{v}": digits}
                same = (f"coterie_value_{v}", f"coterie_label_{v}")
                rows = rows.left_join(put(pa.table(numbered)), [same])
        keys = {
            name: self._key(rows, group)
            for name, group in zip(self.key_names, self.groups, strict=True)
        }
        # a view, so that further joins nest
        return rows.select(*carried, **keys).view()

    def key_hash(self, packed: ir.Table) -> ir.IntegerColumn:
        """Return a hash of the keys of each row in 0..HASH_RANGE − 1.

        It is (Σ_j m_j ρ_j)⁵ mod p with p = HASH_RANGE. The ρ_j are the remainders of all keys by
        three primes each, the m_j are powers of a primitive root of p. x ↦ x⁵ is a permutation
        that breaks the linear structure of the sum. It is the same in every engine that computes
        remainders of integers exactly, that is in all but SQLite.
        """
        total: Any = None
        for name, factors in self.hash_factors.items():
            # all products are below 2⁵⁵
            terms = [packed[name] % modulus * factor for modulus, factor in factors]
            part = (terms[0] + terms[1] + terms[2]) % HASH_RANGE
            total = part if total is None else total + part
        mixed = total % HASH_RANGE
        square = mixed * mixed % HASH_RANGE
        return square * square % HASH_RANGE * mixed % HASH_RANGE

    def unpacked(
        self, keys: Keys, codes_of: Sequence[NDArray[Any]], places: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return the codes (n, V) of packed rows.

        ``codes_of[v]`` holds the code of each digit of partition v, ``places[v]`` is the column of
        the result for partition v.
        """
        n, V = len(keys[0]), len(self.columns)
        codes = np.empty((n, V), dtype=codes_of[0].dtype)
        starts = np.concatenate([[0], np.cumsum(self.radices)[:-1]])
        lookup = np.concatenate(codes_of)
        for key, group in zip(keys, self.groups, strict=True):
            digits = np.array(group[::-1])
            arrays = (
                np.ascontiguousarray(key).view(np.uint64),
                self.radices[digits].astype(np.uint64),
                starts[digits],
                places[digits],
                lookup,
                codes,
            )
            map_row_blocks(partial(unpack_keys, *arrays), n)
        return codes

    def as_label_matrix(self, keys: Keys) -> LabelMatrix:
        """Return the label matrix of packed rows, with only the labels that occur in them."""
        small = self.radices.max() <= np.iinfo(np.int16).max
        digits = [np.arange(-1, r - 1, dtype=np.int16 if small else np.int32) for r in self.radices]
        codes = self.unpacked(keys, digits, np.arange(len(self.columns)))
        categories = []
        for v, labels in enumerate(self.labels):
            seen = np.bincount(codes[:, v] + 1, minlength=len(labels) + 1)[1:] > 0
            categories.append(labels[seen])
            if not seen.all():
                dense = np.where(seen, np.cumsum(seen) - 1, MISSING).astype(codes.dtype)
                codes[:, v] = np.append(dense, codes.dtype.type(MISSING))[codes[:, v]]
        return LabelMatrix(codes, tuple(categories), tuple(c.name for c in self.columns))

    def _key(self, rows: ir.Table, group: Sequence[int]) -> ir.IntegerColumn:
        key = self._digit(rows, group[0])
        for v in group[1:]:
            key = key * int(len(self.labels[v]) + 1) + self._digit(rows, v)
        return key

    def _digit(self, rows: ir.Table, v: int) -> ir.IntegerColumn:
        import ibis

        column, value = self.columns[v], rows[f"coterie_value_{v}"]
        if not _is_ranged(column):
            return rows[f"coterie_digit_{v}"].fill_null(0)
        digit = value.cast("int64") - (int(self.labels[v][0]) - 1)
        return ibis.ifelse(value >= 0, digit, 0).cast("int64") if column.has_missing else digit


def lay_out(profile: Profile, table: ir.Table) -> KeyLayout:
    """Assign a digit of a key to every partition, and a value of that digit to every label.

    Examples
    --------
    >>> import ibis
    >>> from coterie.engines.label_tables.label_profile import profile_labels
    >>> table = ibis.memtable(pa.table({"a": [3, -1, 7], "b": ["x", "x", ""]}))
    >>> layout = lay_out(profile_labels(table, ["a", "b"], "example"), table)
    >>> layout.radices.tolist(), layout.groups
    ([9, 2], ((0, 1),))
    >>> sorted(fetch(layout.packed(table, [], ibis.memtable))["coterie_key_0"].to_pylist())
    [1, 9, 16]
    """
    labels = tuple(_labels_of(column, table) for column in profile.columns)
    groups: list[list[int]] = []
    product = _LARGEST_KEY
    for v, known in enumerate(labels):
        radix = len(known) + 1
        if product * radix > _LARGEST_KEY:
            groups.append([])
            product = 1
        groups[-1].append(v)
        product *= radix
    return KeyLayout(profile.columns, labels, tuple(map(tuple, groups)))


def _is_ranged(column: LabelColumn) -> bool:
    """Return whether the labels are integers in a range narrow enough to subtract its start."""
    if column.bounds is None:
        return False
    low, high = column.bounds
    return high - low < _WIDEST_RANGE and high < 2**62


def _labels_of(column: LabelColumn, table: ir.Table) -> NDArray[Any]:
    """Return the label of each digit from 1 up: a range of integers, or the sorted values."""
    if column.bounds is not None and _is_ranged(column):
        return np.arange(column.bounds[0], column.bounds[1] + 1, dtype=np.int64)
    values = table.select(value=column.values).distinct()
    found = fetch(values.filter(values.value.notnull()).limit(_MOST_VALUES + 1))["value"]
    if len(found) > _MOST_VALUES:
        raise InvalidLabelsError(
            f"partition '{column.name}' has more than {_MOST_VALUES:,} different labels; if it is "
            "an id, pass it as one, or name the columns to use"
        )
    labels = found.to_numpy()
    if labels.dtype != object:
        return np.sort(labels[labels != -1])
    ends_in_nul = [label for label in labels if label.endswith("\0")]
    if ends_in_nul:
        # numpy drops a NUL at the end: the label would equal another one, or be empty
        raise InvalidLabelsError(
            f"partition '{column.name}' has {len(ends_in_nul):,} labels such as {ends_in_nul[0]!r} "
            "that end in the character NUL; remove it from them"
        )
    return np.sort(labels.astype(str))
