//! `fencepost guard sql`: the statements by which a database refuses stale writers itself.

use super::exit::{self, Failure, USAGE};
use clap::ValueEnum;
use fencepost::fence::{
    EqualTokens,
    enforcement::{
        Deletes, Dialect, Enforcement, EnforcementError, GuardTableScript, IssuerTableScript,
        Script, Unnamed,
    },
};
use std::io::{self, Write};

const AFTER_HELP: &str = "\
Nothing is applied: the statements are printed, with comments, to be reviewed and run by whoever keeps the \
schema. The same options with --undo print what takes the triggers back. Columns and tables stay, and with them \
every mark, unless --drop-marks says to drop them: nothing can tell whether they were there before.

Once applied, a statement with a lower token than a row carries fails as a whole, whatever its WHERE says: \
\"fencepost: stale fencing token: presented 5, required 7\" (SQLSTATE ZF001). So do one that sets no token (ZF002; \
not in MySQL and MariaDB, see --unnamed-token), a DELETE (ZF003) and a change of the key (ZF004).

Examples:
  fencepost guard sql --dialect postgres --table accounts --add-column
  fencepost guard sql --dialect mariadb --table bank.accounts --key account_no --equal-tokens refuse
  fencepost guard sql --dialect sqlite --table accounts --unique email --unique tenant,number
  fencepost guard sql --dialect postgres --table accounts --add-column --undo
  fencepost guard sql --dialect postgres --table accounts --add-column --undo --drop-marks
  fencepost guard sql --dialect postgres --guard-table fencing_marks   # a table of marks
  fencepost guard sql --dialect postgres --issuer-table lock_grants    # without a cluster";

/// Arguments of `fencepost guard sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(override_usage = "fencepost guard sql --dialect <DIALECT> --table <NAME> [OPTIONS]")]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["table", "guard_table", "issuer_table"]))]
pub(crate) struct Args {
    /// The database that the statements are for
    #[arg(long)]
    dialect: DialectName,
    /// The table whose rows are protected, as NAME or SCHEMA.NAME (PostgreSQL: public, unless named);
    /// taken exactly as written, case included. A part with a dot or a double quote stands in double
    /// quotes
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The column that carries the token: a bigint, not null
    #[arg(long, value_name = "COLUMN", default_value = "fencing_token")]
    token_column: String,
    /// The columns that say which row it is (its primary key), with commas between them; a row that
    /// got another key would leave its mark behind
    #[arg(long, value_name = "COLUMNS", default_value = "id")]
    key: String,
    /// More columns that are unique together; once for each such key. SQLite needs them: its REPLACE
    /// removes rows that clash in any
    #[arg(long, value_name = "COLUMNS")]
    unique: Vec<String>,
    /// Add the token column first (and drop it last, with --undo --drop-marks)
    #[arg(long)]
    add_column: bool,
    /// What a token equal to the row's may do: write again (a holder writes more than once), or not
    #[arg(long, value_name = "POLICY", default_value = "allow")]
    equal_tokens: Policy,
    /// What an UPDATE may do that does not set the token column [default: refuse; in MySQL and
    /// MariaDB, whose triggers cannot tell, allow unless equal tokens are refused]
    #[arg(long, value_name = "POLICY")]
    unnamed_token: Option<Policy>,
    /// What becomes of a DELETE: refused, or let through with the row's mark kept beside, so that a
    /// row made again under its key needs a token that is not lower
    #[arg(long, value_name = "POLICY", default_value = "refuse")]
    deletes: DeletePolicy,
    /// Make a table of marks of this name, for data whose own tables cannot change; one that is there
    /// keeps its marks, and gets the triggers
    #[arg(long, value_name = "NAME")]
    guard_table: Option<String>,
    /// Make an issuer's table of this name: grants by the database, for those who need no cluster
    #[arg(long, value_name = "NAME")]
    issuer_table: Option<String>,
    /// Print the statements that take back the triggers that the same options put in place; no mark
    /// is lost
    #[arg(long)]
    undo: bool,
    /// With --undo, drop the marks, too: the column of --add-column, the marks of --deletes keep-mark,
    /// the tables of --guard-table and --issuer-table, also if they were there before. Stale writers
    /// pass what is made again
    #[arg(long, requires = "undo")]
    drop_marks: bool,
}

/// The databases, by the names that people type.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DialectName {
    #[value(alias = "postgresql")]
    Postgres,
    Mariadb,
    #[value(name = "mysql")]
    MySql,
    Sqlite,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Postgres => Self::Postgres,
            DialectName::Mariadb => Self::MariaDb,
            DialectName::MySql => Self::MySql,
            DialectName::Sqlite => Self::Sqlite,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    Allow,
    Refuse,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeletePolicy {
    Refuse,
    KeepMark,
}

/// Which of a table's scripts is asked for.
#[derive(Debug, Clone, Copy)]
enum Printed {
    Apply,
    Undo,
    UndoAndDrop,
}

impl Printed {
    fn of(args: &Args) -> Self {
        match (args.undo, args.drop_marks) {
            (false, _) => Self::Apply,
            (true, false) => Self::Undo,
            (true, true) => Self::UndoAndDrop,
        }
    }
}

/// Prints the statements.
pub(crate) fn run(args: &Args) -> exit::Outcome {
    let scripts = scripts(args).map_err(|error| Failure::new(USAGE, error))?;
    let mut stdout = io::stdout().lock();
    for (position, script) in scripts.iter().enumerate() {
        let gap = if position > 0 { "\n" } else { "" };
        write!(stdout, "{gap}{script}")?;
    }
    Ok(())
}

fn scripts(args: &Args) -> Result<Vec<Script>, EnforcementError> {
    let dialect = args.dialect.into();
    let mut scripts = Vec::new();
    if let Some(table) = &args.table {
        let plan = plan(args, dialect, table)?;
        scripts.push(match Printed::of(args) {
            Printed::Apply => plan.apply(),
            Printed::Undo => plan.undo(),
            Printed::UndoAndDrop => plan.undo_and_drop(),
        }?);
    }
    if let Some(table) = &args.guard_table {
        let table = GuardTableScript::new(dialect, table)?;
        scripts.push(match Printed::of(args) {
            Printed::Apply => table.apply(),
            Printed::Undo => table.undo(),
            Printed::UndoAndDrop => table.undo_and_drop(),
        });
    }
    if let Some(table) = &args.issuer_table {
        let table = IssuerTableScript::new(dialect, table)?;
        scripts.push(match Printed::of(args) {
            Printed::Apply => table.apply(),
            Printed::Undo => table.undo(),
            Printed::UndoAndDrop => table.undo_and_drop(),
        });
    }
    Ok(scripts)
}

fn plan(args: &Args, dialect: Dialect, table: &str) -> Result<Enforcement, EnforcementError> {
    let mut plan = Enforcement::of_table(dialect, table)?
        .token_column(&args.token_column)?
        .key(&Enforcement::columns(&args.key)?)?
        .equal_tokens(match args.equal_tokens {
            Policy::Allow => EqualTokens::MayWriteAgain,
            Policy::Refuse => EqualTokens::Once,
        })
        .deletes(match args.deletes {
            DeletePolicy::Refuse => Deletes::Refuse,
            DeletePolicy::KeepMark => Deletes::KeepMark,
        });
    for columns in &args.unique {
        plan = plan.unique(&Enforcement::columns(columns)?)?;
    }
    if args.add_column {
        plan = plan.add_column();
    }
    match args.unnamed_token {
        Some(Policy::Allow) => plan.unnamed_token(Unnamed::Allow),
        Some(Policy::Refuse) => plan.unnamed_token(Unnamed::Refuse),
        None => Ok(plan),
    }
}
