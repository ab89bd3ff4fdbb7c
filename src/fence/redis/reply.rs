//! What the script says, and what a mark looks like.

use super::RedisError;
use crate::fence::Mark;

/// Whether the script admitted. Why it refused is for whoever reads the mark to say, in the words of
/// all guards.
pub(super) fn admitted(words: &[Vec<u8>]) -> Result<bool, RedisError> {
    let words: Vec<_> = words
        .iter()
        .map(|word| String::from_utf8_lossy(word))
        .collect();
    match words.iter().map(AsRef::as_ref).collect::<Vec<_>>()[..] {
        ["admitted"] => Ok(true),
        ["stale" | "foreign", _] => Ok(false),
        _ => Err(RedisError::Answer(
            words.join(" ").chars().take(80).collect(),
        )),
    }
}

/// The two fields of a mark's hash, as they are stored.
pub(super) type Fields = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The mark at `key`, whose hash has these fields. A hash that lacks both is no hash: Redis keeps no
/// empty ones, so either there is nothing, or something else is kept there.
pub(super) fn mark(key: &str, fields: &Fields, is_there: bool) -> Result<Option<Mark>, RedisError> {
    if !is_there {
        return Ok(None);
    }
    let text = |field: &Option<Vec<u8>>| {
        let bytes = field.as_deref()?;
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    };
    let read = || {
        let (issuer, token) = (text(&fields.0)?, text(&fields.1)?);
        // A zero in front is no token of ours, and the script compares digits.
        let token = Some(token).filter(|token| !token.starts_with('0'))?;
        Some(Mark {
            issuer: issuer.parse().ok()?,
            token: token.parse().ok()?,
        })
    };
    let damaged = || {
        RedisError::Damaged(format!(
            "{key} is no mark: it needs the fields issuer and token"
        ))
    };
    read().map(Some).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn answers_are_read_and_odd_ones_named() {
        assert!(admitted(&words(&["admitted"])).unwrap());
        assert!(!admitted(&words(&["stale", "7"])).unwrap());
        assert!(!admitted(&words(&["foreign", "casino"])).unwrap());
        for odd in [vec![], vec!["OK"], vec!["stale"], vec!["admitted", "x"]] {
            let error = admitted(&words(&odd)).unwrap_err();
            assert!(error.to_string().contains("no answer"), "{odd:?}: {error}");
        }
    }

    #[test]
    fn a_damaged_mark_is_never_no_mark() {
        let field = |text: &str| Some(text.as_bytes().to_vec());
        let good = (field("bank"), field("7"));
        let read = mark("k", &good, true).unwrap().unwrap();
        assert_eq!((read.issuer.as_str(), read.token.get()), ("bank", 7));
        assert_eq!(mark("k", &(None, None), false).unwrap(), None);
        for bad in [
            (None, None),
            (field("bank"), None),
            (None, field("7")),
            (field(""), field("7")),
            (field("bank"), field("007")),
            (field("bank"), field("7.0")),
            (field("bank"), field("9223372036854775808")),
            (field("bank"), Some(vec![0xff])),
        ] {
            assert!(mark("k", &bad, true).is_err(), "{bad:?}");
        }
    }
}
