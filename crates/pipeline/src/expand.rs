//! `scale` and `matrix`: one written step becomes a parallel block of similar ones.
//!
//! Works on the tree, before the linter and the parser look, so that a field that only the matrix
//! gives (the image, usually) counts as given.

use slipway_yaml::{Node, NodeKind, Span};

/// More children than this are refused: a matrix of hundreds is a mistake or an attack.
pub(crate) const CHILDREN_MAX: usize = 256;

/// The tree with every `scale` and `matrix` of a top-level step replaced by the block it stands for.
/// A step whose expansion would be too large or malformed is left as it is, for the linter to name.
pub(crate) fn expand(root: &Node) -> Node {
    let NodeKind::Mapping(entries) = &root.kind else { return root.clone() };
    let entries = entries
        .iter()
        .map(|(key, value)| {
            let value = if key.as_str() == Some("steps") { expand_steps(value) } else { value.clone() };
            (key.clone(), value)
        })
        .collect();
    Node::new(NodeKind::Mapping(entries), root.span)
}

fn expand_steps(steps: &Node) -> Node {
    let NodeKind::Mapping(entries) = &steps.kind else { return steps.clone() };
    let entries = entries
        .iter()
        .map(|(name, step)| (name.clone(), expand_step(name, step).unwrap_or_else(|| step.clone())));
    Node::new(NodeKind::Mapping(entries.collect()), steps.span)
}

fn expand_step(name: &Node, step: &Node) -> Option<Node> {
    let children = match (step.get("scale"), step.get("matrix")) {
        (Some(scale), None) => scaled(step, scale)?,
        (None, Some(matrix)) => multiplied(name, step, matrix)?,
        _ => return None,
    };
    let mut block = vec![(text("type", step.span), text("parallel", step.span))];
    for kept in ["title", "stage", "when", "fail_fast", "fail-fast", "strict_fail_fast", "success_criteria"] {
        if let Some((key, value)) = step.entry(kept) {
            block.push((key.clone(), value.clone()));
        }
    }
    block.push((text("steps", step.span), Node::new(NodeKind::Mapping(children), step.span)));
    Some(Node::new(NodeKind::Mapping(block), step.span))
}

fn scaled(step: &Node, scale: &Node) -> Option<Vec<(Node, Node)>> {
    let children = scale.entries();
    if children.is_empty() || children.len() > CHILDREN_MAX || !children.iter().all(|(_, c)| c.is_mapping()) {
        return None;
    }
    Some(children.iter().map(|(name, child)| (name.clone(), merged(step, child.entries()))).collect())
}

/// The Cartesian product, the last dimension turning fastest; children are `name_1`, `name_2`, …
fn multiplied(name: &Node, step: &Node, matrix: &Node) -> Option<Vec<(Node, Node)>> {
    let dimensions = matrix.entries();
    if dimensions.is_empty() || dimensions.iter().any(|(_, values)| values.items().is_empty()) {
        return None;
    }
    let mut total: usize = 1;
    for (_, values) in dimensions {
        total = total.checked_mul(values.items().len()).filter(|total| *total <= CHILDREN_MAX)?;
    }
    let children = (0..total).map(|index| {
        let mut rest = index;
        let mut chosen: Vec<(Node, Node)> = Vec::new();
        for (key, values) in dimensions.iter().rev() {
            let values = values.items();
            chosen.push((key.clone(), values[rest % values.len()].clone()));
            rest /= values.len();
        }
        chosen.reverse();
        let label: Vec<String> = chosen
            .iter()
            .map(|(_, value)| match &value.kind {
                NodeKind::Sequence(items) => items.iter().map(Node::key_text).collect::<Vec<_>>().join(" "),
                _ => value.key_text(),
            })
            .collect();
        let title = step.get("title").map_or_else(|| name.key_text(), Node::key_text);
        chosen.push((text("title", step.span), text(&format!("{title} ({})", label.join(", ")), step.span)));
        let child_name = Node::new(NodeKind::String(format!("{}_{}", name.key_text(), index + 1)), name.span);
        (child_name, merged(step, &chosen))
    });
    Some(children.collect())
}

/// The parent without what belongs to the block, under the child; environments are joined.
fn merged(parent: &Node, child: &[(Node, Node)]) -> Node {
    let mut entries: Vec<(Node, Node)> = parent
        .entries()
        .iter()
        .filter(|(key, _)| {
            !matches!(
                key.as_str(),
                Some("scale" | "matrix" | "when" | "success_criteria" | "strict_fail_fast")
            )
        })
        .cloned()
        .collect();
    for (key, value) in child {
        match entries.iter_mut().find(|(known, _)| known.key_text() == key.key_text()) {
            Some((_, known)) if key.as_str() == Some("environment") => {
                let mut items = known.items().to_vec();
                items.extend(value.items().iter().cloned());
                known.kind = NodeKind::Sequence(items);
            }
            Some((_, known)) if key.as_str() == Some("arguments") && known.is_mapping() => {
                *known = merged(known, value.entries());
            }
            Some((_, known)) => *known = value.clone(),
            None => entries.push((key.clone(), value.clone())),
        }
    }
    Node::new(NodeKind::Mapping(entries), parent.span)
}

fn text(value: &str, span: Span) -> Node {
    Node::new(NodeKind::String(value.to_owned()), span)
}
