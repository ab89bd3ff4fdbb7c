//! A store in memory that fences rightly, or with one chosen mistake.
//!
//! The right one is the control: every case can be tried on it, and holds. Each mistake is one that
//! was made in earnest somewhere, and changes one line of what the right one does.

use std::{collections::BTreeMap, sync::Arc};

use fencepost::{
    fence::{
        EqualTokens,
        conformance::{Answer, Contents, Fault, Handle, Place, Profile, Steps, Subject, Write},
    },
    resource::{IssuerName, ResourceName},
    sequencer::MissingIssuer,
    token::TokenValue,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// What is wrong with a shelf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    // How tokens are compared.
    NeverCompared,
    Strict,
    AsText,
    CutTo32Bits,
    AsFloat,
    BelowTheMaximum,
    // What they are compared within.
    OneMarkForAll,
    TargetIgnored,
    IssuerIgnored,
    MissingIssuerAccepted,
    NamesFolded,
    NamesCut,
    // When the mark is raised.
    RaisedBeforeJudged,
    LoweredByUpsert,
    OnlyWhatIsThere,
    CopyForEachHandle,
    CheckThenWrite,
    CheckThenWriteInOneBreath,
    WriteThenRaise,
    RaiseThenWrite,
    KeepsOthersOutWhenDead,
    // What is remembered.
    MarksInMemory,
    MarksNotBackedUp,
    RequiredIsMissing,
}

/// One row, as the disk has it.
#[derive(Debug, Clone, Default)]
struct Row {
    value: Option<u32>,
    issuer: Option<IssuerName>,
    mark: u64,
}

type Rows = BTreeMap<String, Row>;

/// The subject.
pub(crate) struct Shelf {
    pub(crate) flaw: Flaw,
    pub(crate) equal: EqualTokens,
}

/// The place: rows behind one lock that is held for a whole transaction.
pub(crate) struct ShelfPlace {
    flaw: Flaw,
    equal: EqualTokens,
    rows: Arc<Mutex<Rows>>,
    backup: Rows,
}

pub(crate) struct ShelfHandle {
    flaw: Flaw,
    equal: EqualTokens,
    rows: Arc<Mutex<Rows>>,
    /// For the flaw that keeps a copy.
    copy: Rows,
}

impl Subject for Shelf {
    type Place = ShelfPlace;

    fn profile(&self) -> Profile {
        Profile::new(format!("shelf, {:?}", self.flaw))
            .issued_by("bank".parse().unwrap())
            .missing_issuer(MissingIssuer::Refuse)
            .equal_tokens(self.equal)
            .names_target_apart()
            .durable()
            .backed_up()
    }

    async fn place(&self) -> Result<ShelfPlace, Fault> {
        Ok(ShelfPlace {
            flaw: self.flaw,
            equal: self.equal,
            rows: Arc::default(),
            backup: Rows::new(),
        })
    }
}

impl Place for ShelfPlace {
    type Handle = ShelfHandle;

    async fn open(&self) -> Result<ShelfHandle, Fault> {
        Ok(ShelfHandle {
            flaw: self.flaw,
            equal: self.equal,
            rows: Arc::clone(&self.rows),
            copy: Rows::new(),
        })
    }

    async fn restart(&mut self) -> Result<(), Fault> {
        if self.flaw == Flaw::MarksInMemory {
            for row in self.rows.lock().await.values_mut() {
                row.mark = 0;
            }
        }
        Ok(())
    }

    async fn back_up(&mut self) -> Result<(), Fault> {
        self.backup = self.rows.lock().await.clone();
        Ok(())
    }

    async fn restore(&mut self) -> Result<(), Fault> {
        let mut rows = self.rows.lock().await;
        let lost = std::mem::replace(&mut *rows, self.backup.clone());
        if self.flaw == Flaw::MarksNotBackedUp {
            for (name, row) in lost {
                rows.entry(name).or_default().mark = row.mark;
            }
        }
        Ok(())
    }
}

impl Handle for ShelfHandle {
    async fn write(&mut self, write: &Write, steps: &mut Steps) -> Result<Answer, Fault> {
        match self.flaw {
            Flaw::CheckThenWrite => self.check_then_write(write, Some(steps)).await,
            Flaw::CheckThenWriteInOneBreath => self.check_then_write(write, None).await,
            Flaw::WriteThenRaise => self.write_then_raise(write, steps).await,
            Flaw::RaiseThenWrite => self.raise_then_write(write, steps).await,
            _ => self.transaction(write, steps).await,
        }
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let rows = self.rows.lock().await;
        let row = rows.get(&self.key(resource)).cloned().unwrap_or_default();
        Ok(Contents {
            value: row.value,
            mark: TokenValue::new(row.mark).ok(),
        })
    }
}

impl ShelfHandle {
    /// Check and write under one lock; what was staged is kept at the end, or not at all.
    async fn transaction(&mut self, write: &Write, steps: &mut Steps) -> Result<Answer, Fault> {
        let mut rows = Arc::clone(&self.rows).lock_owned().await;
        if let Err(crashed) = steps.pause("mark locked").await {
            return self.die(rows, crashed.into());
        }
        let key = self.key(&write.resource);
        if self.flaw == Flaw::RaisedBeforeJudged {
            let row = rows.entry(key.clone()).or_default();
            row.mark = row.mark.max(write.presented.token.get());
        }
        let seen = match self.flaw {
            Flaw::CopyForEachHandle => &self.copy,
            _ => &*rows,
        };
        let answer = self.judge(write, seen.get(&key));
        if let Err(crashed) = steps.pause("checked").await {
            return self.die(rows, crashed.into());
        }
        let stale = matches!(answer, Answer::Stale { .. });
        if answer == Answer::Admitted || (stale && self.flaw == Flaw::LoweredByUpsert) {
            let absent = !rows.contains_key(&key);
            if self.flaw == Flaw::OnlyWhatIsThere && absent {
                return Ok(answer);
            }
            let row = rows.entry(key.clone()).or_default();
            row.mark = write.presented.token.get();
            row.issuer = write.presented.issuer.clone();
            if answer == Answer::Admitted {
                row.value = Some(write.value);
            }
            self.copy.insert(key, row.clone());
        }
        Ok(answer)
    }

    /// A crash drops the lock with what was staged, unless whatever it is outlives its process.
    fn die(&self, rows: OwnedMutexGuard<Rows>, crashed: Fault) -> Result<Answer, Fault> {
        if self.flaw == Flaw::KeepsOthersOutWhenDead {
            Box::leak(Box::new(rows));
        }
        Err(crashed)
    }

    /// The classic: read, compare, and write as if nothing had happened since.
    async fn check_then_write(
        &mut self,
        write: &Write,
        steps: Option<&mut Steps>,
    ) -> Result<Answer, Fault> {
        let key = self.key(&write.resource);
        let answer = self.judge(write, self.rows.lock().await.get(&key));
        match steps {
            Some(steps) => steps.pause("checked").await?,
            None => tokio::task::yield_now().await,
        }
        if answer == Answer::Admitted {
            self.rows.lock().await.insert(key, row_of(write));
        }
        Ok(answer)
    }

    /// Value first, mark afterwards.
    async fn write_then_raise(
        &mut self,
        write: &Write,
        steps: &mut Steps,
    ) -> Result<Answer, Fault> {
        let key = self.key(&write.resource);
        let mut rows = self.rows.lock().await;
        let answer = self.judge(write, rows.get(&key));
        if answer != Answer::Admitted {
            return Ok(answer);
        }
        rows.entry(key.clone()).or_default().value = Some(write.value);
        drop(rows);
        steps.pause("written").await?;
        let mut rows = self.rows.lock().await;
        let row = rows.entry(key).or_default();
        row.issuer = write.presented.issuer.clone();
        row.mark = row.mark.max(write.presented.token.get());
        Ok(answer)
    }

    /// Admitted at the door, written some time later, in another transaction.
    async fn raise_then_write(
        &mut self,
        write: &Write,
        steps: &mut Steps,
    ) -> Result<Answer, Fault> {
        let key = self.key(&write.resource);
        let mut rows = self.rows.lock().await;
        let answer = self.judge(write, rows.get(&key));
        if answer != Answer::Admitted {
            return Ok(answer);
        }
        let row = rows.entry(key.clone()).or_default();
        row.issuer = write.presented.issuer.clone();
        row.mark = write.presented.token.get();
        drop(rows);
        steps.pause("admitted").await?;
        self.rows.lock().await.entry(key).or_default().value = Some(write.value);
        Ok(answer)
    }

    fn judge(&self, write: &Write, row: Option<&Row>) -> Answer {
        let presented = &write.presented;
        match &presented.issuer {
            None if self.flaw == Flaw::MissingIssuerAccepted => {}
            None => return Answer::Invalid,
            Some(issuer) if issuer.as_str() != "bank" && self.flaw != Flaw::IssuerIgnored => {
                return Answer::Foreign;
            }
            Some(_) => {}
        }
        if presented.resource != write.resource && self.flaw != Flaw::TargetIgnored {
            return Answer::Foreign;
        }
        let mark = row.map_or(0, |row| row.mark);
        let token = presented.token.get();
        if mark == 0 || self.passes(token, mark) {
            return Answer::Admitted;
        }
        let required = mark + u64::from(self.equal == EqualTokens::Once);
        let required = TokenValue::new(required).or(TokenValue::new(mark));
        Answer::Stale {
            required: required
                .ok()
                .filter(|_| self.flaw != Flaw::RequiredIsMissing),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "that is what is wrong with it"
    )]
    fn passes(&self, token: u64, mark: u64) -> bool {
        match (self.flaw, self.equal) {
            (Flaw::NeverCompared, _) => true,
            (Flaw::AsText, _) => token.to_string() >= mark.to_string(),
            (Flaw::CutTo32Bits, _) => token as u32 >= mark as u32,
            (Flaw::AsFloat, _) => token as f64 >= mark as f64,
            (Flaw::BelowTheMaximum, _) if token == i64::MAX.cast_unsigned() => false,
            (Flaw::Strict, _) | (_, EqualTokens::Once) => token > mark,
            (_, EqualTokens::MayWriteAgain) => token >= mark,
        }
    }

    fn key(&self, resource: &ResourceName) -> String {
        match self.flaw {
            Flaw::OneMarkForAll => String::new(),
            Flaw::NamesFolded => resource.as_str().to_lowercase(),
            Flaw::NamesCut => resource.as_str().chars().take(64).collect(),
            _ => resource.to_string(),
        }
    }
}

fn row_of(write: &Write) -> Row {
    Row {
        value: Some(write.value),
        issuer: write.presented.issuer.clone(),
        mark: write.presented.token.get(),
    }
}
