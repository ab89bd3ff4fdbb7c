//! Layers for HTTP and gRPC: the door of a service, and the way to the next one.
//!
//! [`GuardLayer`] stands before a service (axum, hyper, tonic; anything over [`http::Request`]). It
//! reads the sequencer from the [headers](crate::sequencer::headers), asks a
//! [`Guard`](crate::fence::Guard), and answers those that may not go on. [`FencingLayer`] goes around
//! a client (hyper-util, a tonic channel) and sends the sequencer of the
//! [context](crate::fence::context) along. Between the two no code needs to know of tokens.
//!
//! # The contract on the wire
//!
//! | what came | HTTP | gRPC (trailers only) |
//! |---|---|---|
//! | no token, or no resource id, where one is needed; one that cannot be read; an issuer that is missing | 400 `{"error": ...}`, naming the header and its limit | `INVALID_ARGUMENT` |
//! | a token below the mark | 409, `X-Required-Token`, `{"error": "stale fencing token", "presented": 7, "required": 9}` | `FAILED_PRECONDITION`, metadata `x-required-token` and `x-fencing-token` |
//! | a token of another issuer, or for something else than the request is about | 403 `{"error": "foreign fencing token: ..."}` | `PERMISSION_DENIED` |
//! | the guard could not be asked | 503 `{"error": ...}`; nothing was done, and the request may be sent again | `UNAVAILABLE` |
//!
//! Tokens in bodies are numbers up to 2^53 and strings above. A 409 without `X-Required-Token` is the
//! service's own, and none of this.
//!
//! # What a layer cannot do
//!
//! **Admitting at the door and writing later leaves a gap.** Between the guard's answer and the
//! handler's write a newer holder can be admitted and write; the older handler, which was admitted a
//! moment before, then overwrites it. The layer turns away what is stale on arrival, early and cheaply;
//! it makes nothing safe that is not safe without it. *The write itself must carry the token*: the
//! handler finds the admitted sequencer in the request's extensions and in the context, and hands it
//! to a guarded write (`fence::sql`, `fence::object`, a [`Guard`](crate::fence::Guard) under the same
//! lock as the data). Only where the whole effect is over before another request can be admitted, as
//! in a service that handles one request at a time, is the door enough.
//!
//! A token is no credential either. Whoever can reach a service can invent a higher one, and lock the
//! true holder out. Fencing is for callers that may write, and have lost their lease without knowing;
//! who may call at all is for authentication to say.

mod answer;
mod body;
mod client;
mod door;
mod grpc;
mod server;
mod stale;

pub use body::GuardBody;
pub use client::{FencingError, FencingFuture, FencingLayer, FencingService, OtherSequencer};
pub use door::TokenDemand;
pub use server::{GuardLayer, GuardService};
pub use stale::StaleAnswer;
