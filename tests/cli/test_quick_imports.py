"""The program imports scikit-learn without pandas and scipy.stats, which still work."""

import subprocess
import sys


def test_pandas_and_statistics_are_imported_when_they_are_used():
    """Functions and distributions that scikit-learn imported by name are the real ones."""
    code = """
import sys
from coterie.cli.quick_imports import import_scikit_learn
import_scikit_learn()
from sklearn.cluster import KMeans
from sklearn.covariance import _robust_covariance
from sklearn.metrics import _ranking
assert "pandas" not in sys.modules and "scipy.stats._stats_py" not in sys.modules
assert _ranking.rankdata([3, 1]).tolist() == [2, 1]
assert round(_robust_covariance.chi2.isf(0.5, 1), 3) == 0.455
from scipy import stats
assert stats.norm.cdf(0) == 0.5
import pandas
KMeans(2, n_init=1).fit(pandas.DataFrame({"a": [0.0, 1.0, 9.0]}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
