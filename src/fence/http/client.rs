//! The layer around a client.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::fence::context;
use crate::resource::{IssuerName, ResourceName};
use crate::sequencer::Sequencer;
use crate::sequencer::headers::{FENCING_ISSUER, FENCING_TOKEN, REQUIRED_TOKEN, RESOURCE_ID};
use crate::token::TokenValue;

use super::grpc;
use super::stale::{StaleAnswer, token};

type BoxError = Box<dyn Error + Send + Sync>;
type Recipients = dyn Fn(&Uri) -> bool + Send + Sync;

/// Sends the sequencer of the [context](crate::fence::context) along with every request of a client,
/// and tells a stale answer from all others.
///
/// Outside any context it changes nothing. Inside, the three headers are added. Headers that are
/// already there stay as they are, as long as they are for the resource and of the issuer of the
/// context; otherwise the request is not sent ([`OtherSequencer`]): a token must never travel under
/// the name of another resource.
///
/// An HTTP answer 409 with `X-Required-Token`, to a request that carried a token, becomes
/// [`FencingError::Stale`]. Every other 409 passes through, as does everything else. A gRPC call keeps
/// its status, since what it was belongs to the caller; read it by [`StaleAnswer::in_metadata`].
///
/// # Where to put it
///
/// The context is read when the request is handed over, in the task that does so. The layer
/// therefore belongs *outside* of anything that passes requests on to another task, such as
/// `tower::buffer`: behind it the context is lost, and the next guard refuses.
///
/// # Who receives it
///
/// Whoever the client talks to. A token is no secret and opens nothing by itself, but names of
/// resources tell about a business, and a third party has no use for them. Use a client of its own for
/// those (or [`context::apart`](crate::fence::context::apart)), or name the receivers by
/// [`only_to`](Self::only_to).
///
/// Mind redirects. A client that follows them on its own sends most headers again, to wherever it was
/// sent, with no word to this layer. Turn that off, or put the layer *inside* of what follows them (as
/// `tower-http`'s `FollowRedirect` around it): each hop then comes by here, and is judged by
/// [`only_to`](Self::only_to) anew.
///
/// A tonic channel knows its host itself, so that the requests which come by here have none in their
/// URI. Its layer is right for the one service that it leads to, without `only_to`.
#[derive(Clone, Default)]
pub struct FencingLayer {
    recipients: Option<Arc<Recipients>>,
}

impl FencingLayer {
    /// A layer that sends the sequencer with every request of its client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only requests to a URI that the function picks get the headers.
    ///
    /// ```
    /// use fencepost::fence::http::FencingLayer;
    ///
    /// let ours = FencingLayer::new()
    ///     .only_to(|uri| uri.host().is_some_and(|host| host.ends_with(".internal.example")));
    /// # let _ = ours;
    /// ```
    #[must_use]
    pub fn only_to(mut self, recipients: impl Fn(&Uri) -> bool + Send + Sync + 'static) -> Self {
        self.recipients = Some(Arc::new(recipients));
        self
    }

    fn fence<B>(&self, request: &mut Request<B>) -> Result<Sent, OtherSequencer> {
        let chosen = self.recipients.as_ref();
        if chosen.is_none_or(|recipients| recipients(request.uri()))
            && let Some(sequencer) = context::current()
        {
            add(request.headers_mut(), &sequencer)?;
        }
        Ok(Sent {
            presented: token(request.headers(), FENCING_TOKEN),
            grpc: grpc::answer_type(request.headers()).is_some(),
        })
    }
}

impl std::fmt::Debug for FencingLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FencingLayer")
            .field("to_all", &self.recipients.is_none())
            .finish()
    }
}

impl<S> Layer<S> for FencingLayer {
    type Service = FencingService<S>;

    fn layer(&self, inner: S) -> FencingService<S> {
        FencingService {
            inner,
            layer: self.clone(),
        }
    }
}

/// Adds what is missing of the three headers, if what is there is of the same scope.
fn add(headers: &mut HeaderMap, sequencer: &Sequencer) -> Result<(), OtherSequencer> {
    let other = |header| OtherSequencer {
        header,
        current: sequencer.resource.clone(),
    };
    let differs = |name, same: &dyn Fn(&str) -> bool| {
        let mut there = headers.get_all(name).iter();
        there.any(|value| !value.to_str().is_ok_and(|text| same(text.trim())))
    };
    let same_resource = |text: &str| {
        ResourceName::from_percent_encoded(text).is_ok_and(|name| name == sequencer.resource)
    };
    let same_issuer = |text: &str| {
        IssuerName::from_percent_encoded(text).is_ok_and(|name| name == sequencer.issuer)
    };
    let same_token = |text: &str| text.parse::<TokenValue>() == Ok(sequencer.token);
    if differs(RESOURCE_ID, &same_resource) {
        return Err(other(RESOURCE_ID));
    }
    if differs(FENCING_ISSUER, &same_issuer) {
        return Err(other(FENCING_ISSUER));
    }
    if headers.contains_key(FENCING_TOKEN) {
        // With its resource beside it, a token stands for itself. Alone, it must be the context's.
        if headers.contains_key(RESOURCE_ID) {
            return Ok(());
        }
        if differs(FENCING_TOKEN, &same_token) {
            return Err(other(FENCING_TOKEN));
        }
    }
    for (name, value) in sequencer.to_headers() {
        let value = HeaderValue::try_from(value).expect("an encoded name is visible ASCII");
        let name = HeaderName::from_static(name);
        headers.entry(name).or_insert(value);
    }
    Ok(())
}

/// The request carries part of a sequencer that is not the context's, and was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{header} of the request is not that of the grant for \"{current}\" under which it would be sent: send it in a `context::scope` of its own grant, or in `context::apart`"
)]
pub struct OtherSequencer {
    /// The header that differs.
    pub header: &'static str,
    /// The resource of the context.
    pub current: ResourceName,
}

/// What a client with a [`FencingLayer`] can fail with.
#[derive(Debug, thiserror::Error)]
pub enum FencingError {
    /// The service refused the token as stale. The request had no effect.
    #[error(transparent)]
    Stale(#[from] StaleAnswer),
    /// The request was not sent.
    #[error(transparent)]
    OtherSequencer(#[from] OtherSequencer),
    /// What the client itself failed with.
    #[error(transparent)]
    Service(BoxError),
}

/// A client that sends the sequencer along; made by [`FencingLayer`].
#[derive(Debug, Clone)]
pub struct FencingService<S> {
    inner: S,
    layer: FencingLayer,
}

impl<S, A, B> Service<Request<A>> for FencingService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    type Response = Response<B>;
    type Error = FencingError;
    type Future = FencingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FencingError>> {
        let ready = self.inner.poll_ready(cx);
        ready.map_err(|error| FencingError::Service(error.into()))
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let state = match self.layer.fence(&mut request) {
            Ok(sent) => State::Sent {
                answer: self.inner.call(request),
                sent,
            },
            Err(other) => State::Unsent { other: Some(other) },
        };
        FencingFuture { state }
    }
}

/// What of a request is needed to read its answer.
#[derive(Debug, Clone, Copy)]
struct Sent {
    presented: Option<TokenValue>,
    grpc: bool,
}

impl Sent {
    fn read<B>(self, mut response: Response<B>) -> Result<Response<B>, FencingError> {
        let Some(presented) = self.presented else {
            return Ok(response);
        };
        if self.grpc {
            // So that `StaleAnswer::in_metadata` knows what was presented, whoever the guard is.
            let headers = response.headers_mut();
            if headers.contains_key(REQUIRED_TOKEN) {
                let name = HeaderName::from_static(FENCING_TOKEN);
                headers.insert(name, HeaderValue::from(presented.get()));
            }
            return Ok(response);
        }
        match StaleAnswer::in_response(response.status(), response.headers(), presented) {
            Some(stale) => Err(stale.into()),
            None => Ok(response),
        }
    }
}

pin_project! {
    /// The answer to come of a [`FencingService`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct FencingFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        Sent { #[pin] answer: F, sent: Sent },
        Unsent { other: Option<OtherSequencer> },
    }
}

impl<F, B, E> Future for FencingFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<B>, FencingError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Sent { answer, sent } => Poll::Ready(match ready!(answer.poll(cx)) {
                Ok(response) => sent.read(response),
                Err(error) => Err(FencingError::Service(error.into())),
            }),
            StateProjection::Unsent { other } => {
                let other = other.take().expect("a future is not polled after its end");
                Poll::Ready(Err(other.into()))
            }
        }
    }
}
