//! Random ids of 128 bits: made once, at random, and never compared for more than equality.
//!
//! They rest and travel as 16 big-endian bytes, and people read them as 32 hexadecimal digits. Who makes
//! one brings the random bits along: nothing here is random.

use std::fmt;
use std::str::FromStr;

/// Defines an id of 128 bits, and the error for a text that is not one.
macro_rules! id_of_128_bits {
    ($(#[$about:meta])* $id:ident, $error:ident, $field:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(u128);

        impl $id {
            /// Takes 128 random bits.
            #[must_use]
            pub const fn new(bits: u128) -> Self {
                Self(bits)
            }

            /// Takes the bytes that rest and travel.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }

            /// The 128 bits.
            #[must_use]
            pub const fn get(self) -> u128 {
                self.0
            }

            /// The bytes that rest and travel: the bits, big-endian.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }
        }

        impl fmt::Display for $id {
            /// 32 lower-case hexadecimal digits.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $id {
            type Err = $error;

            /// Reads 32 hexadecimal digits.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                // The number parser alone would also take a sign, and fewer digits.
                if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err($error);
                }
                u128::from_str_radix(text, 16).map(Self).map_err(|_| $error)
            }
        }

        #[doc = concat!("A text that is not a [`", stringify!($id), "`].")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
        #[error("{} is not 32 hexadecimal digits", $field)]
        pub struct $error;
    };
}

id_of_128_bits! {
    /// The random id that a cluster made when it formed. A restore founds a new cluster, with a new id.
    ClusterId, ClusterIdError, "cluster_id"
}

id_of_128_bits! {
    /// Names one data directory of a node. It is made when the directory is, so that a wiped node cannot
    /// pass for the one that it was.
    InstanceId, InstanceIdError, "instance_id"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_thirty_two_hexadecimal_digits() {
        let id = ClusterId::new(0xfe);
        assert_eq!(id.to_string(), "000000000000000000000000000000fe");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "",
            "fe",
            "+00000000000000000000000000000fe",
            "zz0000000000000000000000000000fe",
        ] {
            assert_eq!(bad.parse::<ClusterId>(), Err(ClusterIdError), "{bad:?}");
            assert_eq!(bad.parse::<InstanceId>(), Err(InstanceIdError), "{bad:?}");
        }
        assert_eq!(
            InstanceIdError.to_string(),
            "instance_id is not 32 hexadecimal digits"
        );
    }

    #[test]
    fn an_id_rests_as_big_endian_bytes() {
        let bytes = *b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10";
        let id = InstanceId::from_bytes(bytes);
        assert_eq!(id.to_string(), "0102030405060708090a0b0c0d0e0f10");
        assert_eq!((id.to_bytes(), InstanceId::new(id.get())), (bytes, id));
    }
}
