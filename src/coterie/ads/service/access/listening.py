"""What may be listened on, by which names it may be asked for, and who may ask.

A service on a loopback address is for the people and programs of its own machine. Whatever lets
others in, another address, a name beyond the machine or a proxy elsewhere, needs a token.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.errors import InvalidParameterError, ServiceError

__all__ = ["Door", "address_of", "bound_socket", "open_door", "token_in"]

TOKEN_VARIABLE = "COTERIE_TOKEN"
_TOKEN_CHARS = 16
_MAKE_ONE = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\s]+)(:\d{0,5})?")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*")
_MOST_REMEMBERED = 1_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Door:
    """Who may ask a service, and by which names."""

    # what a client must show; none where nobody needs to
    token: bytes | None = field(default=None, repr=False)
    # hosts by which the service may be asked for: lower case, without a port or brackets
    names: frozenset[str] = frozenset(_LOOPBACK_NAMES)
    # whether any IP address will do as a host: no page elsewhere can borrow one as it can a name
    any_address: bool = False
    proxies: tuple[Network, ...] = ()  # from which X-Forwarded-For is believed
    _known: set[bytes] = field(default_factory=set, repr=False, compare=False)

    def is_for(self, host: bytes) -> bool:
        """Whether a ``Host`` header names this service; the port in it does not matter.

        >>> Door().is_for(b"LOCALHOST:8400"), Door().is_for(b"evil.example:8400")
        (True, False)
        """
        if host in self._known:
            return True
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        name = found[1].strip("[]").removesuffix(".") if found else ""
        known = name in self.names or (self.any_address and _address(name) is not None)
        if known and len(self._known) < _MOST_REMEMBERED:
            self._known.add(host)
        return known

    def lets_in(self, authorization: bytes | None) -> bool:
        """Whether an ``Authorization`` header shows the token, or none is needed.

        >>> Door(b"a-token-of-16-chars").lets_in(b"bearer a-token-of-16-chars")
        True
        """
        if self.token is None:
            return True
        scheme, _, shown = (authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(b" "), self.token)

    def client_of(self, address: str, forwarded: Sequence[bytes]) -> str:
        """Who asks, for counting alone: an address, or the network of one in IPv6.

        ``X-Forwarded-For`` headers are believed as far as known proxies wrote them, from the right.

        >>> door = Door(proxies=(ipaddress.ip_network("127.0.0.1/32"),))
        >>> door.client_of("127.0.0.1", [b"6.6.6.6, 192.0.2.7"]), door.client_of("8.8.8.8", [])
        ('192.0.2.7', '8.8.8.8')
        """
        if not self.proxies and ":" not in address:
            return address
        seen = _address(address)
        hops = b",".join(forwarded).decode("latin-1").split(",")
        while seen is not None and hops and self._trusts(seen):
            before = _address(_without_port(hops.pop().strip()))
            if before is None:
                break
            seen = before
        return address if seen is None else _counted_as(seen)

    def is_proxy(self, address: str) -> bool:
        """Whether an address is that of a proxy whose word is taken."""
        if not self.proxies:
            return False
        seen = _address(address)
        return seen is not None and self._trusts(seen)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self.proxies)


def token_in(environment: Mapping[str, str]) -> bytes | None:
    """Return the token in the variable ``COTERIE_TOKEN``; none where it is not set.

    No message shows it.
    """
    text = environment.get(TOKEN_VARIABLE)
    if text is None:
        return None
    if len(text) < _TOKEN_CHARS:
        raise InvalidParameterError(
            f"{TOKEN_VARIABLE} has {len(text)} characters, fewer than {_TOKEN_CHARS}; "
            f"make one with {_MAKE_ONE}"
        )
    if not all("!" <= c <= "~" for c in text):
        raise InvalidParameterError(
            f"{TOKEN_VARIABLE} holds a blank or a character beyond ASCII, which a header cannot; "
            f"make one with {_MAKE_ONE}"
        )
    return text.encode("ascii")


def open_door(
    host: str,
    allowed_hosts: Sequence[str] = (),
    trusted_proxies: Sequence[str] = (),
    token: bytes | None = None,
) -> Door:
    """Return the door of a service, unless it would let in people who need not show a token.

    Parameters
    ----------
    host : str
        What is listened on: an address or a name.
    allowed_hosts : sequence of str
        Further names by which the service may be asked for, as behind a proxy.
    trusted_proxies : sequence of str
        Addresses or networks whose word is taken on who asks.
    token : bytes, optional
    """
    names = [_checked_name(name) for name in allowed_hosts]
    proxies = tuple(_checked_network(proxy) for proxy in trusted_proxies)
    listened = host.strip("[]").lower()
    beyond = [f"--host {host}"] if not _is_loopback(listened) else []
    beyond += [f"--allowed-host {name}" for name in names if not _is_loopback(name)]
    beyond += [f"--trusted-proxy {proxy}" for proxy in proxies if not proxy.is_loopback]
    if beyond and token is None:
        raise InvalidParameterError(
            f"{beyond[0]} lets others than this machine ask, so a token is needed: "
            f"set {TOKEN_VARIABLE} to one, made with {_MAKE_ONE}"
        )
    address = _address(listened)
    wildcard = address is not None and address.is_unspecified
    own = [] if wildcard else [listened]
    return Door(token, frozenset([*_LOOPBACK_NAMES, *own, *names]), wildcard, proxies)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that has its port but does not listen yet; 0 is a port the system chooses."""
    name = host.strip("[]")
    try:
        family, address = _resolved(name, port)
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ServiceError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        # without it the port of a service that was killed stays taken for a minute
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise cannot_listen(host, port, error) from error
    return bound


def cannot_listen(host: str, port: int, error: OSError) -> ServiceError:
    """Return what to tell of a port that cannot be listened on."""
    what = {
        errno.EADDRINUSE: f"port {port} is taken; choose another with --port",
        errno.EACCES: f"port {port} is not for everyone; choose one above 1023 with --port",
        errno.EADDRNOTAVAIL: f"{host} is no address of this machine; choose another with --host",
    }
    told = what.get(error.errno or 0, error.strerror or str(error))
    return ServiceError(f"cannot listen on {host}: {told}")


def address_of(bound: socket.socket) -> str:
    """Return the address of a socket, as a browser takes it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolved(name: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Return what a name stands for, in IPv4 where it can be."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, address


def _is_loopback(name: str) -> bool:
    """Whether a name or address is that of this machine, wherever it is asked."""
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


def _address(text: str) -> Address | None:
    """Return the address in a text; one of IPv4 that is written as one of IPv6 is one of IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def _counted_as(address: Address) -> str:
    """Return an address; for IPv6 its network of 64 bits, as clients have many addresses."""
    if address.version == 4 or address.is_loopback:
        return str(address)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def _without_port(hop: str) -> str:
    """Return the address in ``192.0.2.7:4711`` and ``[2001:db8::1]:4711``."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _checked_name(name: str) -> str:
    given = name.lower().removesuffix(".")
    if _address(given.strip("[]")) is not None:
        return given.strip("[]")
    if not _NAME.fullmatch(given):
        raise InvalidParameterError(
            f"--allowed-host {name!r} is no host; write a name such as ads.example.com, "
            "without http:// and without a port"
        )
    return given


def _checked_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidParameterError(
            f"--trusted-proxy {text!r} is no address; write one such as 10.0.0.5, "
            "or a network such as 10.0.0.0/24"
        ) from error
