"""Access: host names, tokens, and what the service may listen on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.access import AccessPolicy, check_access, read_tokens
from coterie.errors import InvalidParameterError

TOKEN = "a-token-that-nobody-guesses"
TOKENS = read_tokens({"COTERIE_TOKEN": TOKEN})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_token(host):
    """A service for its own machine may start as it is, and answers to its address."""
    policy = check_access(host, ["localhost"], ["127.0.0.1", "::1"])
    assert policy.token_name("") == ""
    name = f"[{host.strip('[]')}]" if ":" in host else host
    assert policy.accepts_host(f"{name}:8400")


@pytest.mark.parametrize(
    ("host", "names", "proxies"),
    [
        ("0.0.0.0", [], []),
        ("::", [], []),
        ("", [], []),
        ("192.168.1.7", [], []),
        ("localhost.example.com", [], []),
        ("::ffff:10.0.0.1", [], []),
        ("127.0.0.1", ["ads.example.com"], []),
        ("127.0.0.1", ["10.0.0.5"], []),
        ("127.0.0.1", [], ["10.0.0.5"]),
        ("127.0.0.1", [], ["0.0.0.0/0"]),
    ],
)
def test_remote_access_needs_a_token(host, names, proxies):
    """Whatever lets others in is refused without a token; the error says how to make one."""
    with pytest.raises(InvalidParameterError, match=r"COTERIE_TOKEN.*secrets\.token_urlsafe"):
        check_access(host, names, proxies)
    assert check_access(host, names, proxies, TOKENS).token_name("") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("qwertz", "6 characters, fewer than 16"),
        ("with a blank in its midst", "blank"),
        ("ü" * 16, "beyond ASCII"),
        ("nul\0" * 8, "header cannot"),
    ],
)
def test_bad_token_is_refused_and_not_shown(text, reason):
    """A token that can be guessed or that no header carries is refused at the start."""
    with pytest.raises(InvalidParameterError, match=reason) as caught:
        read_tokens({"COTERIE_TOKEN": text})
    assert text not in str(caught.value)


@given(st.binary(max_size=40))
def test_only_the_token_is_accepted(shown):
    """Nothing but the token lets in, whatever the bytes; the scheme is in any case."""
    policy = AccessPolicy(tokens=TOKENS)
    text = shown.decode("latin-1")
    assert (policy.token_name(f"Bearer {text}") is not None) == (text.strip(" ") == TOKEN)
    assert policy.token_name(text) is None
    assert policy.token_name(f"bEaReR {TOKEN}") == "COTERIE_TOKEN"
    assert policy.token_name(f"Basic {TOKEN}") is None


def test_policy_does_not_show_its_tokens():
    """A policy that is printed has neither tokens nor their hashes."""
    policy = AccessPolicy(tokens=TOKENS)
    assert TOKEN not in repr(policy)
    assert next(iter(TOKENS)).hex() not in repr(policy) and "tokens" not in repr(policy)


def test_file_has_several_tokens_with_names(tmp_path):
    """Each line is a token with or without a name; comments and empty lines do not matter."""
    file = tmp_path / "tokens"
    file.write_text(f"# ours\nteam-a {'a' * 20}\n\n{'b' * 20}  # an old one\nteam.c\t{'c' * 20}")
    policy = AccessPolicy(tokens=read_tokens({"COTERIE_TOKEN": TOKEN}, file))
    shown = ["a" * 20, "b" * 20, "c" * 20, TOKEN, "d" * 20]
    names = ["team-a", "line 4", "team.c", "COTERIE_TOKEN", None]
    assert [policy.token_name(f"Bearer {one}") for one in shown] == names


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no token"),
        (b"# only a comment\n", "no token"),
        (b"team-a short\n", "line 1 of .*fewer than 16"),
        (b"\nname and three-hidden-words\n", "line 2 of"),
        (b"\xff" * 20, "UTF-8"),
        (None, "No such file"),
    ],
)
def test_bad_token_file_is_refused_with_its_line(tmp_path, content, reason):
    """What is wrong with a file of tokens is told by line, without the token."""
    file = tmp_path / "tokens"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidParameterError, match=reason) as caught:
        read_tokens({}, file)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("localhost", True),
        ("LocalHost:1", True),
        ("localhost.:8400", True),
        ("127.0.0.1:8400", True),
        ("[::1]:8400", True),
        ("ADS.example.com:443", True),
        ("www.ads.example.com", False),
        ("example.com", False),
        ("10.0.0.1", False),
        ("localhost:8400:8400", False),
        ("localhost@evil.example", False),
        ("localhost evil.example", False),
        ("evil.example/localhost", False),
        ("[localhost]", False),
        ("::1", False),
        ("localhost:port", False),
        ("\xff", False),
        ("", False),
    ],
)
def test_host_names(host, accepted):
    """Own and allowed names are accepted with any port, and nothing that merely looks alike."""
    policy = check_access("127.0.0.1", ["Ads.Example.com"], tokens=TOKENS)
    assert policy.accepts_host(host) is accepted
    assert policy.accepts_host(host) is accepted  # also when it is remembered


def test_wildcard_accepts_addresses():
    """A service on all addresses accepts any address as host, but still no other name."""
    policy = check_access("0.0.0.0", tokens=TOKENS)
    assert policy.accepts_host("10.1.2.3:8400") and policy.accepts_host("[2001:db8::1]")
    assert policy.accepts_host("localhost")
    assert not policy.accepts_host("evil.example")


@pytest.mark.parametrize("name", ["http://ads.example.com", "a b", "ads.example.com:80", "", "-a"])
def test_allowed_host_must_be_a_name(name):
    """What cannot stand in a Host header is refused."""
    with pytest.raises(InvalidParameterError, match="--allowed-host"):
        check_access("127.0.0.1", [name], tokens=TOKENS)


@pytest.mark.parametrize("proxy", ["ads.example.com", "10.0.0.256", "10.0.0.1/8", ""])
def test_trusted_proxy_must_be_an_address(proxy):
    """A proxy is an address or a network."""
    with pytest.raises(InvalidParameterError, match="--trusted-proxy"):
        check_access("127.0.0.1", [], [proxy], TOKENS)
