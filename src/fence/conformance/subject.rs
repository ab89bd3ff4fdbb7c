//! What is held to the promise, as the kit sees it: places, handles to them, writes and reads.
//!
//! The kit knows nothing of databases, files or services. An author says how to make an empty
//! place, how to open it as one more process would, and how to write and read there.

use std::{error::Error, future::Future};

use crate::{
    fence::{Verdict, fenced::Applied},
    resource::ResourceName,
    sequencer::{NoIssuer, Presented, Sequencer},
    token::TokenValue,
};

use super::{Profile, Steps};

/// Something broke on the way: any error, so that `?` works on all of them.
pub type Fault = Box<dyn Error + Send + Sync>;

/// What is held to the promise: a guard together with the resource that it protects.
pub trait Subject {
    /// Where its values and marks are.
    type Place: Place;

    /// What it is called, which rules it was set up with, and what it can do.
    fn profile(&self) -> Profile;

    /// Makes a fresh place: no values, no marks. Each case gets one of its own.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being made. The case is then reported as failed.
    fn place(&self) -> impl Future<Output = Result<Self::Place, Fault>> + Send;
}

/// One place with values and marks: a database, a directory, a running service.
pub trait Place: Send + Sync {
    /// What one process has of it.
    type Handle: Handle;

    /// Opens the place as one more process would. Handles share nothing but the place: where
    /// processes would each have a connection, each handle has one.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being opened.
    fn open(&self) -> impl Future<Output = Result<Self::Handle, Fault>> + Send;

    /// Ends everything that only lives in memory, and starts it again. The kit has dropped every
    /// handle before. Called only where [`Profile::durable`] was declared.
    ///
    /// Unless written anew it does nothing more: right where handles are all that lives in memory.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from starting.
    fn restart(&mut self) -> impl Future<Output = Result<(), Fault>> + Send {
        async { Ok(()) }
    }

    /// Takes a backup and keeps it, in the way in which the resource is backed up in earnest.
    /// Called only where [`Profile::backed_up`] was declared.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being taken.
    fn back_up(&mut self) -> impl Future<Output = Result<(), Fault>> + Send {
        async { Err(Fault::from("`Place::back_up` is not written")) }
    }

    /// Puts the place back to the backup, as after a disaster. The kit has dropped every handle
    /// before.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being restored.
    fn restore(&mut self) -> impl Future<Output = Result<(), Fault>> + Send {
        async { Err(Fault::from("`Place::restore` is not written")) }
    }
}

/// What one process has of a place.
pub trait Handle: Send + 'static {
    /// Writes the value if the guard allows, and says what the guard answered.
    ///
    /// Where the check and the write are more than one step, call [`Steps::pause`] between them,
    /// with `?`: it lets the kit interleave two holders, and stop a write in the middle as a crash
    /// would. Where both are one atomic step there is nothing to call.
    ///
    /// # Errors
    ///
    /// Whatever broke. The kit then takes it for unknown whether the write happened.
    fn write(
        &mut self,
        write: &Write,
        steps: &mut Steps,
    ) -> impl Future<Output = Result<Answer, Fault>> + Send;

    /// What is stored for a resource now.
    ///
    /// # Errors
    ///
    /// Whatever broke.
    fn read(
        &mut self,
        resource: &ResourceName,
    ) -> impl Future<Output = Result<Contents, Fault>> + Send;
}

/// One write, as a holder sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What is written.
    pub resource: ResourceName,
    /// What the holder presents: usually for that same resource. Some cases present another's.
    pub presented: Presented,
    /// The value to store; each write of a case has one of its own.
    pub value: u32,
}

impl Write {
    /// What is presented as a sequencer; none where the issuer is missing.
    #[must_use]
    pub fn sequencer(&self) -> Option<Sequencer> {
        Some(Sequencer {
            issuer: self.presented.issuer.clone()?,
            resource: self.presented.resource.clone(),
            token: self.presented.token,
        })
    }
}

/// What the guard answered to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The write happened.
    Admitted,
    /// Refused: a newer holder has been here.
    Stale {
        /// The lowest token that would have been admitted, where the guard says it.
        required: Option<TokenValue>,
    },
    /// Refused: the token is of another issuer or for another resource, and was not compared.
    Foreign,
    /// Refused: something is missing or malformed.
    Invalid,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Admitted => Self::Admitted,
            Verdict::Stale { required, .. } => Self::Stale {
                required: Some(required),
            },
            Verdict::Foreign(_) => Self::Foreign,
        }
    }
}

impl From<Applied> for Answer {
    fn from(applied: Applied) -> Self {
        Verdict::from(applied).into()
    }
}

impl From<NoIssuer> for Answer {
    fn from(_: NoIssuer) -> Self {
        Self::Invalid
    }
}

/// What is stored for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// The value of the last write that happened; none if none did, or if no values are kept.
    pub value: Option<u32>,
    /// The high-water mark; none if there is none yet, or if it cannot be read.
    pub mark: Option<TokenValue>,
}
