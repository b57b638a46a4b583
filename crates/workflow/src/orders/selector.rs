//! Which nodes are meant: `displayName=approve,phase=Running`, as `--node-field-selector` has it.

use slipway_crd::workflow::NodeStatus;

use crate::scope::text_of;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, bool, String)>);

impl Selector {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (field, equal, value) = if let Some((field, value)) = part.split_once("!=") {
                (field, false, value)
            } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (field, true, value)
            } else {
                return Err(format!("`{part}` is no FIELD=VALUE"));
            };
            let field = field.trim();
            let known = [
                "displayName",
                "templateName",
                "templateRef.name",
                "templateRef.template",
                "phase",
                "name",
                "id",
            ];
            let input = field.strip_prefix("inputs.parameters.").and_then(|rest| rest.strip_suffix(".value"));
            if !known.contains(&field) && input.is_none() {
                return Err(format!("nodes have no field `{field}` to be chosen by"));
            }
            parts.push((field.to_owned(), equal, value.trim().to_owned()));
        }
        Ok(Self(parts))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn fits(&self, node: &NodeStatus) -> bool {
        self.0.iter().all(|(field, equal, value)| (field_of(node, field) == *value) == *equal)
    }
}

fn field_of(node: &NodeStatus, field: &str) -> String {
    let reference = node.template_ref.as_ref();
    match field {
        "displayName" => node.display_name.clone(),
        "templateName" => node.template_name.clone(),
        "templateRef.name" => reference.map(|one| one.name.clone()).unwrap_or_default(),
        "templateRef.template" => reference.map(|one| one.template.clone()).unwrap_or_default(),
        "phase" => node.phase.clone(),
        "name" => node.name.clone(),
        "id" => node.id.clone(),
        other => {
            let name = other.strip_prefix("inputs.parameters.").and_then(|rest| rest.strip_suffix(".value"));
            let inputs = node.inputs.iter().flat_map(|inputs| &inputs.parameters);
            let mut found = inputs.filter(|one| Some(one.name.as_str()) == name);
            found.next().and_then(|one| one.value.as_ref()).map(text_of).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_chosen_by_their_fields() {
        let node =
            NodeStatus { display_name: "approve".into(), phase: "Running".into(), ..NodeStatus::default() };
        for (text, fits) in [
            ("displayName=approve", true),
            ("displayName = approve, phase!=Succeeded", true),
            ("displayName==other", false),
            ("inputs.parameters.x.value=1", false),
            ("", true),
        ] {
            assert_eq!(Selector::parse(text).map(|one| one.fits(&node)), Ok(fits), "{text}");
        }
        assert!(Selector::parse("nonsense").is_err() && Selector::parse("color=red").is_err());
    }
}
