"""Steps: long decisions pause between parts of their work, and a service does other work then.

A decision in steps is a generator that yields how large its last part was, in bids times days, and
returns the answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Steps: TypeAlias = Generator[int, None, T]

#: A part should have about so many items, which take some milliseconds.
ITEMS = 25_000


class Stepwise(Protocol, Generic[P, T_co]):
    """A function that does all steps at once; ``steps`` is the generator function."""

    steps: Callable[P, Steps[Any]]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


def stepwise(steps: Callable[P, Steps[T]]) -> Stepwise[P, T]:
    """Return the function that does all steps of a decision at once."""

    @wraps(steps)
    def whole(*args: P.args, **kwargs: P.kwargs) -> T:
        return finished(steps(*args, **kwargs))

    answer = str(steps.__annotations__["return"]).removeprefix("Steps[").removesuffix("]")
    found: Any = whole
    found.__annotations__ = {**steps.__annotations__, "return": answer}
    found.__signature__ = inspect.signature(steps).replace(return_annotation=answer)
    found.steps = steps
    return cast("Stepwise[P, T]", found)


def finished(steps: Steps[T]) -> T:
    """Do all steps, and return the answer."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)


def blocks(n: int, items_each: int) -> Iterator[slice]:
    """Yield slices of ``n`` things, each with about :data:`ITEMS` items."""
    size = max(ITEMS // items_each, 1)
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))
