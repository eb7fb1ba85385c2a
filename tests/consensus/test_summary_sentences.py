"""The sentences of summaries are the same in Python and in the program."""

from coterie import RobustConsensus, planted_partitions
from coterie.cli.summary import consensus_facts, print_summary
from coterie.consensus import summary_sentences as sentences


def test_the_program_prints_the_sentences_of_the_summary(capsys):
    """Clusters, objective, bound and partitions read as in ``summary()``."""
    P, _ = planted_partitions([60, 40], 5, n_bad=2, noise=0.1, random_state=0)
    est = RobustConsensus(2, random_state=0).fit(P)
    lines = dict(line.split(None, 1) for line in str(est.summary()).splitlines()[1:])
    around = {"input": "t.csv", "seconds": 0.5, "written": {}, "notes": []}
    print_summary(around | consensus_facts(est, list("01234")))
    text = " ".join(capsys.readouterr().out.split())
    for name in ("clusters", "confidence", "objective", "bound", "partitions"):
        assert lines[name] in text, name


def test_many_sizes_are_cut_short():
    """At most twelve sizes are listed; the number of clusters is always exact."""
    assert sentences.clusters_in_words([5]) == "1, of 5 points"
    text = sentences.clusters_in_words(range(13, 0, -1))
    assert text.startswith("13, of 13, 12") and text.endswith("2, … points")
