"""Holds the guide's functions for rows in PostgreSQL to what the guide says of them.

Usage: check_psycopg.py URL; the database there is empty, and GUIDE has the guide's blocks as files.
"""

import os
import sys
from pathlib import Path

import psycopg

GUIDE = Path(os.environ["GUIDE"])
sys.path.insert(0, str(GUIDE))

from fenced_row import Stale

import fenced_row_psycopg
import read_first_psycopg

URL = sys.argv[1]


def balance(account="a"):
    """What others see, over a connection of their own."""
    with psycopg.connect(URL) as connection:
        return connection.execute("SELECT balance FROM accounts WHERE id = %s", [account]).fetchone()[0]


def refused(call, *arguments):
    try:
        call(*arguments)
    except Stale as stale:
        return stale.presented, stale.required
    raise AssertionError(f"{call} was not refused")


def writes_commit_and_late_ones_change_nothing(connection):
    write = fenced_row_psycopg.write_balance
    write(connection, "a", 10, 2**53 + 1)
    write(connection, "a", 11, 2**53 + 1)
    assert balance() == 11
    assert refused(write, connection, "a", 30, 2**53) == (2**53, 2**53 + 1)
    assert balance() == 11
    # The connection is open, and in no transaction, after both.
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def a_read_under_the_token_shuts_the_older_holder_out(connection):
    assert read_first_psycopg.read_balance(connection, "b", 6) == 0
    assert refused(fenced_row_psycopg.write_balance, connection, "b", 1, 5) == (5, 6)
    assert refused(read_first_psycopg.read_balance, connection, "b", 5) == (5, 6)
    fenced_row_psycopg.write_balance(connection, "b", 1, 6)
    assert balance("b") == 1


def a_missing_row_is_not_taken_for_stale(connection):
    for call in (
        lambda: fenced_row_psycopg.write_balance(connection, "c", 1, 1),
        lambda: read_first_psycopg.read_balance(connection, "c", 1),
    ):
        try:
            call()
        except LookupError:
            continue
        raise AssertionError("there is no account c")


# With and without autocommit: a newcomer has the default, which is without.
for autocommit in (False, True):
    with psycopg.connect(URL, autocommit=True) as setup:
        setup.execute("DROP TABLE IF EXISTS accounts")
        setup.execute("CREATE TABLE accounts (id text PRIMARY KEY, balance bigint)")
        setup.execute("INSERT INTO accounts VALUES ('a', 0), ('b', 0)")
        setup.execute((GUIDE / "row_token.sql").read_text())
    with psycopg.connect(URL, autocommit=autocommit) as connection:
        for check in (
            writes_commit_and_late_ones_change_nothing,
            a_read_under_the_token_shuts_the_older_holder_out,
            a_missing_row_is_not_taken_for_stale,
        ):
            check(connection)
            print(f"ok: {check.__name__}, autocommit {autocommit}")
