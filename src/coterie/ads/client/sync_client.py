"""Client: a forecast service asked from Python, with the answers of AdForecaster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import numpy as np
from numpy.typing import ArrayLike

from coterie.ads.client.connection import Patience, ServiceConnection, in_path
from coterie.ads.client.question_batches import Batch, batches_of
from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.errors import CoterieError, InvalidParameterError, ServiceError

if TYPE_CHECKING:
    import httpx

__all__ = ["Client"]


class Client:
    """Asks a forecast service: what ``coterie ads serve`` answers, as Python objects.

    Forecasts are equal to those of :meth:`AdForecaster.forecast`, bit for bit, if the service
    has the same model. One client may be used by many threads, which share its connections.
    Where the service cannot be reached or is busy, a client asks again, after growing pauses;
    asking changes nothing there, so that is always safe.

    Parameters
    ----------
    base_url : str
    token : str, optional
        By default the environment variable ``COTERIE_TOKEN``, if it is set.
    timeout : float
        Seconds to wait for a connection, and for each next piece of an answer.
    retries : int
        Attempts after the first.
    deadline : float
        Seconds for one request with all its attempts and pauses.
    allow_plain_http : bool
        A token goes to another machine over https only, unless this is True.
    transport : httpx.BaseTransport, optional
        In place of the network; ``httpx.HTTPTransport(verify=…)`` is one with certificates of
        your own.

    Examples
    --------
    With a service at its usual place, ``client.forecast("adv-00042", 2.50, supply=1e6)`` is the
    forecast of one advertiser at one bid.

    >>> from coterie.ads import Client
    >>> with Client("http://127.0.0.1:8400") as client:
    ...     client
    Client('http://127.0.0.1:8400')
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8400",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        deadline: float = 30.0,
        allow_plain_http: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = ServiceConnection(
            base_url,
            token=token or os.environ.get("COTERIE_TOKEN") or None,
            patience=Patience(timeout=timeout, retries=retries, deadline=deadline),
            allow_plain_http=allow_plain_http,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Client({self._connection.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; nothing can be asked afterwards."""
        self._connection.close()

    def forecast(
        self,
        advertiser: str | None = None,
        bid: ArrayLike | Mapping[str, float] = 1.0,
        *,
        supply: float | None = None,
        day: str | None = None,
        days: int = 1,
        text: str | None = None,
        level: float = 0.9,
    ) -> Any:
        """Impressions, spend, clicks and conversions at a bid, or at several.

        Parameters
        ----------
        advertiser, supply, day, days, text, level
            As in :meth:`AdForecaster.forecast`.
        bid : float, array-like, or mapping
            In units of currency per thousand impressions (CPM); a mapping of ``from``, ``to``
            and ``step`` is a range.

        Returns
        -------
        Forecast, or list of Forecast
            A list where ``bid`` is one, or a range.
        """
        question = {
            "advertiser": advertiser,
            "bid": bid,
            "supply": supply,
            "day": day,
            "days": days,
            "text": text,
            "level": level,
        }
        (found,) = self._found(batches_of([question], many=False))
        return found if np.ndim(bid) or isinstance(bid, Mapping) else found[0]  # type: ignore[arg-type]

    def forecast_many(self, questions: Iterable[Mapping[str, Any]]) -> list[list[Forecast]]:
        """Return the forecasts of many questions, in few requests.

        Parameters
        ----------
        questions : iterable of mapping
            Each with the arguments of :meth:`forecast` by name; ``bid`` is required.

        Returns
        -------
        list of list of Forecast
            For each question those of its bids.
        """
        return list(self.forecast_each(questions))

    def forecast_each(self, questions: Iterable[Mapping[str, Any]]) -> Iterator[list[Forecast]]:
        """Yield the same one after the other; only one request is in memory at a time.

        Questions are taken as they are needed. If the service gets a new model meanwhile, later
        answers are from that one.
        """
        return self._found(batches_of(questions))

    def advertisers(
        self, search: str = "", *, segment: int | None = None, page_size: int = 100
    ) -> Iterator[dict[str, Any]]:
        """Return the advertisers of the model, fetched page by page as they are asked for.

        Parameters
        ----------
        search : str
            Only those whose id contains it, those that begin with it first; capitals or not.
        segment : int, optional
            Only those of the segment with this index.
        page_size : int
            1 to 100.
        """
        query: dict[str, Any] = {"search": search, "page_size": page_size}
        if segment is not None:
            query["segment"] = int(segment)
        page, pages = 1, 1
        while page <= pages:
            found = self._object(f"/v1/advertisers?{_query({**query, 'page': page})}")
            with _as_agreed():
                items, pages = found["items"], int(found["pages"])
            yield from items
            page += 1

    def advertiser(self, advertiser: str) -> dict[str, Any]:
        """Return what is known of one advertiser: segment, shares, rates, neighbours, curves."""
        try:
            return self._object(f"/v1/advertisers/{in_path(str(advertiser))}")
        except ServiceError as error:
            if error.status != 404 or error.request_id is None:
                raise
            raise InvalidParameterError(
                f"the service's model has no advertiser {str(advertiser)!r}; "
                "client.advertisers(search=…) finds those it has"
            ) from error

    def segments(self) -> dict[str, Any]:
        """All segments with their curves, and the grid of bids of these curves."""
        return self._object("/v1/segments")

    def model(self) -> dict[str, Any]:
        """Return what the service answers from: version, currency, days, numbers of things."""
        return self._object("/v1/model")

    def health(self) -> dict[str, Any]:
        """Whether it is well, its model, and the last model file that it refused."""
        return self._object("/health")

    def metrics(self) -> str:
        """Its counters, in the format of Prometheus."""
        return self._connection.answer_bytes("GET", "/metrics").decode("utf-8", "replace")

    def _object(self, path: str) -> dict[str, Any]:
        found = self._connection.answer("GET", path)
        with _as_agreed():
            return dict(found)

    def _found(self, batches: Iterable[Batch]) -> Iterator[list[Forecast]]:
        """Return the forecasts of each question, put together from the answers to its pieces."""
        found: list[Forecast] = []
        for batch in batches:
            for piece, answer in zip(batch.pieces, self._answers(batch), strict=True):
                found.extend(_forecasts_in(answer))
                if piece.last:
                    yield found
                    found = []

    def _answers(self, batch: Batch) -> list[Any]:
        """Return what the service says to each piece of a request."""
        found = self._connection.answer("POST", "/v1/forecast", batch.body, batch.placed)
        with _as_agreed():
            answers = [found] if len(batch.pieces) == 1 else list(found["answers"])
        if len(answers) != len(batch.pieces):
            raise ServiceError(
                f"the service gave {len(answers)} answers to {len(batch.pieces)} questions"
            )
        return answers


def _query(members: Mapping[str, Any]) -> str:
    try:
        return urlencode(members)
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            "search holds half of a character, and cannot be sent"
        ) from error


def _forecasts_in(answer: Any) -> list[Forecast]:
    with _as_agreed():
        shared = {
            name: answer[name] for name in ("advertiser", "supply", "level", "segment", "curve")
        }
        return [_forecast(shared, one, answer["why"]) for one in answer["forecasts"]]


def _forecast(shared: dict[str, Any], one: Mapping[str, Any], why: str) -> Forecast:
    of_clicks, of_conversions = one["clicks_interval"], one["conversions_interval"]
    return Forecast(
        **shared,
        bid=one["bid"],
        win_rate=one["win_rate"],
        cost=one["cost"],
        impressions=one["impressions"],
        impressions_interval=tuple(one["impressions_interval"]),
        spend=one["spend"],
        spend_interval=tuple(one["spend_interval"]),
        clicks=one["clicks"],
        clicks_interval=None if of_clicks is None else tuple(of_clicks),
        conversions=one["conversions"],
        conversions_interval=None if of_conversions is None else tuple(of_conversions),
        why=why + one.get("remark", ""),
    )


@contextmanager
def _as_agreed() -> Iterator[None]:
    """Turn an answer that lacks members into an error that names them."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CoterieError):
            raise
        raise ServiceError(
            "the service answered in a form that this client does not know; is base_url that of a "
            "coterie service of the same version?"
        ) from error
