//! Generators that give one parameter set for each thing they are told of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use slipway_template::{Data, normalize, slugify};

use super::{Failure, Outcome, World, text};
use crate::appset::needs::{Answer, ClusterEntry, Need};
use crate::appset::params::{Params, flatten, text_of, to_json};
use crate::appset::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use slipway_dialect::selector::Selector;

impl World<'_> {
    pub(super) fn list(&self, block: &Value) -> Outcome<Vec<Params>> {
        let mut all = Vec::new();
        for (index, element) in block["elements"].as_array().into_iter().flatten().enumerate() {
            let entries = element
                .as_object()
                .ok_or_else(|| format!("list.elements[{index}] must be an object of names and values"))?;
            all.push(if self.filler.go { json_params(entries) } else { flat_element(index, entries)? });
        }
        let yaml = text(block, "elementsYaml");
        if !yaml.is_empty() {
            let documents = slipway_yaml::load_all_json(yaml).map_err(|errors| {
                let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                format!("error unmarshling decoded ElementsYaml {}", all.join("; "))
            })?;
            let elements = documents.first().map_or(&Value::Null, |(value, _)| value);
            let wrong = || "list.elementsYaml must give a list of objects".to_owned();
            for element in elements.as_array().ok_or_else(wrong)? {
                all.push(json_params(element.as_object().ok_or_else(wrong)?));
            }
        }
        Ok(all)
    }

    pub(super) fn clusters(&self, block: &Value) -> Outcome<Vec<Params>> {
        let selector =
            Selector::parse(&block["selector"]).map_err(|error| format!("clusters.selector: {error}"))?;
        let mut all = Vec::new();
        let mut has_local = false;
        for cluster in &self.answers.clusters {
            if selector.matches(&cluster.labels) {
                has_local |= cluster.server == IN_CLUSTER_SERVER;
                all.push(self.cluster_params(cluster));
            }
        }
        // The cluster that we run in is there even if nobody wrote a Secret for it.
        if selector.is_empty() && !has_local {
            let mut params = self.cluster_params(&ClusterEntry {
                name: IN_CLUSTER_NAME.into(),
                server: IN_CLUSTER_SERVER.into(),
                ..ClusterEntry::default()
            });
            params.remove("metadata");
            all.push(params);
        }
        for params in &mut all {
            self.filler.add_values(&block["values"], params)?;
        }
        if block["flatList"].as_bool().unwrap_or(false) {
            let clusters = all.iter().map(to_json).collect();
            return Ok(vec![Params::from([("clusters".into(), Data::Json(clusters))])]);
        }
        Ok(all)
    }

    fn cluster_params(&self, cluster: &ClusterEntry) -> Params {
        let mut params = texts([
            ("name", cluster.name.clone()),
            ("nameNormalized", normalize(&cluster.name)),
            ("server", cluster.server.clone()),
            ("project", cluster.project.clone()),
        ]);
        if self.filler.go {
            let mut metadata = BTreeMap::new();
            for (field, map) in [("annotations", &cluster.annotations), ("labels", &cluster.labels)] {
                if !map.is_empty() {
                    metadata.insert(field.to_owned(), Data::StringMap(map.clone()));
                }
            }
            params.insert("metadata".into(), Data::Map(metadata));
        } else {
            for (field, map) in [("annotations", &cluster.annotations), ("labels", &cluster.labels)] {
                for (key, value) in map {
                    params.insert(format!("metadata.{field}.{key}"), value.clone().into());
                }
            }
        }
        params
    }

    pub(super) fn repositories(&self, block: &Value) -> Outcome<Vec<Params>> {
        let Answer::Repositories(found) = self.ask(Need::Repositories { provider: provider(block) })? else {
            return Err(mismatch("scmProvider"));
        };
        let mut all = Vec::new();
        for repository in found {
            let mut params = texts([
                ("organization", repository.organization.clone()),
                ("repository", repository.repository.clone()),
                ("url", repository.url.clone()),
                ("branch", repository.branch.clone()),
                ("branchNormalized", normalize(&repository.branch)),
                ("sha", repository.sha.clone()),
                ("short_sha", start(&repository.sha, 8)),
                ("short_sha_7", start(&repository.sha, 7)),
                ("labels", repository.labels.join(",")),
            ]);
            params.insert("repository_id".into(), Data::Json(repository.repository_id.clone()));
            self.filler.add_values(&block["values"], &mut params)?;
            all.push(params);
        }
        Ok(all)
    }

    pub(super) fn pull_requests(&self, block: &Value) -> Outcome<Vec<Params>> {
        let found = match self.ask(Need::PullRequests { provider: provider(block) })? {
            Answer::PullRequests(found) => found,
            Answer::RepositoryNotFound(_)
                if block["continueOnRepoNotFoundError"].as_bool().unwrap_or(false) =>
            {
                return Ok(Vec::new());
            }
            Answer::RepositoryNotFound(message) => {
                return Err(Failure::Problem(format!("error listing repos: {message}")));
            }
            _ => return Err(mismatch("pullRequest")),
        };
        let mut all = Vec::new();
        for pull in found {
            let mut params = texts([
                ("number", pull.number.to_string()),
                ("title", pull.title.clone()),
                ("branch", pull.branch.clone()),
                ("branch_slug", branch_slug(&pull.branch)),
                ("target_branch", pull.target_branch.clone()),
                ("target_branch_slug", branch_slug(&pull.target_branch)),
                ("head_sha", pull.head_sha.clone()),
                ("head_short_sha", start(&pull.head_sha, 8)),
                ("head_short_sha_7", start(&pull.head_sha, 7)),
                ("author", pull.author.clone()),
            ]);
            // Only Go templates can hold a list.
            if self.filler.go {
                params.insert("labels".into(), Data::Strings(pull.labels.clone()));
            }
            self.filler.add_values(&block["values"], &mut params)?;
            all.push(params);
        }
        Ok(all)
    }

    pub(super) fn decisions(&self, block: &Value) -> Outcome<Vec<Params>> {
        let (name, label_selector) = (text(block, "name"), block["labelSelector"].clone());
        let selects = label_selector.as_object().is_some_and(|selector| !selector.is_empty());
        if name.is_empty() != selects {
            return Err(Failure::Problem(
                "clusterDecisionResource needs either a name or a labelSelector, and not both".into(),
            ));
        }
        let need = Need::Decisions {
            config_map: text(block, "configMapRef").to_owned(),
            name: name.to_owned(),
            label_selector,
        };
        let Answer::Decisions(found) = self.ask(need)? else {
            return Err(mismatch("clusterDecisionResource"));
        };
        if found.resources.is_empty() {
            return Err(Failure::Problem("no clusterDecisionResources found".into()));
        }
        if found.match_key.is_empty() {
            return Err(Failure::Problem(format!(
                "the ConfigMap {} has no matchKey; it says which field of a decision is the cluster's name",
                text(block, "configMapRef")
            )));
        }
        let list_key = if found.status_list_key.is_empty() { "clusters" } else { &found.status_list_key };
        let decisions = found
            .resources
            .iter()
            .flat_map(|resource| resource["status"][list_key].as_array().into_iter().flatten());
        let mut all = Vec::new();
        for decision in decisions.filter_map(Value::as_object) {
            let wanted = decision.get(&found.match_key).map(text_of).unwrap_or_default();
            let Some(cluster) = self.answers.clusters.iter().find(|c| !wanted.is_empty() && c.name == wanted)
            else {
                continue;
            };
            let mut params = texts([("name", cluster.name.clone()), ("server", cluster.server.clone())]);
            params.extend(decision.iter().map(|(key, value)| (key.clone(), Data::from(text_of(value)))));
            let values = block["values"].as_object().into_iter().flatten();
            let values: BTreeMap<String, String> =
                values.map(|(key, value)| (key.clone(), text_of(value))).collect();
            if self.filler.go && !values.is_empty() {
                params.insert("values".into(), Data::StringMap(values));
            } else {
                params.extend(values.into_iter().map(|(key, value)| (format!("values.{key}"), value.into())));
            }
            all.push(params);
        }
        Ok(all)
    }

    pub(super) fn plugin(&self, block: &Value) -> Outcome<Vec<Params>> {
        let parameters = match &block["input"]["parameters"] {
            Value::Null => json!({}),
            parameters => parameters.clone(),
        };
        let config_map = text(&block["configMapRef"], "name").to_owned();
        let Answer::Parameters(found) =
            self.ask(Need::Plugin { config_map, parameters: parameters.clone() })?
        else {
            return Err(mismatch("plugin"));
        };
        let mut all = Vec::new();
        for entries in found {
            let mut params = if self.filler.go {
                json_params(entries)
            } else {
                let flat = flatten(&Value::Object(entries.clone()));
                flat.into_iter().map(|(key, value)| (key, value.into())).collect()
            };
            params.insert("generator".into(), Data::Json(json!({"input": {"parameters": parameters}})));
            self.filler.add_values(&block["values"], &mut params)?;
            all.push(params);
        }
        Ok(all)
    }
}

/// The block without what is not a question to the provider.
fn provider(block: &Value) -> Value {
    let mut provider = block.clone();
    if let Some(entries) = provider.as_object_mut() {
        for field in ["template", "values", "requeueAfterSeconds", "continueOnRepoNotFoundError"] {
            entries.remove(field);
        }
    }
    provider
}

fn mismatch(kind: &str) -> Failure {
    Failure::Problem(format!("the answer to a {kind} generator is of another kind; this is a defect of ours"))
}

fn texts<const N: usize>(entries: [(&str, String); N]) -> Params {
    entries.into_iter().map(|(key, value)| (key.to_owned(), Data::from(value))).collect()
}

pub(super) fn json_params(entries: &Map<String, Value>) -> Params {
    entries.iter().map(|(key, value)| (key.clone(), Data::Json(value.clone()))).collect()
}

/// Without Go templates an element holds texts, and one map of texts under `values`.
fn flat_element(index: usize, entries: &Map<String, Value>) -> Result<Params, String> {
    let mut params = Params::new();
    let wrong = |name: &str| {
        format!("list.elements[{index}].{name} is not a text; put it into quotes, or set goTemplate: true")
    };
    for (key, value) in entries {
        match value {
            Value::String(text) => {
                params.insert(key.clone(), text.clone().into());
            }
            Value::Object(values) if key == "values" => {
                for (name, value) in values {
                    let text = value.as_str().ok_or_else(|| wrong(&format!("values.{name}")))?;
                    params.insert(format!("values.{name}"), text.into());
                }
            }
            _ => return Err(wrong(key)),
        }
    }
    Ok(params)
}

fn start(text: &str, count: usize) -> String {
    text.chars().take(count).collect()
}

fn branch_slug(branch: &str) -> String {
    slugify(50, true, &branch.replace('_', "-").replace('&', "and").replace('@', "at"))
}
