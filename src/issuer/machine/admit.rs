//! Admit: the cluster's own guard register, for resources with no store of their own.
//!
//! The rule is that of every guard: a token below the mark is refused, one above raises it, and one at
//! the mark passes again, unless each is to pass once. Only a rising mark changes the state. So a node
//! weighs a token first, by what it has applied, and proposes it only if the mark would rise.

use super::Machine;
use crate::issuer::{Admit, AdmitOutcome, Event};
use crate::resource::ResourceName;
use crate::token::TokenValue;

/// How a token stands to the mark of its resource, before anything is done about it.
///
/// Marks and the last token only rise, and a full register takes no new mark, so some of it stays true
/// whatever is applied later. That much any node may answer from its own state, however far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighed {
    /// It is refused, for ever.
    Stale {
        /// The lowest token that passes, as far as this state knows.
        required: TokenValue,
    },
    /// It is at the mark, and passes without a change, if the mark has not risen since.
    Equal,
    /// It is above the mark, and was issued: the mark would rise.
    Raises,
    /// It is above everything that was issued so far.
    Ahead {
        /// The last token that was issued; 0 before the first.
        last_token: u64,
    },
    /// It would need a mark for which there is no room, for ever.
    TooManyMarks {
        /// How many marks there may be.
        limit: u64,
    },
}

impl Machine {
    /// Weighs a token against the mark of a resource, and changes nothing.
    #[must_use]
    pub fn weigh(&self, resource: &ResourceName, token: TokenValue, once: bool) -> Weighed {
        let mark = self.marks.of(resource);
        let least = mark.saturating_add(u64::from(once));
        if token.get() < least {
            // Nothing follows the highest token, so that is then named though it would not pass.
            let required = TokenValue::new(least).unwrap_or(token);
            return Weighed::Stale { required };
        }
        if token.get() == mark {
            return Weighed::Equal;
        }
        if token.get() > self.last_token {
            let last_token = self.last_token;
            return Weighed::Ahead { last_token };
        }
        let limit = self.bounds.marks_max;
        if self.marks.len() as u64 >= limit && !self.marks.names(resource) {
            return Weighed::TooManyMarks { limit };
        }
        Weighed::Raises
    }

    pub(super) fn admit(&mut self, admit: &Admit, events: &mut Vec<Event>) -> AdmitOutcome {
        let Admit {
            resource, token, ..
        } = admit;
        match self.weigh(resource, *token, admit.once) {
            Weighed::Stale { required } => AdmitOutcome::Stale { required },
            Weighed::Ahead { last_token } => AdmitOutcome::Ahead { last_token },
            Weighed::TooManyMarks { limit } => AdmitOutcome::TooManyMarks { limit },
            Weighed::Equal => AdmitOutcome::Admitted,
            Weighed::Raises => {
                self.marks.raise(resource, *token);
                events.push(Event::Admitted {
                    resource: resource.clone(),
                    token: *token,
                });
                AdmitOutcome::Admitted
            }
        }
    }
}
