"""The client of a forecast service that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import httpx

from coterie.ads.client.connection import Call, Connection
from coterie.ads.client.question_batches import Asked, Bids, Details
from coterie.ads.decisions.decision_answers import BudgetPlan, BudgetSplit, GoalBid, TargetRanking
from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.protocol import Advertiser, AdvertiserItem, Model, Segments

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Client"]

T = TypeVar("T")


class Client(Connection[httpx.BaseTransport]):
    """Ask a forecast service: what ``coterie ads serve`` answers, as Python objects.

    Forecasts are equal to those of :meth:`AdForecaster.forecast`, bit for bit, if the service has
    the same model. Many threads can use one client; they share its connections. If the service is
    busy or cannot be reached, the client asks again after growing pauses. That is always safe,
    because asking changes nothing.

    Parameters
    ----------
    base_url : str
    token : str, optional
        By default the environment variable ``COTERIE_TOKEN``, if it is set.
    timeout : float
        Seconds to wait for a connection, and for each next part of an answer.
    retries : int
        Attempts after the first.
    deadline : float
        Seconds for one request with all its attempts and pauses.
    allow_plain_http : bool
        Whether a token may go to other machines over http, too.
    transport : httpx.BaseTransport, optional
        In place of the network; ``httpx.HTTPTransport(verify=…)`` has your own certificates.

    Raises
    ------
    InvalidParameterError
        If a question is invalid; the message names the place.
    ServiceError
        If there is no answer, or another error; ``status`` and ``request_id`` tell which.

    Examples
    --------
    ``client.forecast("adv-00033", 2.50, supply=1e6)`` is the forecast of one advertiser at one bid.

    >>> from coterie.ads import Client
    >>> with Client("http://127.0.0.1:8400") as client:
    ...     client
    Client('http://127.0.0.1:8400')
    """

    _http_class = httpx.Client
    _http: httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; nothing can be asked afterwards."""
        self._http.close()

    @overload
    def forecast(
        self, advertiser: str | None = ..., bid: float = ..., **details: Unpack[Details]
    ) -> Forecast: ...
    @overload
    def forecast(
        self, advertiser: str | None = ..., bid: Bids = ..., **details: Unpack[Details]
    ) -> list[Forecast]: ...
    def forecast(
        self, advertiser: str | None = None, bid: Any = None, **details: Unpack[Details]
    ) -> Any:
        """Forecast impressions, spend, clicks and conversions at a bid, or at several.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        bid : float, sequence, or mapping
            In units of currency per thousand impressions (CPM); a mapping of ``from``, ``to`` and
            ``step`` is a range. Required.
        **details
            ``supply``, ``day``, ``days``, ``text``, ``level`` and ``where`` as in
            :meth:`AdForecaster.forecast`.

        Returns
        -------
        Forecast, or list of Forecast
            A list if ``bid`` is a sequence or a range.
        """
        return self._run(self._forecast({"advertiser": advertiser, "bid": bid, **details}))

    def forecast_many(self, questions: Iterable[Asked]) -> list[list[Forecast]]:
        """Answer many questions in few requests; return a list of forecasts for each.

        Parameters
        ----------
        questions : iterable of mapping or Question
            Each with the arguments of :meth:`forecast` by name.

        Warns
        -----
        CoterieWarning
            If the service got another model meanwhile; ``model_version`` of each forecast tells.
        """
        return list(self.forecast_each(questions))

    def forecast_each(self, questions: Iterable[Asked]) -> Iterator[list[Forecast]]:
        """Yield what :meth:`forecast_many` returns, with one request in memory at a time.

        Questions are taken when they are needed.

        Parameters
        ----------
        questions : iterable of mapping or Question
            Each with the arguments of :meth:`forecast` by name.
        """
        for call in self._batches(questions):
            yield from self._run(call)

    def bid_for(self, advertiser: str | None = None, **asked: Any) -> GoalBid:
        """Find the bid for a goal; see :func:`coterie.ads.bid_for`.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        **asked
            One of ``impressions``, ``clicks``, ``conversions`` and ``spend``, and the details of
            :meth:`forecast`.
        """
        return self._run(self._bid(advertiser=advertiser, **asked))

    def plan_budget(
        self, advertiser: str | None = None, budget: float | None = None, **details: Any
    ) -> BudgetPlan:
        """Find the bid that uses a budget, and what it buys; see :func:`coterie.ads.plan_budget`.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        budget : float
            In units of currency, for all days together. Required.
        **details
            ``bid`` and the details of :meth:`forecast`; ``days`` is 7 by default.
        """
        return self._run(self._budget(advertiser=advertiser, budget=budget, **details))

    def rank_targets(
        self, advertiser: str | None = None, bid: float | None = None, **details: Any
    ) -> TargetRanking:
        """Rank the values of dimensions; see :func:`coterie.ads.rank_targets`.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        bid : float
            In units of currency per thousand impressions (CPM). Required.
        **details
            ``dimension``, ``by`` and the details of :meth:`forecast`.
        """
        return self._run(self._targets(advertiser=advertiser, bid=bid, **details))

    def split_budget(
        self, budget: float | None = None, advertisers: Sequence[str] | None = None, **details: Any
    ) -> BudgetSplit:
        """Divide a budget between advertisers; see :func:`coterie.ads.split_budget`.

        Parameters
        ----------
        budget : float
            In units of currency. Required.
        advertisers : sequence of str, optional
            By default all of the model, or of ``segment``.
        **details
            ``segment``, ``goal``, ``day``, ``days`` and ``level``.
        """
        return self._run(self._portfolio(budget=budget, advertisers=advertisers, **details))

    def model(self) -> Model:
        """Return the description of the model: version, currency, days, warnings."""
        return self._run(self._get("/v1/model", Model))

    def segments(self) -> Segments:
        """Return all segments with their curves."""
        return self._run(self._get("/v1/segments", Segments))

    def advertiser(self, advertiser: str) -> Advertiser:
        """Return what is known of one advertiser: segment, shares, rates, neighbours, curves.

        Parameters
        ----------
        advertiser : str
        """
        return self._run(self._advertiser(advertiser))

    def advertisers(
        self, search: str = "", *, segment: int | None = None, sort: str = "", page_size: int = 100
    ) -> Iterator[AdvertiserItem]:
        """Yield the advertisers of the model; each page is fetched when it is needed.

        Parameters
        ----------
        search : str
            Part of the id, any case. Ids that begin with it come first, then by spend.
        segment : int, optional
            Only those of the segment with this index.
        sort : str
            "id", "segment", "confidence", "observations", "bid" or "spend", with a minus sign for
            the largest first. By default by the id that fits best, then by spend.
        page_size : int
            1 to 100.
        """
        query = {"search": search, "segment": segment, "sort": sort, "page_size": page_size}
        for call in self._advertiser_pages(query):
            yield from self._run(call)

    def curves(self, segment: int | None = None) -> pa.Table:
        """Return the curves of all advertisers, or of one segment, as an Arrow table.

        Columns: advertiser, segment, bid, win_rate, win_rate_low, win_rate_high, cost,
        marginal_cost, own_win_rate, segment_win_rate. The metadata of the schema has the version of
        the model and the currency.

        Parameters
        ----------
        segment : int, optional
            Only the advertisers of the segment with this index.
        """
        return self._run(self._curves(segment))

    def is_ready(self) -> bool:
        """Return whether the service can be reached and is not stopping; asks only once."""
        return self._run(self._ready())

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return self._run(self._ask("/metrics", bytearray.decode))

    def _run(self, call: Call[T]) -> T:
        while True:
            try:
                step = next(call)
            except StopIteration as end:
                return end.value
            if isinstance(step, float):
                time.sleep(step)
                continue
            with step, self._http.stream(**step.arguments) as response:
                step.begin(response)
                for part in response.iter_bytes():
                    step.add(part)
