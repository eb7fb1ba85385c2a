"""The routes: each answers what it says, and whatever is wrong is a problem."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from coterie.ads.service.models.model_holder import Refusal
from coterie.ads.service.models.served_model import ServedModel
from fitted_models import HOSTILE_IDS
from service_calls import Service, advertiser_path, served, service

GETS = ["/health", "/metrics", "/openapi.json", "/v1/model", "/v1/segments", "/v1/advertisers"]
TAGGED = ["/v1/model", "/v1/segments", "/v1/advertisers", "/v1/advertisers/adv-00023"]


class TestHealth:
    def test_tells_the_model_of_now(self):
        """Whoever may ask learns which model answers, and that none was refused."""
        told = service().get("/health").json
        assert told["status"] == "ok"
        assert told["model"]["version"] == "0123456789ab"
        assert told["model"]["advertisers"] == 60
        assert datetime.fromisoformat(told["model"]["loaded_at"]).tzinfo is not None
        assert told["last_refusal"] is None

    def test_tells_a_refusal(self):
        """The last model file that was refused is told, with the reason and the time."""
        fresh = Service(served())
        fresh.holder.last_refusal = Refusal(datetime(2026, 3, 9, tzinfo=UTC), "it is cut short")
        told = fresh.get("/health").json["last_refusal"]
        assert told == {"at": "2026-03-09T00:00:00+00:00", "reason": "it is cut short"}

    def test_tells_strangers_that_it_lives_and_no_more(self):
        """Without the token, where one is needed, only the sign of life is given."""
        reply = service().get("/health", state={"authorised": False})
        assert reply.json == {"status": "ok"}


class TestModel:
    def test_model_and_segments(self):
        """The model and its segments are those of the profile book."""
        model = service().get("/v1/model").json
        assert model["name"] == "market.coterie"
        assert model["segments"] == len(served().model.segments_)
        told = service().get("/v1/segments").json
        assert told["grid"] == model["grid"] == served().book.grid
        assert told["segments"] == served().book.segments()

    def test_levels_and_warnings(self):
        """The model tells the levels of intervals, how days are weighted, and its warnings."""
        changed = copy.copy(served().model)
        changed.warnings_ = ["prices rose by 30% from 2026-03-12 on"]
        changed.choice_ = replace(changed.choice_, half_life=7.0)
        told = Service(ServedModel(changed, "0", "market.coterie")).get("/v1/model").json
        assert told["warnings"] == changed.warnings_
        assert told["half_life"] == 7.0
        assert told["interval"] in told["interval_levels"] == [0.5, 0.8, 0.9, 0.95]
        plain = service().get("/v1/model").json
        assert plain["warnings"] == []
        assert len(plain["weekdays_seen"]) == 7

    @pytest.mark.parametrize("target", TAGGED)
    def test_an_answer_that_the_client_has_is_not_sent_again(self, target):
        """If-None-Match with the tag of the model gives 304, and with another the answer."""
        reply = service().get(target)
        tag = reply.headers["etag"]
        assert reply.headers["cache-control"] == "no-cache"
        for held in (tag, f'"other", W/{tag}', "*"):
            again = service().get(target, headers={"If-None-Match": held})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        other = service().get(target, headers={"If-None-Match": '"other"'})
        assert (other.status, other.body) == (200, reply.body)


class TestAdvertisers:
    def test_are_found_by_a_part_of_their_id(self):
        """The search is that of the model, and the total counts all that is found."""
        told = service().get("/v1/advertisers?search=ADV-0002&page_size=3").json
        assert (told["page"], told["total"], len(told["items"])) == (1, 10, 3)
        assert all(item["id"].startswith("adv-0002") for item in told["items"])

    def test_of_a_segment(self):
        """Only advertisers of the segment are given, and all of them."""
        told = service().get("/v1/advertisers?segment=1&page_size=100").json
        assert told["total"] == served().model.segments_[1].size
        assert {item["segment"] for item in told["items"]} == {1}

    def test_without_a_search_are_all_and_those_that_spend_most_come_first(self):
        """Pages follow one another through all advertisers."""
        found = []
        for page in range(1, 5):
            told = service().get(f"/v1/advertisers?page={page}&page_size=17").json
            assert (told["pages"], told["total"]) == (4, 60)
            found += [item["id"] for item in told["items"]]
        spend = dict(zip(served().model.advertisers_, served().model.cost_, strict=True))
        assert sorted(found) == sorted(spend)
        assert [spend[name] for name in found] == sorted(spend.values(), reverse=True)

    @pytest.mark.parametrize(
        ("query", "at", "most"),
        [
            ("page=0", "page", "1,000,000,000"),
            ("page=x", "page", "1,000,000,000"),
            ("page_size=101", "page_size", "100"),
            ("segment=-1", "segment", "1,000,000,000"),
            (f"search={'a' * 1025}", "search", "1,024"),
        ],
    )
    def test_a_query_that_makes_no_sense_is_a_fault(self, query, at, most):
        """The fault names the parameter, and says what it may be."""
        reply = service().get(f"/v1/advertisers?{query}")
        [(place, what)] = reply.faults
        assert place == at and most in what
        assert reply.problem["detail"] == f"{at}: {what}"

    @pytest.mark.parametrize("name", [*HOSTILE_IDS, "adv-00023"])
    def test_is_found_by_its_id_whatever_that_holds(self, name):
        """An id may hold slashes, quotes and any script."""
        told = service().get(advertiser_path(name)).json
        assert told["id"] == name
        row = served().tables.row_of[name]
        assert told == served().book.advertiser(row)

    def test_every_item_is_a_part_of_the_detail(self):
        """The list and the single advertiser tell the same."""
        for item in service().get("/v1/advertisers?page_size=100").json["items"]:
            detail = served().book.advertiser(served().tables.row_of[item["id"]])
            assert item == {name: detail[name] for name in item}

    @pytest.mark.parametrize("path", ["nobody", "", "a/b", "a%0Ab", "..%2F..%2Fetc", "%FF"])
    def test_that_nobody_has_is_not_found(self, path):
        """An id that the model does not know gives 404, whatever it looks like."""
        reply = service().get(f"/v1/advertisers/{path}")
        assert reply.status == 404
        assert "no advertiser" in reply.problem["detail"]


class TestProblems:
    @pytest.mark.parametrize("path", ["/v2/model", "/v1/model/", "/docs", "/redoc", "/%00", "//"])
    def test_nothing_is_at_other_paths(self, path):
        """A path that is none of ours gives 404; there is no page that loads from elsewhere."""
        reply = service().get(path)
        assert reply.status == 404
        assert reply.problem["title"] == "Not Found"

    @pytest.mark.parametrize("path", GETS)
    @pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "PROPFIND"])
    def test_other_methods_are_refused_with_those_that_are_not(self, path, method):
        """405 names the methods in Allow."""
        reply = service().ask(method, path)
        assert reply.status == 405
        assert reply.headers["allow"] == "GET, HEAD"
        assert reply.problem["detail"]

    def test_forecasts_are_asked_for_by_post(self):
        """A GET of the forecast is refused, and POST named."""
        reply = service().get("/v1/forecast")
        assert (reply.status, reply.headers["allow"]) == (405, "POST")

    @pytest.mark.parametrize("path", [*GETS, "/v1/advertisers/adv-00023", "/nowhere"])
    def test_head_gives_the_headers_of_get(self, path):
        """HEAD has the status and headers of GET, the length too, and no body."""
        get, head = service().get(path), service().ask("HEAD", path)
        assert head.body == b""
        assert (head.status, head.headers) == (get.status, get.headers)

    def test_a_defect_shows_nothing_of_itself(self):
        """An error that nobody foresaw is a problem of status 500, and raised to the gate."""
        fresh = Service(served())
        fresh.holder.current = None
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/v1/model", "headers": []}
        scope |= {"query_string": b"", "state": {"request_id": "r-1"}}
        with pytest.raises(AttributeError):
            asyncio.run(fresh.app(scope, None, send))
        assert sent[0]["status"] == 500
        assert b"Attribute" not in sent[1]["body"]
        assert b"r-1" in sent[1]["body"]
