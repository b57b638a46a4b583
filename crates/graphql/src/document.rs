//! Limits on a GraphQL document that are checked before anything runs: tokens, aliases, fields at the root.
//! Depth and complexity are the library's.

use std::sync::Arc;

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextParseQuery};
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, Selection, SelectionSet};
use async_graphql::{ServerError, ServerResult, Variables};

const TOKENS_MAX: usize = 2000;
const ALIASES_MAX: usize = 30;
const ROOT_FIELDS_MAX: usize = 10;
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
}
