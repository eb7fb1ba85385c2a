"""All experiments on real advertising data: the run, its files, its tables and its words."""

from __future__ import annotations

import copy
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from auction_rows import weekly_rows, write_rows
from benchmarks import ads_real, ads_real_report, ads_real_tables
from benchmarks.ads_real import FILES, run_real
from benchmarks.ads_real_pictures import as_pictures
from coterie.ads.histograms.public_data import IPINYOU, PUBLISHER, SNAP
from coterie.errors import DatasetUnavailableError, OutputError

REAL_DATA = os.environ.get("COTERIE_DATA")


def write_small_data(folder: Path) -> Path:
    """The three datasets with their columns, small and made up."""
    rng = np.random.default_rng(0)
    for dataset in (IPINYOU, PUBLISHER, SNAP):
        (folder / dataset.name).mkdir()
    counts = {name: rng.integers(0, 50, 31) for name in ("11", "22")}
    lines = ["price,adv11,adv22"]
    lines += [f"{p},{counts['11'][p]},{counts['22'][p]}" for p in range(31)]
    (folder / IPINYOU.name / IPINYOU.files[0]).write_text("\n".join(lines))
    lines = ["advertiser,season,industry,clk_train,cost_train,imp_train"]
    lines += [f"{a},2,Oil & <gas>|{a},9,{n @ np.arange(31)},{n.sum()}" for a, n in counts.items()]
    (folder / IPINYOU.name / IPINYOU.files[1]).write_text("\n".join(lines))
    lines = ["advertiser,part,click,market_price,pctr"]
    lines += [f"11,test,0,{rng.integers(31)},{rng.random():.4f}" for _ in range(300)]
    packed = gzip.compress("\n".join(lines).encode())
    (folder / IPINYOU.name / IPINYOU.files[2]).write_bytes(packed)
    write_rows(folder / PUBLISHER.name / PUBLISHER.files[0], weekly_rows(8))
    lines = ["ad_id,currency,spend,impressions,organization,candidate_ballot,advertiser,interests"]
    words = ("sea", "sun", "road", "engine", "vote", "health")
    for a in range(40):
        text = f"{words[a % 6]} {words[(a + 1) % 6]} people{a}"
        lines.append(f"i{a},USD,{rng.integers(20, 90)},10000,{text},,payer{a},")
    packed = gzip.compress("\n".join(lines).encode())
    (folder / SNAP.name / SNAP.files[0]).write_bytes(packed)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Results of a quick run on small data, and the folder of its report."""
    folder = tmp_path_factory.mktemp("real")
    data = folder / "data"
    data.mkdir()
    caught = []
    whole = ads_real_report.as_json

    def catching(results, described):
        caught.append(results)
        return whole(results, described)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ads_real.report, "as_json", catching)
        told = run_real(write_small_data(data), folder / "report", quick=True)
    return told, folder / "report", caught[0]


def test_the_report_is_written_whole(finished):
    """Page, figures and pictures, and nothing else; the figures are what was returned."""
    told, folder, _ = finished
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert json.loads((folder / "ads_real.json").read_text(encoding="utf-8")) == told
    assert list(told) == ["ipinyou", "publisher", "snap", "environment"]
    page = (folder / "ads_real.md").read_text(encoding="utf-8")
    for name in FILES[2:]:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert f"({name})" in page


def test_the_page_has_all_tables_findings_and_sources(finished):
    """Every table and sentence, the command, and how to get the data."""
    told, folder, _ = finished
    page = (folder / "ads_real.md").read_text(encoding="utf-8")
    tables = ads_real_tables.as_tables(told)
    assert len(tables) == 8
    for table in tables:
        assert table.markdown() in page
        assert all(len(row) == len(table.headings) for row in table.rows)
    for line in ads_real_report.summary_lines(told):
        assert line in page
    assert ads_real_report.COMMAND in page
    for dataset in (IPINYOU, PUBLISHER, SNAP):
        assert dataset.how_to_get in page


def test_what_is_only_drawn_is_not_in_the_figures(finished):
    """Curves and single prices are for the pictures."""
    told, _, results = finished
    assert "curves" in results["ipinyou"]
    assert "curves" not in told["ipinyou"]
    assert all("ecpm" not in segment for segment in told["snap"]["segments"])


def test_the_best_of_each_row_is_bold(finished):
    """Bold stands where the figure is the smallest of its measure."""
    table = ads_real_tables.ipinyou_by_size_table(finished[0]["ipinyou"])
    for r, row in enumerate(table.rows):
        for start in (2, 5):
            values = [float(text) for text in row[start : start + 3]]
            bold = [(r, start + c) in table.stressed for c in range(3)]
            assert bold == [value == min(values) for value in values]


def test_the_words_follow_the_figures(finished):
    """Whether segments help is decided by two standard errors, in either direction."""
    part = copy.deepcopy(finished[0]["publisher"])
    difference = part["sources"]["segment+pooled"]["impressions"]["difference_from"][
        "global+pooled"
    ]
    for mean, words in ((-0.1, "So it helps"), (0.1, "So it harms"), (0.01, "do not help")):
        difference.update(mean=mean, se=0.02)
        assert any(words in line for line in ads_real_tables.publisher_findings(part))


def test_what_could_not_be_measured_is_a_dash(finished):
    """No thin orders, no error of thin orders: a dash, and bold goes to the others."""
    part = copy.deepcopy(finished[0]["publisher"])
    for told in part["sources"].values():
        told["impressions"]["wape_thin"] = None
    table = ads_real_tables.publisher_table(part)
    column = table.headings.index("impressions: of thin orders")
    assert {row[column] for row in table.rows} == {"–"}
    assert not any(c == column for _, c in table.stressed)


def test_pictures_show_the_figures(finished):
    """Every advertiser's truth, every source's WAPE and every segment's median are drawn."""
    results = finished[2]
    pictures = as_pictures(results)
    assert sorted(pictures) == sorted(FILES[2:])
    panels = pictures["ads_real_ipinyou.png"].axes
    for axes, advertiser in zip(panels, results["ipinyou"]["advertisers"], strict=False):
        truth = results["ipinyou"]["curves"][advertiser["advertiser"]]["truth"]
        assert axes.lines[0].get_ydata().tolist() == truth
        assert len(axes.lines) == 4
    axes = pictures["ads_real_publisher.png"].axes[0]
    for container, name in zip(axes.containers, ("impressions", "revenue"), strict=True):
        drawn = container.lines[0].get_xdata()
        assert list(drawn) == [s[name]["wape"] for s in results["publisher"]["sources"].values()]
    axes = pictures["ads_real_snap.png"].axes[0]
    medians = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert medians == [segment["quartiles"][1] for segment in results["snap"]["segments"]]


def test_missing_data_are_named_before_any_work(tmp_path):
    """All datasets that are not there, and nothing written."""
    with pytest.raises(DatasetUnavailableError) as caught:
        run_real(tmp_path, tmp_path / "report")
    for dataset in (IPINYOU, PUBLISHER, SNAP):
        assert dataset.name in str(caught.value)
        assert dataset.how_to_get in str(caught.value)
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_is_refused_before_any_work(tmp_path, monkeypatch):
    """A file where the report's folder should be."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "report").write_text("in the way")
    monkeypatch.setattr(ads_real, "run_ipinyou", lambda *_, **__: pytest.fail("worked"))
    with pytest.raises(OutputError, match="cannot make the folder"):
        run_real(write_small_data(data), tmp_path / "report")


def test_steps_are_told(tmp_path):
    """Each experiment says what it is at, before and between its steps."""
    said = []
    data = tmp_path / "data"
    data.mkdir()
    run_real(write_small_data(data), quick=True, before_step=said.append)
    assert list(dict.fromkeys(said)) == [
        "win curves of iPinYou's advertisers",
        "orders of the publisher's auction",
        "texts and prices of Snap's advertisers",
    ]


@pytest.mark.skipif(not REAL_DATA, reason="COTERIE_DATA is not set: the real data are not here")
def test_the_real_data_say_what_the_page_says():
    """A quick run: Kaplan–Meier wins, pooling is no worse than own, texts explain a little."""
    told = run_real(REAL_DATA, quick=True)
    cells = told["ipinyou"]["cells"]
    assert len(told["ipinyou"]["advertisers"]) == 9
    better = [
        c["errors"]["kaplan_meier"]["mean"]["mean"] < c["errors"]["paid"]["mean"]["mean"]
        for c in cells
    ]
    assert np.mean(better) > 0.95
    sources = told["publisher"]["sources"]
    assert told["publisher"]["orders"] == 75
    assert told["publisher"]["notes"]["rows_without_impressions"] == 189_538
    assert sources["segment+pooled"]["backtest"] < sources["own"]["backtest"]
    assert sources["own"]["impressions"]["wape"] < sources["flat"]["impressions"]["wape"]
    assert told["snap"]["notes"]["advertisers_in_dollars"] == 521
    assert 0 < told["snap"]["explained"][-1]["eta_squared"] < 0.3
    assert told["snap"]["explained"][-1]["p"] < 0.05
