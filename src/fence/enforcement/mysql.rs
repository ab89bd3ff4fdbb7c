//! The triggers in MariaDB and MySQL, which understand the same statements here.
//!
//! Their triggers cannot see which columns a statement names, so a statement that names no token
//! looks like one that presents the row's own. And two ways of writing fire no trigger at all. Both
//! stand in the script's head, for whoever reviews it.

use crate::fence::EqualTokens;

use super::{
    Deletes, Enforcement, Refused, Script,
    plan::list,
    refused::{REQUIRED, STALE},
};

const LIMITS: &str = "\
What fires no trigger here, and so is not refused: TRUNCATE (it needs the DROP privilege: do not grant it),
ALTER TABLE ... DROP, TRUNCATE or EXCHANGE PARTITION, CREATE OR REPLACE TABLE, a temporary table of the same name as
the one that keeps marks (for its own session: do not grant CREATE TEMPORARY TABLES with --deletes keep-mark), what foreign keys cascade (ON DELETE CASCADE, ON UPDATE CASCADE, SET NULL: do
not declare them on this table), and a replica that applies row events. Each statement below commits by itself; a
second application stops at the first trigger that is there, with nothing changed. With binary logging, making
triggers needs SUPER, or log_bin_trust_function_creators = 1. Names are taken exactly as written.";

const UNNAMED: &str = "\
An UPDATE that does not name the token column looks like one that presents the row's own token, and passes: these
triggers cannot tell. With --equal-tokens refuse, every UPDATE must carry a higher token, and such a one is refused.";

pub(super) fn apply(plan: &Enforcement) -> Script {
    let limits = match plan.equal {
        EqualTokens::MayWriteAgain => format!("{LIMITS}\n{UNNAMED}"),
        EqualTokens::Once => LIMITS.to_owned(),
    };
    let mut script = plan.opening(&limits, "BIGINT");
    preflight(plan, &mut script);
    if plan.deletes == Deletes::KeepMark {
        kept_table(plan, &mut script);
    }
    script.step(
        "Judges each row that an UPDATE touches (also the one of ON DUPLICATE KEY). One that is refused undoes the\n\
         whole statement. It sees the row as it is once its lock is held, at every isolation level.",
        trigger(plan, "update", "BEFORE UPDATE", &update_body(plan)),
    );
    let token = plan.token.quoted();
    let no_token = format!(
        "  IF NEW.{token} IS NULL OR NEW.{token} < 0 THEN\n    {}\n  END IF;\n",
        signal(&Refused::NoToken)
    );
    script.step(
        "A new row carries a token, or 0 as long as nobody has fenced it.",
        trigger(plan, "insert", "BEFORE INSERT", &no_token),
    );
    match plan.deletes {
        Deletes::Refuse => script.step(
            "A DELETE carries no token, and a row made again would have forgotten its mark. This refuses REPLACE\n\
             over a row, too, which deletes it first.",
            trigger(plan, "delete", "BEFORE DELETE", &format!("  {}\n", signal(&Refused::Delete))),
        ),
        Deletes::KeepMark => keep_marks(plan, &mut script),
    }
    script
}

pub(super) fn undo(plan: &Enforcement) -> Script {
    let mut script = Script::new(plan.dialect, plan.undo_head());
    for part in ["update", "insert", "delete", "keep", "judge"] {
        let sql = format!("DROP TRIGGER IF EXISTS {}", plan.table.own(part));
        script.step("", sql);
    }
    script.step(
        "There only if an application was stopped by its check.",
        format!("DROP PROCEDURE IF EXISTS {}", plan.table.own("check")),
    );
    script
}

/// A procedure that asks the catalogue: outside of one, nothing can be raised on a condition.
fn preflight(plan: &Enforcement, script: &mut Script) {
    let procedure = plan.table.own("check");
    let schema = match plan.table.schema() {
        Some(schema) => schema.literal(),
        None => "DATABASE()".to_owned(),
    };
    let of_table = format!(
        "table_schema = {schema} AND table_name = {}",
        plan.table.name().literal()
    );
    let stop =
        |text: &str| format!("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencepost: {text}';");
    let columns = plan.key.len() + usize::from(plan.frozen.is_some());
    let names = plan
        .key
        .iter()
        .chain(&plan.frozen)
        .map(|name| name.literal());
    let names = names.collect::<Vec<_>>().join(", ");
    let body = format!(
        "  IF NOT EXISTS (SELECT 1 FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine\n      \
             WHERE {of_table} AND e.transactions = 'YES') THEN\n    {}\n  END IF;\n  \
         IF NOT EXISTS (SELECT 1 FROM information_schema.columns WHERE {of_table} AND column_name = {}\n      \
             AND data_type = 'bigint' AND column_type NOT LIKE '%unsigned%' AND is_nullable = 'NO') THEN\n    {}\n  END IF;\n  \
         IF (SELECT count(*) FROM information_schema.columns WHERE {of_table} AND column_name IN ({names})) < {columns} THEN\n    {}\n  END IF;\n",
        stop(
            "there is no such table, or its engine has no transactions and would keep half of a refused statement"
        ),
        plan.token.literal(),
        stop("the token column must be there, as BIGINT NOT NULL; --add-column makes it"),
        stop("the key columns are not there; name them by --key"),
    );
    script.step("", format!("DROP PROCEDURE IF EXISTS {procedure}"));
    script.step(
        "Stops here, with no trigger made, unless the table's engine has transactions (MyISAM and Aria keep the rows\n\
         that a refused statement wrote before the refused one) and the columns are there and of the right kind.",
        format!("CREATE PROCEDURE {procedure}()\nBEGIN\n{body}END"),
    );
    script.step("", format!("CALL {procedure}()"));
    script.step("", format!("DROP PROCEDURE {procedure}"));
}

fn trigger(plan: &Enforcement, part: &str, when: &str, body: &str) -> String {
    format!(
        "CREATE TRIGGER {} {when} ON {} FOR EACH ROW\nBEGIN\n{body}END",
        plan.table.own(part),
        plan.table.quoted()
    )
}

fn signal(refused: &Refused) -> String {
    format!(
        "SIGNAL SQLSTATE '{}' SET MESSAGE_TEXT = '{refused}';",
        refused.sqlstate()
    )
}

/// The message must be a variable by the time of the SIGNAL, which takes no expression.
fn signal_stale(presented: &str, required: &str) -> String {
    let some = Refused::Stale {
        presented: 0,
        required: 0,
    };
    format!(
        "SET fencepost_text = CONCAT('{STALE}', {presented}, '{REQUIRED}', {required});\n    \
         SIGNAL SQLSTATE '{}' SET MESSAGE_TEXT = fencepost_text;",
        some.sqlstate()
    )
}

fn update_body(plan: &Enforcement) -> String {
    let token = plan.token.quoted();
    let stale = signal_stale(
        &format!("NEW.{token}"),
        &plan.required(&format!("OLD.{token}")),
    );
    let same = list(&plan.key, " AND ", |column| {
        format!("OLD.{0} <=> NEW.{0}", column.quoted())
    });
    let mut body = format!(
        "  DECLARE fencepost_text VARCHAR(128);\n  \
         IF NEW.{token} IS NULL OR NEW.{token} < 0 THEN\n    {}\n  END IF;\n  \
         IF NEW.{token} {} OLD.{token} THEN\n    {stale}\n  END IF;\n  \
         IF NOT ({same}) THEN\n    {}\n  END IF;\n",
        signal(&Refused::NoToken),
        plan.refuses(),
        signal(&Refused::KeyChange)
    );
    if let Some(column) = &plan.frozen {
        body += &format!(
            "  IF NOT (OLD.{0} <=> NEW.{0}) THEN\n    {1}\n  END IF;\n",
            column.quoted(),
            signal(&Refused::IssuerChange)
        );
    }
    body
}

fn kept_table(plan: &Enforcement, script: &mut Script) {
    let (kept, key) = (plan.kept().quoted(), plan.key_list());
    script.step(
        "The marks of deleted rows are kept here, in the types of the table's own key. Only the triggers write it.",
        format!(
            "CREATE TABLE IF NOT EXISTS {kept} (PRIMARY KEY ({key})) ENGINE = InnoDB\n  AS SELECT {key}, {} FROM {} WHERE FALSE",
            plan.token.quoted(),
            plan.table.quoted()
        ),
    );
}

/// Marks outlive their rows. Both triggers write the mark's row, also where it is not there yet, and so
/// hold its lock: what they read is what is there, not what the transaction's snapshot remembers.
fn keep_marks(plan: &Enforcement, script: &mut Script) {
    let (kept, key, token) = (plan.kept().quoted(), plan.key_list(), plan.token.quoted());
    let old = list(&plan.key, ", ", |column| format!("OLD.{}", column.quoted()));
    let new = list(&plan.key, ", ", |column| format!("NEW.{}", column.quoted()));
    let same = list(&plan.key, " AND ", |column| {
        format!("m.{0} = NEW.{0}", column.quoted())
    });
    script.step(
        "Keeps the mark of a row that goes.",
        trigger(
            plan,
            "keep",
            "AFTER DELETE",
            &format!(
                "  INSERT INTO {kept} ({key}, {token}) VALUES ({old}, OLD.{token})\n    \
                 ON DUPLICATE KEY UPDATE {token} = GREATEST({token}, OLD.{token});\n"
            ),
        ),
    );
    let refuses = match plan.equal {
        EqualTokens::MayWriteAgain => format!("NEW.{token} < fencepost_mark"),
        // A row that nobody had fenced leaves no mark.
        EqualTokens::Once => format!("NEW.{token} <= fencepost_mark AND fencepost_mark > 0"),
    };
    let stale = signal_stale(&format!("NEW.{token}"), &plan.required("fencepost_mark"));
    script.step(
        "Holds a row that comes against it, after the row that a REPLACE removed has left its mark.",
        trigger(
            plan,
            "judge",
            "AFTER INSERT",
            &format!(
                "  DECLARE fencepost_text VARCHAR(128);\n  DECLARE fencepost_mark BIGINT;\n  \
                 INSERT INTO {kept} ({key}, {token}) VALUES ({new}, 0) ON DUPLICATE KEY UPDATE {token} = {token};\n  \
                 SELECT m.{token} INTO fencepost_mark FROM {kept} AS m WHERE {same} FOR UPDATE;\n  \
                 IF {refuses} THEN\n    {stale}\n  END IF;\n  \
                 UPDATE {kept} AS m SET m.{token} = NEW.{token} WHERE {same};\n"
            ),
        ),
    );
}
