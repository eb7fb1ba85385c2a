"""Cores, free memory and GPU of this machine, and functions that run work on all cores."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from coterie.errors import InvalidParameterError
from coterie.runtime.imports import install_command, missing_packages

Item = TypeVar("Item")
Result = TypeVar("Result")

_ONE_THREAD_UP_TO = 5_000


def check_device(device: str) -> None:
    if device not in ("auto", "cpu", "cuda"):
        raise InvalidParameterError(f"device={device!r} is unknown; use 'auto', 'cpu' or 'cuda'")


@functools.cache
def gpu_obstacle() -> str:
    """Return why no GPU can be used, or an empty text; the first call imports PyTorch: seconds."""
    if missing := missing_packages(("torch", "triton")):
        return f"{' and '.join(missing)} not installed ({install_command('gpu')})"
    import torch

    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no CUDA device"
    return ""


def gpu_memory() -> int:
    """Return the free bytes of the GPU, including memory that PyTorch reserves but does not use."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def n_threads() -> int:
    """Return ``COTERIE_NUM_THREADS`` if it is set, else the number of cores of this process."""
    setting = os.environ.get("COTERIE_NUM_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise InvalidParameterError(
                f"COTERIE_NUM_THREADS is {setting!r}; set it to a whole number ≥ 1, or unset it"
            )
        return int(setting)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_row_blocks(
    work: Callable[[int, int], Result], n_rows: int, at_least: int = 64
) -> list[Result]:
    """Return ``work(start, stop)`` of consecutive row blocks, one block per thread, in order.

    A block has at least ``at_least`` rows if there are several. Compiled kernels release Python's
    global lock. Blocks depend only on the arguments and the number of threads.
    """
    n_blocks = min(n_threads(), max(1, n_rows // at_least))
    edges = [n_rows * b // n_blocks for b in range(n_blocks + 1)]
    return map_in_threads(lambda block: work(*block), list(itertools.pairwise(edges)))


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return ``[function(item) for item in items]``, computed on all cores."""
    items = list(items)
    if len(items) <= 1 or n_threads() == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(n_threads(), len(items))) as pool:
        return list(pool.map(function, items))


@contextlib.contextmanager
def on_one_thread(n_rows: int = 0) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread: small products are faster, sums the same everywhere.

    With more than 5,000 rows, several threads pay, and there is no limit.
    """
    with _thread_pools().limit(limits=1 if n_rows <= _ONE_THREAD_UP_TO else None):
        yield


def available_memory() -> int:
    """Return the free memory in bytes, within the memory limit of the container if there is one."""
    # systems without this file report only the total memory; half of it is a cautious estimate
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    allowed, used = (
        _number_in(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current")
    )
    if allowed is not None and used is not None:
        free = min(free, allowed - used)
    return max(0, free)


def readable_bytes(n: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 999.95:  # 999.96 would be shown as 1000.0
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


@functools.cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of the process; finding them takes milliseconds."""
    return ThreadpoolController()


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
