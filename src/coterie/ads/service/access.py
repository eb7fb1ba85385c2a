"""Access to the service: its settings, host names and tokens.

On a loopback address without other host names or outside proxies, no token is needed. Otherwise one
is required.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coterie.ads.protocol import Limits
from coterie.errors import InvalidParameterError

TOKEN_VARIABLE = "COTERIE_TOKEN"
_LEAST_CHARS = 16
_MAKE_ONE = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\s]+)(:\d{0,5})?")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*")
_TOKEN_LINE = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,64})[ \t]+)?(?P<token>\S+)")


@dataclass(frozen=True)
class ServiceSettings:
    """What to serve, where, and for whom."""

    model: Path  # a model file of ``coterie ads segment``
    host: str = "127.0.0.1"
    port: int = 8400  # 0 is chosen by the system
    workers: int = 1  # processes that share the port
    allowed_hosts: tuple[str, ...] = ()  # these two: see check_access
    trusted_proxies: tuple[str, ...] = ()
    token_file: Path | None = None  # tokens, one a line; read again by a reload
    watch: bool = True  # whether a replaced model file is loaded without a signal
    # how long SIGTERM leaves the service listening while /health/ready fails
    drain_seconds: float = 2.0
    log_format: Literal["text", "json"] = "text"
    quiet: bool = False  # whether the log has only requests that the service failed on (5xx)
    traces: bool = False  # whether to send OpenTelemetry traces
    limits: Limits = field(default_factory=Limits)


@dataclass
class AccessPolicy:
    """Who may ask: by which host names, and with which tokens."""

    names: frozenset[str] = frozenset(_LOOPBACK_NAMES)  # lower case, without ports or brackets
    any_address: bool = False  # whether each IP address is accepted as a host
    # the name of each token by its SHA-256, which takes the same time to look up for every wrong
    # token; empty if none is needed; may be replaced while the service runs
    tokens: Mapping[bytes, str] = field(default_factory=dict, repr=False)

    def accepts_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this service; its port does not matter."""
        match = _HOST.fullmatch(host.lower())
        name = match[1].strip("[]").removesuffix(".") if match else ""
        return name in self.names or (self.any_address and _address(name) is not None)

    def token_name(self, authorization: str) -> str | None:
        """Return the name of the token in a header: None if it is wrong, "" if none is needed."""
        if not self.tokens:
            return ""
        scheme, _, shown = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self.tokens.get(_hashed(shown.strip(" ")))


def policy_of(settings: ServiceSettings) -> AccessPolicy:
    """Return who may ask; an error if other machines could do so without a token."""
    tokens = read_tokens(os.environ, settings.token_file)
    return check_access(settings.host, settings.allowed_hosts, settings.trusted_proxies, tokens)


def read_tokens(environment: Mapping[str, str], file: Path | None = None) -> dict[bytes, str]:
    """Return the tokens of a file and of the variable ``COTERIE_TOKEN``, each with its name.

    A line of the file is a token, or a name and a token; ``#`` begins a comment. Messages never
    show a token.
    """
    tokens: dict[bytes, str] = {}
    if text := environment.get(TOKEN_VARIABLE):
        tokens[_checked_token(text, TOKEN_VARIABLE)] = TOKEN_VARIABLE
    if file is None:
        return tokens
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InvalidParameterError(f"cannot read the tokens in {file}: {reason}") from error
    for number, line in enumerate(lines, 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        place = f"line {number} of {file}"
        parts = _TOKEN_LINE.fullmatch(content)
        if parts is None:
            raise InvalidParameterError(f"{place} is not a token, or a name and a token")
        tokens[_checked_token(parts["token"], place)] = parts["name"] or f"line {number}"
    if not tokens:
        raise InvalidParameterError(f"{file} has no token; write one, made with {_MAKE_ONE}")
    return tokens


def check_access(
    host: str,
    allowed_hosts: Sequence[str] = (),
    trusted_proxies: Sequence[str] = (),
    tokens: Mapping[bytes, str] | None = None,
) -> AccessPolicy:
    """Return the policy of a service; refuse one that other machines could reach without a token.

    ``host`` is the address or name to listen on. ``allowed_hosts`` are further host names, as
    behind a proxy. ``trusted_proxies`` are addresses or networks whose ``X-Forwarded-For`` is
    believed. ``tokens`` are those of :func:`read_tokens`.
    """
    names = [_checked_name(name) for name in allowed_hosts]
    proxies = [_checked_network(proxy) for proxy in trusted_proxies]
    listened = host.strip("[]").lower()
    beyond = [f"--host {host}"] if not _is_loopback(listened) else []
    beyond += [f"--allowed-host {name}" for name in names if not _is_loopback(name)]
    beyond += [f"--trusted-proxy {proxy}" for proxy in proxies if not proxy.is_loopback]
    if beyond and not tokens:
        raise InvalidParameterError(
            f"{beyond[0]} lets other machines in, so a token is needed: set {TOKEN_VARIABLE}, "
            f"or write tokens to a file and give --token-file; make one with {_MAKE_ONE}"
        )
    address = _address(listened)
    wildcard = address is not None and address.is_unspecified
    own = [] if wildcard else [listened]
    return AccessPolicy(frozenset([*_LOOPBACK_NAMES, *own, *names]), wildcard, dict(tokens or {}))


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _checked_token(text: str, place: str) -> bytes:
    if len(text) < _LEAST_CHARS:
        raise InvalidParameterError(
            f"the token in {place} has {len(text)} characters, fewer than {_LEAST_CHARS}; "
            f"make one with {_MAKE_ONE}"
        )
    if not all("!" <= c <= "~" for c in text):
        raise InvalidParameterError(
            f"the token in {place} has a blank or a character beyond ASCII, which a header cannot "
            f"carry; make one with {_MAKE_ONE}"
        )
    return _hashed(text)


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


def _address(text: str) -> Address | None:
    """Return the IP address in a text; IPv4 if it is written as IPv6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _checked_name(name: str) -> str:
    given = name.lower().removesuffix(".")
    if _address(given.strip("[]")) is not None:
        return given.strip("[]")
    if not _NAME.fullmatch(given):
        raise InvalidParameterError(
            f"--allowed-host {name!r} is not a host name; write one such as ads.example.com, "
            "without http:// and without a port"
        )
    return given


def _checked_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidParameterError(
            f"--trusted-proxy {text!r} is not an address; write one such as 10.0.0.5, "
            "or a network such as 10.0.0.0/24"
        ) from error
