//! What each answer teaches: who leads, which cluster it is, and what a failed send means.

use super::address::Address;
use super::call::{Known, Shared};
use super::clock::BootInstant;
use super::error::{Cause, ErrorKind, Verdict, leaves_open, verdict};
use super::seen::{self, Unfit};
use super::trial::{Fault, Next};
use crate::wire::failure::{Failure, Reason};
use crate::wire::v1::ResponseHeader;
use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tonic::{Code, ConnectError, Status};

impl Shared {
    /// Checks the header of an answer, and learns from it.
    pub(crate) fn accept(
        &self,
        header: Option<&ResponseHeader>,
        address: &Address,
        now: BootInstant,
    ) -> Result<(), Fault> {
        let mut known = self.known();
        let Known {
            route,
            seen,
            mismatch,
        } = &mut *known;
        let unfit = match seen::check(seen, header, address) {
            Ok(()) => {
                if let Some(leader) = header.and_then(|header| header.leader.as_ref()) {
                    route.learn_leader(&leader.address, Some(leader.term), now);
                }
                return Ok(());
            }
            Err(unfit) => unfit,
        };
        let address = address.clone();
        Err(match unfit {
            Unfit::Forming => {
                route.pass_over(&address);
                Fault {
                    cause: Cause::Forming { address },
                    open: false,
                    next: Next::Elsewhere,
                }
            }
            Unfit::Other(_) if route.distrust(&address) => {
                let detail = "it belongs to another cluster".to_owned();
                Fault {
                    cause: Cause::Broken { address, detail },
                    open: true,
                    next: Next::Elsewhere,
                }
            }
            Unfit::Other(found) => {
                *mismatch = Some(found.clone());
                let detail = "it belongs to another cluster".to_owned();
                let next = Next::Stop(ErrorKind::ClusterMismatch(found));
                Fault {
                    cause: Cause::Broken { address, detail },
                    open: true,
                    next,
                }
            }
            Unfit::Malformed(detail) => {
                let detail = detail.to_owned();
                let next = Next::Stop(ErrorKind::BadAnswer);
                Fault {
                    cause: Cause::Broken { address, detail },
                    open: true,
                    next,
                }
            }
        })
    }

    /// `address` said nothing for as long as it was given.
    pub(crate) fn silent(&self, address: &Address, waited: Duration, now: BootInstant) -> Fault {
        self.known().route.put_aside(address, now);
        Fault {
            cause: Cause::NoAnswer {
                address: address.clone(),
                waited,
            },
            open: true,
            next: Next::Elsewhere,
        }
    }

    /// Reads a status that is not OK, and learns from it.
    pub(crate) fn failed(&self, status: &Status, address: &Address, now: BootInstant) -> Fault {
        let mut known = self.known();
        if let Some(failure) = Failure::from_status(status) {
            if matches!(verdict(&failure), Verdict::Elsewhere) {
                known.route.pass_over(address);
            }
            if let Some(leader) = &failure.leader {
                known.route.learn_leader(leader, None, now);
            }
            return told(&failure, address);
        }
        known.route.put_aside(address, now);
        let address = address.clone();
        if never_sent(status) {
            let detail = innermost(status);
            let cause = Cause::Unreachable { address, detail };
            return Fault {
                cause,
                open: false,
                next: Next::Elsewhere,
            };
        }
        if self.knocks_at_the_wrong_port(status) {
            // It knows none of our calls, so none can have had an effect.
            return Fault {
                cause: Cause::WrongPort { address },
                open: false,
                next: Next::Stop(ErrorKind::BadAnswer),
            };
        }
        let detail = format!("{:?}: {}", status.code(), status.message());
        let next = match status.code() {
            // Nothing on the way, nor another node, would answer otherwise.
            Code::Unimplemented | Code::InvalidArgument | Code::OutOfRange => {
                Next::Stop(ErrorKind::BadAnswer)
            }
            _ => Next::Elsewhere,
        };
        Fault {
            cause: Cause::Broken { address, detail },
            open: true,
            next,
        }
    }

    /// Whether whoever answered is no issuer at all. A node's peer port knows no such service; its HTTP port
    /// answers without gRPC's trailer. Later, a node of an older version may lack a single call.
    fn knocks_at_the_wrong_port(&self, status: &Status) -> bool {
        let no_grpc = status
            .message()
            .starts_with("grpc-status header missing, mapped from HTTP status code 404");
        let no_such_call = status.code() == Code::Unimplemented;
        !self.verified.load(Ordering::Acquire) && (no_grpc || no_such_call)
    }
}

/// What a failure that the node itself explained means.
fn told(failure: &Failure, address: &Address) -> Fault {
    let next = match verdict(failure) {
        Verdict::Final(kind) => Next::Stop(kind),
        Verdict::Elsewhere => Next::Elsewhere,
        Verdict::Later(after) => Next::Later(after),
    };
    Fault {
        cause: Cause::Told {
            address: address.clone(),
            reason: Reason::name(failure.reason),
            message: failure.message.clone(),
        },
        open: leaves_open(failure),
        next,
    }
}

/// Whether somebody's timer ended the call, and nobody else.
pub(crate) fn ran_out(status: &Status) -> bool {
    let code = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
    code && Failure::from_status(status).is_none()
}

/// Whether no connection could be made, so that nothing has left this machine.
fn never_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The innermost cause of a failed connection: what the operating system said.
fn innermost(status: &Status) -> String {
    let Some(mut error) = status.source() else {
        return status.message().to_owned();
    };
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
