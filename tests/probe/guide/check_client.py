"""Holds the guide's client of a web service to what the guide says of it.

Usage: check_client.py URL; a right service listens there, and GUIDE has the guide's blocks as files.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

sys.path.insert(0, os.environ["GUIDE"])

import fenced_client

URL = sys.argv[1]


def put(token, resource, body=b"x", url=URL):
    name = urllib.parse.quote(resource, safe="")
    return fenced_client.put(f"{url}/{name}", body, token, resource)


def stale(token, resource):
    try:
        put(token, resource)
    except fenced_client.Stale as refusal:
        return refusal.presented, refusal.required
    raise AssertionError(f"{token} was not refused for {resource}")


def names_travel_as_they_are():
    for resource in ("accounts/1", "nächtlich, 100 %", "a:b;c=\"d\"", "🦀", "a%2Fb"):
        assert json.loads(put(7, resource))["written"] == resource
        assert stale(6, resource) == (6, 7), resource


def a_token_beyond_floats_is_read_to_the_last_digit():
    put(2**53 + 1, "exact")
    assert stale(2**53, "exact") == (2**53, 2**53 + 1)


def other_errors_stay_what_they_are():
    try:
        put("five", "errors")
    except urllib.error.HTTPError as error:
        assert error.code == 400
    else:
        raise AssertionError("five is no token")


class Conflict(BaseHTTPRequestHandler):
    """A service that has conflicts of its own."""

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(409)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Nobody reads it."""


def a_conflict_of_the_services_own_is_not_taken_for_stale():
    server = HTTPServer(("127.0.0.1", 0), Conflict)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        put(5, "conflict", url=f"http://127.0.0.1:{server.server_port}")
    except urllib.error.HTTPError as error:
        assert error.code == 409
    else:
        raise AssertionError("it is a conflict")
    finally:
        server.shutdown()


for check in (
    names_travel_as_they_are,
    a_token_beyond_floats_is_read_to_the_last_digit,
    other_errors_stay_what_they_are,
    a_conflict_of_the_services_own_is_not_taken_for_stale,
):
    check()
    print(f"ok: {check.__name__}")
