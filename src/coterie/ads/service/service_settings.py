"""Settings of a service, as the command line gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from coterie.ads.protocol import Limits
from coterie.ads.service.request_logs import LogFormat

__all__ = ["DETAILS", "METRICS_FOLDER_VARIABLE", "ServiceSettings"]

#: If set before prometheus_client is imported, workers keep their metrics in files of this folder.
METRICS_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

#: How the names of threads begin that compile and make details while the service starts.
DETAILS = "coterie-details"


@dataclass(frozen=True)
class ServiceSettings:
    """What to serve, where, and for whom.

    Attributes
    ----------
    model : Path
        A model file of ``coterie ads segment``.
    host, port
        What to listen on; port 0 is chosen by the system.
    workers : int
        Number of processes that share the port.
    allowed_hosts, trusted_proxies : tuple of str
        See :func:`~coterie.ads.service.access.check_access`.
    token_file : Path, optional
        Tokens, one a line; read again by a reload.
    watch : bool
        Whether a replaced model file is loaded without a signal.
    drain_seconds : float
        How long SIGTERM leaves the service listening while ``/health/ready`` fails.
    log_format : {"text", "json"}
    quiet : bool
        Whether the log leaves out requests other than those the service failed on (5xx).
    traces : bool
        Whether to send OpenTelemetry traces.
    limits : Limits
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 8400
    workers: int = 1
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    token_file: Path | None = None
    watch: bool = True
    drain_seconds: float = 2.0
    log_format: LogFormat = "text"
    quiet: bool = False
    traces: bool = False
    limits: Limits = field(default_factory=Limits)
