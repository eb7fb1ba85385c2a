"""The real service when things go wrong around it: files, clients, signals, load."""

from __future__ import annotations

import asyncio
import json
import resource
import secrets
import shutil
import signal
import socket
import threading

import pytest

from coterie import save_model
from coterie.ads.service.models.served_model import file_version
from fitted_models import small_model, textless_model
from running_service import PATIENCE, running_service, wait_until

QUESTION = {"advertiser": "adv-00010", "bid": 2.5}
CONNECTIONS = 1_000


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two sound model files; nobody may write to them."""
    folder = tmp_path_factory.mktemp("models")
    save_model(small_model(), folder / "one.coterie")
    save_model(textless_model(), folder / "other.coterie")
    return folder / "one.coterie", folder / "other.coterie"


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service that all tests here share; each leaves it with a sound model."""
    folder = tmp_path_factory.mktemp("service")
    shutil.copy(models[0], folder / "market.coterie")
    with running_service(folder / "market.coterie", folder) as running:
        yield running


def _put(source, service):
    """Put another file in the place of the model's, in one step, and have it loaded."""
    beside = service.model.with_suffix(".new")
    shutil.copy(source, beside)
    beside.replace(service.model)
    service.signal(signal.SIGHUP)


def _health(client):
    return client.get("/health").raise_for_status().json()


def test_broken_model_is_refused_and_the_old_one_stays(service, models, tmp_path):
    """A damaged file is not taken: the model stays, health says why, and a sound file heals it."""
    whole = models[1].read_bytes()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(whole[: len(whole) // 2])
    with service.client() as client:
        before = _health(client)["model"]["version"]
        answer = client.post("/v1/forecast", json=QUESTION).json()
        _put(damaged, service)
        refusal = wait_until(lambda: _health(client)["last_refusal"], "the refusal")
        assert "market.coterie" in refusal["reason"]
        assert "/" not in refusal["reason"]
        assert _health(client)["model"]["version"] == before
        assert client.post("/v1/forecast", json=QUESTION).json() == answer
        assert 'coterie_model_reloads_total{outcome="refused"}' in client.get("/metrics").text
        _put(models[1], service)
        wait_until(lambda: _health(client)["model"]["version"] != before, "the sound model")
        wait_until(lambda: _health(client)["last_refusal"] is None, "the end of the refusal")


def test_replaced_file_is_taken_without_being_told(service, models):
    """The service notices by itself that its file was replaced."""
    with service.client() as client:
        for source in reversed(models):
            beside = service.model.with_suffix(".new")
            shutil.copy(source, beside)
            beside.replace(service.model)
            wanted = _version(source)
            wait_until(lambda: _health(client)["model"]["version"] == wanted, "the model")  # noqa: B023


def test_missing_file_leaves_the_service_as_it_is(service, models):
    """A model file that is deleted is missed by nobody but whoever loads it again."""
    with service.client() as client:
        version = _health(client)["model"]["version"]
        service.model.unlink()
        service.signal(signal.SIGHUP)
        wait_until(lambda: _health(client)["last_refusal"], "the refusal")
        assert _health(client)["model"]["version"] == version
        _put(models[0], service)
        wait_until(lambda: _health(client)["last_refusal"] is None, "the sound model")


def test_models_swapped_under_load_fail_no_request(service, models):
    """While models take each other's place, every request is answered by one of them, whole."""
    versions = {_version(source) for source in models}
    with service.client() as client, _Load(service, 4) as load:
        for swap in range(6):
            source = models[swap % 2]
            wanted = _version(source)
            _put(source, service)
            wait_until(lambda: _health(client)["model"]["version"] == wanted, "the swap")  # noqa: B023
            before = load.answered
            wait_until(lambda: load.answered > before + 20 or load.faults, "load")  # noqa: B023
    assert load.faults == []
    assert load.versions == versions


@pytest.mark.parametrize("declared", [True, False])
def test_oversized_body_is_refused(service, declared):
    """A body beyond the limit gets 413, whether it says its size or comes in chunks."""
    body = b"[" + b" " * 2_000_000 + b"]"
    content = body if declared else iter([body[:1_500_000], body[1_500_000:]])
    with service.client() as client:
        headers = {"content-type": "application/json"}
        answer = client.post("/v1/forecast", content=content, headers=headers)
        assert answer.status_code == 413
        assert answer.json()["status"] == 413
        assert answer.headers["connection"] == "close"
        assert client.post("/v1/forecast", json=QUESTION).status_code == 200


def test_thousand_connections_at_once_are_served(service):
    """So many clients that are connected and ask at the same time all get their answers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # of which one client may have a part only
    if hard != resource.RLIM_INFINITY and hard < 4 * CONNECTIONS + 200:
        pytest.skip(f"this process may have no more than {hard} files open")
    wanted = CONNECTIONS + 200 if soft == resource.RLIM_INFINITY else max(soft, CONNECTIONS + 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        answers = asyncio.run(_all_at_once(service.port))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(answers) == CONNECTIONS
    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)
    assert len({json.loads(answer.split(b"\r\n\r\n")[1])["supply"] for answer in answers}) == 1


async def _all_at_once(port):
    """Every client is connected and has sent all but its last byte before any sends that."""
    request = _post(b"Connection: close\r\n", json.dumps(QUESTION).encode())
    writers, readers = [], []
    async with asyncio.timeout(PATIENCE):
        try:
            for _ in range(CONNECTIONS):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                readers.append(reader)
                writers.append(writer)
                writer.write(request[:-1])
            for writer in writers:
                writer.write(request[-1:])
            return await asyncio.gather(*(reader.read() for reader in readers))
        finally:
            for writer in writers:
                writer.close()
            closed = (writer.wait_closed() for writer in writers)
            await asyncio.gather(*closed, return_exceptions=True)


def test_log_of_all_that_holds_nothing_personal(service):
    """After everything above, the log names no advertiser, no address and no folder."""
    with service.client() as client:
        client.get("/v1/advertisers/adv-00011")
        client.get("/v1/advertisers", params={"search": "adv-00012"})
    wait_until(lambda: "/v1/advertisers 200" in service.logged, "the log")
    assert " /v1/advertisers/{id} 200 " in service.logged
    for secret in ("adv-000", "127.0.0.1", str(service.model.parent), "search"):
        assert secret not in service.logged


def test_killed_service_can_be_started_on_its_port_and_ends_in_good_order(models, tmp_path):
    """After kill -9 another takes the port at once; told to end, it finishes what is under way."""
    port = _free_port()
    with (
        running_service(models[0], tmp_path, "--quiet", port=port) as killed,
        killed.client() as client,
    ):
        assert client.post("/v1/forecast", json=QUESTION).status_code == 200
        killed.signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
    body = json.dumps(QUESTION).encode()
    with running_service(models[0], tmp_path, "--quiet", port=port) as service:
        with _connected(port) as connection, connection.makefile("rb") as answers:
            head = _post(b"Expect: 100-continue\r\n", body)[: -len(body)]
            connection.sendall(head)
            # the service asks for the body: the request is under way
            assert answers.readline() == b"HTTP/1.1 100 Continue\r\n"
            assert answers.readline() == b"\r\n"
            service.signal(signal.SIGTERM)
            wait_until(lambda: _refuses(port), "the end of listening")
            assert service.process.poll() is None
            connection.sendall(body)
            answer = answers.read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in answer
        assert json.loads(answer.split(b"\r\n\r\n")[1])["advertiser"] == QUESTION["advertiser"]
        assert service.wait() == 0
        # quiet: the requests that went well are not in the log
        assert "/v1/forecast" not in service.logged


class _Load:
    """Clients that ask again and again over connections they keep, until they are told to stop."""

    def __init__(self, service, clients):
        self.answered, self.faults, self.versions = 0, [], set()
        self._service = service
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self):
        with self._service.client() as client:
            while not self._stop.is_set():
                try:
                    answer = client.post("/v1/forecast", json=[QUESTION, QUESTION])
                    told = answer.json()
                    assert answer.status_code == 200, answer.text
                    assert told["answers"][0] == told["answers"][1]
                except Exception as fault:
                    self.faults.append(repr(fault))
                    return
                self.versions.add(told["model"]["version"])
                self.answered += 1


def _version(path):
    """The version of a model file as the service tells it."""
    return file_version(path)


def _post(headers, body):
    """A question as bytes."""
    return b"".join(
        [
            b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\n",
            b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body),
            headers,
            b"\r\n",
            body,
        ]
    )


def _connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def _refuses(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _free_port():
    """A port below those that the system gives away by itself, so that it stays free meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
