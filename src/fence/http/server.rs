//! The layer before a service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::fence::{Guard, context};
use crate::resource::{IssuerName, ResourceName};
use crate::sequencer::MissingIssuer;

use super::answer::Form;
use super::body::GuardBody;
use super::door::{Door, Passage, TokenDemand};

/// Puts a guard before a service: requests without a token, or with a stale or foreign one, never
/// reach it, and are answered as the [contract](super) says.
///
/// The service finds what was admitted in the request's extensions
/// (`Extension<Sequencer>` in axum, `request.extensions().get::<Sequencer>()` in tonic), and runs in
/// its [context](crate::fence::context), the body of its answer included. **It must hand the
/// sequencer on to the write**: what was admitted at the door may be stale when the handler writes.
///
/// ```
/// use fencepost::fence::{Rules, http::GuardLayer, memory::MemoryGuard};
/// use fencepost::resource::{IssuerName, ResourceName};
///
/// let issuer: IssuerName = "prod".parse()?;
/// let guard = MemoryGuard::new(Rules::issued_by(issuer.clone()));
/// // `/accounts/1` is about `accounts/1`: a token for another account does not open it.
/// let layer = GuardLayer::new(guard, issuer).bound_to(|request| {
///     let path = request.uri.path().strip_prefix('/')?;
///     ResourceName::from_percent_encoded(path).ok()
/// });
/// # let _ = layer;
/// # Ok::<(), fencepost::resource::NameError>(())
/// ```
///
/// In tonic, `Server::builder().layer(layer)` guards all services of the server, health checks and
/// reflection included: choose by [`GuardLayer::demand`], or put the layer around one service and give
/// it back its name by `tonic::service::LayerExt::named_layer`. The layer counts nothing; wrap the
/// guard for that, and to observe before enforcing.
pub struct GuardLayer<G> {
    guard: Arc<G>,
    door: Door,
}

impl<G: Guard> GuardLayer<G> {
    /// A layer that asks `guard`, which may be an `Arc` that is shared with others. `issuer` is
    /// whose tokens the service takes: it stands in for one that a caller does not name, if
    /// [`missing_issuer`](Self::missing_issuer) allows that. Give the guard the same one, by
    /// [`Rules::issued_by`](crate::fence::Rules::issued_by).
    #[must_use]
    pub fn new(guard: G, issuer: IssuerName) -> Self {
        Self {
            guard: Arc::new(guard),
            door: Door::new(issuer),
        }
    }

    /// What to make of callers that send token and resource, but no issuer; refused unless set.
    #[must_use]
    pub fn missing_issuer(mut self, missing: MissingIssuer) -> Self {
        self.door.missing_issuer = missing;
        self
    }

    /// Chooses which requests need a token; [`TokenDemand::by_method`] unless set. A function that
    /// looks at the path should name what needs *no* token, so that a new route is guarded until
    /// somebody says otherwise.
    #[must_use]
    pub fn demand(
        mut self,
        demand: impl Fn(&Parts) -> TokenDemand + Send + Sync + 'static,
    ) -> Self {
        self.door.demand = Arc::new(demand);
        self
    }

    /// Tells which resource a request is about, usually from its path. A token for another one is
    /// foreign there. `None` means that no token can be for it, and a token that comes is foreign
    /// too: what the function does not recognize stays shut.
    ///
    /// Without this, `X-Resource-Id` is believed, and it is for the handler to write nothing but the
    /// admitted sequencer's resource.
    #[must_use]
    pub fn bound_to(
        mut self,
        resource: impl Fn(&Parts) -> Option<ResourceName> + Send + Sync + 'static,
    ) -> Self {
        self.door.binding = Some(Arc::new(resource));
        self
    }
}

impl<G> Clone for GuardLayer<G> {
    fn clone(&self) -> Self {
        Self {
            guard: Arc::clone(&self.guard),
            door: self.door.clone(),
        }
    }
}

impl<G> std::fmt::Debug for GuardLayer<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardLayer")
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl<G, S> Layer<S> for GuardLayer<G> {
    type Service = GuardService<G, S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service behind a guard; made by [`GuardLayer`].
#[derive(Debug)]
pub struct GuardService<G, S> {
    inner: S,
    layer: GuardLayer<G>,
}

impl<G, S: Clone> Clone for GuardService<G, S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<G, S, A, B> Service<Request<A>> for GuardService<G, S>
where
    G: Guard + Send + Sync + 'static,
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    A: Send + 'static,
    B: Body<Data = Bytes>,
{
    type Response = Response<GuardBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // The one that was polled ready takes the request; its clone waits for the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let GuardLayer { guard, door } = self.layer.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let passage = match door.judge(&parts, &*guard).await {
                Ok(passage) => passage,
                Err(turned_away) => return Ok(turned_away.answer(Form::of(&parts))),
            };
            let Passage::Admitted(sequencer) = passage else {
                let response = inner.call(Request::from_parts(parts, body)).await?;
                return Ok(response.map(|body| GuardBody::of_service(body, None)));
            };
            parts.extensions.insert(sequencer.clone());
            let request = Request::from_parts(parts, body);
            let handled = async move { inner.call(request).await };
            let response = context::scope(sequencer.clone(), handled).await?;
            Ok(response.map(|body| GuardBody::of_service(body, Some(sequencer))))
        })
    }
}
