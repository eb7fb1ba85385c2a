"""Entries of the catalogue: completeness, checksums of the bundled files."""

import hashlib
import re
from importlib import resources

import pytest

from coterie.datasets.catalogue import DATASETS
from coterie.datasets.readers import READERS


def test_entries_are_complete():
    """Every dataset has a source, a licence, a way to get it, and known file formats."""
    for info in DATASETS.values():
        assert info.source and info.licence and info.how_to_get
        assert all(edition.format in READERS for edition in info.editions)
        for file in (file for edition in info.editions for file in edition.files):
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert file.url is None or re.fullmatch(f"https://.*/{file.name}", file.url)


@pytest.mark.parametrize(
    "info", [i for i in DATASETS.values() if i.bundled], ids=lambda info: info.name
)
def test_bundled_files_have_the_checksums(info):
    """The files in the package have the checksums of the catalogue; the README names them."""
    folder = resources.files("coterie.datasets") / "data"
    (file,) = info.editions[0].files
    content = (folder / file.name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == file.sha256
    assert f"`{file.name}`" in (folder / "README.md").read_text(encoding="utf-8")


def test_caltech101_7_is_part_of_caltech101_20():
    """The seven classes have the same sizes in both datasets."""
    seven, twenty = DATASETS["caltech101_7"], DATASETS["caltech101_20"]
    assert seven.class_sizes.items() <= twenty.class_sizes.items()
    assert seven.view_sizes == twenty.view_sizes
