//! Statements with their comments, in the order in which they are to be run.

use std::fmt;

use super::Dialect;

/// One statement, without the semicolon at its end, and why it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Sentences for whoever reviews it, a line each.
    pub comment: String,
    /// The statement.
    pub sql: String,
}

/// PostgreSQL takes the operator whose types fit best from all schemas of the path: one that compares
/// `oid` with `regclass`, made by somebody else in `public`, would run as whoever applies the script.
const OWN_PATH: &str = "\
Until the end of this transaction, nothing that others made in public or elsewhere is taken for what is\n\
meant here: it would run with the rights of whoever applies this.";

/// A list of statements: displays as a file for the database's own command line tool
/// (`psql`, `mariadb`, `mysql`, `sqlite3`), with comments and in one transaction where there is one.
///
/// Programs run [`Script::steps`] one by one instead, up to the first error, inside a transaction in
/// PostgreSQL and SQLite: the text has lines that only the tools read (`.bail`, `DELIMITER`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    dialect: Dialect,
    head: String,
    steps: Vec<Step>,
}

impl Script {
    pub(super) fn new(dialect: Dialect, head: impl Into<String>) -> Self {
        let mut script = Self {
            dialect,
            head: head.into(),
            steps: Vec::new(),
        };
        if dialect == Dialect::Postgres {
            script.step(OWN_PATH, "SET LOCAL search_path = pg_catalog, pg_temp");
        }
        script
    }

    pub(super) fn step(&mut self, comment: impl Into<String>, sql: impl Into<String>) {
        self.steps.push(Step {
            comment: comment.into(),
            sql: sql.into(),
        });
    }

    /// The steps of another script that are not in this one's opening already.
    pub(super) fn append(&mut self, other: &Self) {
        let fresh = |step: &&Step| step.comment != OWN_PATH;
        self.steps.extend(other.steps.iter().filter(fresh).cloned());
    }

    /// The statements, in their order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What the whole is, for the head of a file.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// How a file is given to the database's command line tool: it must stop at the first error.
    fn usage(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "Apply: psql -v ON_ERROR_STOP=1 -f FILE DATABASE",
            Dialect::MariaDb => "Apply: mariadb DATABASE < FILE",
            Dialect::MySql => "Apply: mysql DATABASE < FILE",
            Dialect::Sqlite => {
                "Apply: sqlite3 DATABASE < FILE\n\
                 The line .bail on is for that tool, which would go on after an error; other programs leave it out, and stop."
            }
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        comment(f, &self.head)?;
        comment(f, self.usage())?;
        let (begin, commit) = match self.dialect {
            // It would tell of each thing that IF EXISTS did not find.
            Dialect::Postgres => (
                "\nBEGIN;\nSET LOCAL client_min_messages = warning;\n",
                "\nCOMMIT;\n",
            ),
            // The tool would go on to the COMMIT after a failed check.
            Dialect::Sqlite => ("\n.bail on\nBEGIN IMMEDIATE;\n", "\nCOMMIT;\n"),
            // Each statement about the schema commits by itself there.
            Dialect::MariaDb | Dialect::MySql => ("", ""),
        };
        f.write_str(begin)?;
        for step in &self.steps {
            f.write_str("\n")?;
            comment(f, &step.comment)?;
            // The tool splits at semicolons, also at those inside a body, unless told otherwise.
            match self.dialect.is_mysql() && step.sql.contains(';') {
                true => write!(f, "DELIMITER //\n{}\n//\nDELIMITER ;\n", step.sql)?,
                false => writeln!(f, "{};", step.sql)?,
            }
        }
        f.write_str(commit)
    }
}

fn comment(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.lines().try_for_each(|line| writeln!(f, "-- {line}"))
}
