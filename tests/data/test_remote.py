"""Downloads, against a server on loopback that can misbehave."""

import hashlib
import os
import shutil
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from symmetries.data import download, mnist
from symmetries.data.remote import REMOTE, RemoteFile, _partial_folder, fetch

from .conftest import write_mnist

BODY = bytes(range(256)) * 40
SHA256 = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        kind, _, name = self.path.lstrip("/").partition("/")
        body = self.server.files.get(name, BODY)
        if kind == "gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if kind == "cut":
            body = body[: len(body) // 2]
        if kind == "wrong":
            body = body[:-1] + b"?"
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    service = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.asked, service.files = [], {}
    thread = threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{service.server_address[1]}"
    yield service
    service.shutdown()
    service.server_close()
    thread.join()


def remote(server, *kinds):
    return RemoteFile("set/file.bin", tuple(f"{server.url}/{kind}/" for kind in kinds), SHA256)


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_good_file_arrives_once(server, tmp_path):
    for _ in range(2):
        path = fetch(remote(server, "good"), tmp_path)
        assert path == tmp_path / "set" / "file.bin"
        assert path.read_bytes() == BODY
    assert server.asked == ["/good/file.bin"]
    assert files_below(tmp_path) == [path]


@pytest.mark.parametrize(
    ("kind", "words"),
    [("wrong", "sent other bytes"), ("cut", "cut"), ("gone", "404")],
)
def test_bad_answers_say_what_to_do_and_leave_nothing(server, tmp_path, kind, words):
    with pytest.raises(OSError, match=r"set/file\.bin: expected SHA-256") as caught:
        fetch(remote(server, kind), tmp_path)
    message = str(caught.value)
    assert words in message
    assert f"put the file at {tmp_path / 'set' / 'file.bin'} by hand" in message
    assert files_below(tmp_path) == []


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as free:  # a port that nobody listens at
        free.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(OSError, match="no connection to http") as caught:
            fetch(RemoteFile("file.bin", (host,), SHA256), tmp_path)
    assert "check the network" in str(caught.value)
    assert files_below(tmp_path) == []


def test_the_next_host_is_tried(server, tmp_path):
    path = fetch(remote(server, "gone", "cut", "good"), tmp_path)
    assert path.read_bytes() == BODY
    assert len(server.asked) == 3


def test_a_damaged_file_is_fetched_again_and_kept_on_failure(server, tmp_path):
    target = tmp_path / "set" / "file.bin"
    target.parent.mkdir()
    target.write_bytes(b"damaged")
    with pytest.raises(OSError, match="sent other bytes"):
        fetch(remote(server, "wrong"), tmp_path)
    assert target.read_bytes() == b"damaged"
    fetch(remote(server, "good"), tmp_path)
    assert target.read_bytes() == BODY


def test_a_killed_download_leaves_nothing_for_ever(server, tmp_path, monkeypatch):
    """Killed just before the file gets its name: the next download removes what is left."""
    process = os.fork()
    if process == 0:
        monkeypatch.setattr(os, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        monkeypatch.setattr(shutil, "move", os.replace)
        fetch(remote(server, "good"), tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "set" / "file.bin").exists()
    assert fetch(remote(server, "good"), tmp_path).read_bytes() == BODY
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["file.bin"]


def test_what_a_download_left_beside_a_complete_file_is_removed(server, tmp_path):
    file = remote(server, "good")
    target = fetch(file, tmp_path)
    left = target.parent / f".{target.name}-1.part"
    left.mkdir()
    assert fetch(file, tmp_path) == target
    assert not left.exists()


def test_a_download_of_another_process_stays(server, tmp_path):
    target = tmp_path / "set" / "file.bin"
    with _partial_folder(target) as theirs:
        fetch(remote(server, "good"), tmp_path)
        assert theirs.exists()
    assert not theirs.exists()


def test_a_whole_set_by_name(server, tmp_path, monkeypatch):
    write_mnist(tmp_path / "there")
    entries = []
    for path in sorted((tmp_path / "there").iterdir()):
        server.files[path.name] = path.read_bytes()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append(RemoteFile(f"mnist/{path.name}", (f"{server.url}/good/",), digest))
    monkeypatch.setitem(REMOTE, "mnist", entries)
    paths = download("mnist", tmp_path / "new" / "folder")
    assert len(paths) == 4
    assert len(mnist("test", tmp_path / "new" / "folder")) == 20


def test_unknown_names_are_named(tmp_path):
    with pytest.raises(ValueError, match="name: expected one of 'cifar10', 'cifar100'"):
        download("imagenet", tmp_path)


def test_every_entry_is_complete():
    entries = [file for files in REMOTE.values() for file in files]
    assert len({file.sha256 for file in entries}) == len(entries) == 10
    for file in entries:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert all(url.startswith("http") and url.endswith(".gz") for url in file.urls)
        assert file.urls
