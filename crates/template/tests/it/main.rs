//! The room seen from outside: Go's own answers, limits, hostile text.

mod fasttemplate;
mod golden;
mod limits;

use slipway_template::{Data, Environment, Functions, Limits, Template, TemplateError};

/// Fills a template with the functions of ApplicationSets, a fixed clock and fixed dice.
fn render_within(
    text: &str,
    data: &Data,
    options: &[String],
    limits: Limits,
) -> Result<String, TemplateError> {
    let template = Template::parse("case", text, options, Functions::application_set())?;
    let mut state: u64 = 7;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let now = "2026-11-16T00:00:00Z".parse().expect("a time");
    template.render(data, &mut Environment { now, random: &mut random, limits })
}

fn render(text: &str, data: &Data, options: &[String]) -> Result<String, TemplateError> {
    render_within(text, data, options, Limits::default())
}
