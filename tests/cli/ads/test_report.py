"""Tests of ``coterie ads report``, from a log to one page."""

from __future__ import annotations

import json
import re
import sys

import pytest
from typer.testing import CliRunner

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.fitting.forecaster import load_forecaster
from coterie.ads.logs.checks.faults import FAULT_CODES
from coterie.cli.program import app

pytestmark = pytest.mark.slow

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "'; DROP TABLE bids; --",
    "🦊 {{7*7}}",
    "\x1b[2Jclear",
)


@pytest.fixture(scope="module")
def reported(market, tmp_path_factory):
    """Return the result of a report of the market, and the folder of page and model."""
    folder = tmp_path_factory.mktemp("reported")
    arguments = [
        *("ads", "report", market, "-k", "3,4", "-o", folder / "report.html"),
        *("--save-model", folder / "m.coterie", "--title", "Week & <10>"),
    ]
    return CliRunner().invoke(app, list(map(str, arguments))), folder


def test_the_answer_is_short(reported):
    """The summary has segments, both errors and the files, within 80 columns."""
    result, folder = reported
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    said = unwrapped(result.stdout)
    assert ": 48 advertisers in " in said
    assert "Error of impressions " in said
    assert "Error of spend " in said
    assert f"wrote {folder / 'report.html'}\nwrote {folder / 'm.coterie'}\n" in result.stdout
    assert_fits(result.stdout.split("segments\n", 1)[1])


def test_page_is_complete_and_self_contained(reported):
    """The page loads nothing, escapes the title, and has every advertiser."""
    page = (reported[1] / "report.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert "Week &amp; &lt;10&gt;" in page
    assert all(f"adv-{i:05}" in page for i in range(48))


def test_the_model_is_that_of_segment(reported, segmented):
    """--save-model writes the same bytes as coterie ads segment."""
    kept = reported[1] / "m.coterie"
    assert 0 <= load_forecaster(kept).forecast("adv-00007", 2.0, supply=1000).impressions <= 1000
    assert segmented["model_file"].read_bytes() == kept.read_bytes()


def test_a_saved_model_is_not_fitted_again(run, market, reported, segmented, monkeypatch, tmp_path):
    """With --model, the report is the same without a fit of the model."""
    monkeypatch.setattr("coterie.cli.ads.report.fit_model", lambda *_: pytest.fail("fitted again"))
    page, model = tmp_path / "r.html", segmented["model_file"]
    result = run("ads", "report", market, "--model", model, "-o", page, "--title", "Week & <10>")
    assert result.exit_code == 0, result.stderr
    before = (reported[1] / "report.html").read_text(encoding="utf-8")
    assert _without_steps(page.read_text(encoding="utf-8")) == _without_steps(before)


def test_a_model_of_another_log_is_refused(run, write_log, segmented, tmp_path):
    """The model must be of the days and advertisers of the log."""
    page, model = tmp_path / "r.html", segmented["model_file"]
    result = run("ads", "report", write_log(), "--model", model, "-o", page)
    assert_one_line(result, "--model: it was fitted to 4 days, and the log has 3")
    assert not page.exists()
    both = run("ads", "report", write_log(), "--model", model, "--save-model", "m", "-o", page)
    assert_one_line(both, "--model and --save-model exclude each other")


def _without_steps(page):
    """Return a page without the time and the command of its making."""
    page = re.sub(r"coterie ads report [^<]*|python [^<]*", "", page)
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^<\"]*|\d+ \w+ \d{4}, \d\d:\d\d UTC", "", page)


def test_report_of_one_day(run, write_log, tmp_path):
    """With too few days for an evaluation the page is made, and says so."""
    page = tmp_path / "r.html"
    result = run("ads", "report", write_log(days=1), "-k", 2, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert "too few days to hold out" in unwrapped(page.read_text(encoding="utf-8"))
    assert "Error of" not in result.stdout


@pytest.mark.slow
def test_hostile_ids_are_text(run, write_log, tmp_path):
    """Ids that are scripts are text in the page; --json has segments, errors and files."""
    page = tmp_path / "r.html"
    log = write_log(advertisers=[*HOSTILE, *"abcdefg"])
    result = run("ads", "report", log, "-k", 2, "-o", page, "--json")
    assert result.exit_code == 0, result.stderr
    html = page.read_text(encoding="utf-8")
    assert "alert(1)" in html
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "{{7*7}}" in html
    assert "\x1b" not in html + result.output
    facts = json.loads(result.stdout)
    assert sum(row["size"] for row in facts["segments"]) == facts["advertisers"] == 12
    assert len(facts["evaluation"]["sources"]) == 17
    assert facts["written"] == [str(page)]


def test_report_without_texts_and_evaluation(run, write_log, tmp_path):
    """The page says that texts are missing; with --no-evaluation nothing is held out."""
    page, log = tmp_path / "r.html", write_log(texts=False)
    result = run("ads", "report", log, "-k", 2, "-o", page, "--no-evaluation", "--json")
    assert result.exit_code == 0, result.stderr
    assert "evaluation" not in json.loads(result.stdout)
    assert FAULT_CODES["no_texts"].what in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", ["ibis", "msgspec"])
def test_missing_package_is_named_before_the_work(
    run, market, untouched, tmp_path, monkeypatch, package
):
    """Without the packages of the extra nothing is started."""
    monkeypatch.setitem(sys.modules, package, None)
    result = run("ads", "report", market, "-o", tmp_path / "r.html")
    assert_one_line(result, f"needs {package}, ", "[ads]'")
    assert_one_line(run("ads", "demo", "-o", tmp_path / "demo"), package)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_the_old_page(run, market, segmented, tmp_path, full_disk):
    """If the page cannot be written, the old page is unchanged."""
    page, model = tmp_path / "r.html", segmented["model_file"]
    page.write_text("the one before")
    full_disk()
    result = run("ads", "report", market, "--model", model, "-o", page, "--no-evaluation")
    assert_one_line(result, f"cannot write {page}: No space left on device")
    assert page.read_text() == "the one before"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
