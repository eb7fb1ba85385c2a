"""The client of a forecast service for programs that use ``await``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import httpx

from coterie.ads.client.connection import Call, Connection
from coterie.ads.client.question_batches import Asked, Bids, Details
from coterie.ads.decisions.decision_answers import BudgetPlan, BudgetSplit, GoalBid, TargetRanking
from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.protocol import Advertiser, AdvertiserItem, Model, Segments

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncClient(Connection[httpx.AsyncBaseTransport]):
    """Ask a forecast service as :class:`Client` does, with ``await``.

    Results and errors are those of :class:`Client`. Its methods have the parameters of the methods
    of the same name there. Tasks of one event loop can share a client.

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
    transport : httpx.AsyncBaseTransport, optional
        In place of the network.

    Examples
    --------
    >>> import asyncio
    >>> from coterie.ads import AsyncClient
    >>> async def ask():
    ...     async with AsyncClient("http://127.0.0.1:8400") as client:
    ...         return client
    >>> asyncio.run(ask())
    AsyncClient('http://127.0.0.1:8400')
    """

    _http_class = httpx.AsyncClient
    _http: httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; nothing can be asked afterwards."""
        await self._http.aclose()

    @overload
    async def forecast(
        self, advertiser: str | None = ..., bid: float = ..., **details: Unpack[Details]
    ) -> Forecast: ...
    @overload
    async def forecast(
        self, advertiser: str | None = ..., bid: Bids = ..., **details: Unpack[Details]
    ) -> list[Forecast]: ...
    async def forecast(
        self, advertiser: str | None = None, bid: Any = None, **details: Unpack[Details]
    ) -> Any:
        """Forecast at a bid, or at several; see :meth:`Client.forecast`."""
        return await self._run(self._forecast({"advertiser": advertiser, "bid": bid, **details}))

    async def forecast_many(self, questions: Iterable[Asked]) -> list[list[Forecast]]:
        """Answer many questions in few requests; see :meth:`Client.forecast_many`."""
        return [found async for found in self.forecast_each(questions)]

    async def forecast_each(self, questions: Iterable[Asked]) -> AsyncIterator[list[Forecast]]:
        """Yield what :meth:`forecast_many` returns; see :meth:`Client.forecast_each`."""
        for call in self._batches(questions):
            for found in await self._run(call):
                yield found

    async def bid_for(self, advertiser: str | None = None, **asked: Any) -> GoalBid:
        """Find the bid for a goal; see :meth:`Client.bid_for`."""
        return await self._run(self._bid(advertiser=advertiser, **asked))

    async def plan_budget(
        self, advertiser: str | None = None, budget: float | None = None, **details: Any
    ) -> BudgetPlan:
        """Find the bid that uses a budget; see :meth:`Client.plan_budget`."""
        return await self._run(self._budget(advertiser=advertiser, budget=budget, **details))

    async def rank_targets(
        self, advertiser: str | None = None, bid: float | None = None, **details: Any
    ) -> TargetRanking:
        """Rank the values of dimensions; see :meth:`Client.rank_targets`."""
        return await self._run(self._targets(advertiser=advertiser, bid=bid, **details))

    async def split_budget(
        self, budget: float | None = None, advertisers: Sequence[str] | None = None, **details: Any
    ) -> BudgetSplit:
        """Divide a budget between advertisers; see :meth:`Client.split_budget`."""
        return await self._run(self._portfolio(budget=budget, advertisers=advertisers, **details))

    async def model(self) -> Model:
        """Return the description of the model: version, currency, days, warnings."""
        return await self._run(self._get("/v1/model", Model))

    async def segments(self) -> Segments:
        """Return all segments with their curves."""
        return await self._run(self._get("/v1/segments", Segments))

    async def advertiser(self, advertiser: str) -> Advertiser:
        """Return what is known of one advertiser; see :meth:`Client.advertiser`."""
        return await self._run(self._advertiser(advertiser))

    async def advertisers(
        self, search: str = "", *, segment: int | None = None, sort: str = "", page_size: int = 100
    ) -> AsyncIterator[AdvertiserItem]:
        """Yield the advertisers of the model; see :meth:`Client.advertisers`."""
        query = {"search": search, "segment": segment, "sort": sort, "page_size": page_size}
        for call in self._advertiser_pages(query):
            for item in await self._run(call):
                yield item

    async def curves(self, segment: int | None = None) -> pa.Table:
        """Return the curves of all advertisers, or of one segment; see :meth:`Client.curves`."""
        return await self._run(self._curves(segment))

    async def is_ready(self) -> bool:
        """Return whether the service can be reached and is not stopping; asks only once."""
        return await self._run(self._ready())

    async def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return await self._run(self._ask("/metrics", bytearray.decode))

    async def _run(self, call: Call[T]) -> T:
        while True:
            try:
                step = next(call)
            except StopIteration as end:
                return end.value
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            with step:
                async with self._http.stream(**step.arguments) as response:
                    step.begin(response)
                    async for part in response.aiter_bytes():
                        step.add(part)
