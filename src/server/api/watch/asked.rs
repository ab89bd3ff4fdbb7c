//! What is to be watched, in words.

use std::time::Duration;

use crate::{
    grant::ClusterId,
    issuer::Event,
    limits::{WATCH_PROGRESS_MS_DEFAULT, WATCH_PROGRESS_MS_MAX, WATCH_PROGRESS_MS_MIN},
    resource::ResourceName,
    server::api::asked,
    wire::{
        failure::Failure,
        v1::{self, watch_request::What},
    },
};

/// A watch.
#[derive(Debug)]
pub(super) struct WatchAsked {
    pub(super) filter: Filter,
    pub(super) after: Option<Cursor>,
    pub(super) progress: Duration,
}

/// A place in the history of one cluster.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) cluster: ClusterId,
    pub(super) index: u64,
}

/// Which events are told.
#[derive(Debug)]
pub(super) struct Filter {
    what: Names,
    /// Renewals, too.
    pub(super) renewals: bool,
}

#[derive(Debug)]
enum Names {
    Exactly(ResourceName),
    BeginningWith(String),
}

impl Filter {
    pub(super) fn admits(&self, event: &Event) -> bool {
        let Some(resource) = event.resource() else {
            return false;
        };
        let named = match &self.what {
            Names::Exactly(name) => name == resource,
            Names::BeginningWith(prefix) => resource.as_str().starts_with(prefix.as_str()),
        };
        named && (self.renewals || !matches!(event, Event::Renewed { .. }))
    }
}

pub(super) fn watch(request: &v1::WatchRequest) -> Result<WatchAsked, Failure> {
    let what = match &request.what {
        Some(What::Resource(name)) => Names::Exactly(asked::resource("", name)?),
        Some(What::Prefix(prefix)) => Names::BeginningWith(asked::prefix(prefix)?.to_owned()),
        None => {
            let limit = "either this or `prefix` must be given; an empty prefix watches everything";
            return Err(Failure::invalid("resource", limit));
        }
    };
    Ok(WatchAsked {
        filter: Filter {
            what,
            renewals: request.renewals,
        },
        after: request.after.as_ref().map(cursor).transpose()?,
        progress: progress(request.progress_ms)?,
    })
}

fn cursor(cursor: &v1::Cursor) -> Result<Cursor, Failure> {
    let cluster = cursor.cluster_id.parse();
    let digits = |_| Failure::invalid("after.cluster_id", "32 hexadecimal digits");
    Ok(Cursor {
        cluster: cluster.map_err(digits)?,
        index: cursor.index,
    })
}

fn progress(ms: u32) -> Result<Duration, Failure> {
    let ms = match u64::from(ms) {
        0 => WATCH_PROGRESS_MS_DEFAULT,
        ms if (WATCH_PROGRESS_MS_MIN..=WATCH_PROGRESS_MS_MAX).contains(&ms) => ms,
        ms => {
            let limit = format!(
                "{WATCH_PROGRESS_MS_MIN} to {WATCH_PROGRESS_MS_MAX}, or 0 for \
                 {WATCH_PROGRESS_MS_DEFAULT}, not {ms}"
            );
            return Err(Failure::invalid("progress_ms", limit));
        }
    };
    Ok(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(what: Option<What>) -> v1::WatchRequest {
        v1::WatchRequest {
            what,
            ..v1::WatchRequest::default()
        }
    }

    fn field(request: &v1::WatchRequest) -> String {
        watch(request).unwrap_err().field.clone().unwrap()
    }

    #[test]
    fn odd_requests_are_refused_by_field() {
        assert_eq!(field(&request(None)), "resource");
        assert_eq!(
            field(&request(Some(What::Resource(String::new())))),
            "resource"
        );
        assert_eq!(
            field(&request(Some(What::Prefix("é".repeat(161))))),
            "prefix"
        );
        let everything = request(Some(What::Prefix(String::new())));
        for progress_ms in [1, 99, 60_001, u32::MAX] {
            let odd = v1::WatchRequest {
                progress_ms,
                ..everything.clone()
            };
            assert_eq!(field(&odd), "progress_ms");
        }
        let odd = v1::WatchRequest {
            after: Some(v1::Cursor {
                cluster_id: "nobody".to_owned(),
                index: 1,
            }),
            ..everything.clone()
        };
        assert_eq!(field(&odd), "after.cluster_id");
        assert!(watch(&everything).is_ok());
    }

    #[test]
    fn a_prefix_admits_what_begins_with_it_and_a_name_itself_alone() {
        let event = |name: &str, renewed| {
            let resource = ResourceName::new(name).unwrap();
            let token = crate::token::Token::new(crate::token::TokenValue::new(1).unwrap(), 0, 1);
            let holder = crate::resource::Holder::new("h").unwrap();
            if renewed {
                let (ttl, renewals) = (crate::grant::Ttl::default(), 1);
                Event::Renewed {
                    resource,
                    holder,
                    token,
                    ttl,
                    renewals,
                }
            } else {
                Event::Ended {
                    resource,
                    holder,
                    token,
                    how: crate::grant::EndedHow::Released,
                    renewals: 0,
                    reason: None,
                }
            }
        };
        let by_name = watch(&request(Some(What::Resource("a/b".to_owned())))).unwrap();
        let by_prefix = watch(&request(Some(What::Prefix("a/".to_owned())))).unwrap();
        for (name, exact, begins) in [
            ("a/b", true, true),
            ("a/bc", false, true),
            ("a", false, false),
            ("b/a/", false, false),
        ] {
            assert_eq!(by_name.filter.admits(&event(name, false)), exact, "{name}");
            assert_eq!(
                by_prefix.filter.admits(&event(name, false)),
                begins,
                "{name}"
            );
            assert!(!by_prefix.filter.admits(&event(name, true)), "{name}");
        }
        let both = v1::WatchRequest {
            renewals: true,
            ..request(Some(What::Prefix(String::new())))
        };
        assert!(watch(&both).unwrap().filter.admits(&event("a", true)));
    }
}
