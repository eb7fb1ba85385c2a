"""Vectors of texts, and the characteristic words of clusters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from coterie import load_model, save_model
from coterie.ads.segments.text_view import TextView, characteristic_words, unit_rows
from coterie.errors import InvalidParameterError

TRAVEL = ["beach hotel deals", "cheap flights and hotels", "island cruise", "hotel on the beach"]
CARS = ["used cars", "car dealer", "electric car lease", "cars and engines"]
TEXTS = [*TRAVEL, *CARS]


def lengths(vectors):
    """Euclidean lengths of rows."""
    return np.linalg.norm(vectors, axis=1)


def test_rows_are_unit_vectors():
    """A text has a vector of length 1; an empty or unrelated text has zeros."""
    view = TextView().fit(TEXTS)
    vectors = view.transform(["beach", "", None, "!?", "zzz qqq", "CAR"])
    assert_allclose(lengths(vectors), [1, 0, 0, 0, 0, 1], atol=1e-12)
    # rounding is no direction
    one = TextView(1).fit(["beach hotel"] * 5 + ["xxyyzz"])
    assert_array_equal(lengths(one.transform(["beach", "xxyyzz"])).round(9), [1, 0])


def test_products_are_cosines():
    """With all components they are the mean cosines of the two parts of TF-IDF."""
    vectors = TextView(n_components=100).fit_transform(TEXTS)
    settings_ = {"sublinear_tf": True, "token_pattern": r"\S+"}
    words = TfidfVectorizer(ngram_range=(1, 2), **settings_).fit_transform(TEXTS)
    characters = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True
    ).fit_transform(TEXTS)
    expected = (words @ words.T + characters @ characters.T).toarray() / 2
    assert_allclose(vectors @ vectors.T, expected, atol=1e-9)


def test_fitted_texts_and_new_ones_are_treated_alike():
    """fit_transform equals fit and transform; a vector does not depend on other texts."""
    view = TextView(n_components=4)
    vectors = view.fit_transform([*TEXTS, None])
    assert_allclose(vectors, TextView(n_components=4).fit([*TEXTS, ""]).transform([*TEXTS, ""]))
    assert_allclose(view.transform(TEXTS[3:4]), vectors[3:4], atol=1e-12)


def test_the_prepared_transform_is_repeatable():
    """Results are equal for one or several texts, for none, and from several threads."""
    view = TextView().fit(TEXTS)
    ready = view.make_transform()
    assert_array_equal(ready(TEXTS), view.transform(TEXTS))
    with ThreadPoolExecutor(4) as pool:
        apart = list(pool.map(lambda text: ready([text])[0], TEXTS))
    assert_array_equal(apart, view.transform(TEXTS))
    assert ready([]).shape == (0, len(view.components_))
    with pytest.raises(NotFittedError):
        TextView().make_transform()


def test_spelling_does_not_separate():
    """Case, combining accents, wide letters, signs and spaces have no effect."""
    view = TextView().fit(["café münchen nike", *TEXTS])
    vectors = view.transform(["café münchen nike", "CAFE\u0301,  Mu\u0308nchen: ＮＩＫＥ™!"])
    assert_allclose(vectors[0], vectors[1], atol=1e-12)


@pytest.mark.parametrize("n_components", [1, 3, 50])
def test_components_are_clipped(n_components):
    """There are as many as requested, or as the rank of the texts."""
    view = TextView(n_components).fit(TEXTS[:5])
    assert view.transform(["car"]).shape == (1, min(n_components, 5))
    assert_allclose(view.components_ @ view.components_.T, np.eye(len(view.components_)), atol=1e-9)


def test_repeated_texts_span_less():
    """Repeated texts add no components."""
    view = TextView().fit(["beach hotel"] * 5 + ["car dealer"] * 5)
    assert len(view.components_) == 2
    vectors = view.transform(["beach hotel", "car dealer"])
    assert_allclose(vectors @ vectors.T, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("texts", [[], [""], [None, "  ", "?!"], ["word"], ["7"]])
def test_few_texts(texts):
    """No text, empty texts and a single text can be fitted."""
    view = TextView()
    vectors = view.fit_transform(texts)
    assert len(vectors) == len(texts)
    assert_allclose(lengths(vectors), [float(text == "word") for text in texts])
    assert not view.transform(["something else"]).any()
    assert view.transform([]).shape == (0, vectors.shape[1])


def test_most_frequent_terms_are_kept():
    """max_terms limits words and runs of characters separately."""
    view = TextView(max_terms=5).fit([*TEXTS, "car", "car"])
    assert len(view.words_) == len(view.characters_) == 5
    assert "car" in view.words_
    assert view.components_.shape[1] == 10


@settings(deadline=None, max_examples=20)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=8))
def test_any_text(texts):
    """Rows are finite and of length 1 or 0 for any characters."""
    vectors = TextView(n_components=3).fit(texts).transform([*texts, "<b>'; DROP TABLE\x00"])
    assert np.isfinite(vectors).all()
    assert set(np.round(lengths(vectors), 9)) <= {0.0, 1.0}


def test_scikit_learn_conventions():
    """get_params and clone work, and transform requires fit."""
    view = TextView(7, max_terms=11, random_state=3)
    assert clone(view).get_params() == {"n_components": 7, "max_terms": 11, "random_state": 3}
    with pytest.raises(NotFittedError):
        view.transform(["a"])
    assert view.fit(TEXTS) is view


def test_it_can_be_saved_and_loaded(tmp_path):
    """A loaded object gives the same vectors."""
    view = TextView(5).fit([*TEXTS, "🚗 旅行"])
    save_model(view, tmp_path / "view.coterie")
    loaded = load_model(tmp_path / "view.coterie")
    texts = ["hotel car", "旅行", "🚗", ""]
    assert_array_equal(loaded.transform(texts), view.transform(texts))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"n_components": 0}, "n_components: 0"),
        ({"n_components": 2.5}, r"n_components: 2\.5"),
        ({"max_terms": "many"}, "max_terms: 'many'"),
    ],
)
def test_invalid_settings_are_refused(settings_, message):
    """The message of fit names the setting."""
    with pytest.raises(InvalidParameterError, match=message):
        TextView(**settings_).fit(TEXTS)


def test_invalid_texts_are_refused():
    """A single text, or a value that is not a text, is refused with its row."""
    with pytest.raises(InvalidParameterError, match="a single text"):
        TextView().fit("beach")
    with pytest.raises(InvalidParameterError, match=r"row 1: 5 is a int, not a text"):
        TextView().fit(["beach", 5])


def test_unit_rows():
    """Rows of any length are scaled to 1; zeros remain; the input is not changed."""
    embeddings = np.array([[3.0, 4.0], [0.0, 0.0], [1e300, 1e300], [0.6, -0.8]])
    kept = embeddings.copy()
    half = np.sqrt(0.5)
    assert_allclose(unit_rows(embeddings, 4), [[0.6, 0.8], [0, 0], [half, half], [0.6, -0.8]])
    assert_array_equal(embeddings, kept)
    assert unit_rows(np.empty((0, 3)), 0).shape == (0, 3)


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\); they need 2 rows"),
        ([[1.0, 2.0]], r"shape \(1, 2\); they need 2 rows"),
        (np.empty((2, 0)), r"shape \(2, 0\)"),
        ([[1.0, 2.0], [np.inf, 0.0]], "row 1, column 0: inf"),
        ([["a"], ["b"]], "not a table of numbers"),
        ([[1.0], [1.0, 2.0]], "not a table of numbers"),
    ],
)
def test_invalid_embeddings_are_refused(embeddings, message):
    """The message says what is wrong, and where."""
    with pytest.raises(InvalidParameterError, match=message):
        unit_rows(embeddings, 2)


def test_characteristic_words():
    """Words common to all clusters, numbers and stop words are not listed."""
    texts = [f"best {text} the 50" for text in TEXTS]
    labels = [1] * 4 + [0] * 4
    cars, travel = characteristic_words(texts, labels, n=2)
    assert cars[0] in {"car", "cars"}
    assert set(travel) == {"beach", "hotel"}


def test_equally_characteristic_words_are_in_alphabetical_order():
    """The order of texts has no effect."""
    texts = ["delta alpha", "charlie bravo", "echo zulu"]
    expected = [["alpha", "bravo", "charlie", "delta"], ["echo", "zulu"]]
    assert characteristic_words(texts, [0, 0, 1], n=4) == expected
    assert characteristic_words(texts[::-1], [1, 0, 0], n=4) == expected


def test_a_word_counts_once_a_text():
    """A word repeated in one text does not dominate."""
    texts = ["spam " * 50, "tyres", "tyres", "tyres", "milk"]
    assert characteristic_words(texts, [0, 0, 0, 0, 1], n=1) == [["tyres"], ["milk"]]


def test_any_script_and_emoji():
    """Words of any script are complete, and an emoji is a word."""
    texts = ["हिन्दी", "旅行", "путешествие", "🏖️", "👍🏽", "🇩🇪", "กรุงเทพ"]
    found = characteristic_words(texts, range(7))
    assert found == [["हिन्दी"], ["旅行"], ["путешествие"], ["🏖"], ["👍"], ["🇩🇪"], ["กรุงเทพ"]]


def test_clusters_without_words():
    """Unused labels, texts without words, and no labels give no words."""
    assert characteristic_words(["beach", "car", "hotel"], [0, 2, -1]) == [["beach"], [], ["car"]]
    assert characteristic_words(["", None, "the"], [0, 1, 1]) == [[], []]
    assert characteristic_words(["beach"], [-1]) == []
    assert characteristic_words([], np.empty(0, dtype=int)) == []


def test_a_single_cluster_has_its_most_frequent_words():
    """There is no other cluster to compare with."""
    assert characteristic_words(["car dealer", "car", "the car"], [0, 0, 0], n=1) == [["car"]]
