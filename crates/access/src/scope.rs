//! What a key may be limited to: resources, each for reading or for both.
//!
//! The words are those that published clients send (`pipeline`, `build`, `agent`, `audit`, …); `word:read`
//! limits a word to reading, `*:read` is everything, read only.

/// What a route is about; its word is the scope that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Account,
    Users,
    Teams,
    ServiceAccounts,
    Keys,
    Rules,
    Audit,
    Contexts,
    Usage,
    Sso,
    Pipelines,
    Builds,
    Repos,
    Gitops,
    Agents,
    Platform,
    Metrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Read,
    Write,
}

impl Resource {
    pub const ALL: [Self; 17] = [
        Self::Account,
        Self::Users,
        Self::Teams,
        Self::ServiceAccounts,
        Self::Keys,
        Self::Rules,
        Self::Audit,
        Self::Contexts,
        Self::Usage,
        Self::Sso,
        Self::Pipelines,
        Self::Builds,
        Self::Repos,
        Self::Gitops,
        Self::Agents,
        Self::Platform,
        Self::Metrics,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Users => "user",
            Self::Teams => "team",
            Self::ServiceAccounts => "service-account",
            Self::Keys => "auth",
            Self::Rules => "abac",
            Self::Audit => "audit",
            Self::Contexts => "context",
            Self::Usage => "usage",
            Self::Sso => "sso",
            Self::Pipelines => "pipeline",
            Self::Builds => "build",
            Self::Repos => "repos",
            Self::Gitops => "gitops",
            Self::Agents => "agent",
            Self::Platform => "admin",
            Self::Metrics => "metrics",
        }
    }
}

/// Words of published clients that name the same thing otherwise, or a thing that is not there yet.
const OTHER_WORDS: [(&str, Option<Resource>); 16] = [
    ("agents", Some(Resource::Agents)),
    ("runner-installation", Some(Resource::Agents)),
    ("api-keys", Some(Resource::Keys)),
    ("workflow", Some(Resource::Builds)),
    ("project", Some(Resource::Pipelines)),
    ("cluster", None),
    ("clusters", None),
    ("environments-v2", None),
    ("github-action", None),
    ("helm", None),
    ("kubernetes", None),
    ("registry", None),
    ("step-type", None),
    ("step-types", None),
    ("view", None),
    ("trigger", None),
];

/// The limits of a key. Without any it may what its owner may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(Option<Vec<(Option<Resource>, Verb)>>);

impl Scopes {
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// An empty list means no limits. All unknown words are named at once.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, String> {
        if words.is_empty() {
            return Ok(Self(None));
        }
        let (mut grants, mut unknown) = (Vec::new(), Vec::new());
        for word in words {
            match parse_word(word.as_ref()) {
                Some(found) => grants.extend(found),
                None => unknown.push(format!("`{}`", word.as_ref())),
            }
        }
        if unknown.is_empty() {
            return Ok(Self(Some(grants)));
        }
        let known: Vec<_> = Resource::ALL.iter().map(|resource| resource.word()).collect();
        Err(format!(
            "no such scope: {}; known are {}, each also with `:read`, and `*:read`",
            unknown.join(", "),
            known.join(", ")
        ))
    }

    /// For words that were checked when they were stored: what is not known any more grants nothing.
    pub fn stored<S: AsRef<str>>(words: &[S]) -> Self {
        if words.is_empty() {
            return Self(None);
        }
        Self(Some(words.iter().filter_map(|word| parse_word(word.as_ref())).flatten().collect()))
    }

    pub fn allow(&self, resource: Resource, verb: Verb) -> bool {
        let Some(grants) = &self.0 else { return true };
        grants.iter().any(|(granted, how)| {
            granted.is_none_or(|granted| granted == resource) && (*how == Verb::Write || verb == Verb::Read)
        })
    }

    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Whoever holds `self` may hand out `other`: nobody grants what they lack.
    pub fn cover(&self, other: &Self) -> bool {
        match &other.0 {
            None => self.0.is_none(),
            Some(grants) => grants.iter().all(|(resource, verb)| match resource {
                Some(resource) => self.allow(*resource, *verb),
                None => Resource::ALL.iter().all(|resource| self.allow(*resource, *verb)),
            }),
        }
    }
}

/// `None` inside the list means every resource; a word for something that is not there yet grants nothing.
fn parse_word(word: &str) -> Option<Vec<(Option<Resource>, Verb)>> {
    let (name, verb) = match word.split_once(':') {
        Some((name, "read")) => (name, Verb::Read),
        Some((name, "write")) => (name, Verb::Write),
        Some(_) => return None,
        None => (word, Verb::Write),
    };
    if name == "*" {
        return Some(vec![(None, verb)]);
    }
    if let Some(resource) = Resource::ALL.into_iter().find(|resource| resource.word() == name) {
        return Some(vec![(Some(resource), verb)]);
    }
    let (_, resource) = OTHER_WORDS.iter().find(|(known, _)| *known == name)?;
    Some(resource.iter().map(|resource| (Some(*resource), verb)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_opens_its_resource_and_read_alone_does_not_write() {
        let scopes = Scopes::parse(&["pipeline", "build:read"]).unwrap();
        for (resource, verb, expected) in [
            (Resource::Pipelines, Verb::Write, true),
            (Resource::Builds, Verb::Read, true),
            (Resource::Builds, Verb::Write, false),
            (Resource::Keys, Verb::Read, false),
        ] {
            assert_eq!(scopes.allow(resource, verb), expected, "{resource:?} {verb:?}");
        }
        assert!(Scopes::parse::<&str>(&[]).unwrap().allow(Resource::Platform, Verb::Write));
        let read = Scopes::parse(&["*:read"]).unwrap();
        assert!(read.allow(Resource::Audit, Verb::Read) && !read.allow(Resource::Audit, Verb::Write));
        // A word of a published client for a thing that is not there opens nothing, and is no mistake.
        assert!(!Scopes::parse(&["cluster"]).unwrap().allow(Resource::Pipelines, Verb::Read));
    }

    #[test]
    fn nobody_hands_out_more_than_they_hold() {
        let own = Scopes::parse(&["pipeline", "build:read"]).unwrap();
        for (words, expected) in [
            (&["pipeline"][..], true),
            (&["build:read"], true),
            (&["build"], false),
            (&["*:read"], false),
            (&[], false),
        ] {
            assert_eq!(own.cover(&Scopes::parse(words).unwrap()), expected, "{words:?}");
        }
        assert!(Scopes::unlimited().cover(&Scopes::unlimited()));
    }

    #[test]
    fn all_unknown_words_are_named() {
        let problem = Scopes::parse(&["pipline", "build", "x:y"]).unwrap_err();
        assert!(problem.starts_with("no such scope: `pipline`, `x:y`; known are account"), "{problem}");
    }
}
