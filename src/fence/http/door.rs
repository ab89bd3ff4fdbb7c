//! The rules of a service's door: who needs a token, for what, and whose.

use std::fmt;
use std::sync::Arc;

use http::{Method, request::Parts};

use crate::fence::{Foreign, Guard, Unjudged, Verdict};
use crate::limits::TOKEN_VALUE_MAX;
use crate::resource::{IssuerName, ResourceName};
use crate::sequencer::headers::{FENCING_ISSUER, FENCING_TOKEN, HeaderError};
use crate::sequencer::{MissingIssuer, Presented, Sequencer};

use super::answer::TurnedAway;
use super::stale::StaleAnswer;

/// Whether a request needs a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenDemand {
    /// It needs one.
    Required,
    /// It needs none; one that it carries is judged all the same, so that a holder who has lost its
    /// lease learns of it by reading, too.
    IfPresented,
    /// The guard does not look at it at all: a health check, a login.
    Never,
}

impl TokenDemand {
    /// The default: safe methods (RFC 9110, section 9.2.1: GET, HEAD, OPTIONS, TRACE) change nothing
    /// and need no token, and everything else does. gRPC calls are all POST, so they all need one.
    #[must_use]
    pub fn by_method(request: &Parts) -> Self {
        match request.method {
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => Self::IfPresented,
            _ => Self::Required,
        }
    }
}

type Demand = dyn Fn(&Parts) -> TokenDemand + Send + Sync;
type Binding = dyn Fn(&Parts) -> Option<ResourceName> + Send + Sync;

/// What a door was told. Cheap to clone.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) issuer: IssuerName,
    pub(super) missing_issuer: MissingIssuer,
    pub(super) demand: Arc<Demand>,
    pub(super) binding: Option<Arc<Binding>>,
}

/// How a request goes on.
pub(super) enum Passage {
    /// With the sequencer that was admitted.
    Admitted(Sequencer),
    /// As it came: it needed no token, or the guard overlooked that it lacks one.
    Untouched,
}

impl Door {
    pub(super) fn new(issuer: IssuerName) -> Self {
        Self {
            issuer,
            missing_issuer: MissingIssuer::default(),
            demand: Arc::new(TokenDemand::by_method),
            binding: None,
        }
    }

    /// Judges a request. Nothing is admitted unless it says so.
    pub(super) async fn judge<G: Guard>(
        &self,
        request: &Parts,
        guard: &G,
    ) -> Result<Passage, TurnedAway> {
        let demand = (self.demand)(request);
        if demand == TokenDemand::Never {
            return Ok(Passage::Untouched);
        }
        let sequencer = match self.sequencer(request) {
            Ok(sequencer) => sequencer,
            Err((Unjudged::Missing, _)) if demand == TokenDemand::IfPresented => {
                return Ok(Passage::Untouched);
            }
            Err((why, _)) if guard.overlooks(&why) => return Ok(Passage::Untouched),
            Err((_, turned_away)) => return Err(turned_away),
        };
        match guard.admit(&sequencer).await {
            Ok(Verdict::Admitted) => Ok(Passage::Admitted(sequencer)),
            Ok(Verdict::Stale {
                presented,
                required,
            }) => Err(TurnedAway::Stale(StaleAnswer {
                presented,
                required,
            })),
            Ok(Verdict::Foreign(foreign)) => Err(TurnedAway::Foreign(foreign)),
            Err(error) => {
                tracing::error!(
                    resource = %sequencer.resource,
                    token = %sequencer.token,
                    error = &error as &dyn std::error::Error,
                    "a guard failed, and the request was turned away"
                );
                Err(TurnedAway::Unasked)
            }
        }
    }

    /// The sequencer that a request presents for what it is about, or why there is none: once for the
    /// guard, once for the caller.
    fn sequencer(&self, request: &Parts) -> Result<Sequencer, (Unjudged, TurnedAway)> {
        let headers = request.headers.iter();
        let presented =
            Presented::from_headers(headers.map(|(name, value)| (name.as_str(), value.as_bytes())))
                .map_err(unreadable)?;
        self.bound(request, &presented.resource)?;
        let read = presented.by(&self.issuer, self.missing_issuer);
        read.map_err(|no_issuer| {
            let complaint = format!("{FENCING_ISSUER}: {no_issuer}");
            (Unjudged::Invalid, TurnedAway::Bad(complaint))
        })
    }

    /// Whether the token is for the resource that the request is about.
    fn bound(
        &self,
        request: &Parts,
        presented: &ResourceName,
    ) -> Result<(), (Unjudged, TurnedAway)> {
        let Some(binding) = &self.binding else {
            return Ok(());
        };
        let Some(expected) = binding(request) else {
            return Err((Unjudged::Invalid, TurnedAway::Unbound));
        };
        if expected == *presented {
            return Ok(());
        }
        let foreign = Foreign::Resource {
            presented: presented.clone(),
            expected,
        };
        let why = Unjudged::Foreign(foreign.clone());
        Err((why, TurnedAway::Foreign(foreign)))
    }
}

fn unreadable(error: HeaderError) -> (Unjudged, TurnedAway) {
    if error.is_unfenced() {
        let complaint = format!(
            "{FENCING_TOKEN} is missing: this request needs a fencing token, an integer from 1 to {TOKEN_VALUE_MAX}"
        );
        return (Unjudged::Missing, TurnedAway::Bad(complaint));
    }
    (Unjudged::Invalid, TurnedAway::Bad(error.to_string()))
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("issuer", &self.issuer)
            .field("missing_issuer", &self.missing_issuer)
            .field("bound", &self.binding.is_some())
            .finish_non_exhaustive()
    }
}
