//! The issuer core against golden scripts and a naive oracle.
