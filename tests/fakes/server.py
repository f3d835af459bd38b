"""A server on the loopback that answers as its script says and remembers what it was sent."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal


@dataclass(frozen=True)
class Say:
    """An answer of a model."""

    text: str = "A summary.\nExpand for details about: the rest"
    stop: str = "end_turn"  #: as the Messages API calls it; the other server translates
    thinking: str = ""
    input_tokens: int = 1_000
    output_tokens: int = 50
    pause: float = 0.0  #: s, before every piece
    #: After half of the text: the connection is reset, ends in order, or tells an error.
    breaks: Literal["", "reset", "end", "error"] = ""
    whole: bool = False  #: in one document, also where a stream was asked for
    told: Literal["both", "input", "output", "none"] = "both"  #: of what it took


@dataclass(frozen=True)
class Fail:
    """A status in place of an answer."""

    status: int
    kind: str = "api_error"
    message: str = "something is wrong"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Bytes in place of an answer."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Endless:
    """An answer that goes on until the other side leaves."""

    begins: bytes
    goes_on: bytes
    status: int = 200
    content_type: str = "text/event-stream"


@dataclass(frozen=True)
class Echo:
    """A refusal, or an answer, that repeats what it was asked with: all headers, and the key alone."""

    status: int = 400


Step = Say | Fail | Raw | Endless | Echo


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]  #: names in lower case
    raw: bytes

    @property
    def body(self) -> Any:
        """What was sent, as JSON."""
        return json.loads(self.raw)


class ScriptedServer:
    """Answers request after request by its script; the last step stands for all that follow."""

    def __init__(self, *script: Step) -> None:
        self.script: Sequence[Step] = script or (Say(),)
        self.received: list[Received] = []
        self.broken_off = threading.Event()  #: set when the other side left in the middle of an answer
        self._server = _Http(("127.0.0.1", 0), _Handler)
        self._server.outer = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._lock = threading.Lock()

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def failure(self, step: Fail) -> Any:
        """The document of a failure."""
        raise NotImplementedError

    def whole(self, step: Say) -> Any:
        """The document of an answer that is not streamed."""
        raise NotImplementedError

    def events(self, step: Say) -> Iterator[bytes]:
        """The pieces of a streamed answer."""
        raise NotImplementedError

    def step_for(self, request: Received) -> Step:
        """Note a request and say what is answered to it."""
        with self._lock:
            step = self.script[min(len(self.received), len(self.script) - 1)]
            self.received.append(request)
            return step


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    outer: ScriptedServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version: ClassVar[str] = "HTTP/1.1"
    server: _Http

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.path, headers, raw)
        try:
            self._answer(self.server.outer.step_for(request), request)
        except OSError:
            self.server.outer.broken_off.set()

    def do_GET(self) -> None:
        self.do_POST()

    def do_CONNECT(self) -> None:
        self.do_POST()

    def _answer(self, step: Step, request: Received) -> None:
        outer = self.server.outer
        if isinstance(step, Echo):
            said = "; ".join(f"{name}: {value}" for name, value in request.headers.items())
            step = (
                Say(f"It was asked with {said}.") if step.status == 200 else Fail(step.status, message=said)
            )
        if isinstance(step, Raw):
            self._send(step.status, step.body, {"Content-Type": step.content_type, **step.headers})
        elif isinstance(step, Endless):
            self._go_on(step)
        elif isinstance(step, Fail):
            body = json.dumps(outer.failure(step)).encode()
            self._send(step.status, body, {"Content-Type": "application/json", **step.headers})
        elif step.whole or not request.body.get("stream"):
            body = json.dumps(outer.whole(step)).encode()
            self._send(200, body, {"Content-Type": "application/json"})
        else:
            self._stream(step)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _go_on(self, step: Endless) -> None:
        self.send_response(step.status)
        self.send_header("Content-Type", step.content_type)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(step.begins)
        while True:  # until writing fails
            self.wfile.write(step.goes_on)

    def _stream(self, step: Say) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self.server.outer.events(step):
            if step.pause:
                time.sleep(step.pause)
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        if step.breaks == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def halves(text: str) -> tuple[str, str]:
    """A text in two pieces."""
    return text[: len(text) // 2], text[len(text) // 2 :]
