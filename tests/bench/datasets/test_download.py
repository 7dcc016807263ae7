"""Downloads from a server on this machine that can break off, ignore ranges and change files."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from orderless.bench.datasets import catalogue, download
from orderless.bench.datasets.catalogue import Entry, Known, Original, find_entry
from orderless.bench.datasets.download import digest, fetch, get
from orderless.cli import main
from orderless.errors import DownloadError

CONTENT = bytes(range(256)) * 40
KNOWN = Known(len(CONTENT), f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


class Server:
    def __init__(self):
        self.content, self.tag = CONTENT, '"one"'
        self.break_after = []  # for each request to come: bytes until the connection breaks
        self.with_ranges, self.says_length, self.requests = True, True, []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_port}/file"

    def answer(self, handler):
        self.requests.append(dict(handler.headers))
        if handler.path == "/nothing":
            handler.send_error(404)
            return
        asked, begin = handler.headers.get("Range"), 0
        fresh = handler.headers.get("If-Range", self.tag) == self.tag
        if asked and self.with_ranges and fresh:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
            if begin >= len(self.content):
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{len(self.content)}")
                handler.end_headers()
                return
        body = self.content[begin:]
        handler.send_response(206 if begin else 200)
        if self.says_length:
            handler.send_header("Content-Length", str(len(body)))
        if self.tag:
            handler.send_header("ETag", self.tag)
        handler.end_headers()
        stop = self.break_after.pop(0) if self.break_after else len(body)
        handler.wfile.write(body[:stop])


@pytest.fixture
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def once(monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)


def test_a_file_arrives_whole_and_leaves_nothing_beside_it(server, tmp_path):
    path = tmp_path / "deep" / "file"
    seen = []
    fetch(server.address, path, KNOWN, progress=lambda there, total: seen.append((there, total)))
    assert path.read_bytes() == CONTENT
    assert [one.name for one in path.parent.iterdir()] == ["file"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_broken_download_leaves_no_file_and_the_next_one_continues_it(server, tmp_path, once):
    path = tmp_path / "file"
    server.break_after = [1000]
    with pytest.raises(DownloadError, match="kept"):
        fetch(server.address, path, KNOWN)
    assert not path.exists()
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:1000]
    fetch(server.address, path, KNOWN)
    assert server.requests[-1]["Range"] == "bytes=1000-"
    assert path.read_bytes() == CONTENT


def test_a_broken_connection_is_tried_again_from_where_it_broke(server, tmp_path):
    server.break_after = [1000, 500]
    fetch(server.address, tmp_path / "file", KNOWN)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [one.get("Range") for one in server.requests] == [None, "bytes=1000-", "bytes=1500-"]


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.with_ranges, server.break_after = False, [1000]
    fetch(server.address, tmp_path / "file", KNOWN)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("known", [None, KNOWN])
def test_two_versions_of_a_file_are_never_mixed(server, tmp_path, once, known):
    server.break_after, server.content, server.tag = [1000], b"old" * 3000, '"old"'
    with pytest.raises(DownloadError):
        fetch(server.address, tmp_path / "file", known)
    server.content, server.tag = CONTENT, '"new"'
    fetch(server.address, tmp_path / "file", known)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_without_checksum_and_tag_a_download_is_not_continued(server, tmp_path, once):
    server.tag, server.break_after = "", [1000]
    with pytest.raises(DownloadError):
        fetch(server.address, tmp_path / "file", None)
    fetch(server.address, tmp_path / "file", None)
    assert "Range" not in server.requests[-1]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_that_was_whole_is_finished_without_another_byte(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch(server.address, tmp_path / "file", KNOWN)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_longer_than_the_file_starts_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    with pytest.raises(DownloadError):
        fetch(server.address, tmp_path / "file", KNOWN)
    fetch(server.address, tmp_path / "file", KNOWN)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT[:-1], CONTENT + b"!"])
def test_what_is_not_the_known_file_is_thrown_away(server, tmp_path, content):
    server.content = content
    with pytest.raises(DownloadError, match=r"checksum|bytes"):
        fetch(server.address, tmp_path / "file", KNOWN)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.parametrize("known", [None, KNOWN])
def test_a_file_without_end_is_not_read_to_its_end(server, tmp_path, monkeypatch, known, says_so):
    monkeypatch.setattr(download, "MOST_BYTES", 20_000)
    monkeypatch.setattr(download, "BLOCK", 1000)
    server.content, server.says_length, seen = CONTENT * 5, says_so, []
    with pytest.raises(DownloadError, match="bytes"):
        fetch(
            server.address, tmp_path / "file", known, progress=lambda there, _: seen.append(there)
        )
    assert max(seen, default=0) <= 20_000
    assert len(server.requests) == 1
    assert not list(tmp_path.iterdir())


def test_a_link_in_the_place_of_a_part_is_not_followed(server, tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "file.part").symlink_to(tmp_path / "mine")
    fetch(server.address, tmp_path / "file", KNOWN)
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_an_address_that_leads_nowhere_is_not_tried_again(server, tmp_path):
    with pytest.raises(DownloadError, match="404"):
        fetch(server.address.replace("/file", "/nothing"), tmp_path / "file", None)
    assert len(server.requests) == 1


def test_the_git_digest_is_the_one_git_gives(tmp_path):
    (tmp_path / "file").write_bytes(b"hello\n")
    assert digest(tmp_path / "file", "git") == "git:ce013625030ba8dba906f756967f9e9ca394464a"


def test_get_fetches_what_is_missing_and_only_that(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ORDERLESS_DATA", str(tmp_path))
    originals = tuple(Original(f"toy/{name}", server.address) for name in ("a", "b"))
    toy = Entry("toy", "long-term", 1, "free", "none", originals=originals)
    monkeypatch.setitem(catalogue.CATALOGUE, "toy", toy)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a").write_bytes(b"mine")
    assert main(["data", "get", "toy"]) == 0
    assert len(server.requests) == 1
    assert (tmp_path / "toy" / "a").read_bytes() == b"mine"
    assert (tmp_path / "toy" / "b").read_bytes() == CONTENT
    shown = capsys.readouterr().out.splitlines()
    assert shown[2] == str(tmp_path / "toy" / "b")
    # Nobody has told a checksum of it, and that is said.
    assert "not verified" in shown[3]
    assert digest(tmp_path / "toy" / "b") in shown[3]
    known = Known(4, digest(tmp_path / "toy" / "a"))
    monkeypatch.setattr(catalogue, "known_files", lambda: {"toy/a": known})
    assert main(["data", "get", "toy"]) == 0
    assert capsys.readouterr().out.count("not verified") == 1


def test_a_set_that_needs_permission_is_not_fetched(tmp_path):
    with pytest.raises(DownloadError, match="iTrust"):
        get(find_entry("SWaT"), tmp_path)
