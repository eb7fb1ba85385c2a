"""Tests of column names on the command line."""

import csv
import io

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.cli.options import clusters_in, ids_in, names_in

NAMES = st.lists(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=50)
@given(NAMES)
def test_any_names_can_be_given(names):
    """Names written by a CSV writer are read back."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    assert names_in(line.getvalue()) == names


@pytest.mark.parametrize("text", ["", ",", "a,,b"])
def test_a_missing_name_is_wrong_usage(text):
    with pytest.raises(typer.BadParameter, match="write the names as a,b,c"):
        names_in(text)


def test_ids_are_given_one_by_one_or_together():
    """Several ids can be given by several options or with commas; an empty id is refused."""
    assert ids_in(["a", "b,c", '"d,e"']) == ["a", "b", "c", "d,e"]
    assert ids_in(None) == ids_in([]) == []
    assert ids_in(['""']) == [""]
    with pytest.raises(typer.BadParameter, match="write the names as a,b,c") as refused:
        ids_in(["a", ""])
    assert refused.value.param_hint == "'--id'"


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "many", "", "²"])
def test_a_number_of_clusters_is_whole(text):
    """Anything but a whole number from 1 and the word free is wrong usage."""
    assert (clusters_in("12"), clusters_in("free")) == (12, "free")
    with pytest.raises(typer.BadParameter, match="the word free") as refused:
        clusters_in(text)
    assert refused.value.param_hint == "'-k'"
