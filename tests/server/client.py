"""A server under test and a raw HTTP client for it: what is sent and read is in the test's hands, byte by byte."""
import json
import re
import socket
import subprocess
import tempfile
import time


class Server:
    """`tenon serve` on a free port; used in a with statement, at whose end it must stop with exit status 0. `tls`: the
    ssl.SSLContext to talk to it with."""

    def __init__(self, tenon, model, *options, tls=None):
        self.tls = tls
        self.last_log = []
        self.log_file = tempfile.TemporaryFile()  # a pipe that is read too slowly would hold the server up
        self.process = subprocess.Popen([tenon, "serve", model, "--port", "0", "--threads", "1", *options],
                                        stdout=subprocess.PIPE, stderr=self.log_file, text=True)
        line = self.process.stdout.readline()
        scheme = "https" if tls else "http"
        match = re.fullmatch(r"listening on %s(?:://127\.0\.0\.1:(\d+)|\+unix:(.*))\n" % scheme, line)
        assert match, (line, self.process.wait(), self.log)
        self.port = match.group(2) or int(match.group(1))  # or the path of a unix socket

    @property
    def log(self):
        """The lines of its standard error so far."""
        if self.log_file.closed:
            return self.last_log
        with open("/proc/self/fd/%d" % self.log_file.fileno(), encoding="utf-8", errors="replace") as file:
            return file.readlines()

    def stop(self, seconds=20):
        self.process.terminate()
        status = self.process.wait(seconds)
        self.process.stdout.close()
        self.last_log = self.log
        self.log_file.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind:
                self.process.kill()
            status = self.stop()
            assert kind or status == 0, (status, self.log[-20:])

    def connect(self):
        return Connection(self.port, tls=self.tls)

    def ask(self, method, path, body=None, headers=()):
        with self.connect() as connection:
            return connection.ask(method, path, body, headers)

    def post(self, path, body):
        status, _, answer = self.ask("POST", path, body)
        return status, json.loads(answer)

    def resident_mb(self):
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1024

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2].decode()
        return float(re.search(r"^tenon_%s (\S+)$" % re.escape(name), text, re.M).group(1))


def until(what, seconds=150):
    """Whether `what` comes true within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


class Connection:
    def __init__(self, port, receive_bytes=None, tls=None):
        is_unix = isinstance(port, str)
        self.socket = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(150)
        try:
            self.socket.connect(port if is_unix else ("127.0.0.1", port))
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        except OSError:
            self.socket.close()
            raise
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, method, path, body=None, headers=()):
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: test", *headers]
        if body is not None:
            lines.append("Content-Length: %d" % len(data))
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def head(self):
        """Status and headers (names in lower case) of the next answer."""
        line = self.file.readline()
        status = int(line.split()[1])
        headers = {}
        while True:
            line = self.file.readline().decode().strip()
            if not line:
                return status, headers
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()

    def chunks(self):
        """The chunks of a chunked body; ends with it, raises if it is cut off."""
        while True:
            size = int(self.file.readline(), 16)
            data = self.file.read(size)
            assert len(data) == size and self.file.readline() == b"\r\n"
            if not size:
                return
            yield data

    def ask(self, method, path, body=None, headers=()):
        self.send(method, path, body, headers)
        status, fields = self.head()
        if method == "HEAD" or status == 204:
            return status, fields, b""
        if fields.get("transfer-encoding") == "chunked":
            return status, fields, b"".join(self.chunks())
        return status, fields, self.file.read(int(fields["content-length"]))


def events(data):
    """The JSON of server-sent events; the closing [DONE] must stand at the end unless an error does."""
    parts = data.decode().split("\n\n")
    assert parts.pop() == "" and all(part.startswith("data: ") for part in parts), data
    parts = [part[6:] for part in parts]
    if parts[-1] == "[DONE]":
        parts.pop()
    else:
        assert "error" in json.loads(parts[-1]), data
    return [json.loads(part) for part in parts]
