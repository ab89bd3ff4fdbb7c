//! The two keys of a resource.

use crate::resource::ResourceName;

use super::RedisError;

/// A prefix is for telling applications apart, and is sent with each call.
const PREFIX_BYTES_MAX: usize = 200;

/// What goes before each name.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Result<Self, RedisError> {
        let odd = |reason| {
            let prefix = prefix.chars().take(80).collect();
            Err(RedisError::Prefix { prefix, reason })
        };
        if prefix.len() > PREFIX_BYTES_MAX {
            return odd("it has more than 200 bytes");
        }
        if prefix.contains(['{', '}']) {
            return odd(
                "braces decide in which slot of a cluster a key lies, and the guard sets its own",
            );
        }
        if prefix.chars().any(char::is_control) {
            return odd("it has a control character");
        }
        let prefix = prefix.to_owned();
        Ok(Self { prefix })
    }

    pub(super) fn value(&self, resource: &ResourceName) -> String {
        format!("{}{}", self.prefix, resource.percent_encoded())
    }

    /// A cluster hashes what is in braces, which is the value's whole key: so both are in one slot.
    /// (An empty key in braces would not count as such; a name is never empty.)
    pub(super) fn mark(&self, resource: &ResourceName) -> String {
        format!("{{{}}}:fencing", self.value(resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_readable_and_cannot_leave_their_slot() {
        let keys = Keys::new("app:").unwrap();
        let plain = "jobs-1".parse().unwrap();
        assert_eq!(keys.value(&plain), "app:jobs-1");
        assert_eq!(keys.mark(&plain), "{app:jobs-1}:fencing");
        let odd = "a}b{c d".parse().unwrap();
        assert_eq!(keys.value(&odd), "app:a%7Db%7Bc%20d");
    }

    #[test]
    fn a_prefix_is_checked() {
        for (prefix, complaint) in [
            ("{a}".to_owned(), "braces"),
            ("a".repeat(201), "200 bytes"),
            ("a\nb".to_owned(), "control"),
        ] {
            let said = Keys::new(&prefix).unwrap_err().to_string();
            assert!(said.contains(complaint), "{said}");
            assert!(said.len() < 250);
        }
    }
}
