"""A web service whose writes are fenced, from Python's standard library alone.

PUT /NAME with X-Fencing-Token and X-Resource-Id stores the body for that resource; GET /NAME reads
it. Usage: right.py PORT DATABASE [ISSUER]
"""

import json
import re
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_to_bytes

PORT, DATABASE = int(sys.argv[1]), sys.argv[2]
ISSUER = sys.argv[3] if len(sys.argv) > 3 else None
TOKEN_MAX = 2**63 - 1

SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (
    resource TEXT PRIMARY KEY,
    body     TEXT NOT NULL,
    token    INTEGER NOT NULL
)
"""
# Check and write are one statement: nothing can come between them.
WRITE = """
INSERT INTO notes (resource, body, token) VALUES (:resource, :body, :token)
ON CONFLICT (resource) DO UPDATE SET body = excluded.body, token = excluded.token
WHERE notes.token <= excluded.token
"""


class Refused(Exception):
    """An answer other than 200: a status, the fields of a JSON body, and headers."""

    def __init__(self, status, fields, headers=()):
        super().__init__(status)
        self.status, self.fields, self.headers = status, fields, dict(headers)


def one(headers, name, needed=True):
    """The value of a header that must not come twice."""
    values = headers.get_all(name) or []
    if len(values) > 1:
        raise Refused(400, {"error": f"{name} is there more than once"})
    if not values and needed:
        raise Refused(400, {"error": f"{name} is missing"})
    return values[0].strip(" \t") if values else None


def token_of(text):
    """Plain decimal digits: int() alone would take "+5", "1_000" and digits of other scripts too."""
    if not re.fullmatch("[0-9]{1,19}", text) or not 1 <= int(text) <= TOKEN_MAX:
        raise Refused(400, {"error": f"X-Fencing-Token is no number from 1 to {TOKEN_MAX}"})
    return int(text)


def name_of(text, header):
    """A percent-encoded name; strict, so that every caller means the same one."""
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        raise Refused(400, {"error": f"{header} is not percent-encoded"})
    try:
        name = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(400, {"error": f"{header} is not UTF-8"}) from None
    if not name or re.search("[\x00-\x1f\x7f-\x9f]", name):
        raise Refused(400, {"error": f"{header} is empty, or has control characters"})
    return name


def sequencer(headers, written):
    """Resource and token of a request, from an issuer that we know, for what the request writes."""
    token = token_of(one(headers, "X-Fencing-Token"))
    resource = name_of(one(headers, "X-Resource-Id"), "X-Resource-Id")
    issuer = one(headers, "X-Fencing-Issuer", needed=ISSUER is not None)
    if ISSUER is not None and name_of(issuer, "X-Fencing-Issuer") != ISSUER:
        raise Refused(403, {"error": f"foreign fencing token: this resource is fenced by {ISSUER}"})
    if resource != written:
        raise Refused(403, {"error": f"foreign fencing token: it is for {resource}, and this is {written}"})
    return resource, token


def in_json(token):
    """A number up to 2^53, and a string above: many readers of JSON have only floats."""
    return token if token <= 2**53 else str(token)


def write(database, resource, token, body):
    """Writes, unless a higher token has been here."""
    values = {"resource": resource, "token": token, "body": body}
    if database.execute(WRITE, values).rowcount == 0:
        row = database.execute("SELECT token FROM notes WHERE resource = ?", [resource]).fetchone()
        required = row[0]
        fields = {"error": "stale fencing token", "presented": in_json(token), "required": in_json(required)}
        raise Refused(409, fields, {"X-Required-Token": str(required)})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head and the body leave in two writes

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("utf-8")
        database = sqlite3.connect(DATABASE, timeout=30, isolation_level=None)
        try:
            resource, token = sequencer(self.headers, self.named())
            write(database, resource, token, body)
            self.answer(200, {"written": resource})
        except Refused as refused:
            self.answer(refused.status, refused.fields, refused.headers)
        finally:
            database.close()

    def do_GET(self):
        database = sqlite3.connect(DATABASE, timeout=30)
        row = database.execute("SELECT body FROM notes WHERE resource = ?", [self.named()]).fetchone()
        database.close()
        self.answer(200 if row else 404, {"body": row[0] if row else None})

    def named(self):
        """What the URL names, whatever the headers say."""
        return unquote_to_bytes(self.path.rsplit("/", 1)[1]).decode("utf-8", "replace")

    def answer(self, status, fields, headers=()):
        body = json.dumps(fields).encode("utf-8")
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nobody reads the log of an example."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # five, if nobody says so: the sixth writer of a moment waits for a second


if __name__ == "__main__":
    with sqlite3.connect(DATABASE) as first:
        first.execute("PRAGMA journal_mode = WAL")
        first.execute(SCHEMA)
    Server(("127.0.0.1", PORT), Handler).serve_forever()
