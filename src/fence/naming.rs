//! What the value of a resource is called in a file system or an object store.

use crate::resource::ResourceName;

/// File systems take names of 255 bytes; a longer one is cut into directories of this length.
const PIECE_BYTES_MAX: usize = 200;
/// Ends the name of a file. No directory ends so.
const VALUE: &str = ".value";
/// Ends the name of a directory that holds the rest of a name. Percent-encoding leaves no plus sign.
const CONTINUED: &str = "+";

/// The path of a value, in pieces that are each fit to be the name of a file: the percent-encoded name,
/// cut where it is too long. It is exact: no two resources share one, however long their names are.
pub(super) fn pieces(resource: &ResourceName) -> Vec<String> {
    let encoded = resource.percent_encoded();
    let mut pieces = Vec::new();
    let mut rest = encoded.as_str();
    // It is ASCII, so that it can be cut anywhere.
    while rest.len() > PIECE_BYTES_MAX {
        let (piece, after) = rest.split_at(PIECE_BYTES_MAX);
        pieces.push(format!("{piece}{CONTINUED}"));
        rest = after;
    }
    pieces.push(format!("{rest}{VALUE}"));
    pieces
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        path::{Path, PathBuf},
    };

    use super::*;

    fn path(name: &str) -> PathBuf {
        pieces(&name.parse().unwrap()).iter().collect()
    }

    #[test]
    fn names_become_safe_and_readable_file_names() {
        assert_eq!(path("accounts/1"), Path::new("accounts%2F1.value"));
        assert_eq!(path(".."), Path::new("...value"));
        assert_eq!(path("a b+c"), Path::new("a%20b%2Bc.value"));
        for odd in ["../../etc/passwd", "/", ".", "..", "a\\b", "C:x", "🦀"] {
            let path = path(odd);
            assert_eq!(path.components().count(), 1, "{odd}");
            assert!(path.to_str().unwrap().is_ascii(), "{odd}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let names = [
            "a".repeat(160),
            "🦀".repeat(160),
            "🦀".repeat(159),
            format!("{}é", "🦀".repeat(159)),
            "é".repeat(34),
            "é".repeat(33),
        ];
        let paths: BTreeSet<_> = names.iter().map(|name| path(name)).collect();
        assert_eq!(paths.len(), names.len());
        for part in paths.iter().flat_map(|path| path.iter()) {
            assert!(part.len() <= 255, "{part:?}");
        }
    }
}
