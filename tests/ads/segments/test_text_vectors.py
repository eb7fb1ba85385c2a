"""Vectors from stored terms equal those of scikit-learn's vectorisers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from coterie.ads.segments import text_vectors
from coterie.ads.segments.text_vectors import (
    CHARACTERS_TOGETHER,
    WORDS_TOGETHER,
    TextVectors,
    _characters_in,
    _weigher,
    _words_in,
    clean_texts,
)
from coterie.errors import InvalidParameterError

WORDS = {"analyzer": "word", "ngram_range": WORDS_TOGETHER, "token_pattern": r"\S+"}
CHARACTERS = {"analyzer": "char_wb", "ngram_range": CHARACTERS_TOGETHER}
words = st.sampled_from(["hotel", "beach", "at", "5g", "الفندق", "🏖", "travelling", "x1"])
texts = st.lists(words, max_size=12).map(" ".join) | st.text(max_size=30)


@pytest.mark.parametrize(
    ("terms_in", "how"), [(_words_in, WORDS), (_characters_in, CHARACTERS)], ids=["words", "runs"]
)
@given(
    fitted=st.lists(texts, min_size=2, max_size=6), asked=st.lists(texts, min_size=1, max_size=4)
)
@settings(deadline=None, max_examples=30)
def test_weights_are_those_of_scikit_learn(terms_in, how, fitted, asked):
    """Terms are split and weighted alike, to the last bit."""
    vectorizer = TfidfVectorizer(lowercase=False, sublinear_tf=True, **how)
    vectorizer.fit(clean_texts([*fitted, "hotel by the beach"]))
    terms = np.array(vectorizer.get_feature_names_out(), dtype=object)
    found = _weigher(terms, vectorizer.idf_, terms_in)(clean_texts(asked))
    expected = vectorizer.transform(clean_texts(asked))
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_terms_must_be_distinct():
    """A repeated term, or one without a weight, is refused."""
    twice = np.array(["a", "a"], dtype=object)
    with pytest.raises(InvalidParameterError, match="2 terms, 1 of them distinct"):
        _weigher(twice, np.ones(2), _words_in)
    with pytest.raises(InvalidParameterError, match="with 3 weights"):
        _weigher(np.array(["a", "b"], dtype=object), np.ones(3), _words_in)


def test_without_terms_there_are_no_vectors():
    """An unfitted object is refused as in scikit-learn."""
    with pytest.raises((NotFittedError, TypeError)):
        TextVectors().transform(["hotel"])


def test_the_cache_of_characters_is_bounded(monkeypatch):
    """Further characters are still spelled."""
    kept = text_vectors._Spelling()
    monkeypatch.setattr(text_vectors, "_SPELLING", kept)
    monkeypatch.setattr(text_vectors, "_MOST_KEPT", 3)
    assert (
        clean_texts(["hotel, by the: beach!", "hotel, by the: beach!"])
        == ["hotel by the beach"] * 2
    )
    assert len(kept) == 3
