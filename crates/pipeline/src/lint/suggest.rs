//! "Did you mean": the known name nearest to a misspelt one.

use crate::lint::shape::Shape;

/// The fields a shape knows at a path, old spellings included.
pub(super) fn known_names(shape: &Shape, path: &[String]) -> Vec<&'static str> {
    match (shape, path) {
        (Shape::Object(object), []) => {
            let fields = object.fields.iter().filter(|field| !matches!(field.shape, Shape::Forbidden));
            fields.map(|field| field.name).chain(object.renames.iter().map(|(old, _)| *old)).collect()
        }
        (Shape::Object(object), [first, rest @ ..]) => object
            .fields
            .iter()
            .find(|field| field.name == first)
            .map(|field| known_names(&field.shape, rest))
            .unwrap_or_default(),
        (Shape::Either(shapes), _) => shapes.iter().flat_map(|shape| known_names(shape, path)).collect(),
        (Shape::OrNull(inner), _) => known_names(inner, path),
        (Shape::List { item, .. }, [_, rest @ ..]) => known_names(item, rest),
        (Shape::Map { value, .. }, [_, rest @ ..]) => known_names(value, rest),
        _ => Vec::new(),
    }
}

/// A name that the wrong one starts, or one that differs in few letters.
pub(crate) fn nearest<'n>(wrong: &str, names: &[&'n str]) -> Option<&'n str> {
    const LENGTHS_APART_MAX: usize = 3;
    const DISTANCE_MAX: usize = 5;
    // A hint is not worth comparing thousands of names with thousands of others.
    const NAMES_MAX: usize = 500;
    const CHARS_MAX: usize = 200;
    if names.len() > NAMES_MAX || wrong.len() > CHARS_MAX {
        return None;
    }
    let starts = names
        .iter()
        .filter(|name| wrong.len() >= 3 && (name.starts_with(wrong) || wrong.starts_with(**name)));
    if let Some(name) = starts.min_by_key(|name| name.len().abs_diff(wrong.len())) {
        return Some(name);
    }
    names
        .iter()
        .filter(|name| name.len().abs_diff(wrong.len()) < LENGTHS_APART_MAX)
        .map(|name| (distance(name, wrong), *name))
        .filter(|(distance, _)| *distance <= DISTANCE_MAX)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Whether one is the other with a slip of the hand.
pub(super) fn misspelt(wrong: &str, right: &str) -> bool {
    let near = wrong.len() > 2 && wrong.len().abs_diff(right.len()) <= 2 && wrong != right;
    near && distance(&wrong.to_lowercase(), right) <= 2
}

/// Levenshtein's distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["title", "image_name", "working_directory", "tag"];
        assert_eq!(nearest("titl", &names), Some("title"));
        assert_eq!(nearest("titleaaa", &names), Some("title"));
        assert_eq!(nearest("warcing_derektori", &names), Some("working_directory"));
        assert_eq!(nearest("completely_else", &names), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
