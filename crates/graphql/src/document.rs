//! Limits on a GraphQL document that are checked before anything runs: tokens, aliases, fields at the root, what its fragments come to.
//! Depth and complexity are the library's.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextParseQuery};
use async_graphql::parser::parse_query;
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, Selection, SelectionSet};
use async_graphql::{ServerError, ServerResult, Variables};

const TOKENS_MAX: usize = 2000;
const ALIASES_MAX: usize = 30;
const ROOT_FIELDS_MAX: usize = 10;
/// With each fragment as often as it is used. The library goes through all of that with the document that it reads, before anybody else
/// sees it: two thousand tokens are enough for fragments of fragments that take it longer than anybody lives.
const SELECTIONS_MAX: usize = 10_000;
/// Fragments inside fragments are looked into this far; deeper ones the library refuses anyway.
const FRAGMENT_DEPTH_MAX: usize = 12;

pub struct DocumentLimits;

impl ExtensionFactory for DocumentLimits {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Limits)
    }
}

struct Limits;

#[async_graphql::async_trait::async_trait]
impl Extension for Limits {
    async fn parse_query(
        &self,
        context: &ExtensionContext<'_>,
        query: &str,
        variables: &Variables,
        next: NextParseQuery<'_>,
    ) -> ServerResult<ExecutableDocument> {
        let tokens = count_tokens(query);
        if tokens > TOKENS_MAX {
            return Err(too_many("tokens", TOKENS_MAX));
        }
        // What cannot be read the library refuses, with its place.
        if parse_query(query).is_ok_and(|document| selections(&document) > SELECTIONS_MAX) {
            return Err(too_many("fields and fragments, each as often as it is used,", SELECTIONS_MAX));
        }
        let document = next.run(context, query, variables).await?;
        check(&document)?;
        Ok(document)
    }
}

fn too_many(what: &str, most: usize) -> ServerError {
    ServerError::new(format!("the document has more than {most} {what}: ask for less in one call"), None)
}

/// Roughly as a lexer would: names, numbers and strings are one each, punctuation one each.
fn count_tokens(query: &str) -> usize {
    let (mut count, mut word, mut characters) = (0, false, query.chars().peekable());
    while let Some(c) = characters.next() {
        let part = c.is_alphanumeric() || c == '_';
        if part && word {
            continue;
        }
        word = part;
        match c {
            '#' => while characters.next_if(|c| *c != '\n').is_some() {},
            '"' => {
                count += 1;
                let mut escaped = false;
                for c in characters.by_ref() {
                    if c == '"' && !escaped {
                        break;
                    }
                    escaped = c == '\\' && !escaped;
                }
            }
            c if c.is_whitespace() || c == ',' => {}
            _ => count += 1,
        }
    }
    count
}

/// How many there are, each fragment as often as it is used. One that contains itself is more than any.
fn selections(document: &ExecutableDocument) -> usize {
    let (mut known, mut count) = (HashMap::new(), 0_usize);
    for (_, operation) in document.operations.iter() {
        let set = &operation.node.selection_set.node;
        count = count.saturating_add(selections_of(document, set, &mut known));
    }
    count
}

/// `known`: what fragments come to, none of those that are being looked at.
fn selections_of<'d>(
    document: &'d ExecutableDocument,
    set: &'d SelectionSet,
    known: &mut HashMap<&'d str, Option<usize>>,
) -> usize {
    let mut count = 0_usize;
    for item in &set.items {
        let inside = match &item.node {
            Selection::Field(field) => selections_of(document, &field.node.selection_set.node, known),
            Selection::InlineFragment(inline) => {
                selections_of(document, &inline.node.selection_set.node, known)
            }
            Selection::FragmentSpread(spread) => {
                let name = &spread.node.fragment_name.node;
                match (known.get(name.as_str()).copied(), document.fragments.get(name)) {
                    (Some(found), _) => found.unwrap_or(usize::MAX),
                    (None, None) => 0,
                    (None, Some(fragment)) => {
                        known.insert(name, None);
                        let inside = selections_of(document, &fragment.node.selection_set.node, known);
                        known.insert(name, Some(inside));
                        inside
                    }
                }
            }
        };
        count = count.saturating_add(1).saturating_add(inside);
    }
    count
}

fn check(document: &ExecutableDocument) -> ServerResult<()> {
    let operations: Vec<_> = match &document.operations {
        DocumentOperations::Single(operation) => vec![&operation.node],
        DocumentOperations::Multiple(all) => all.values().map(|operation| &operation.node).collect(),
    };
    let mut aliases = 0;
    for operation in &operations {
        aliases += count_aliases(&operation.selection_set.node);
        if root_fields(document, &operation.selection_set.node, 0) > ROOT_FIELDS_MAX {
            return Err(too_many("fields at the root", ROOT_FIELDS_MAX));
        }
    }
    aliases += document
        .fragments
        .values()
        .map(|fragment| count_aliases(&fragment.node.selection_set.node))
        .sum::<usize>();
    if aliases > ALIASES_MAX {
        return Err(too_many("aliases", ALIASES_MAX));
    }
    Ok(())
}

/// The token limit bounds how deep this can go.
fn count_aliases(set: &SelectionSet) -> usize {
    set.items
        .iter()
        .map(|item| match &item.node {
            Selection::Field(field) => {
                usize::from(field.node.alias.is_some()) + count_aliases(&field.node.selection_set.node)
            }
            Selection::InlineFragment(inline) => count_aliases(&inline.node.selection_set.node),
            Selection::FragmentSpread(_) => 0,
        })
        .sum()
}

fn root_fields(document: &ExecutableDocument, set: &SelectionSet, depth: usize) -> usize {
    if depth > FRAGMENT_DEPTH_MAX {
        return ROOT_FIELDS_MAX + 1;
    }
    let mut count: usize = 0;
    for item in &set.items {
        count += match &item.node {
            Selection::Field(_) => 1,
            Selection::InlineFragment(inline) => {
                root_fields(document, &inline.node.selection_set.node, depth + 1)
            }
            Selection::FragmentSpread(spread) => document
                .fragments
                .get(&spread.node.fragment_name.node)
                .map_or(0, |fragment| root_fields(document, &fragment.node.selection_set.node, depth + 1)),
        };
        if count > ROOT_FIELDS_MAX {
            return count;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_as_a_lexer_would() {
        for (query, expected) in [
            ("{ me { id } }", 6),
            ("{ a(x: \"one two \\\" three\") }", 8),
            ("# a comment { }\n{ a }", 3),
            ("query($a:Int){b}", 10),
        ] {
            assert_eq!(count_tokens(query), expected, "{query}");
        }
    }

    #[test]
    fn fragments_count_as_often_as_they_are_used() {
        let count = |query: &str| selections(&parse_query(query).expect("a document"));
        assert_eq!(count("{ me { id name } }"), 3);
        assert_eq!(count("{ me { ...a ...a ... on User { id } } } fragment a on User { id ...nobody }"), 9);
        // As many as there are atoms: what nobody has ends it, because what somebody has would be counted as fields.
        let spread = |to: usize| format!("...f{to} ").repeat(14);
        let chain = (0..30).map(|at| format!("fragment f{at} on User {{ {}}} ", spread(at + 1)));
        let query = format!("{{ me {{ ...f0 }} }} {}", chain.collect::<String>());
        assert!(count_tokens(&query) <= TOKENS_MAX, "{}", count_tokens(&query));
        assert_eq!(count(&query), usize::MAX);
        assert_eq!(
            count("{ me { ...a } } fragment a on User { ...b } fragment b on User { id ...a }"),
            usize::MAX
        );
    }
}
