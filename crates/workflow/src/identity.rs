//! How nodes and pods are called. Clients compute these names by themselves, so that every letter counts.

/// Names of pods end with a hash, and may have 253 letters.
const PREFIX_MAX: usize = 253 - 10;

/// The id of a node: that of the first one is the name of the workflow.
pub fn node_id(workflow: &str, node: &str) -> String {
    if node == workflow { node.to_owned() } else { format!("{workflow}-{}", fnv32a(node)) }
}

/// The pod of a node, as version 2 of the format has it.
pub fn pod_name(workflow: &str, node: &str, template: &str) -> String {
    if node == workflow {
        return workflow.to_owned();
    }
    let mut prefix = workflow.to_owned();
    if !template.is_empty() {
        prefix = format!("{workflow}-{template}");
    }
    prefix.truncate(prefix.floor_char_boundary(PREFIX_MAX - 1));
    format!("{prefix}-{}", fnv32a(node))
}

/// What people see: the name without that of what it belongs to.
pub fn display_name(node: &str, boundary: &str) -> String {
    let rest = node.strip_prefix(boundary).filter(|_| !boundary.is_empty()).unwrap_or(node);
    let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // `[0].step` is a step, `[0]` alone is a group of them.
        Some((_, step)) if step.starts_with('.') => step,
        _ => rest,
    };
    rest.strip_prefix('.').unwrap_or(rest).to_owned()
}

fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(2_166_136_261, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_clients_compute() {
        // The published values of the hash.
        assert_eq!(fnv32a(""), 0x811c_9dc5);
        assert_eq!(fnv32a("a"), 0xe40c_292c);
        assert_eq!(fnv32a("foobar"), 0xbf9c_f968);
        assert_eq!(node_id("wf", "wf"), "wf");
        assert_eq!(node_id("wf", "wf[0].a"), format!("wf-{}", fnv32a("wf[0].a")));
        assert_eq!(pod_name("wf", "wf", "main"), "wf");
        assert_eq!(pod_name("wf", "wf[0].a", "echo"), format!("wf-echo-{}", fnv32a("wf[0].a")));
        let long = pod_name(&"w".repeat(250), "w[0].a", "echo");
        assert!(long.len() <= 253, "{}", long.len());
    }

    #[test]
    fn people_see_the_last_part() {
        for (node, boundary, seen) in [
            ("wf", "", "wf"),
            ("wf[0]", "wf", "[0]"),
            ("wf[0].a", "wf", "a"),
            ("wf[0].a(0:x)", "wf", "a(0:x)"),
            ("wf.task", "wf", "task"),
            ("wf.task(1)", "wf", "task(1)"),
            ("wf.onExit", "", "wf.onExit"),
        ] {
            assert_eq!(display_name(node, boundary), seen, "{node}");
        }
    }
}
