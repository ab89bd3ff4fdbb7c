//! What a guard asks, in words.

use crate::{
    resource::IssuerName,
    sequencer::Sequencer,
    server::api::asked::{issuer, resource, token},
    wire::{failure::Failure, v1},
};

/// A token is presented.
#[derive(Debug)]
pub(in crate::server::api) struct AdmitAsked {
    pub(super) sequencer: Sequencer,
    pub(super) once: bool,
}

pub(super) fn admit(request: &v1::AdmitRequest) -> Result<AdmitAsked, Failure> {
    Ok(AdmitAsked {
        sequencer: sequencer(&request.issuer, &request.resource, request.token)?,
        once: request.once,
    })
}

pub(super) fn report(request: &v1::ReportRequest) -> Result<Sequencer, Failure> {
    sequencer(&request.issuer, &request.resource, request.token)
}

fn sequencer(issuer_: &str, resource_: &str, token_: u64) -> Result<Sequencer, Failure> {
    Ok(Sequencer {
        issuer: issuer(issuer_)?,
        resource: resource("", resource_)?,
        token: token("token", token_)?,
    })
}

/// What is said of a token of another issuer: it is not compared.
pub(super) fn foreign(presented: &IssuerName, ours: &str) -> Option<v1::ForeignToken> {
    (presented.as_str() != ours).then(|| v1::ForeignToken {
        expected_issuer: ours.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::failure::Reason;

    fn valid() -> v1::AdmitRequest {
        v1::AdmitRequest {
            issuer: "fencepost".to_owned(),
            resource: "printer".to_owned(),
            token: 65_537,
            once: false,
        }
    }

    #[test]
    fn what_is_missing_or_out_of_range_is_refused_by_field_and_limit() {
        assert!(admit(&valid()).is_ok());
        let long = "a".repeat(200);
        for (bad, field, limit) in [
            (
                v1::AdmitRequest {
                    issuer: String::new(),
                    ..valid()
                },
                "issuer",
                "at least 1 and at most 80 Unicode scalars",
            ),
            (
                v1::AdmitRequest {
                    resource: long,
                    ..valid()
                },
                "resource",
                "at most 160 Unicode scalars",
            ),
            (
                v1::AdmitRequest {
                    token: 0,
                    ..valid()
                },
                "token",
                "1 to 2^63 - 1",
            ),
            (
                v1::AdmitRequest {
                    token: 1 << 63,
                    ..valid()
                },
                "token",
                "1 to 2^63 - 1",
            ),
        ] {
            let failure = admit(&bad).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidField);
            assert_eq!(failure.field.as_deref(), Some(field));
            assert_eq!(failure.limit.as_deref(), Some(limit));
            let report = v1::ReportRequest {
                issuer: bad.issuer,
                resource: bad.resource,
                token: bad.token,
            };
            let failure = super::report(&report).unwrap_err();
            assert_eq!(failure.field.as_deref(), Some(field));
        }
    }
}
