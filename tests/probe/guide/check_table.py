"""Holds the guide's table of marks to what the guide says of it, on a PostgreSQL.

Usage: check_table.py URL TRIGGERS; the database there is empty, GUIDE has the guide's blocks as files, and
TRIGGERS is what `fencepost guard sql` prints for a table "other". It leaves the mark of "ledger" at 9, of the
issuer "prod".
"""

import os
import sys
from pathlib import Path
from threading import Thread

import psycopg

GUIDE = Path(os.environ["GUIDE"])
sys.path.insert(0, str(GUIDE))

import fenced_table

URL, TRIGGERS = sys.argv[1], Path(sys.argv[2])


def connect():
    return psycopg.connect(URL, autocommit=True)


def refused(call):
    try:
        call()
    except fenced_table.Refused as refusal:
        return str(refusal)
    raise AssertionError("it was not refused")


def balances(connection):
    rows = connection.execute("SELECT balance FROM accounts ORDER BY id").fetchall()
    return [balance for balance, in rows]


def transfer(connection, token, amount, issuer="prod"):
    fenced_table.transfer(connection, issuer, token, "a", "b", amount)


def writes_commit_with_the_mark_or_not_at_all(one, two):
    transfer(one, 5, 10)
    transfer(one, 5, 10)
    assert balances(two) == [80, 120]
    try:
        transfer(one, 6, 1_000)
    except psycopg.errors.CheckViolation:
        pass
    else:
        raise AssertionError("there is no such amount")
    # The mark went back with the writes: 5 is no late token.
    transfer(two, 5, 10)
    assert balances(one) == [70, 130]


def late_and_foreign_holders_change_nothing(one, two):
    transfer(two, 7, 10)
    assert refused(lambda: transfer(one, 6, 10)).startswith("stale fencing token: presented 6, required at least 7")
    assert "fenced by prod" in refused(lambda: transfer(one, 8, 10, issuer="test"))
    assert balances(one) == [60, 140]


def a_refusal_that_is_caught_inside_keeps_the_next_holder_out_and_outside_it_does_not(one, two):
    with connect() as hasty:
        hasty.execute("SET lock_timeout = '20ms'")
        with one.transaction(), one.cursor() as cursor:
            try:
                fenced_table.fenced(cursor, "prod", "ledger", 6)
            except fenced_table.Refused:
                pass  # the mistake: the transaction goes on
            try:
                transfer(hasty, 7, 0)
            except psycopg.errors.LockNotAvailable:
                pass
            else:
                raise AssertionError("the guide says that a refusal locks the mark")
        assert refused(lambda: transfer(one, 6, 10)).startswith("stale")
        transfer(hasty, 7, 0)


def the_triggers_of_the_data_want_the_token_in_each_row(one, two):
    one.execute("CREATE TABLE other AS TABLE accounts")
    one.execute("ALTER TABLE other ADD COLUMN fencing_token BIGINT NOT NULL DEFAULT 0, ADD PRIMARY KEY (id)")
    one.execute(TRIGGERS.read_text())
    change = "UPDATE other SET balance = balance + 1"
    with one.transaction(), one.cursor() as cursor:
        fenced_table.fenced(cursor, "prod", "ledger", 7)
        try:
            with one.transaction():
                cursor.execute(change)
        except psycopg.Error as error:
            assert error.diag.sqlstate == "ZF002", error
        else:
            raise AssertionError("the guide says that it is refused")
        cursor.execute(change + ", fencing_token = 7")
        assert cursor.rowcount == 2


def a_newer_holder_waits_for_an_admitted_transaction_and_sees_its_writes(one, two):
    seen = []

    def newer():
        with two.transaction(), two.cursor() as cursor:
            fenced_table.fenced(cursor, "prod", "ledger", 9)
            seen.extend(balances(two))

    with one.transaction(), one.cursor() as cursor:
        fenced_table.fenced(cursor, "prod", "ledger", 8)
        thread = Thread(target=newer)
        thread.start()
        # It waits for the mark: PostgreSQL says so.
        with connect() as third:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while third.execute(waiting).fetchone()[0] == 0:
                assert thread.is_alive() and not seen
        cursor.execute("UPDATE accounts SET balance = 55 WHERE id = 'a'")
    thread.join(60)
    assert seen == [55, 140], seen


with connect() as one, connect() as two:
    one.execute((GUIDE / "marks.sql").read_text())
    one.execute("CREATE TABLE accounts (id text PRIMARY KEY, balance bigint CHECK (balance >= 0))")
    one.execute("INSERT INTO accounts VALUES ('a', 100), ('b', 100)")
    for check in (
        writes_commit_with_the_mark_or_not_at_all,
        late_and_foreign_holders_change_nothing,
        a_refusal_that_is_caught_inside_keeps_the_next_holder_out_and_outside_it_does_not,
        the_triggers_of_the_data_want_the_token_in_each_row,
        a_newer_holder_waits_for_an_admitted_transaction_and_sees_its_writes,
    ):
        check(one, two)
        print(f"ok: {check.__name__}")
