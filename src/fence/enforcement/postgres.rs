//! The triggers in PostgreSQL.
//!
//! Two of them judge an UPDATE. The first fires only for statements that name the token column
//! (`UPDATE OF`), and marks the row on its way by making the token negative; the second fires for
//! all, reads the sign, and puts the token back. That is how a statement that names no token is told
//! from one that presents the row's own. Their names come last in the alphabet, which is the order in
//! which triggers fire, so that they judge what the table's other triggers have made of the row.

use crate::fence::EqualTokens;

use super::{
    Deletes, Enforcement, Refused, Script, Unnamed,
    name::Name,
    plan::list,
    refused::{REQUIRED, STALE},
};

const LIMITS: &str = "\
These triggers do not fire for whoever switches them off: ALTER TABLE ... DISABLE TRIGGER (the table's
owner), session_replication_role = replica (a superuser; logical replication applies rows that way),
pg_restore --disable-triggers. They do fire for COPY, MERGE, foreign keys' actions and rows of partitions.
Tables that inherit (INHERITS) need triggers of their own. A row cannot change its partition, whose columns are
part of the key. TRUNCATE of a single partition fires none: do not grant it there. Names are taken exactly as written: \"Accounts\" is not \"accounts\".";

/// A trigger's name in a table; it needs to be unique there only.
const NAMED: &str = "zz_fencepost_1_named";
const UPDATE: &str = "zz_fencepost_2_update";
const INSERT: &str = "zz_fencepost_3_insert";
const DELETE: &str = "zz_fencepost_4_delete";
const TRUNCATE: &str = "zz_fencepost_5_truncate";
const KEEP: &str = "zz_fencepost_6_keep";

pub(super) fn apply(plan: &Enforcement) -> Script {
    let mut script = plan.opening(LIMITS, "bigint");
    script.step(
        "Stops here, with nothing changed, unless the table has these columns and the token is a bigint NOT NULL.",
        preflight(plan),
    );
    insert(plan, &mut script);
    update(plan, &mut script);
    match plan.deletes {
        Deletes::Refuse => refuse_deletes(plan, &mut script),
        Deletes::KeepMark => keep_marks(plan, &mut script),
    }
    let function = plan.table.own("delete");
    trigger(
        plan,
        &mut script,
        TRUNCATE,
        "BEFORE TRUNCATE",
        "STATEMENT",
        &function,
    );
    revoke(plan, &mut script);
    script
}

/// Firing a trigger needs no right on its function; hanging the function on a table of one's own does.
fn revoke(plan: &Enforcement, script: &mut Script) {
    let named = (plan.unnamed == Unnamed::Refuse).then_some("named");
    let keep = (plan.deletes == Deletes::KeepMark).then_some("keep");
    let parts = ["update", "insert", "delete"];
    for (n, part) in parts.into_iter().chain(named).chain(keep).enumerate() {
        let why = match n {
            0 => "Nobody else may hang these functions on tables of their own.",
            _ => "",
        };
        script.step(
            why,
            format!(
                "REVOKE ALL ON FUNCTION {}() FROM PUBLIC",
                plan.table.own(part)
            ),
        );
    }
}

pub(super) fn undo(plan: &Enforcement) -> Script {
    let table = plan.table.quoted();
    let mut script = Script::new(plan.dialect, plan.undo_head());
    for trigger in [NAMED, UPDATE, INSERT, DELETE, TRUNCATE, KEEP] {
        let sql = format!("DROP TRIGGER IF EXISTS {trigger} ON {table}");
        script.step("", sql);
    }
    for part in ["named", "update", "insert", "delete", "keep"] {
        let sql = format!("DROP FUNCTION IF EXISTS {}()", plan.table.own(part));
        script.step("", sql);
    }
    script
}

/// Asks the catalogue, and raises an error for what is not there.
fn preflight(plan: &Enforcement) -> String {
    let table = regclass(plan);
    let mut checks = format!(
        "  IF to_regclass({table}) IS NULL THEN\n    \
             RAISE EXCEPTION USING MESSAGE = 'fencepost: there is no table ' || {table},\n      \
             HINT = 'Names are taken exactly as written, case included; a table that is not in public is named as SCHEMA.NAME.';\n  \
         END IF;\n"
    );
    for column in plan.key.iter().chain(&plan.frozen) {
        checks += &missing_column(
            &table,
            column,
            "",
            "is not there; name the columns of the key by --key",
        );
    }
    checks += &missing_column(
        &table,
        &plan.token,
        " AND atttypid = 'bigint'::regtype AND attnotnull",
        "must be there, as bigint NOT NULL, to carry the token; --add-column makes it",
    );
    checks += &unfit_table(plan, &table);
    quoted_body("DO ", &format!("BEGIN\n{checks}END"), "")
}

/// Stops at a table whose rows or marks could go in another way, and at names that somebody else took
/// beforehand: the owner of a function or of a table of marks could change it afterwards.
fn unfit_table(plan: &Enforcement, table: &str) -> String {
    let class = format!("FROM pg_catalog.pg_class WHERE oid = {table}::regclass");
    let owners = format!(
        "(SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user UNION SELECT relowner {class})"
    );
    let space = format!("(SELECT relnamespace {class})");
    let own = ["named", "update", "insert", "delete", "keep"]
        .map(|part| plan.table.sister(part).name().literal())
        .join(", ");
    let key = list(&plan.key, ", ", Name::literal);
    let columns = plan.key.len();
    let stop = |condition: String, text: &str| {
        format!(
            "  IF {condition} THEN\n    RAISE EXCEPTION USING MESSAGE = 'fencepost: {text}';\n  END IF;\n"
        )
    };
    stop(
        format!("(SELECT relpersistence {class}) <> 'p'"),
        "the table is temporary or unlogged: its marks would not outlive a crash",
    ) + &stop(
        format!(
            "NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = {table}::regclass AND i.indisunique AND i.indimmediate\n    \
             AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = {columns} AND {columns} = (SELECT count(*) FROM pg_catalog.pg_attribute a\n    \
             WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) AND a.attnotnull AND a.attname IN ({key})))"
        ),
        "the columns of the key are no primary key, nor another unique one that is NOT NULL and not deferrable; name it by --key",
    ) + &stop(
        format!(
            "EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace = {space} AND pronargs = 0\n    \
             AND proname IN ({own}) AND proowner NOT IN {owners})"
        ),
        "somebody else owns a function with the name of one that is made here; drop it first",
    ) + &stop(
        format!(
            "EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = {space}\n    \
             AND relname = {} AND relowner NOT IN {owners})",
            plan.kept().name().literal()
        ),
        "somebody else owns a table with the name of the one that keeps marks; drop it first",
    )
}

fn missing_column(table: &str, column: &Name, and: &str, trouble: &str) -> String {
    let column = column.literal();
    format!(
        "  IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = {table}::regclass\n    \
             AND attname = {column} AND NOT attisdropped AND attnum > 0{and}) THEN\n    \
             RAISE EXCEPTION USING MESSAGE = 'fencepost: column ' || {column} || ' of the table {trouble}';\n  \
         END IF;\n"
    )
}

fn regclass(plan: &Enforcement) -> String {
    let quoted = plan.table.quoted().replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// A body between dollar quotes that do not occur in it.
fn quoted_body(before: &str, body: &str, after: &str) -> String {
    let tag = (0..)
        .map(|n| match n {
            0 => "$fencepost$".to_owned(),
            n => format!("$fencepost{n}$"),
        })
        .find(|tag| !body.contains(tag.as_str()))
        .expect("a finite text does not contain infinitely many tags");
    format!("{before}{tag}\n{body}\n{tag}{after}")
}

/// A trigger function. Operators are looked up in `pg_catalog` alone, whatever the caller's path is.
fn function(plan: &Enforcement, part: &str, options: &str, body: &str) -> String {
    let head = format!(
        "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql{options}\n  \
         SET search_path = pg_catalog, pg_temp AS ",
        plan.table.own(part)
    );
    quoted_body(&head, body, "")
}

fn trigger(
    plan: &Enforcement,
    script: &mut Script,
    name: &str,
    when: &str,
    each: &str,
    function: &str,
) {
    let table = plan.table.quoted();
    script.step("", format!("DROP TRIGGER IF EXISTS {name} ON {table}"));
    script.step(
        "",
        format!(
            "CREATE TRIGGER {name} {when} ON {table}\n  FOR EACH {each} EXECUTE FUNCTION {function}()"
        ),
    );
}

/// `RAISE` with the refusal's code, and the table in the error's fields.
fn raise(refused: &Refused) -> String {
    let message = format!("'{refused}'");
    raise_with(refused, &message)
}

fn raise_with(refused: &Refused, message: &str) -> String {
    format!(
        "RAISE EXCEPTION USING ERRCODE = '{}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,\n      \
         MESSAGE = {message};",
        refused.sqlstate()
    )
}

fn raise_stale(presented: &str, required: &str) -> String {
    let some = Refused::Stale {
        presented: 0,
        required: 0,
    };
    raise_with(
        &some,
        &format!("'{STALE}' || {presented} || '{REQUIRED}' || ({required})"),
    )
}

fn insert(plan: &Enforcement, script: &mut Script) {
    let new = format!("NEW.{}", plan.token.quoted());
    let body = format!(
        "BEGIN\n  IF {new} IS NULL OR {new} < 0 THEN\n    {}\n  END IF;\n  RETURN NEW;\nEND",
        raise(&Refused::NoToken)
    );
    script.step(
        "A new row carries a token, or 0 as long as nobody has fenced it. An upsert that meets a row is judged as\n\
         the update that it is.",
        function(plan, "insert", "", &body),
    );
    let function = plan.table.own("insert");
    trigger(plan, script, INSERT, "BEFORE INSERT", "ROW", &function);
}

fn update(plan: &Enforcement, script: &mut Script) {
    let token = plan.token.quoted();
    if plan.unnamed == Unnamed::Refuse {
        let body = format!(
            "BEGIN\n  IF NEW.{token} IS NULL OR NEW.{token} < 0 THEN\n    {}\n  END IF;\n  \
             NEW.{token} := -1 - NEW.{token};\n  RETURN NEW;\nEND",
            raise(&Refused::NoToken)
        );
        script.step(
            "Fires only for a statement that names the token column. It makes the token negative on its way to the\n\
             next trigger, which thereby tells it from a statement that names no token, and puts it back.",
            function(plan, "named", "", &body),
        );
        let function = plan.table.own("named");
        let when = format!("BEFORE UPDATE OF {token}");
        trigger(plan, script, NAMED, &when, "ROW", &function);
    } else {
        script.step(
            "",
            format!("DROP TRIGGER IF EXISTS {NAMED} ON {}", plan.table.quoted()),
        );
    }
    script.step(
        "Judges each row that an UPDATE touches. One that is refused undoes the whole statement. It sees the row\n\
         as it is after waiting for whoever wrote it before, at every isolation level.",
        function(plan, "update", "", &update_body(plan)),
    );
    let function = plan.table.own("update");
    trigger(plan, script, UPDATE, "BEFORE UPDATE", "ROW", &function);
}

fn update_body(plan: &Enforcement) -> String {
    let token = plan.token.quoted();
    let no_token = raise(&Refused::NoToken);
    let named = match plan.unnamed {
        Unnamed::Refuse => format!(
            "  IF NEW.{token} < 0 THEN\n    presented := -1 - NEW.{token};\n  \
             ELSIF NEW.{token} IS NULL OR NEW.{token} = OLD.{token} THEN\n    {no_token}\n  ELSE\n    \
             presented := NEW.{token};\n  END IF;\n"
        ),
        Unnamed::Allow => format!(
            "  IF NEW.{token} IS NULL OR NEW.{token} < 0 THEN\n    {no_token}\n  END IF;\n  \
             presented := NEW.{token};\n"
        ),
    };
    let refuses = plan.refuses();
    let stale = raise_stale("presented", &plan.required(&format!("OLD.{token}")));
    let moved = list(&plan.key, ", ", |column| format!("OLD.{}", column.quoted()));
    let to = list(&plan.key, ", ", |column| format!("NEW.{}", column.quoted()));
    let mut body = format!(
        "DECLARE\n  presented bigint;\nBEGIN\n{named}  IF presented {refuses} OLD.{token} THEN\n    {stale}\n  END IF;\n  \
         IF ({moved}) IS DISTINCT FROM ({to}) THEN\n    {}\n  END IF;\n",
        raise(&Refused::KeyChange)
    );
    if let Some(column) = &plan.frozen {
        let column = column.quoted();
        body += &format!(
            "  IF OLD.{column} IS DISTINCT FROM NEW.{column} THEN\n    {}\n  END IF;\n",
            raise(&Refused::IssuerChange)
        );
    }
    body + &format!("  NEW.{token} := presented;\n  RETURN NEW;\nEND")
}

fn refuse_deletes(plan: &Enforcement, script: &mut Script) {
    refusing_function(plan, script);
    let table = plan.table.quoted();
    script.step("", format!("DROP TRIGGER IF EXISTS {KEEP} ON {table}"));
    let function = plan.table.own("delete");
    trigger(plan, script, DELETE, "BEFORE DELETE", "ROW", &function);
}

fn refusing_function(plan: &Enforcement, script: &mut Script) {
    script.step(
        "A DELETE carries no token, and a row made again would have forgotten its mark. TRUNCATE likewise.",
        function(
            plan,
            "delete",
            "",
            &format!("BEGIN\n  {}\nEND", raise(&Refused::Delete)),
        ),
    );
}

/// Marks outlive their rows. Both functions write the mark's row, also where it is not there yet: so
/// two transactions that cannot see each other clash in it, instead of passing each other by.
fn keep_marks(plan: &Enforcement, script: &mut Script) {
    refusing_function(plan, script);
    let (table, kept, key) = (plan.table.quoted(), plan.kept().quoted(), plan.key_list());
    let token = plan.token.quoted();
    script.step(
        "The marks of deleted rows are kept here, in the types of the table's own key. Only the triggers write it.",
        format!("CREATE TABLE IF NOT EXISTS {kept} AS SELECT {key}, {token} FROM {table} WITH NO DATA"),
    );
    script.step(
        "",
        format!(
            "CREATE UNIQUE INDEX IF NOT EXISTS {} ON {kept} ({key})",
            kept_index(plan)
        ),
    );
    script.step(
        "Keeps the mark of a row that goes, and holds a row that comes against it.",
        function(plan, "keep", " SECURITY DEFINER", &keep_body(plan)),
    );
    let function = plan.table.own("keep");
    trigger(
        plan,
        script,
        KEEP,
        "AFTER INSERT OR DELETE",
        "ROW",
        &function,
    );
    script.step("", format!("DROP TRIGGER IF EXISTS {DELETE} ON {table}"));
    script.step(
        "The function writes the marks with the rights of the table's owner, who may do all to the table anyway, and with\n\
         no more: not with those of whoever applies this.",
        given_to_owner(plan),
    );
}

/// Whoever owns the table owns what guards it: a function that runs as a superuser would lend that power
/// to the owner, who chooses the types that it handles.
fn given_to_owner(plan: &Enforcement) -> String {
    let (table, function) = (regclass(plan), plan.table.own("keep"));
    let kept = plan.kept().quoted();
    let owner = format!(
        "(SELECT pg_get_userbyid(relowner) FROM pg_catalog.pg_class WHERE oid = {table}::regclass)"
    );
    let literal = |text: String| super::name::literal(plan.dialect, &text);
    let (alter_function, alter_table) = (
        literal(format!("ALTER FUNCTION {function}() OWNER TO ")),
        literal(format!("ALTER TABLE {kept} OWNER TO ")),
    );
    quoted_body(
        "DO ",
        &format!(
            "BEGIN\n  EXECUTE {alter_function} || quote_ident({owner});\n  EXECUTE {alter_table} || quote_ident({owner});\nEND"
        ),
        "",
    )
}

/// An index lives in its table's schema, and is named without it.
fn kept_index(plan: &Enforcement) -> String {
    plan.table.sister("marks_key").bare()
}

fn keep_body(plan: &Enforcement) -> String {
    let (kept, key, token) = (plan.kept().quoted(), plan.key_list(), plan.token.quoted());
    let old = list(&plan.key, ", ", |column| format!("OLD.{}", column.quoted()));
    let new = list(&plan.key, ", ", |column| format!("NEW.{}", column.quoted()));
    let same = list(&plan.key, " AND ", |column| {
        format!("m.{0} = NEW.{0}", column.quoted())
    });
    let passes = match plan.equal {
        EqualTokens::MayWriteAgain => format!("m.{token} <= excluded.{token}"),
        // A row that nobody had fenced leaves no mark.
        EqualTokens::Once => format!("(m.{token} < excluded.{token} OR m.{token} = 0)"),
    };
    let stale = raise_stale(&format!("NEW.{token}"), &plan.required("fencepost_mark"));
    format!(
        "#variable_conflict use_column\nDECLARE\n  fencepost_mark bigint;\nBEGIN\n  IF TG_OP = 'DELETE' THEN\n    \
         INSERT INTO {kept} AS m ({key}, {token}) VALUES ({old}, OLD.{token})\n      \
         ON CONFLICT ({key}) DO UPDATE SET {token} = greatest(m.{token}, excluded.{token});\n    RETURN OLD;\n  END IF;\n  \
         INSERT INTO {kept} AS m ({key}, {token}) VALUES ({new}, NEW.{token})\n    \
         ON CONFLICT ({key}) DO UPDATE SET {token} = excluded.{token} WHERE {passes};\n  \
         IF NOT FOUND THEN\n    SELECT m.{token} INTO fencepost_mark FROM {kept} AS m WHERE {same};\n    {stale}\n  END IF;\n  RETURN NEW;\nEND"
    )
}
