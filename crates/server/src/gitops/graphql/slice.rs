//! Parts of lists, as relay-like clients ask for them: so many after or before a place.
//!
//! In: the keys of a list in its order, and what was asked for. Out: which part that is, and what is around it. A cursor names an
//! entry and where it stood, so that one that is gone loses nobody their place.

use std::ops::Range;

use async_graphql::{InputObject, SimpleObject};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::applications::{ApplicationNode, GitSourceNode, GitopsReleaseNode};
use super::runtimes::{ClusterNode, ComponentNode, RuntimeNode};

const FIRST_DEFAULT: usize = 100;
const FIRST_MAX: usize = 500;

/// Which part of a list: the `first` so many `after` a cursor, or the `last` so many `before` one. 100 unless given, 500 at most.
#[derive(Debug, Clone, Default, InputObject)]
pub(crate) struct SlicePaginationArgs {
    after: Option<String>,
    before: Option<String>,
    first: Option<i32>,
    last: Option<i32>,
}

#[derive(Debug, SimpleObject)]
pub(crate) struct SliceInfo {
    start_cursor: Option<String>,
    end_cursor: Option<String>,
    has_next_page: bool,
    has_prev_page: bool,
}

/// A list of one kind of node: an edge for each, and what is around it.
macro_rules! slices {
    ($($node:ident in $edge:ident of $slice:ident),* $(,)?) => {$(
        #[derive(SimpleObject)]
        pub(crate) struct $edge {
            node: $node,
            cursor: String,
        }

        #[derive(SimpleObject)]
        pub(crate) struct $slice {
            edges: Vec<$edge>,
            page_info: SliceInfo,
        }

        impl Sliced for $node {
            type Slice = $slice;

            fn slice(nodes: Vec<(Self, String)>, page_info: SliceInfo) -> $slice {
                $slice { edges: nodes.into_iter().map(|(node, cursor)| $edge { node, cursor }).collect(), page_info }
            }
        }
    )*};
}

slices! {
    ApplicationNode in ApplicationEdge of ApplicationSlice,
    GitopsReleaseNode in GitopsReleaseEdge of GitopsReleaseSlice,
    GitSourceNode in GitSourceEdge of GitSourceSlice,
    RuntimeNode in RuntimeEdge of RuntimeSlice,
    ComponentNode in ComponentEdge of ComponentSlice,
    ClusterNode in ClusterEdge of ClusterSlice,
}

/// What comes in slices.
pub(crate) trait Sliced: Sized {
    type Slice;

    fn slice(nodes: Vec<(Self, String)>, page_info: SliceInfo) -> Self::Slice;
}

/// The part of a list that was asked for, and what is needed to say so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) range: Range<usize>,
    cursors: Vec<String>,
    total: usize,
}

impl Part {
    /// `nodes` are those of [`Part::range`].
    pub(crate) fn with<T: Sliced>(self, nodes: impl IntoIterator<Item = T>) -> T::Slice {
        let page_info = SliceInfo {
            start_cursor: self.cursors.first().cloned(),
            end_cursor: self.cursors.last().cloned(),
            has_next_page: self.range.end < self.total,
            has_prev_page: self.range.start > 0,
        };
        T::slice(nodes.into_iter().zip(self.cursors).collect(), page_info)
    }
}

/// The part of a list that was asked for, as its slice.
pub(crate) fn of<N, T: Sliced>(
    all: Vec<N>,
    key: impl Fn(&N) -> String,
    asked: Option<&SlicePaginationArgs>,
    node: impl FnMut(N) -> T,
) -> async_graphql::Result<T::Slice> {
    let keys: Vec<_> = all.iter().map(key).collect();
    let part = part(&keys, asked)?;
    let Range { start, end } = part.range;
    Ok(part.with(all.into_iter().skip(start).take(end - start).map(node)))
}

/// The part of what has these keys, in this order.
pub(crate) fn part(keys: &[String], asked: Option<&SlicePaginationArgs>) -> async_graphql::Result<Part> {
    let nothing = SlicePaginationArgs::default();
    let asked = asked.unwrap_or(&nothing);
    let backwards = asked.last.is_some() || (asked.before.is_some() && asked.first.is_none());
    if asked.first.is_some() && asked.last.is_some() {
        return Err("give `first` or `last`, not both".into());
    }
    let (word, wanted) = if backwards { ("last", asked.last) } else { ("first", asked.first) };
    let size = match wanted.map(usize::try_from) {
        None => FIRST_DEFAULT,
        Some(Ok(size)) if (1..=FIRST_MAX).contains(&size) => size,
        Some(_) => return Err(format!("`{word}` must be from 1 to {FIRST_MAX}").into()),
    };
    let place = |cursor: &Option<String>| match cursor.as_deref() {
        // Published clients send an empty one for the first page.
        None | Some("") => Ok(None),
        Some(text) => Place::read(text, keys).map(Some),
    };
    let (mut start, mut end) = (0, keys.len());
    if let Some(after) = place(&asked.after)? {
        start = if after.is_there { after.at + 1 } else { after.at };
    }
    if let Some(before) = place(&asked.before)? {
        end = before.at;
    }
    end = end.max(start).min(keys.len());
    start = start.min(end);
    let range =
        if backwards { end.saturating_sub(size).max(start)..end } else { start..end.min(start + size) };
    let cursors = range.clone().map(|at| cursor(at, &keys[at])).collect();
    Ok(Part { range, cursors, total: keys.len() })
}

fn cursor(at: usize, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{at}:{key}"))
}

struct Place {
    at: usize,
    is_there: bool,
}

impl Place {
    fn read(text: &str, keys: &[String]) -> async_graphql::Result<Self> {
        let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let read = decoded.as_deref().and_then(|text| text.split_once(':'));
        let read = read.and_then(|(at, key)| Some((at.parse::<usize>().ok()?, key)));
        let (at, key) = read.ok_or(
            "this is not a cursor of this list: use `pageInfo.endCursor` or the `cursor` of an edge",
        )?;
        let at_once = keys.get(at).is_some_and(|there| there == key).then_some(at);
        Ok(match at_once.or_else(|| keys.iter().position(|there| there == key)) {
            Some(at) => Self { at, is_there: true },
            None => Self { at: at.min(keys.len()), is_there: false },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn ask(
        first: Option<i32>,
        last: Option<i32>,
        after: Option<&str>,
        before: Option<&str>,
    ) -> SlicePaginationArgs {
        SlicePaginationArgs {
            first,
            last,
            after: after.map(str::to_owned),
            before: before.map(str::to_owned),
        }
    }

    fn range(keys: &[String], asked: &SlicePaginationArgs) -> Range<usize> {
        part(keys, Some(asked)).map_err(|error| error.message).expect("a part").range
    }

    #[test]
    fn pages_follow_each_other_forwards_and_backwards() {
        let all = keys(&["a", "b", "c", "d", "e"]);
        let one = part(&all, Some(&ask(Some(2), None, Some(""), None))).expect("a part");
        assert_eq!((one.range.clone(), one.cursors.len()), (0..2, 2));
        let end = one.cursors[1].clone();
        assert_eq!(range(&all, &ask(Some(2), None, Some(&end), None)), 2..4);
        assert_eq!(range(&all, &ask(None, Some(2), None, None)), 3..5);
        assert_eq!(range(&all, &ask(None, Some(1), None, Some(&cursor(3, "d")))), 2..3);
        assert_eq!(range(&all, &ask(None, None, None, Some(&cursor(2, "c")))), 0..2);
        assert_eq!(part(&all, None).expect("a part").range, 0..5);
        assert_eq!(part(&[], None).expect("a part").range, 0..0);
    }

    #[test]
    fn what_came_or_went_meanwhile_loses_nobody_their_place() {
        let after_b = cursor(1, "b");
        let one_more = keys(&["a", "aa", "b", "c"]);
        assert_eq!(range(&one_more, &ask(Some(10), None, Some(&after_b), None)), 3..4);
        let gone = keys(&["a", "c", "d"]);
        assert_eq!(range(&gone, &ask(Some(10), None, Some(&after_b), None)), 1..3, "c stands where b stood");
        let fewer = keys(&["a"]);
        assert_eq!(range(&fewer, &ask(Some(10), None, Some(&cursor(9, "z")), None)), 1..1);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let all = keys(&["a"]);
        for wrong in [
            ask(Some(1), Some(1), None, None),
            ask(Some(0), None, None, None),
            ask(Some(-1), None, None, None),
            ask(Some(501), None, None, None),
            ask(None, Some(501), None, None),
            ask(None, None, Some("no cursor"), None),
            ask(None, None, Some(&URL_SAFE_NO_PAD.encode("x:y")), None),
            ask(None, None, None, Some("!")),
        ] {
            assert!(part(&all, Some(&wrong)).is_err(), "{wrong:?}");
        }
    }
}
