//! What a template is given: its inputs, with the values that the caller passes or their defaults.

use slipway_crd::workflow::{Arguments, Inputs, Parameter, Template};

use super::Run;
use super::globals::of_config_map;
use crate::scope::{Scope, text_of};

impl Run<'_> {
    /// The inputs with their values, and the names that they have inside of the template.
    pub(super) fn inputs(
        &self,
        template: &Template,
        arguments: &Arguments,
    ) -> Result<(Inputs, Scope), String> {
        let mut scope = self.globals.clone();
        let mut inputs = template.inputs.clone();
        for parameter in &mut inputs.parameters {
            let given = arguments.parameters.iter().find(|given| given.name == parameter.name);
            let Some(text) = self.input(parameter, given)? else {
                return Err(format!("inputs.parameters.{} was not supplied", parameter.name));
            };
            if let Some(allowed) = &parameter.r#enum
                && !allowed.iter().any(|one| text_of(one) == text)
            {
                let allowed: Vec<String> = allowed.iter().map(text_of).collect();
                return Err(format!(
                    "inputs.parameters.{} is `{text}`, and may be one of {}",
                    parameter.name,
                    allowed.join(", ")
                ));
            }
            scope.set(format!("inputs.parameters.{}", parameter.name), text.as_str());
            parameter.value = Some(text.into());
            parameter.default = None;
        }
        let all: Vec<_> = inputs
            .parameters
            .iter()
            .map(|one| serde_json::json!({"name": one.name, "value": one.value}))
            .collect();
        scope.set("inputs.parameters", serde_json::json!(all).to_string());
        Ok((inputs, scope))
    }

    /// What is given is taken as it is, whatever it holds: it was filled by whoever gave it, and is not read again. What the template's own
    /// author wrote may name what is known everywhere.
    fn input(&self, parameter: &Parameter, given: Option<&Parameter>) -> Result<Option<String>, String> {
        if let Some(value) = given.and_then(|given| given.value.as_ref()) {
            return Ok(Some(text_of(value)));
        }
        for one in given.into_iter().chain([parameter]) {
            if let Some(from) = one.value_from.as_ref().filter(|from| from.config_map_key_ref.is_some())
                && let Some(found) = of_config_map(from, self.observed)
                    .map_err(|why| format!("inputs.parameters.{}: {why}", parameter.name))?
            {
                return Ok(Some(found));
            }
        }
        let own = parameter.value.as_ref().or(parameter.default.as_ref());
        let own = own.or_else(|| given.and_then(|given| given.default.as_ref()));
        own.map(|own| self.globals.fill_text(&text_of(own), self.now)).transpose()
    }
}
