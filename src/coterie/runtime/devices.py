"""What the machine has (cores, free memory, a GPU), and running row blocks on all cores."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from coterie.errors import InvalidParameterError

__all__ = [
    "available_memory",
    "check_device",
    "for_row_blocks",
    "gpu_memory",
    "gpu_obstacle",
    "map_in_threads",
    "n_threads",
    "on_one_thread",
    "readable_bytes",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

_DEVICES = ("auto", "cpu", "cuda")


def check_device(device: str) -> None:
    """Refuse a device of another name than "auto", "cpu" or "cuda".

    >>> check_device("tpu")
    Traceback (most recent call last):
    ...
    coterie.errors.InvalidParameterError: device='tpu': it may be 'auto', 'cpu' or 'cuda'
    """
    if device not in _DEVICES:
        raise InvalidParameterError(f"device={device!r}: it may be 'auto', 'cpu' or 'cuda'")


@functools.cache
def gpu_obstacle() -> str:
    """Why no GPU can be used, in a sentence; empty if one can.

    Looking takes the seconds that importing PyTorch takes, once.
    """
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed (pip install 'coterie[gpu]')"
    import torch

    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no CUDA device"
    return ""


def gpu_memory() -> int:
    """Bytes that are free on the GPU, what PyTorch holds without using it among them."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def n_threads() -> int:
    """Threads for the compiled kernels: ``COTERIE_NUM_THREADS``, else the cores we may use."""
    wanted = os.environ.get("COTERIE_NUM_THREADS", "")
    if wanted:
        if not wanted.isdecimal() or int(wanted) < 1:
            raise InvalidParameterError(
                f"COTERIE_NUM_THREADS is {wanted!r}; it must be a number from 1 up, or unset"
            )
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_row_blocks(work: Callable[[int, int, int], None], n_rows: int, at_least: int = 64) -> None:
    """Call ``work(block, start, stop)`` over all rows, one block a thread.

    The kernels release the interpreter's lock, so plain threads use all cores, in any
    process a user may run them in. Which rows form a block depends on ``n_rows`` and the
    number of threads alone, so a result does not vary from run to run.
    """
    blocks = list(_row_blocks(n_rows, min(n_threads(), max(1, n_rows // at_least))))
    if len(blocks) == 1:
        work(0, 0, n_rows)
        return
    with ThreadPoolExecutor(len(blocks)) as pool:
        running = [pool.submit(work, b, start, stop) for b, (start, stop) in enumerate(blocks)]
        for block in running:
            block.result()


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``[function(item) for item in items]`` on all cores, in order."""
    if len(items) <= 1 or n_threads() == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(n_threads(), len(items))) as pool:
        return list(pool.map(function, items))


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Keep BLAS and OpenMP to one thread: small products lose more to hand-overs than they gain.

    It also makes sums independent of how many cores there are.
    """
    with _thread_pools().limit(limits=1):
        yield


def available_memory() -> int:
    """Bytes that can be allocated now: free memory, or what the container still allows."""
    limits = [_free_memory()]
    allowed, used = (
        _number_in(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current")
    )
    if allowed is not None and used is not None:
        limits.append(allowed - used)
    return max(0, min(limits))


def readable_bytes(n: float) -> str:
    """A size a person can read.

    >>> readable_bytes(3.2e9)
    '3.2 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 999.95:  # 999.96 would be shown as 1000.0
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


@functools.cache
def _thread_pools() -> ThreadpoolController:
    """The process's thread pools; looking for them takes milliseconds, so it is done once."""
    return ThreadpoolController()


def _row_blocks(n_rows: int, n_blocks: int) -> Iterator[tuple[int, int]]:
    edges = [n_rows * b // n_blocks for b in range(n_blocks + 1)]
    yield from itertools.pairwise(edges)


def _free_memory() -> int:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    # other systems do not tell what is free: half of what there is, to be careful
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
