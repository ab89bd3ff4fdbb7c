//! Numbers of things, in words.

/// `1 node`, `3 nodes`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_thing_is_no_plural() {
        let nodes = [0, 1, 2].map(|count| super::counted(count, "node"));
        assert_eq!(nodes, ["0 nodes", "1 node", "2 nodes"]);
    }
}
