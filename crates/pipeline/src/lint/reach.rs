//! What a step may name of the machine that it runs on: errors for volumes, images and names of variables that would
//! reach further than its container.
//!
//! Beyond the reference validator, whose platform has no machine of anybody's behind it. What holds `${{…}}` is looked
//! at when it is known; the runner refuses the same things again then.

use slipway_yaml::Node;

use crate::lint::Finding;
use crate::variables::is_name;
use crate::{image, volume::Volume};

pub(super) fn lint(root: &Node, findings: &mut Vec<Finding>) {
    let mut reach = Reach { findings, step: String::new() };
    reach.hooks(root);
    if let Some(services) = root.get("services") {
        reach.services(services);
    }
    reach.steps(root.get("steps"));
}

struct Reach<'a> {
    findings: &'a mut Vec<Finding>,
    step: String,
}

impl Reach<'_> {
    fn steps(&mut self, steps: Option<&Node>) {
        for (key, step) in steps.map(Node::entries).unwrap_or_default() {
            self.step = key.key_text();
            self.step(step);
            self.hooks(step);
            self.steps(step.get("steps"));
        }
    }

    fn hooks(&mut self, of: &Node) {
        for (_, hook) in of.get("hooks").map(Node::entries).unwrap_or_default() {
            self.exec(hook.get("exec").unwrap_or(hook));
        }
    }

    /// The steps of a hook, in each of the forms they are written in.
    fn exec(&mut self, exec: &Node) {
        self.steps(exec.get("steps"));
        if exec.get("image").is_some() {
            self.step(exec);
        }
    }

    fn step(&mut self, step: &Node) {
        let kind = step.get("type").and_then(Node::as_str).unwrap_or("freestyle");
        // Fields of other types are theirs: `image` may be anything there.
        match kind.split(':').next().unwrap_or(kind) {
            "freestyle" => self.container(step),
            "composition" => {
                for part in ["composition", "composition_candidates", "composition-candidates"] {
                    if let Some(services) = step.get(part) {
                        self.services(services);
                    }
                }
            }
            "build" => {
                for argument in texts(step.get("build_arguments")) {
                    self.variable(argument, "build_arguments", "build argument");
                }
            }
            "push" => self.image(step.get("candidate"), "candidate"),
            _ => {}
        }
        if let Some(services) = step.get("services").filter(|services| services.is_mapping()) {
            self.services(services);
        }
    }

    /// With the compose head around it, or without.
    fn services(&mut self, services: &Node) {
        for work in ["readiness", "setup"] {
            self.image(services.get(work).and_then(|work| work.get("image")), "image");
        }
        let services = services.get("composition").unwrap_or(services);
        let services = services.get("services").filter(|inner| inner.is_mapping()).unwrap_or(services);
        for (_, service) in services.entries() {
            self.container(service);
        }
    }

    fn container(&mut self, node: &Node) {
        self.image(node.get("image"), "image");
        for volume in texts(node.get("volumes")) {
            let Some(text) = known(volume) else { continue };
            if let Err(why) = Volume::parse(text, None) {
                self.add(format!("volume `{}` cannot be mounted: {why}", shown(text)), volume, "volumes");
            }
        }
        let Some(environment) = node.get("environment") else { return };
        for assignment in texts(Some(environment)) {
            self.variable(assignment, "environment", "variable");
        }
        for (key, _) in environment.entries() {
            self.name(&key.key_text(), key, "environment", "variable");
        }
    }

    fn image(&mut self, image: Option<&Node>, key: &str) {
        let Some(node) = image else { return };
        // `<name>` in an example stands for one, and is refused when it is run.
        let Some(text) = known(node).filter(|text| !text.is_empty() && !text.contains('<')) else { return };
        if let Err(why) = image::check(text) {
            self.add(format!("`{}` {why}", shown(text)), node, key);
        }
    }

    /// `NAME=value`, or a name alone.
    fn variable(&mut self, node: &Node, key: &str, what: &str) {
        let Some(text) = node.as_str() else { return };
        let name = text.split_once('=').map_or(text, |(name, _)| name).to_owned();
        self.name(&name, node, key, what);
    }

    fn name(&mut self, name: &str, place: &Node, key: &str, what: &str) {
        if !name.contains("${{") && !is_name(name) {
            let message = format!(
                "`{}` is not the name of a {what}: use letters, digits, `_`, `-` and `.`, not starting with a digit",
                shown(name)
            );
            self.add(message, place, key);
        }
    }

    fn add(&mut self, message: String, place: &Node, key: &str) {
        let finding = Finding::error(message, place.span).key(key);
        // Services of the whole build are no step's.
        self.findings.push(match self.step.as_str() {
            "" => finding.area("services"),
            step => finding.area("steps").step(step),
        });
    }
}

fn texts(list: Option<&Node>) -> impl Iterator<Item = &Node> {
    list.map(Node::items).unwrap_or_default().iter().filter(|item| item.as_str().is_some())
}

/// A text without variables in it.
fn known(node: &Node) -> Option<&str> {
    node.as_str().filter(|text| !text.contains("${{"))
}

fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(120).collect()
}
