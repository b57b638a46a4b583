//! Names of integrations against what the account has: git 100–103, registries 200–207, clusters
//! 300–303, Helm 601.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use slipway_yaml::{Node, Span};

use crate::interpolate::{Piece, references};
use crate::lint::{Finding, LintOptions, Suggestion, nearest};

/// What the linter may know about an account.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Account {
    pub git: Vec<GitIntegration>,
    pub registries: Vec<Registry>,
    pub clusters: Vec<Cluster>,
    /// Names that a build would know, with values where there are any.
    pub variables: BTreeMap<String, String>,
    /// Built images go to the default registry by themselves.
    pub auto_push: bool,
    /// Built images are never pushed.
    pub disable_push: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitIntegration {
    pub name: String,
    #[serde(rename = "default")]
    pub is_default: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registry {
    pub name: String,
    #[serde(rename = "default")]
    pub is_default: bool,
    /// `ecr`, `gcr`, `dockerhub`, …
    pub provider: Option<String>,
    /// `google` for registries that lend their credentials to Google's builder.
    pub kind: Option<String>,
    pub domain: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    pub selector: String,
}

const AWS_REGIONS: [&str; 21] = [
    "us-east-2",
    "us-east-1",
    "us-west-1",
    "us-west-2",
    "af-south-1",
    "ap-east-1",
    "ap-south-1",
    "ap-northeast-3",
    "ap-northeast-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-northeast-1",
    "ca-central-1",
    "eu-central-1",
    "eu-west-1",
    "eu-west-2",
    "eu-south-1",
    "eu-west-3",
    "eu-north-1",
    "me-south-1",
    "sa-east-1",
];

pub(super) fn lint(root: &Node, account: &Account, options: &LintOptions, findings: &mut Vec<Finding>) {
    for (key, step) in root.get("steps").map(Node::entries).unwrap_or_default() {
        let name = key.key_text();
        let mut check = Check { account, options, name: &name, key, step, findings };
        match step.get("type").and_then(Node::as_str).unwrap_or("freestyle") {
            "git-clone" => check.git(),
            "deploy" => check.cluster(),
            "push" => check.registry(&Registries::push()),
            "build" => {
                check.registry(&Registries::build());
                check.image_name();
            }
            "freestyle" | "composition" => check.registry_contexts(),
            "helm" => check.helm(),
            _ => {}
        }
        if step.get("steps").is_some() {
            lint(step, account, options, findings);
        }
    }
}

/// What differs between the steps that talk to registries.
struct Registries {
    needs_one: bool,
    names_default: bool,
    pushes_by_itself: bool,
}

impl Registries {
    fn push() -> Self {
        Self { needs_one: true, names_default: true, pushes_by_itself: false }
    }

    fn build() -> Self {
        Self { needs_one: false, names_default: false, pushes_by_itself: true }
    }
}

struct Check<'a> {
    account: &'a Account,
    options: &'a LintOptions,
    name: &'a str,
    key: &'a Node,
    step: &'a Node,
    findings: &'a mut Vec<Finding>,
}

impl<'a> Check<'a> {
    /// A field of the step, or of its `arguments`.
    fn field(&self, name: &str) -> Option<&'a Node> {
        self.step.get(name).or_else(|| self.step.at(&["arguments", name])).filter(|node| !node.is_null())
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.field(name).and_then(Node::as_str).filter(|text| !text.is_empty())
    }

    fn span(&self, name: &str) -> Span {
        self.field(name).map_or(self.key.span, |node| node.span)
    }

    fn add(&mut self, finding: Finding, area: &str, code: u32) {
        self.findings.push(finding.area(area).code(code).step(self.name));
    }

    /// Warns when a name comes from a variable that nobody sets.
    fn variable(&mut self, noun: &str, field: &str, value: &str, area: &str, code: u32) {
        let variable = references(value).into_iter().find_map(|piece| match piece {
            Piece::Name(name) => Some(name.to_owned()),
            Piece::Literal(_) => None,
        });
        if let Some(variable) = variable.filter(|name| !self.account.variables.contains_key(name)) {
            let message = format!(
                "Your {noun} integration uses a variable '{variable}' that is not configured and will fail without \
                 defining it."
            );
            self.add(Finding::warning(message, self.span(field)).key(field), area, code);
        }
    }

    fn missing(&mut self, noun: &str, field: &str, value: &str, known: &[&str], area: &str, code: u32) {
        let mut finding =
            Finding::error(format!("{noun} '{value}' does not exist."), self.span(field)).key(field);
        finding = match nearest(value, known) {
            Some(meant) => {
                finding.suggestion = Some(Suggestion { from: value.to_owned(), to: meant.to_owned() });
                finding.hint(format!("did you mean `{meant}`?"))
            }
            None => finding.hint("check the spelling, or add the integration in the account settings"),
        };
        self.add(finding, area, code);
    }

    fn git(&mut self) {
        let names: Vec<&str> = self.account.git.iter().map(|git| git.name.as_str()).collect();
        let Some(git) = self.text("git") else {
            if names.is_empty() {
                self.no_integration("a Git", "git", 100);
            } else if names.len() > 1 && !self.options.quiet_defaults {
                let default =
                    self.account.git.iter().find(|git| git.is_default).map_or("", |git| git.name.as_str());
                let message = format!("You are using the default Git integration '{default}'.");
                let finding = Finding::warning(message, self.key.span);
                self.add(finding.hint("name the integration with `git`"), "git", 103);
            }
            return;
        };
        if names.is_empty() {
            self.no_integration("a Git", "git", 100);
        } else if is_variable(git) {
            self.variable("Git", "git", git, "variables", 101);
        } else if git != "CF-default" && !names.contains(&git) {
            self.missing("Git", "git", git, &names, "git", 102);
        }
    }

    fn no_integration(&mut self, noun: &str, area: &str, code: u32) {
        let message = format!("You have not added {noun} integration.");
        let finding = Finding::error(message, self.key.span).hint("add one in the account settings");
        self.add(finding, area, code);
    }

    fn cluster(&mut self) {
        let names: Vec<&str> =
            self.account.clusters.iter().map(|cluster| cluster.selector.as_str()).collect();
        let cluster = match self.options.deep {
            true => self.text("cluster"),
            // The reference validator does not look into `arguments` here.
            false => self.step.get("cluster").and_then(Node::as_str).filter(|text| !text.is_empty()),
        };
        match cluster {
            _ if names.is_empty() => self.no_integration("a cluster", "cluster", 300),
            Some(cluster) if is_variable(cluster) => {
                self.variable("cluster", "cluster", cluster, "variables", 301)
            }
            Some(cluster) if !names.contains(&cluster) => {
                self.missing("Cluster", "cluster", cluster, &names, "cluster", 302);
            }
            None if names.len() > 1 && !self.options.quiet_defaults => {
                let finding =
                    Finding::warning("You are using the default cluster integration.", self.key.span);
                self.add(finding.hint("name the cluster with `cluster`"), "cluster", 303);
            }
            _ => {}
        }
    }

    fn registry(&mut self, rules: &Registries) {
        self.registry_contexts();
        if self.field("registry").is_some_and(|node| node.as_str().is_none()) {
            return;
        }
        let registry = self.text("registry");
        let account = self.account;
        let on =
            |node: Option<&Node>| node.is_some_and(|node| !node.is_null() && node.as_bool() != Some(false));
        if rules.pushes_by_itself && registry.is_none() {
            if !on(self.step.get("disable_push")) && !account.auto_push && !account.disable_push {
                let finding = Finding::error("'registry' is required", self.key.span);
                self.add(
                    finding.hint("name a registry with `registry`, or set `disable_push: true`"),
                    "registry",
                    204,
                );
            }
            if account.auto_push && !account.registries.iter().any(|registry| registry.is_default) {
                let finding =
                    Finding::warning("The image that will be built will not be pushed", self.key.span);
                self.add(
                    finding.hint("choose a default registry, or name one with `registry`"),
                    "registry",
                    205,
                );
            }
        }
        if registry.is_some_and(is_web_address) {
            return;
        }
        let names: Vec<&str> = account.registries.iter().map(|registry| registry.name.as_str()).collect();
        match registry {
            _ if names.is_empty() && rules.needs_one => self.no_integration("a registry", "registry", 200),
            Some(registry) if is_variable(registry) => {
                self.variable("registry", "registry", registry, "variables", 201);
            }
            Some(registry) if !names.contains(&registry) => {
                self.missing("Registry", "registry", registry, &names, "registry", 202);
            }
            None if names.len() > 1 && rules.names_default && !self.options.quiet_defaults => {
                let default = account.registries.iter().find(|registry| registry.is_default);
                let default = default.map_or("", |registry| registry.name.as_str());
                let message = format!("You are using the default registry integration '{default}'.");
                let finding = Finding::warning(message, self.key.span);
                self.add(finding.hint("name the registry with `registry`"), "registry", 203);
            }
            _ => {}
        }
        self.cloud(registry);
    }

    /// Google's builder, AWS regions and roles: code 206.
    fn cloud(&mut self, registry: Option<&str>) {
        let provider = self.field("provider");
        let part = |path: &[&str]| provider.and_then(|provider| provider.at(path)).and_then(Node::as_str);
        if part(&["type"]) == Some("gcb")
            && part(&["arguments", "google_app_creds"]).is_none()
            && !self.account.registries.iter().any(|registry| registry.kind.as_deref() == Some("google"))
        {
            let message = "provider.arguments.google_app_creds is required";
            let finding = Finding::error(message, self.span("provider")).key("provider");
            self.add(
                finding.hint("add a Google registry to the account, or give the key here"),
                "registry",
                206,
            );
        }
        let step = self.step;
        let own = |name: &str| step.get(name).filter(|node| !node.is_null());
        if let Some(region) = own("region").and_then(Node::as_str) {
            let span = self.span("region");
            if !AWS_REGIONS.contains(&region) && !is_variable(region) {
                let finding = Finding::error("aws region is invalid", span).key("region");
                self.add(
                    finding.hint("write the region as AWS does, for example `eu-west-1`"),
                    "registry",
                    206,
                );
            } else {
                let provider = registry
                    .and_then(|name| self.account.registries.iter().find(|registry| registry.name == name))
                    .and_then(|registry| registry.provider.as_deref());
                if provider != Some("ecr") {
                    let provider = provider.unwrap_or("undefined");
                    let message = format!("Unable to specify region with a registry of type: {provider}");
                    let finding = Finding::error(message, span).key("region");
                    self.add(finding.hint("only ECR takes a region"), "registry", 206);
                }
            }
        }
        let role = own("role_arn").and_then(Node::as_str);
        if let Some(role) = role
            && !is_variable(role)
            && !is_role(role)
        {
            let finding = Finding::error("role_arn is not a role", self.span("role_arn")).key("role_arn");
            let hint = "write it as `arn:aws:iam::123456789012:role/name`";
            self.add(finding.hint(hint), "registry", 206);
        }
        if let Some(seconds) = own("aws_duration_seconds").and_then(Node::as_number) {
            let span = self.span("aws_duration_seconds");
            let finding = if role.is_none() {
                Finding::error("aws_duration_seconds is only relevant when using role chaining", span)
                    .hint("name the role to assume with `role_arn`")
            } else if !(900.0..=3600.0).contains(&seconds) {
                let message = "When using role chaining, the duration of the role session must be between 15 minutes \
                               and 1 hour";
                Finding::error(message, span).hint("give a number between 900 and 3600")
            } else {
                return;
            };
            self.add(finding.key("aws_duration_seconds"), "registry", 206);
        }
    }

    fn registry_contexts(&mut self) {
        let account = self.account;
        let names: Vec<&str> = account.registries.iter().map(|registry| registry.name.as_str()).collect();
        let mut domains: Vec<Option<&str>> = Vec::new();
        let mut reported = false;
        for context in self.field("registry_contexts").map(Node::items).unwrap_or_default() {
            let Some(name) = context.as_str().filter(|name| !name.is_empty() && !is_variable(name)) else {
                continue;
            };
            match account.registries.iter().find(|registry| registry.name == name) {
                None => self.missing("Registry", "registry_contexts", name, &names, "registry_contexts", 202),
                Some(registry) => {
                    let domain = registry.domain.as_deref();
                    if domains.contains(&domain) && !reported {
                        reported = true;
                        let domain = domain.unwrap_or("undefined");
                        let message =
                            format!("Registry contexts contains registries with same domain '{domain}'");
                        let finding = Finding::error(message, context.span).key("registry_contexts");
                        self.add(finding.hint("keep one registry of each domain"), "registry_contexts", 207);
                    }
                    domains.push(domain);
                }
            }
        }
        if let Some(name) = self.text("registry_context")
            && !is_variable(name)
            && !names.contains(&name)
        {
            self.missing("Registry", "registry_context", name, &names, "registry_contexts", 202);
        }
    }

    /// Registries refuse upper case in names; what a variable brings cannot be judged here.
    fn image_name(&mut self) {
        let Some(name) = self.text("image_name") else { return };
        static VARIABLES: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\$\{\{.*\}\}").expect("a constant"));
        let fixed = VARIABLES.replace(name, "");
        if fixed.to_lowercase() != fixed {
            let mut finding =
                Finding::warning("\"image_name\" should be in lowercase.", self.span("image_name"));
            finding.suggestion = Some(Suggestion { from: name.to_owned(), to: name.to_lowercase() });
            self.findings.push(finding.area("image_name").key("image_name").step(self.name));
        }
    }

    fn helm(&mut self) {
        let version = self.step.at(&["arguments", "helm_version"]).map(Node::key_text);
        if !self.options.quiet_defaults && version.is_none_or(|version| version.starts_with('2')) {
            let finding = Finding::warning("Helm 2 is not supported any more.", self.key.span);
            self.add(finding.key("helm_version").hint("set `helm_version` to a 3.x version"), "helm", 601);
        }
    }
}

/// Starts with a reference, so that the name is only known when the build runs.
fn is_variable(text: &str) -> bool {
    text.starts_with("${{") && text.contains("}}")
}

/// `arn:aws:iam::123456789012:role/name`
fn is_role(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    matches!(parts.as_slice(), ["arn", "aws", "iam", "", account, role]
        if account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()) && role.starts_with("role/"))
}

/// A host name with a dot, perhaps with protocol, port and path: such a registry is no integration.
fn is_web_address(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let label = "[a-z0-9]([a-z0-9-]*[a-z0-9])?";
        let tail = r"(:\d+)?(/[a-z0-9%@_.~+&:-]*)*(\?[a-z0-9%@_.,;&~+:=-]*)?(#[a-z0-9_-]*)?";
        Regex::new(&format!(r"(?i)^(https?://)?({label}\.)+[a-z0-9][a-z0-9-]*[a-z0-9]{tail}$"))
            .expect("a constant")
    });
    PATTERN.is_match(text)
}
