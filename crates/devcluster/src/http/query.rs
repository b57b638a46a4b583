//! Query strings.

use slipway_dialect::percent;

/// Parsed parameters; a name may come more than once (`command=` of exec).
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent::decode(&name.replace('+', " ")), percent::decode(&value.replace('+', " ")))
        });
        Query(pairs.collect())
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or("")
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.get(name).parse().ok()
    }
}
