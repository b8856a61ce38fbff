"""Limits of a connection never cost an earlier request its answer."""

import asyncio

import uvicorn
from pricekit_serve.access.connection import HEAD_BYTES, Connection
from uvicorn.server import ServerState

REQUEST = b"GET / HTTP/1.1\r\n\r\n"


class Transport:
    """Keeps what is written."""

    def __init__(self):
        self.written, self.closed, self.reading = b"", False, True

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def get_extra_info(self, name):
        return None


def talk(conversation):
    """Run a conversation with a connection whose app answers when it may."""

    async def run():
        free = asyncio.Event()

        async def app(scope, receive, send):
            await free.wait()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"{}"})

        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=1)
        config.load()
        connection = Connection(0.05, config=config, server_state=ServerState(), app_state={})
        transport = Transport()
        connection.connection_made(transport)
        await conversation(connection, transport, free)
        connection.connection_lost(None)

    asyncio.run(run())


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError


def test_an_incomplete_head_is_given_up_only_after_the_answer_before():
    async def conversation(connection, transport, free):
        connection.data_received(REQUEST + b"GET / HT")
        await asyncio.sleep(0.2)  # longer than a head may take
        assert (transport.written, transport.closed) == (b"", False)
        free.set()
        await until(lambda: transport.closed)
        assert transport.written.index(b"HTTP/1.1 200 ") < transport.written.index(b"HTTP/1.1 408 ")

    talk(conversation)


def test_too_long_a_head_is_refused_only_after_the_answer_before():
    async def conversation(connection, transport, free):
        connection.data_received(REQUEST)
        connection.data_received(b"GET / HTTP/1.1\r\nA: " + b"x" * HEAD_BYTES)
        assert (transport.written, transport.reading) == (b"", False)
        free.set()
        await until(lambda: transport.reading)
        connection.data_received(b"x")
        assert transport.closed
        assert transport.written.index(b"HTTP/1.1 200 ") < transport.written.index(b"HTTP/1.1 431 ")

    talk(conversation)


def test_a_connection_without_a_request_is_closed_without_a_word():
    async def conversation(connection, transport, free):
        await until(lambda: transport.closed)
        assert transport.written == b""

    talk(conversation)


def test_requests_one_after_the_other_keep_the_connection():
    async def conversation(connection, transport, free):
        free.set()
        for number in range(1, 4):
            connection.data_received(REQUEST)
            await until(lambda number=number: transport.written.count(b"HTTP/1.1 200 ") == number)
            await asyncio.sleep(0.1)  # longer than a head may take
        assert not transport.closed

    talk(conversation)


def test_a_head_has_its_whole_time_on_a_connection_that_waited():
    async def conversation(connection, transport, free):
        free.set()
        await asyncio.sleep(0.1)  # longer than a head may take
        connection.data_received(REQUEST)
        await until(lambda: transport.written)
        assert transport.written.startswith(b"HTTP/1.1 200 ")

    talk(conversation)
