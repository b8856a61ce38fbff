"""A local web server of images, which fails and stalls as it is asked to."""

import io
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image


def jpeg(colour=(200, 30, 30), size=(60, 40), mode="RGB", kind="JPEG", **options) -> bytes:
    """A picture with a thing of a colour on a white ground."""
    picture = Image.new("RGB", size, "white")
    picture.paste(colour, (size[0] // 4, size[1] // 4, 3 * size[0] // 4, 3 * size[1] // 4))
    file = io.BytesIO()
    picture.convert(mode).save(file, kind, **options)
    return file.getvalue()


class Shop:
    """Serves pages by path: bytes, a status, or a function of the handler; counts the requests of each path."""

    def __init__(self):
        self.pages, self.asked = {}, Counter()
        self.always = None
        self.lock = threading.Lock()

    def answer(self, handler):
        with self.lock:
            self.asked[handler.path] += 1
            number = sum(self.asked.values())
        page = self.pages.get(handler.path, 404)
        if self.always is not None and (other := self.always(handler, number)) is not None:
            page = other
        if callable(page):
            page(handler)
        elif isinstance(page, int):
            self.send(handler, page, b"no")
        else:
            self.send(handler, 200, page)

    @staticmethod
    def send(handler, status, body, **headers):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def redirect(self, to, status=302):
        return lambda handler: self.send(handler, status, b"", Location=to)


@contextmanager
def opened_shop():
    """Run a shop on a free port; yield it, with its address in `url`."""
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            try:
                shop.answer(self)
            except OSError:  # the client has gone
                self.close_connection = True

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    shop.port = server.server_address[1]
    shop.url = f"http://127.0.0.1:{shop.port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield shop
    finally:
        server.shutdown()
        server.server_close()
