//! How header names are spelled on the wire.
//!
//! HTTP compares header names without regard to case, and the client's library knows them in lower
//! case only. A service that compares them exactly passes every test in which the client happens to
//! spell as it does, so the spelling is made here: in the head of the request, in place, as it leaves.

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use fencepost::sequencer::headers;

/// The spellings that a service must take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `X-Fencing-Token`, as the contract writes it.
    Title,
    /// `x-fencing-token`, as HTTP/2 and gRPC write it.
    Lower,
    /// `X-FENCING-TOKEN`, as a gateway may.
    Upper,
}

/// The names whose spelling matters.
const NAMES: [&str; 3] = [
    headers::FENCING_TOKEN,
    headers::RESOURCE_ID,
    headers::FENCING_ISSUER,
];

impl Spelling {
    /// A name of the sequencer's headers, spelled so.
    pub(super) fn name(self, lower: &'static str) -> &'static str {
        let [token, resource, issuer] = match self {
            Self::Title => ["X-Fencing-Token", "X-Resource-Id", "X-Fencing-Issuer"],
            Self::Lower => NAMES,
            Self::Upper => ["X-FENCING-TOKEN", "X-RESOURCE-ID", "X-FENCING-ISSUER"],
        };
        match lower {
            headers::FENCING_TOKEN => token,
            headers::RESOURCE_ID => resource,
            headers::FENCING_ISSUER => issuer,
            other => other,
        }
    }

    /// Spells the names in what is about to be sent, if it begins with a request's head.
    fn apply(self, output: &mut [u8]) {
        let end = output
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .unwrap_or(output.len());
        for name in NAMES {
            let spelled = self.name(name).as_bytes();
            let mut at = 0;
            while at + 2 + name.len() < end {
                let line = &mut output[at..end];
                let is_name = line.starts_with(b"\r\n")
                    && line[2..].len() > name.len()
                    && line[2..2 + name.len()].eq_ignore_ascii_case(name.as_bytes())
                    && line[2 + name.len()] == b':';
                if is_name {
                    line[2..2 + name.len()].copy_from_slice(spelled);
                }
                at += 1;
            }
        }
    }
}

/// Puts itself behind the connector that makes connections.
#[derive(Debug)]
pub(super) struct Speller(pub(super) Spelling);

impl<In: Transport> Connector<In> for Speller {
    type Out = Spelled<In>;

    fn connect(
        &self,
        _: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let spelling = self.0;
        Ok(chained.map(|inner| Spelled { inner, spelling }))
    }
}

/// A connection whose requests' heads are spelled.
#[derive(Debug)]
pub(super) struct Spelled<T> {
    inner: T,
    spelling: Spelling,
}

impl<T: Transport> Transport for Spelled<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.spelling
            .apply(&mut self.inner.buffers().output()[..amount]);
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_head_are_spelled_and_nothing_else() {
        let lower = "PUT /x-fencing-token HTTP/1.1\r\nx-fencing-token: 1\r\nother: x-resource-id: 2\r\n\
            x-resource-id: a\r\n\r\n\r\nx-fencing-token: 3";
        let mut sent = lower.as_bytes().to_vec();
        Spelling::Title.apply(&mut sent);
        let upper = "PUT /x-fencing-token HTTP/1.1\r\nX-Fencing-Token: 1\r\nother: x-resource-id: 2\r\n\
            X-Resource-Id: a\r\n\r\n\r\nx-fencing-token: 3";
        assert_eq!(String::from_utf8(sent.clone()).unwrap(), upper);
        Spelling::Lower.apply(&mut sent);
        assert_eq!(String::from_utf8(sent).unwrap(), lower);
    }
}
