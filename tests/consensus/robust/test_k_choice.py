"""The result of a comparison of numbers of clusters: its repr, frame and HTML."""

import numpy as np

from coterie.consensus.robust.k_choice import KChoice


def choice(**changes):
    """Return a comparison of K = 2, 3 and 4 that recommends 3."""
    three = np.array([3.0, 2.0, 1.0])
    values = {
        "best_k": 3,
        "reason": "the gap <b>&</b> the rest",
        "is_weak": False,
        "by_criterion": {"agreement": 3},
        "ks": np.array([2, 3, 4]),
        "objective": three,
        "n_clusters": np.array([2, 3, 3]),
        "lower_bound": 0.5,
        "information": three,
        "margin": three / 4,
        "eigenvalues": np.arange(5.0),
        "eigengap": three,
        "relative_eigengap": three / 5,
        "agreement": np.array([0.25, 1.0, np.nan]),
        "stability": np.full(3, np.nan),
    }
    return KChoice(**values | changes)


def test_the_repr_is_one_line():
    """It has the recommended K, the K compared, the reason, and whether the evidence is weak."""
    assert repr(choice()) == "KChoice(best_k=3 of 2 to 4: the gap <b>&</b> the rest)"
    assert "3 of 2 to 4, weak evidence:" in repr(choice(is_weak=True))
    one = {"ks": np.array([3])}
    assert repr(choice(**one)).startswith("KChoice(best_k=3 of 3: ")


def test_the_frame_has_a_row_for_each_k():
    """Criteria without any value are left out, and so are the eigenvalues and single numbers."""
    frame = choice().to_frame()
    assert frame.index.tolist() == [2, 3, 4] and frame.index.name == "k"
    assert {"objective", "n_clusters", "agreement"} <= set(frame)
    assert not {"stability", "pac", "eigenvalues", "lower_bound", "best_k", "ks"} & set(frame)
    assert frame["objective"].tolist() == [3.0, 2.0, 1.0]
    # as many eigenvalues as K are no criterion
    assert "eigenvalues" not in choice(eigenvalues=np.arange(3.0)).to_frame()


def test_the_html_is_escaped_and_marks_the_recommended_k():
    """The table has a row for each K; only that of the recommended K is bold."""
    html = choice()._repr_html_()
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in html and "<b>" not in html
    assert html.count("<tr") == 1 + 3 and html.count("font-weight:bold") == 1
    assert "<tr style='font-weight:bold'><td>3</td><td>2</td>" in html
    assert html.count("<th>") == 1 + len(choice().to_frame().columns)
