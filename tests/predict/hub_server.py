"""A stand-in for the Hugging Face hub: repositories in memory, and the endpoints that pushing and pulling use."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_test"


class Hub:
    """What the server has and how it fails.

    Attributes:
        repositories: by name, the files of each revision.
        private: by name.
        asked: the paths of files that were fetched.
        cut: the name of a file whose answer ends after half of its bytes.
        claims: sizes that the listing claims, by name.
    """

    def __init__(self):
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []
        self.cut = ""
        self.claims: dict[str, int] = {}
        self.url = ""

    def commit(self, repository: str, files: dict[str, bytes], *names: str) -> str:
        """Add a commit, and let the branch `main` and other names be it."""
        content = b"".join(name.encode() + content for name, content in sorted(files.items()))
        digest = hashlib.sha1(content).hexdigest()
        revisions = self.repositories.setdefault(repository, {"main": {}})
        for name in ("main", digest, *names):
            revisions[name] = dict(files)
        return digest


@contextmanager
def running() -> Iterator[Hub]:
    """Run the server."""
    hub = Hub()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing."""

    def _answer(self, status, content=b"", **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            cut = self.hub.cut and self.path.endswith(self.hub.cut)
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection |= bool(cut)

    def _refused(self, repository) -> bool:
        """Answer for a repository that is missing or private, or a wrong token."""
        given = self.headers.get("Authorization", "")
        if given not in ("", f"Bearer {TOKEN}"):
            message = "Invalid credentials in Authorization header"
            self._answer(401, {"error": message}, X_Error_Message=message)
        elif repository not in self.hub.repositories or (self.hub.private.get(repository) and not given):
            self._answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        else:
            return False
        return True

    def _files(self, repository, revision):
        files = self.hub.repositories[repository].get(revision)
        if files is None:
            self._answer(404, {"error": "Invalid rev"}, X_Error_Code="RevisionNotFound")
        return files

    def do_HEAD(self):
        """Answer as GET without a body."""
        self.do_GET()

    def do_GET(self):
        """List a repository, or send a file."""
        path = self.path.partition("?")[0]
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._list(found[1], found[2] or "main")
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._send(*found.groups())
        else:
            self._answer(404)

    def _list(self, repository, revision):
        if self._refused(repository) or (files := self._files(repository, revision)) is None:
            return
        digest = next(
            n for n, there in self.hub.repositories[repository].items() if n != "main" and there == files
        )
        siblings = [
            {"rfilename": name, "size": self.hub.claims.get(name, len(content))}
            for name, content in files.items()
        ]
        self._answer(200, {"id": repository, "sha": digest, "siblings": siblings})

    def _send(self, repository, revision, name):
        if self._refused(repository) or (files := self._files(repository, revision)) is None:
            return
        if name not in files:
            self._answer(404, X_Error_Code="EntryNotFound")
            return
        if self.command == "GET":
            self.hub.asked.append(name)
        etag = f'"{hashlib.sha1(files[name]).hexdigest()}"'
        self._answer(200, files[name], ETag=etag, X_Repo_Commit=revision)

    def do_POST(self):
        """Make a repository, or commit to one."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            message = "Invalid credentials in Authorization header"
            self._answer(401, {"error": message}, X_Error_Message=message)
        elif self.path == "/api/repos/create":
            self._create(json.loads(body))
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/models/(.+)/preupload/main", self.path.partition("?")[0]):
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
            self._answer(200, {"files": modes})
        elif found := re.fullmatch(r"/api/models/(.+)/commit/main", self.path.partition("?")[0]):
            self._commit(found[1], [json.loads(line) for line in body.splitlines()])
        else:
            self._answer(404)

    def _create(self, asked):
        repository = (
            f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
        )
        if repository not in self.hub.repositories:
            self.hub.private[repository] = (
                asked.get("visibility", "private" if asked.get("private") else "public") == "private"
            )
            self.hub.commit(repository, {})
        self._answer(200, {"url": f"{self.hub.url}/{repository}"})

    def _commit(self, repository, lines):
        files = dict(self.hub.repositories[repository]["main"])
        for line in lines:
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "deletedFile":
                del files[line["value"]["path"]]
        digest = self.hub.commit(repository, files)
        self._answer(200, {"commitUrl": f"{self.hub.url}/{repository}/commit/{digest}", "commitOid": digest})
