"""Text vectors: convert texts to unit vectors with terms that were learned before.

:class:`~coterie.ads.segments.text_view.TextView` learns the terms with scikit-learn. This module
computes the same weights from the stored terms without scikit-learn, so that a fitted model
loads quickly.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.arrays import Floats
from coterie.errors import InvalidParameterError

#: The smallest and the largest number of words, and of characters, of a term.
WORDS_TOGETHER = (1, 2)
CHARACTERS_TOGETHER = (3, 5)

_MOST_KEPT = 1 << 16
#: A text whose projection is shorter is taken as unrelated to the texts fitted on.
_LEAST_LENGTH = 0.01


class TextVectors:
    """Unit vectors of texts, from stored terms and components.

    See :class:`~coterie.ads.segments.text_view.TextView`, which learns them, for the formula.
    """

    words_: NDArray[np.object_]
    characters_: NDArray[np.object_]
    word_idf_: Floats
    character_idf_: Floats
    components_: Floats

    def transform(self, texts: Iterable[str | None]) -> Floats:
        """Return the vectors of texts.

        Parameters
        ----------
        texts : iterable of str or None
            One description per advertiser.

        Returns
        -------
        (n, n_components) float64 array
            Rows of length 1; zeros for a text that is empty or shares almost no terms with those
            fitted on.
        """
        return self.make_transform()(texts)

    def make_transform(self) -> Callable[[Iterable[str | None]], Floats]:
        """Return :meth:`transform` as a function with prepared terms, for many calls.

        Several threads may call it.
        """
        if not hasattr(self, "components_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "components_")
        words = _weigher(self.words_, self.word_idf_, _words_in)
        characters = _weigher(self.characters_, self.character_idf_, _characters_in)
        directions = np.ascontiguousarray(self.components_.T)

        def vectors(texts: Iterable[str | None]) -> Floats:
            cleaned = clean_texts(texts)
            return project(join_terms(words(cleaned), characters(cleaned)), directions)

        return vectors


class _Spelling(dict[int, str]):
    """Table of ``str.translate`` that keeps letters, marks, digits and emoji, and drops others."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        # joiners, variants and skin tones change how their neighbours are drawn
        if category == "Cf" or 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF:
            spelled = ""
        elif category[0] in "LMN" or 0x1F1E6 <= code <= 0x1F1FF:  # two regional letters are a flag
            spelled = character
        else:
            spelled = f" {character} " if category == "So" and code >= 0x2600 else " "
        if len(self) < _MOST_KEPT:  # bounds the memory, because requests may have any character
            self[code] = spelled
        return spelled


_SPELLING = _Spelling()


def clean_texts(texts: Iterable[str | None]) -> list[str]:
    """Convert texts to words in lower case, without single Latin letters and digits."""
    if isinstance(texts, str):
        raise InvalidParameterError("texts is a single text; give a list of texts")
    cleaned = []
    for row, text in enumerate(texts):
        if not (text is None or isinstance(text, str)):
            raise InvalidParameterError(
                f"texts, row {row}: {text!r} is a {type(text).__name__}, not a text"
            )
        # signs are removed before NFKC, which would turn ™ into letters of the word before it
        spelled = unicodedata.normalize("NFKC", (text or "").translate(_SPELLING)).lower()
        words = (word for word in spelled.split() if len(word) > 1 or not word.isascii())
        cleaned.append(" ".join(words))
    return cleaned


def _words_in(text: str) -> Iterator[str]:
    """Yield the words of a text and its pairs of adjacent words."""
    words = text.split()
    yield from words
    for pair in pairwise(words):
        yield " ".join(pair)


def _characters_in(text: str) -> Iterator[str]:
    """Yield the runs of characters within the words of a text, surrounded by spaces.

    A word that is no longer than a run is yielded once.
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
    """Return a function that computes TF-IDF rows (n, T): (1 + ln count) · idf, of length 1.

    The order of operations is that of scikit-learn's TfidfVectorizer, so that results are equal
    to the last bit.
    """
    column_of = {term: column for column, term in enumerate(terms.tolist())}
    if not len(column_of) == len(terms) == len(idf):
        raise InvalidParameterError(
            f"{len(terms)} terms, {len(column_of)} of them distinct, with {len(idf)} weights; "
            "terms must be distinct, with one weight each"
        )

    def weighted(cleaned: list[str]) -> sp.csr_array:
        ends, columns, weights = [0], [np.empty(0, np.int64)], [np.empty(0)]
        for text in cleaned:
            found = Counter(column_of[term] for term in terms_in(text) if term in column_of)
            own = np.array(sorted(found), dtype=np.int64)
            counts = np.array([found[column] for column in own.tolist()], dtype=np.float64)
            row = (np.log(counts) + 1.0) * idf[own]
            length = np.sqrt(np.cumsum(row * row)[-1]) if len(row) else 0.0
            columns.append(own)
            weights.append(row / length if length > 0 else row)
            ends.append(ends[-1] + len(own))
        return sp.csr_array(
            (np.concatenate(weights), np.concatenate(columns), ends),
            shape=(len(cleaned), len(terms)),
        )

    return weighted


def project(X: sp.csr_array, directions: Floats) -> Floats:
    """Compute xV / ‖xV‖ for every row; zeros if xV is almost 0."""
    return scale_rows(np.asarray(X @ directions), _LEAST_LENGTH)


def join_terms(words: sp.csr_array, characters: sp.csr_array) -> sp.csr_array:
    """Join rows of both kinds of terms; the result has length 1 if both have."""
    return sp.hstack([words, characters], format="csr") / np.sqrt(2.0)


def scale_rows(rows: Floats, least: float = 0.0) -> Floats:
    """Scale rows to length 1; rows no longer than ``least`` become zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > least)
