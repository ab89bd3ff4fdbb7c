"""Holds the guide's statements and functions for rows to what the guide says of them.

Usage: check_rows.py; the guide's blocks stand as files in the directory GUIDE.
"""

import os
import sqlite3
import sys
import tempfile
from pathlib import Path

GUIDE = Path(os.environ["GUIDE"])
sys.path.insert(0, str(GUIDE))

import fenced_row
import grant
import read_first


def database():
    """Two connections to a new database with two accounts."""
    path = Path(tempfile.mkdtemp(dir=GUIDE)) / "accounts.db"
    one, two = sqlite3.connect(path), sqlite3.connect(path)
    one.execute("CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER, version INTEGER DEFAULT 0)")
    one.execute("INSERT INTO accounts (id, balance) VALUES ('a', 0), ('b', 0)")
    one.executescript((GUIDE / "row_token.sql").read_text())
    one.commit()
    return one, two


def balance(connection, account="a"):
    return connection.execute("SELECT balance FROM accounts WHERE id = ?", [account]).fetchone()[0]


def refused(call, *arguments):
    """What a stale call raises."""
    try:
        call(*arguments)
    except fenced_row.Stale as stale:
        return stale.presented, stale.required
    raise AssertionError(f"{call} was not refused")


def a_late_holder_is_refused_and_changes_nothing():
    one, two = database()
    fenced_row.write_balance(one, "a", 10, token=5)
    fenced_row.write_balance(two, "a", 20, token=6)
    assert refused(fenced_row.write_balance, one, "a", 30, 5) == (5, 6)
    assert balance(one) == balance(two) == 20


def an_equal_token_writes_again_and_resources_are_apart():
    one, _ = database()
    fenced_row.write_balance(one, "a", 10, token=9)
    fenced_row.write_balance(one, "a", 11, token=9)
    fenced_row.write_balance(one, "b", 1, token=2)
    assert (balance(one), balance(one, "b")) == (11, 1)


def tokens_beyond_floats_are_told_apart():
    one, _ = database()
    fenced_row.write_balance(one, "a", 1, token=2**53 + 1)
    assert refused(fenced_row.write_balance, one, "a", 2, 2**53) == (2**53, 2**53 + 1)


def a_missing_row_is_not_taken_for_stale():
    one, _ = database()
    for call in (lambda: fenced_row.write_balance(one, "c", 1, 1), lambda: read_first.read_balance(one, "c", 1)):
        try:
            call()
        except LookupError:
            continue
        raise AssertionError("there is no account c")


def a_read_under_the_token_keeps_the_older_holder_from_losing_an_update():
    one, two = database()
    seen_by_older = read_first.read_balance(one, "a", token=5)
    seen_by_newer = read_first.read_balance(two, "a", token=6)
    assert refused(fenced_row.write_balance, one, "a", seen_by_older + 1, 5) == (5, 6)
    assert refused(read_first.read_balance, one, "a", 5) == (5, 6)
    fenced_row.write_balance(two, "a", seen_by_newer + 1, token=6)
    assert balance(one) == 1


def without_it_the_update_is_lost():
    one, two = database()
    seen_by_both = balance(one)
    fenced_row.write_balance(one, "a", seen_by_both + 1, token=5)
    fenced_row.write_balance(two, "a", seen_by_both + 1, token=6)
    assert balance(one) == 1, "two were acknowledged"


def a_version_and_a_token_each_refuse_what_the_other_lets_pass():
    one, _ = database()
    statement = (GUIDE / "version_guard.sql").read_text()

    def rows(token, version):
        values = {"account": "a", "balance": token, "token": token, "version": version}
        with one:
            return one.execute(statement, values).rowcount

    assert rows(token=5, version=0) == 1
    assert rows(token=5, version=0) == 0, "another task of this holder was here"
    assert rows(token=4, version=1) == 0, "a late holder that has read the newest version"
    assert rows(token=5, version=1) == 1


def a_program_knows_its_grant():
    """Names and forms as `fencepost hold` and `acquire` have them: Rust put both into this environment."""
    expected = ("prod", "accounts/17", 2**53 + 1)
    assert grant.from_environment() == expected
    assert grant.from_acquire(os.environ["ACQUIRED"]) == expected


for check in (
    a_program_knows_its_grant,
    a_late_holder_is_refused_and_changes_nothing,
    an_equal_token_writes_again_and_resources_are_apart,
    tokens_beyond_floats_are_told_apart,
    a_missing_row_is_not_taken_for_stale,
    a_read_under_the_token_keeps_the_older_holder_from_losing_an_update,
    without_it_the_update_is_lost,
    a_version_and_a_token_each_refuse_what_the_other_lets_pass,
):
    check()
    print(f"ok: {check.__name__}")
