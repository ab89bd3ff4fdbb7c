//! What the stories play with: sequencers, and the rules of a bank.

use fencepost::{
    fence::Rules,
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

/// The resource whose holder may write account 1.
pub(crate) const ACCOUNT: &str = "account/1";

pub(crate) fn token(value: u64) -> TokenValue {
    TokenValue::new(value).unwrap()
}

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).unwrap()
}

pub(crate) fn issuer(name: &str) -> IssuerName {
    IssuerName::new(name).unwrap()
}

pub(crate) fn sequencer(value: u64) -> Sequencer {
    sequencer_for("bank", ACCOUNT, value)
}

pub(crate) fn sequencer_for(by: &str, of: &str, value: u64) -> Sequencer {
    Sequencer {
        issuer: issuer(by),
        resource: resource(of),
        token: token(value),
    }
}

pub(crate) fn rules() -> Rules {
    Rules::issued_by(issuer("bank"))
}
