"""Text view: learn unit vectors of texts, and find the characteristic words of clusters.

Texts may be in any script. Words are runs of letters, marks and digits; an emoji is a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

from coterie.ads.segments.text_vectors import (
    CHARACTERS_TOGETHER,
    WORDS_TOGETHER,
    TextVectors,
    clean_texts,
    join_terms,
    project,
    scale_rows,
)
from coterie.arrays import Floats
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread

# TextVectors splits texts into the same terms
_WORDS = {"analyzer": "word", "ngram_range": WORDS_TOGETHER, "token_pattern": r"\S+"}
_CHARACTERS = {"analyzer": "char_wb", "ngram_range": CHARACTERS_TOGETHER}
_COMMON = """
a about after all also an and any are as at be been before but by can do for from get had has have
he her here him his how if in into is it its just like ll may me more most my no not now of off on
one only or other our out over own re she so some such than that the their them then there these
they this those through to too under until up us ve very was we were what when where which while
who why will with would you your
"""
_STOP_WORDS = frozenset(_COMMON.split())


class TextView(TextVectors, TransformerMixin, BaseEstimator):
    """Texts as unit vectors: TF-IDF of word and character n-grams, then a truncated SVD.

    The TF-IDF row x (1, T) of a text has two parts of length 1/√2: single words and pairs, and
    runs of 3 to 5 characters within words. With X ≈ U Σ Vᵀ over the texts fitted on, the vector
    of a text is xV / ‖xV‖, so that products of vectors are cosines.

    Parameters
    ----------
    n_components : int, default=50
        Largest number of columns of V; there are fewer if the rank of X is smaller.
    max_terms : int, default=20_000
        Largest number of terms of each kind; the most frequent are kept.
    random_state : int, RandomState or None, default=0
        Seed of the randomised SVD.

    Attributes
    ----------
    words_, characters_ : arrays of str
        The terms, in the order of columns.
    word_idf_, character_idf_ : float64 arrays
        Inverse document frequencies of the terms.
    components_ : (n_components, T) float64 array
        Vᵀ.

    Examples
    --------
    >>> view = TextView().fit(["beach hotel", "hotel by the beach", "car dealer", "used cars"])
    >>> vectors = view.transform(["hotels", "", "car"])
    >>> bool(vectors[0] @ vectors[2] < 0.1), bool(vectors[1].any())
    (True, False)
    """

    def __init__(
        self, n_components: int = 50, *, max_terms: int = 20_000, random_state: Any = 0
    ) -> None:
        self.n_components = n_components
        self.max_terms = max_terms
        self.random_state = random_state

    def fit(self, texts: Iterable[str | None], y: object = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        """Learn terms and components.

        Parameters
        ----------
        texts : iterable of str or None
            None is an empty text.
        y : ignored
        """
        self._fit_terms(clean_texts(texts))
        return self

    def fit_transform(self, texts: Iterable[str | None], y: object = None) -> Floats:  # noqa: ARG002 (scikit-learn's signature)
        """Return ``fit(texts).transform(texts)``.

        Parameters
        ----------
        texts : iterable of str or None
            One description per advertiser.
        y : ignored
        """
        return project(self._fit_terms(clean_texts(texts)), self.components_.T)

    def _fit_terms(self, cleaned: list[str]) -> sp.csr_array:
        """Learn terms and components, and return the TF-IDF rows (n, T)."""
        for name in ("n_components", "max_terms"):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= 1):
                raise InvalidParameterError(
                    f"{name}: {value!r}; it must be a whole number from 1 up"
                )
        words, self.words_, self.word_idf_ = _learned(cleaned, self.max_terms, _WORDS)
        characters, self.characters_, self.character_idf_ = _learned(
            cleaned, self.max_terms, _CHARACTERS
        )
        X = join_terms(words, characters)
        n, rng = min(self.n_components, *X.shape), check_random_state(self.random_state)
        if n == 0:
            self.components_ = np.zeros((1, X.shape[1]))
            return X
        with on_one_thread():
            _, values, directions = randomized_svd(X, n, n_iter=5, random_state=rng)
        self.components_ = directions[values > 1e-6 * values[0]]
        return X


def texts_of(advertisers: NDArray[np.str_], descriptions: Mapping[str, str] | None) -> list[str]:
    """Return the text of each advertiser, empty if it has none.

    A campaign, named ``ADVERTISER/CAMPAIGN``, that has no text takes that of its advertiser.
    """
    given = descriptions or {}
    names = advertisers.tolist()
    return [(given.get(name) or given.get(name.rpartition("/")[0]) or "").strip() for name in names]


def unit_rows(embeddings: ArrayLike, n_rows: int) -> Floats:
    """Check embeddings (n_rows, p), and scale their rows to length 1; zeros (no text) remain.

    >>> unit_rows([[3, 4], [0, 0]], 2)
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    try:
        E = np.array(embeddings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"embeddings are not a table of numbers: {error}") from error
    if E.ndim != 2 or E.shape[1] == 0 or len(E) != n_rows:
        raise InvalidParameterError(
            f"embeddings have shape {E.shape}; they need {n_rows} rows, one per advertiser"
        )
    wrong = np.argwhere(~np.isfinite(E))
    if len(wrong):
        row, column = wrong[0]
        raise InvalidParameterError(
            f"embeddings, row {row}, column {column}: {E[row, column]}; all must be finite"
        )
    # divided by the largest value first, because squares may overflow
    largest = np.abs(E).max(axis=1, keepdims=True)
    return scale_rows(np.divide(E, largest, out=E, where=largest > 0))


def characteristic_words(
    texts: Iterable[str | None], labels: ArrayLike, n: int = 3
) -> list[list[str]]:
    """Return at most n words that distinguish each cluster from the others, best first.

    The score of a word is the log ratio of its share in the texts of a cluster and its share in the
    others, both shrunk towards its share in all texts, divided by its standard error (after Monroe,
    Colaresi and Quinn, 2008). A word counts once per text. Numbers and common English words are
    left out. ``labels`` (A,) are from 0, −1 for no cluster. Only words with a score above 0 are
    listed, equal scores in alphabetical order; a single cluster has its most frequent words.

    >>> texts = ["Beach hotel", "the best beach", "best cars", "cars"]
    >>> characteristic_words(texts, [0, 0, 1, 1], n=1)
    [['beach'], ['cars']]
    """
    y = np.asarray(labels)
    K, inside = int(y.max(initial=-1)) + 1, np.flatnonzero(y >= 0)
    cleaned = clean_texts(texts)
    filtered = [
        " ".join(w for w in cleaned[i].split() if w not in _STOP_WORDS and not w.isdecimal())
        for i in inside.tolist()
    ]
    if not any(filtered):
        return [[] for _ in range(K)]
    counter = CountVectorizer(binary=True, lowercase=False, token_pattern=_WORDS["token_pattern"])
    occurs = counter.fit_transform(filtered)
    words = counter.get_feature_names_out()  # in alphabetical order
    members = sp.csr_array((np.ones(len(inside)), (y[inside], np.arange(len(inside)))))
    counts = (members @ occurs).toarray()  # texts of each cluster with each word, (K, W)
    scores = counts
    if np.count_nonzero(counts.any(axis=1)) > 1:
        everywhere = counts.sum(axis=0)
        prior = everywhere * (len(everywhere) / everywhere.sum())
        here, elsewhere = counts + prior, everywhere - counts + prior
        share_here = here / here.sum(axis=1, keepdims=True)
        share_elsewhere = elsewhere / elsewhere.sum(axis=1, keepdims=True)
        scores = np.log(share_here / share_elsewhere) / np.sqrt(1 / here + 1 / elsewhere)
        scores = np.round(scores, 9)  # differences due to rounding must not affect the order
    found = []
    for score, count in zip(scores, counts, strict=True):
        order = np.lexsort((words, -score))
        found.append([str(words[w]) for w in order if score[w] > 0 and count[w] > 0][:n])
    return found


def _learned(
    cleaned: list[str], max_terms: int, settings: dict[str, Any]
) -> tuple[sp.csr_array, NDArray[np.object_], Floats]:
    """Return TF-IDF rows, terms in alphabetical order, and their inverse document frequencies."""
    if not any(cleaned):
        return sp.csr_array((len(cleaned), 0)), np.empty(0, dtype=object), np.empty(0)
    vectorizer = TfidfVectorizer(
        lowercase=False, sublinear_tf=True, max_features=max_terms, **settings
    )
    X = sp.csr_array(vectorizer.fit_transform(cleaned))
    return X, np.array(vectorizer.get_feature_names_out(), dtype=object), vectorizer.idf_
