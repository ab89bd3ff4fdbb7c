//! What a request looks like: the URL and the body, with places for what changes.

use fencepost::resource::ResourceName;

/// A URL or a body with `{resource}`, `{token}` and `{value}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(String);

/// What is put into the places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling<'a> {
    pub(super) resource: &'a ResourceName,
    pub(super) token: u64,
    /// Different in every write, so that a reader can tell whose write it sees.
    pub(super) value: &'a str,
}

impl Template {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it has a place of this name.
    pub(super) fn has(&self, place: &str) -> bool {
        self.0.contains(&format!("{{{place}}}"))
    }

    /// For a URL: names are percent-encoded, slashes too.
    pub(super) fn url(&self, filling: &Filling<'_>) -> String {
        self.fill(filling, &filling.resource.percent_encoded())
    }

    /// For a body: names are escaped as inside the quotes of a JSON string, which changes only names
    /// with quotes and backslashes.
    pub(super) fn body(&self, filling: &Filling<'_>) -> String {
        let quoted = serde_json::Value::from(filling.resource.as_str()).to_string();
        self.fill(filling, &quoted[1..quoted.len() - 1])
    }

    /// The resource comes last: its name may have braces in it.
    fn fill(&self, filling: &Filling<'_>, resource: &str) -> String {
        self.0
            .replace("{token}", &filling.token.to_string())
            .replace("{value}", filling.value)
            .replace("{resource}", resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_as_their_surroundings_need_it() {
        let resource = "a \"b\"/{token}".parse().unwrap();
        let filling = Filling {
            resource: &resource,
            token: 7,
            value: "v",
        };
        let url = Template::new("http://h/{resource}?t={token}");
        assert_eq!(url.url(&filling), "http://h/a%20%22b%22%2F%7Btoken%7D?t=7");
        let body = Template::new("{\"r\": \"{resource}\", \"v\": \"{value}\"}");
        assert_eq!(
            body.body(&filling),
            "{\"r\": \"a \\\"b\\\"/{token}\", \"v\": \"v\"}"
        );
        assert!(body.has("value") && !body.has("token"));
    }
}
