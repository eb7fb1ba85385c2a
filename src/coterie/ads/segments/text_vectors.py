"""Texts as unit vectors by terms that were learned before: what a model needs of its texts.

Learning the terms is :class:`~coterie.ads.segments.text_view.TextView`'s, by scikit-learn. Here
the same weights are had from what was kept, term by term, so that a model answers without it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.errors import InvalidParameterError

__all__ = [
    "CHARACTERS_TOGETHER",
    "WORDS_TOGETHER",
    "TextVectors",
    "along",
    "cleaned_texts",
    "of_length_one",
    "side_by_side",
]

Floats = NDArray[np.float64]

#: How many words, and how many characters, are a term: from, and to.
WORDS_TOGETHER = (1, 2)
CHARACTERS_TOGETHER = (3, 5)

_MOST_KEPT = 1 << 16
# a text whose row keeps less than this of its length among the components is not told by them
_TOLD = 0.01


class TextVectors:
    """Makes unit vectors of texts, by terms and components that are there.

    See :class:`~coterie.ads.segments.text_view.TextView`, which learns them, for the formula.

    Attributes
    ----------
    words_, characters_ : arrays of str
        The terms, in the order of columns.
    word_idf_, character_idf_ : float64 arrays
        Inverse document frequencies of the terms.
    components_ : (n_components, T) float64 array
    """

    words_: NDArray[np.object_]
    characters_: NDArray[np.object_]
    word_idf_: Floats
    character_idf_: Floats
    components_: Floats

    def transform(self, texts: Iterable[str | None]) -> Floats:
        """Vectors of texts, (n, n_components): rows of length 1, or of zeros."""
        return self.ready()(texts)

    def ready(self) -> Callable[[Iterable[str | None]], Floats]:
        """:meth:`transform` with its terms looked through once, for many calls of a few texts.

        Any number of threads may call it.
        """
        if not hasattr(self, "components_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "components_")
        words = _weigher(self.words_, self.word_idf_, _words_in)
        characters = _weigher(self.characters_, self.character_idf_, _characters_in)
        directions = np.ascontiguousarray(self.components_.T)

        def vectors(texts: Iterable[str | None]) -> Floats:
            cleaned = cleaned_texts(texts)
            return along(directions, side_by_side(words(cleaned), characters(cleaned)))

        return vectors


class _Spelling(dict[int, str]):
    """For ``str.translate``: letters, marks and digits stay, an emoji stands alone, else a gap."""

    def __missing__(self, code: int) -> str:
        written = self._written(code)
        if len(self) < _MOST_KEPT:  # whoever asks may send any character there is
            self[code] = written
        return written

    @staticmethod
    def _written(code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        # joiners, variants and skin tones say how to draw their neighbours
        if category == "Cf" or 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF:
            return ""
        if category[0] in "LMN" or 0x1F1E6 <= code <= 0x1F1FF:  # two regional letters are a flag
            return character
        return f" {character} " if category == "So" and code >= 0x2600 else " "


_SPELLING = _Spelling()


def cleaned_texts(texts: Iterable[str | None]) -> list[str]:
    """Words in lower case, one space between them; single Latin letters and digits are dropped."""
    if isinstance(texts, str):
        raise InvalidParameterError("texts is a single text; give a list of them")
    cleaned = []
    for row, text in enumerate(texts):
        if not (text is None or isinstance(text, str)):
            raise InvalidParameterError(
                f"texts, row {row}: {text!r} is a {type(text).__name__}, not a text"
            )
        # signs go before compatible letters come: ™ would become letters, stuck to the name
        spelled = unicodedata.normalize("NFKC", (text or "").translate(_SPELLING)).lower()
        words = (word for word in spelled.split() if len(word) > 1 or not word.isascii())
        cleaned.append(" ".join(words))
    return cleaned


def _words_in(text: str) -> Iterator[str]:
    """Its words, and its pairs of words that stand together."""
    words = text.split()
    yield from words
    for pair in pairwise(words):
        yield " ".join(pair)


def _characters_in(text: str) -> Iterator[str]:
    """Runs of characters within its words, the gaps around them included.

    A word that is no longer than a run is one run, once.
    """
    least, most = CHARACTERS_TOGETHER
    for word in text.split():
        spaced = f" {word} "
        for n in range(least, most + 1):
            yield spaced[:n]
            for start in range(1, len(spaced) - n + 1):
                yield spaced[start : start + n]
            if len(spaced) <= n:
                break


def _weigher(
    terms: NDArray[np.object_], idf: Floats, terms_in: Callable[[str], Iterable[str]]
) -> Callable[[list[str]], sp.csr_array]:
    """TF-IDF rows (n, T) over terms learned before: (1 + ln count) · idf, of length 1.

    The steps are those of scikit-learn's TfidfVectorizer, in its order: so are the last bits.
    """
    column_of = {term: column for column, term in enumerate(terms.tolist())}
    if not len(column_of) == len(terms) == len(idf):
        raise InvalidParameterError(
            f"{len(terms)} terms, {len(column_of)} of them different, with {len(idf)} weights; "
            "each term must be there once, with one weight"
        )

    def weighted(cleaned: list[str]) -> sp.csr_array:
        rows = [_row(terms_in(text), column_of, idf) for text in cleaned]
        starts = np.cumsum([0, *(len(columns) for columns, _ in rows)])
        columns = np.concatenate([np.empty(0, np.int64), *(columns for columns, _ in rows)])
        weights = np.concatenate([np.empty(0), *(weights for _, weights in rows)])
        return sp.csr_array((weights, columns, starts), shape=(len(cleaned), len(terms)))

    return weighted


def _row(
    terms: Iterable[str], column_of: dict[str, int], idf: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """The columns of a text's terms, ascending, and their weights."""
    found = Counter(column_of[term] for term in terms if term in column_of)
    columns = np.array(sorted(found), dtype=np.int64)
    counts = np.array([found[column] for column in columns.tolist()], dtype=np.float64)
    weights = (np.log(counts) + 1.0) * idf[columns]
    length = np.sqrt(np.cumsum(weights * weights)[-1]) if len(weights) else 0.0
    return columns, weights / length if length > 0 else weights


def along(directions: Floats, X: sp.csr_array) -> Floats:
    """xV / ‖xV‖ of every row; zeros where next to nothing of the row is left."""
    return of_length_one(np.asarray(X @ directions), at_least=_TOLD)


def side_by_side(words: sp.csr_array, characters: sp.csr_array) -> sp.csr_array:
    """Rows of both kinds of terms as one, of length 1 where both are."""
    return sp.hstack([words, characters], format="csr") / np.sqrt(2.0)


def of_length_one(rows: Floats, at_least: float = 0.0) -> Floats:
    """Rows scaled to length 1; those no longer than ``at_least`` become zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > at_least)
