//! The triggers in SQLite.
//!
//! Three peculiarities shape them. REPLACE removes rows without firing their DELETE triggers
//! (`recursive_triggers` is off), so an INSERT looks for the rows that it would remove before it does.
//! `RAISE` takes a fixed text only before SQLite 3.47, so the numbers of a refusal travel in the error of
//! a function, and a fixed `RAISE` stands behind it. And a trigger knows which columns a statement
//! names (`UPDATE OF`), but cannot pass that on in the row, so it leaves a note in a table.

use crate::fence::EqualTokens;

use super::{
    Deletes, Enforcement, Refused, Script, Unnamed,
    name::Name,
    plan::list,
    refused::{REQUIRED, STALE},
};

const LIMITS: &str = "\
SQLite has one writer at a time, so a refusal is exact whatever the transactions. These triggers do not bind whoever
may change the schema or the file itself (DROP TRIGGER, PRAGMA writable_schema, a restored copy),
nor a program that switches triggers off (SQLITE_DBCONFIG_ENABLE_TRIGGER). A row that
REPLACE would remove for an expression index, for a unique key that was declared later, or by naming another row's
rowid (also UPDATE OR REPLACE), is not seen. A trigger of the table's own that updates it again must name the token column, too.
The numbers of a refusal stand in the error of json_extract, which quotes what it was given.";

/// Names of triggers, in the order in which they are made.
const PARTS: [&str; 7] = [
    "insert", "update", "named", "unnamed", "delete", "keep", "judge",
];

pub(super) fn apply(plan: &Enforcement) -> Script {
    let table = plan.table.quoted();
    let mut script = plan.opening(LIMITS, "INTEGER");
    preflight(plan, &mut script);
    for part in PARTS {
        script.step(
            "",
            format!("DROP TRIGGER IF EXISTS {}", plan.table.own(part)),
        );
    }
    if plan.deletes == Deletes::KeepMark {
        let kept = plan.kept().quoted();
        script.step(
            "The marks of rows that went are kept here. Only the triggers write it.",
            format!(
                "CREATE TABLE IF NOT EXISTS {kept} AS SELECT {}, {} FROM {table} LIMIT 0",
                plan.key_list(),
                plan.token.quoted()
            ),
        );
    }
    insert(plan, &mut script);
    update(plan, &mut script);
    match plan.deletes {
        Deletes::Refuse => script.step(
            "A DELETE carries no token, and a row made again would have forgotten its mark.",
            trigger(
                plan,
                "delete",
                "BEFORE DELETE",
                &raise(&Refused::Delete, "TRUE"),
            ),
        ),
        Deletes::KeepMark => keep_marks(plan, &mut script),
    }
    script
}

pub(super) fn undo(plan: &Enforcement) -> Script {
    let mut script = Script::new(plan.dialect, plan.undo_head());
    for part in PARTS {
        script.step(
            "",
            format!("DROP TRIGGER IF EXISTS {}", plan.table.own(part)),
        );
    }
    if plan.unnamed == Unnamed::Refuse {
        let note = plan.table.sister("note").quoted();
        script.step("", format!("DROP TABLE IF EXISTS {note}"));
    }
    script
}

/// SQLite accepts a trigger that names columns which are not there, and fails at each write. Outside of
/// a trigger it can raise no text, so the failing constraint carries it as its name.
fn preflight(plan: &Enforcement, script: &mut Script) {
    let columns = plan
        .key
        .iter()
        .chain(&plan.frozen)
        .chain(plan.unique.iter().flatten());
    let columns: Vec<_> = columns
        .chain([&plan.token])
        .map(|name| format!("t.{}", name.quoted()))
        .collect();
    script.step(
        "Stops here, with nothing changed, unless the table has these columns.",
        format!(
            "SELECT {} FROM {} AS t LIMIT 0",
            columns.join(", "),
            plan.table.quoted()
        ),
    );
    let schema = match plan.table.schema() {
        Some(schema) => schema.literal(),
        None => "'main'".to_owned(),
    };
    let table = plan.table.name().literal();
    script.step("", "DROP TABLE IF EXISTS temp.fencepost_check");
    script.step(
        "The constraints below are checks of the table: the name of the one that fails is the trouble.",
        "CREATE TEMP TABLE fencepost_check (type, unseen, collated,\n  \
         CONSTRAINT \"the token column must be INTEGER NOT NULL; --add-column makes it\" CHECK (type),\n  \
         CONSTRAINT \"REPLACE could remove rows by a unique key that is not named by --key or --unique\" CHECK (unseen = 0),\n  \
         CONSTRAINT \"REPLACE could remove rows by a unique index with a collation of its own; make it a UNIQUE constraint of the table\" CHECK (collated = 0))",
    );
    script.step(
        "",
        format!(
            "INSERT INTO temp.fencepost_check SELECT\n  \
             EXISTS (SELECT 1 FROM pragma_table_xinfo({table}, {schema}) WHERE name = {} COLLATE NOCASE AND upper(type) IN ('INTEGER', 'INT', 'BIGINT') AND \"notnull\"),\n  \
             (SELECT count(*) FROM pragma_index_list({table}, {schema}) AS i WHERE i.\"unique\"\n    \
             AND NOT EXISTS (SELECT 1 FROM pragma_index_info(i.name, {schema}) WHERE name IS NULL)\n    \
             AND (SELECT group_concat(lower(name), char(10)) FROM (SELECT name FROM pragma_index_info(i.name, {schema}) ORDER BY lower(name)))\n    \
             NOT IN ({covered}))\n  \
             + (SELECT count(*) = 1 AND max(upper(type)) = 'INTEGER' AND max(lower(name)) NOT IN ({covered}) FROM pragma_table_xinfo({table}, {schema}) WHERE pk > 0),\n  \
             (SELECT count(*) FROM pragma_index_list({table}, {schema}) AS i, pragma_index_xinfo(i.name, {schema}) AS c\n    \
             WHERE i.\"unique\" AND i.origin = 'c' AND c.key AND upper(c.coll) <> 'BINARY')",
            plan.token.literal(),
            covered = covered(plan)
        ),
    );
    script.step("", "DROP TABLE temp.fencepost_check");
}

/// The keys that the triggers look at, each as its sorted columns in one text.
fn covered(plan: &Enforcement) -> String {
    let keys = plan.unique.iter().chain([&plan.key]);
    let texts = keys.map(|columns| {
        let mut names: Vec<_> = columns
            .iter()
            .map(|column| format!("lower({})", column.literal()))
            .collect();
        names.sort_unstable();
        names.join(" || char(10) || ")
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn trigger(plan: &Enforcement, part: &str, when: &str, body: &str) -> String {
    format!(
        "CREATE TRIGGER {} {when} ON {} FOR EACH ROW\nBEGIN\n{body}END",
        plan.table.own(part),
        plan.table.bare()
    )
}

fn raise(refused: &Refused, condition: &str) -> String {
    format!("  SELECT RAISE(ABORT, '{refused}') WHERE {condition};\n")
}

/// The text with its numbers is the error of a function that was given it as a path; should a version of
/// SQLite take it, the fixed text behind it refuses all the same.
fn raise_stale(presented: &str, required: &str, from: &str, condition: &str) -> String {
    format!(
        "  SELECT json_extract('{{}}', '{STALE}' || {presented} || '{REQUIRED}' || ({required})) {from}WHERE {condition};\n  \
         SELECT RAISE(ABORT, 'fencepost: stale fencing token') {from}WHERE {condition};\n"
    )
}

fn no_token(plan: &Enforcement) -> String {
    let token = plan.token.quoted();
    raise(
        &Refused::NoToken,
        &format!("typeof(NEW.{token}) <> 'integer' OR NEW.{token} < 0"),
    )
}

/// `a.x IS b.x AND ...`: equal in all columns, nulls included, under the column's own collation.
fn same(columns: &[Name], left: &str, right: &str) -> String {
    list(columns, " AND ", |column| {
        format!("{left}.{0} IS {right}.{0}", column.quoted())
    })
}

/// As [`same`], but a null is equal to nothing: so is it for a unique key.
fn clash(columns: &[Name], left: &str, right: &str) -> String {
    list(columns, " AND ", |column| {
        format!("{left}.{0} = {right}.{0}", column.quoted())
    })
}

fn insert(plan: &Enforcement, script: &mut Script) {
    let (table, token) = (plan.table.bare(), plan.token.quoted());
    let mut body = no_token(plan);
    let there = clash(&plan.key, "t", "NEW");
    match plan.deletes {
        Deletes::Refuse => {
            let condition = format!("{there} AND NEW.{token} {} t.{token}", plan.refuses());
            body += &raise_stale(
                &format!("NEW.{token}"),
                &plan.required(&format!("t.{token}")),
                &format!("FROM {table} AS t "),
                &condition,
            );
        }
        Deletes::KeepMark => {
            body += &copy_mark(plan, &format!("FROM {table} AS t WHERE {there}"), "t")
        }
    }
    if let Some(column) = &plan.frozen {
        let same = same(std::slice::from_ref(column), "t", "NEW");
        body += &raise(
            &Refused::IssuerChange,
            &format!("EXISTS (SELECT 1 FROM {table} AS t WHERE {there} AND NOT ({same}))"),
        );
    }
    for columns in &plan.unique {
        let others = clash(columns, "t", "NEW");
        let same = same(&plan.key, "t", "NEW");
        body += &raise(
            &Refused::Delete,
            &format!("EXISTS (SELECT 1 FROM {table} AS t WHERE {others} AND NOT ({same}))"),
        );
    }
    script.step(
        "A new row carries a token, or 0 as long as nobody has fenced it. An INSERT that would remove or meet a row\n\
         (REPLACE, or an upsert, which look alike here) is held against that row's mark.",
        trigger(plan, "insert", "BEFORE INSERT", &body),
    );
}

fn update(plan: &Enforcement, script: &mut Script) {
    let token = plan.token.quoted();
    let mut body = no_token(plan);
    body += &raise_stale(
        &format!("NEW.{token}"),
        &plan.required(&format!("OLD.{token}")),
        "",
        &format!("NEW.{token} {} OLD.{token}", plan.refuses()),
    );
    let moved = same(&plan.key, "OLD", "NEW");
    body += &raise(&Refused::KeyChange, &format!("NOT ({moved})"));
    if let Some(column) = &plan.frozen {
        let same = same(std::slice::from_ref(column), "OLD", "NEW");
        body += &raise(&Refused::IssuerChange, &format!("NOT ({same})"));
    }
    for columns in &plan.unique {
        let (others, same) = (clash(columns, "t", "NEW"), same(&plan.key, "t", "OLD"));
        body += &raise(
            &Refused::Delete,
            &format!(
                "EXISTS (SELECT 1 FROM {} AS t WHERE {others} AND NOT ({same}))",
                plan.table.bare()
            ),
        );
    }
    if plan.unnamed == Unnamed::Refuse {
        unnamed(plan, script);
        let note = plan.table.sister("note").bare();
        body += &format!("  INSERT INTO {note} (named) VALUES (0);\n");
    }
    script.step(
        "Judges each row that an UPDATE touches. One that is refused undoes the whole statement.",
        trigger(plan, "update", "BEFORE UPDATE", &body),
    );
}

/// Each row that is updated begins a page of notes (0), and a statement that names the token column adds
/// that (1); after the row, the last note must be a 1, and its page goes. A page that was left behind, by
/// UPDATE OR IGNORE over a broken constraint, is therefore never read. The trigger that was made last
/// fires first, so the one that begins the page is made last; in another order all would be refused.
fn unnamed(plan: &Enforcement, script: &mut Script) {
    let note = plan.table.sister("note");
    let (whole, bare) = (note.quoted(), note.bare());
    script.step(
        "Notes of the UPDATE that is at a row: whether its statement names the token column.",
        format!("CREATE TABLE IF NOT EXISTS {whole} (named INTEGER)"),
    );
    let when = format!("BEFORE UPDATE OF {}", plan.token.quoted());
    script.step(
        "Fires only for a statement that names the token column.",
        trigger(
            plan,
            "named",
            &when,
            &format!("  INSERT INTO {bare} (named) VALUES (1);\n"),
        ),
    );
    let without = raise(
        &Refused::NoToken,
        &format!("(SELECT named FROM {bare} ORDER BY rowid DESC LIMIT 1) IS NOT 1"),
    );
    script.step(
        "An UPDATE that names no token carries none, and is refused.",
        trigger(
            plan,
            "unnamed",
            "AFTER UPDATE",
            &format!(
                "{without}  DELETE FROM {bare} WHERE rowid >= (SELECT max(rowid) FROM {bare} WHERE named = 0);\n"
            ),
        ),
    );
}

/// Writes the mark of the rows that a query gives, unless a higher one is kept already. Plain statements:
/// in a trigger, the outer statement's OR REPLACE or OR IGNORE would take the place of an upsert's clause.
fn copy_mark(plan: &Enforcement, rows: &str, row: &str) -> String {
    let (kept, token) = (plan.kept().bare(), plan.token.quoted());
    let columns = list(&plan.key, ", ", |column| {
        format!("{row}.{}", column.quoted())
    });
    let known = same(&plan.key, row, "m");
    let key = plan.key_list();
    format!(
        "  INSERT INTO {kept} ({key}, {token}) SELECT {columns}, {row}.{token} {rows}\n    \
         AND NOT EXISTS (SELECT 1 FROM {kept} AS m WHERE {known} AND m.{token} >= {row}.{token});\n"
    )
}

fn keep_marks(plan: &Enforcement, script: &mut Script) {
    let (kept, token) = (plan.kept().bare(), plan.token.quoted());
    script.step(
        "Keeps the mark of a row that goes.",
        trigger(
            plan,
            "keep",
            "AFTER DELETE",
            &copy_mark(plan, "WHERE TRUE", "OLD"),
        ),
    );
    let known = same(&plan.key, "NEW", "m");
    let gone = same(&plan.key, "NEW", &kept);
    let refuses = match plan.equal {
        EqualTokens::MayWriteAgain => format!("NEW.{token} < m.{token}"),
        // A row that nobody had fenced leaves no mark.
        EqualTokens::Once => format!("NEW.{token} <= m.{token} AND m.{token} > 0"),
    };
    let body = raise_stale(
        &format!("NEW.{token}"),
        &plan.required(&format!("m.{token}")),
        &format!("FROM {kept} AS m "),
        &format!("{known} AND {refuses}"),
    ) + &format!("  DELETE FROM {kept} WHERE {gone};\n");
    script.step(
        "Holds a row that comes against the mark kept of the one that went; from here on the row carries it.",
        trigger(plan, "judge", "AFTER INSERT", &body),
    );
}
