"""What may be listened on, by which names, and who may ask."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.access.listening import Door, address_of, bound_socket, open_door, token_in
from coterie.errors import InvalidParameterError, ServiceError

TOKEN = b"a-token-that-nobody-guesses"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_own_machine_needs_no_token(host):
    """A service for its own machine may be started as it is."""
    door = open_door(host, ["localhost", "127.0.0.1"], ["127.0.0.1", "::1"])
    assert door.token is None
    name = f"[{host.strip('[]')}]" if ":" in host else host
    assert door.is_for(f"{name}:8400".encode())


@pytest.mark.parametrize(
    ("host", "names", "proxies"),
    [
        ("0.0.0.0", [], []),
        ("::", [], []),
        ("", [], []),
        ("192.168.1.7", [], []),
        ("ads.example.com", [], []),
        ("localhost.example.com", [], []),
        ("::ffff:10.0.0.1", [], []),
        ("127.0.0.1", ["ads.example.com"], []),
        ("127.0.0.1", ["10.0.0.5"], []),
        ("127.0.0.1", [], ["10.0.0.5"]),
        ("127.0.0.1", [], ["0.0.0.0/0"]),
    ],
)
def test_whatever_lets_others_in_needs_a_token(host, names, proxies):
    """Any way for others to ask is refused without a token, with how to make one; with one not."""
    with pytest.raises(InvalidParameterError, match=r"COTERIE_TOKEN.*secrets\.token_urlsafe"):
        open_door(host, names, proxies)
    assert open_door(host, names, proxies, TOKEN).token == TOKEN


@pytest.mark.parametrize("length", [0, 1, 15])
def test_short_token_is_refused_and_not_shown(length):
    """A token that can be guessed is refused; the message has its length alone."""
    with pytest.raises(InvalidParameterError, match=f"{length} characters") as caught:
        token_in({"COTERIE_TOKEN": "q" * length})
    assert "qq" not in str(caught.value)


@pytest.mark.parametrize("odd", ["with a blank in its midst", "nul\0" * 8, "ü" * 16, "\n" * 16])
def test_token_that_no_header_can_hold_is_refused(odd):
    """A token that clients cannot send is refused at the start, not at every request."""
    with pytest.raises(InvalidParameterError, match="header"):
        token_in({"COTERIE_TOKEN": odd})


def test_token_is_shown_nowhere():
    """A door that is printed does not show its token."""
    assert token_in({}) is None
    token = token_in({"COTERIE_TOKEN": TOKEN.decode()})
    assert token == TOKEN
    assert TOKEN.decode() not in repr(open_door("0.0.0.0", token=token))


@given(st.binary(max_size=40))
def test_token_alone_opens(shown):
    """Nothing but the token opens the door, whatever the bytes."""
    door = Door(TOKEN)
    assert door.lets_in(b"Bearer " + shown) == (shown.strip(b" ") == TOKEN)
    assert not door.lets_in(shown)
    assert door.lets_in(b"bEaReR " + TOKEN)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        (b"localhost", True),
        (b"LocalHost:1", True),
        (b"localhost.:8400", True),
        (b"127.0.0.1:8400", True),
        (b"[::1]", True),
        (b"[::1]:8400", True),
        (b"ads.example.com", True),
        (b"ADS.example.com:443", True),
        (b"www.ads.example.com", False),
        (b"example.com", False),
        (b"10.0.0.1", False),
        (b"localhost:8400:8400", False),
        (b"localhost@evil.example", False),
        (b"localhost evil.example", False),
        (b"evil.example/localhost", False),
        (b"[localhost]", False),
        (b"::1", False),
        (b"localhost:port", False),
        (b"\xff", False),
        (b"", False),
    ],
)
def test_names_of_the_service(host, known):
    """Its own names and those allowed are known, with any port; nothing that merely looks alike."""
    door = open_door("127.0.0.1", ["Ads.Example.com"], token=TOKEN)
    assert door.is_for(host) is known
    assert door.is_for(host) is known


def test_listening_on_all_addresses_any_address_will_do():
    """On all addresses a probe may ask by address; a name must still be an allowed one."""
    door = open_door("0.0.0.0", token=TOKEN)
    assert door.is_for(b"10.1.2.3:8400")
    assert door.is_for(b"[2001:db8::1]:8400")
    assert door.is_for(b"localhost")
    assert not door.is_for(b"evil.example")


def test_names_that_are_remembered_are_few():
    """A client cannot fill the memory with spellings of a name that is known."""
    door = Door()
    for port in range(3_000):
        assert door.is_for(b"localhost:%d" % port)
    assert len(door._known) <= 1_000


@pytest.mark.parametrize("name", ["http://ads.example.com", "a b", "ads.example.com:80", "", "-a"])
def test_allowed_host_must_be_a_name(name):
    """What cannot stand in a Host header is refused."""
    with pytest.raises(InvalidParameterError, match="--allowed-host"):
        open_door("127.0.0.1", [name], token=TOKEN)


@pytest.mark.parametrize("proxy", ["ads.example.com", "10.0.0.256", "10.0.0.1/8", ""])
def test_trusted_proxy_must_be_an_address(proxy):
    """A proxy is an address or a network; what is neither is refused."""
    with pytest.raises(InvalidParameterError, match="--trusted-proxy"):
        open_door("127.0.0.1", [], [proxy], TOKEN)


@pytest.mark.parametrize(
    ("address", "forwarded", "client"),
    [
        ("198.51.100.1", [b"203.0.113.9"], "198.51.100.1"),
        ("10.0.0.5", [], "10.0.0.5"),
        ("10.0.0.5", [b"203.0.113.9"], "203.0.113.9"),
        ("10.0.0.5", [b"6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.5", [b"6.6.6.6", b"203.0.113.9"], "203.0.113.9"),
        ("10.0.0.5", [b"203.0.113.9, 10.0.0.7"], "203.0.113.9"),
        ("10.0.0.5", [b"203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.5", [b"nonsense"], "10.0.0.5"),
        ("10.0.0.5", [b"10.0.0.6"], "10.0.0.6"),
        ("::ffff:10.0.0.5", [b"203.0.113.9"], "203.0.113.9"),
        ("10.0.0.5", [b"[2001:db8:1:2:3::4]:99"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", [b"203.0.113.9"], "2001:db8:1:2::/64"),
        ("", [], ""),
    ],
)
def test_client_is_told_apart_as_far_as_proxies_are_trusted(address, forwarded, client):
    """What a trusted proxy says of its client is believed, and what a client says is not."""
    door = Door(proxies=(ipaddress.ip_network("10.0.0.0/28"),))
    assert door.client_of(address, forwarded) == client


@given(st.ip_addresses().map(str), st.lists(st.binary(max_size=20), max_size=3))
def test_without_proxies_headers_do_not_matter(address, forwarded):
    """Where no proxy is trusted, nobody can pass for another."""
    assert Door().client_of(address, forwarded) == Door().client_of(address, [])


def test_taken_port_is_told_at_once():
    """A port that another holds is refused by its number, with what to do."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServiceError, match=f"port {port} is taken; choose another"):
            bound_socket("127.0.0.1", port)


def test_host_of_another_machine_is_refused():
    """What is no address of this machine cannot be listened on."""
    with pytest.raises(ServiceError, match=r"192\.0\.2\.1 is no address of this machine"):
        bound_socket("192.0.2.1", 0)


def test_host_that_nobody_knows_is_refused(monkeypatch):
    """A name without an address cannot be listened on, and is told."""

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ServiceError, match=r"cannot listen on nowhere\.example: Name or service"):
        bound_socket("nowhere.example", 0)


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_address_is_as_a_browser_takes_it(host, shown):
    """The address that is told has the port that the system chose, and brackets in IPv6."""
    try:
        bound = bound_socket(host, 0)
    except ServiceError:
        pytest.skip("this machine has no IPv6")
    with bound:
        assert address_of(bound) == f"http://{shown}:{bound.getsockname()[1]}"
