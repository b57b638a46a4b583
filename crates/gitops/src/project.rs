//! What a project permits.

use slipway_crd::{AppProject, Destination, GroupKindRule};
use slipway_dialect::glob;

/// A destination as the project sees it: both names of the cluster, where known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterNames<'a> {
    pub server: &'a str,
    pub name: &'a str,
}

/// True when the application may deploy to this namespace of this cluster. A `!` pattern denies and wins.
pub fn permits_destination(project: &AppProject, cluster: &ClusterNames<'_>, namespace: &str) -> bool {
    let mut allowed = false;
    for rule in &project.spec.destinations {
        let server_denied = rule.server.strip_prefix('!');
        let name_denied = rule.name.strip_prefix('!');
        let namespace_denied = rule.namespace.strip_prefix('!');
        let server = matches_part(&rule.server, cluster.server);
        let name = matches_part(&rule.name, cluster.name);
        let space = matches_part(&rule.namespace, namespace);
        let cluster_matches = match (rule.server.is_empty(), rule.name.is_empty()) {
            (false, true) => server,
            (true, false) => name,
            (false, false) => server && name,
            (true, true) => false,
        };
        let denied = server_denied.is_some_and(|p| glob::matches(p, cluster.server))
            && space_or_denied(&rule.namespace, namespace)
            || name_denied.is_some_and(|p| glob::matches(p, cluster.name))
                && space_or_denied(&rule.namespace, namespace)
            || namespace_denied.is_some_and(|p| glob::matches(p, namespace))
                && cluster_or_denied(&rule.server, cluster.server, &rule.name, cluster.name);
        if denied {
            return false;
        }
        allowed |= cluster_matches && space;
    }
    allowed
}

fn matches_part(pattern: &str, text: &str) -> bool {
    match pattern.strip_prefix('!') {
        Some(denied) => !glob::matches(denied, text),
        None => glob::matches(pattern, text),
    }
}

fn space_or_denied(pattern: &str, namespace: &str) -> bool {
    let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
    pattern.is_empty() || glob::matches(pattern, namespace)
}

fn cluster_or_denied(server: &str, of: &str, name: &str, named: &str) -> bool {
    let plain = |pattern: &str, text: &str| glob::matches(pattern.strip_prefix('!').unwrap_or(pattern), text);
    (server.is_empty() && name.is_empty())
        || !server.is_empty() && plain(server, of)
        || !name.is_empty() && plain(name, named)
}

/// True when manifests may come from this repository. A `!` pattern denies and wins.
pub fn permits_source(project: &AppProject, repo_url: &str) -> bool {
    let url = normalized_url(repo_url);
    let mut allowed = false;
    for pattern in &project.spec.source_repos {
        match pattern.strip_prefix('!') {
            Some(denied) if glob::matches(&normalized_url(denied), &url) => return false,
            Some(_) => {}
            None => allowed |= pattern == "*" || glob::matches(&normalized_url(pattern), &url),
        }
    }
    allowed
}

/// One repository has one spelling: lower case, no `.git`, no trailing slash.
fn normalized_url(url: &str) -> String {
    let url = url.trim().to_lowercase();
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url).to_string()
}

/// True when objects of this kind may be deployed, shown and deleted.
pub fn permits_kind(project: &AppProject, group: &str, kind: &str, name: &str, namespaced: bool) -> bool {
    let spec = &project.spec;
    let listed = |rules: &[GroupKindRule]| {
        rules.iter().any(|rule| glob::matches(&rule.group, group) && glob::matches(&rule.kind, kind))
    };
    if namespaced {
        let allowed = spec.namespace_resource_whitelist.as_deref().is_none_or(listed);
        return allowed && !listed(&spec.namespace_resource_blacklist);
    }
    let listed = |rules: &[slipway_crd::ClusterResourceRule]| {
        rules.iter().any(|rule| {
            glob::matches(&rule.group, group)
                && glob::matches(&rule.kind, kind)
                && (rule.name.is_empty() || glob::matches(&rule.name, name))
        })
    };
    listed(&spec.cluster_resource_whitelist) && !listed(&spec.cluster_resource_blacklist)
}

/// True when an Application in this namespace may use the project.
pub fn permits_application_namespace(project: &AppProject, namespace: &str, control_plane: &str) -> bool {
    namespace == control_plane
        || namespace == project.metadata.namespace
        || project.spec.source_namespaces.iter().any(|pattern| matches_namespace(pattern, namespace))
}

/// A glob, or a regular expression between slashes. One that cannot be read permits nothing.
pub fn matches_namespace(pattern: &str, namespace: &str) -> bool {
    match pattern.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
        Some(expression) => regex::Regex::new(expression).is_ok_and(|regex| regex.is_match(namespace)),
        None => glob::matches(pattern, namespace),
    }
}

/// Who must have signed the commits of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureRule {
    /// One of these keys.
    pub keys: Vec<String>,
    /// All of the history, not only the newest commit.
    pub history: bool,
}

/// The rules that commits of this repository have to keep, all of them. Of `sourceIntegrity` the first policy counts
/// that names the repository; one that cannot be understood lets nothing through.
pub fn signature_rules(project: &AppProject, repo_url: &str) -> Result<Vec<SignatureRule>, String> {
    let mut rules = Vec::new();
    if !project.spec.signature_keys.is_empty() {
        let keys = project.spec.signature_keys.iter().map(|key| key.key_id.clone()).collect();
        rules.push(SignatureRule { keys, history: false });
    }
    let Some(integrity) = &project.spec.source_integrity else { return Ok(rules) };
    let policies = integrity["git"]["policies"].as_array().map_or(&[][..], Vec::as_slice);
    let url = normalized_url(repo_url);
    let Some(policy) = policies.iter().find(|policy| names_repository(&policy["repos"], &url)) else {
        return Ok(rules);
    };
    let mode = policy["gpg"]["mode"].as_str().unwrap_or_default();
    match mode {
        "none" => {}
        "head" | "strict" => {
            let keys = policy["gpg"]["keys"].as_array().into_iter().flatten();
            let keys = keys.filter_map(|key| key.as_str().map(str::to_owned)).collect();
            rules.push(SignatureRule { keys, history: mode == "strict" });
        }
        mode => {
            return Err(format!(
                "sourceIntegrity of project '{}': gpg.mode is `{mode}`; use none, head or strict",
                project.metadata.name
            ));
        }
    }
    Ok(rules)
}

/// A list of patterns, each a text or an object with `url`; a `!` pattern wins.
fn names_repository(patterns: &serde_json::Value, url: &str) -> bool {
    let (mut fits, mut denied) = (false, false);
    let patterns = patterns.as_array().into_iter().flatten();
    for pattern in patterns.filter_map(|repo| repo["url"].as_str().or_else(|| repo.as_str())) {
        match pattern.strip_prefix('!') {
            Some(pattern) => denied |= glob::matches(&normalized_url(pattern), url),
            None => fits |= pattern == "*" || glob::matches(&normalized_url(pattern), url),
        }
    }
    fits && !denied
}

/// True when a key with one of these fingerprints is meant by an id of the list; ids have at least 16 digits.
pub fn is_signer(ids: &[String], fingerprints: &[String]) -> bool {
    ids.iter().any(|id| {
        let id = id.trim().trim_start_matches("0x").to_uppercase();
        id.len() >= 16 && fingerprints.iter().any(|of| of.to_uppercase().ends_with(&id))
    })
}

/// The project with what global projects add to it: those whose selector fits its labels.
pub fn with_globals(mut project: AppProject, globals: &[&AppProject]) -> AppProject {
    for global in globals {
        let (spec, of) = (&mut project.spec, &global.spec);
        spec.source_repos.extend(of.source_repos.iter().cloned());
        spec.destinations.extend(of.destinations.iter().cloned());
        spec.cluster_resource_whitelist.extend(of.cluster_resource_whitelist.iter().cloned());
        spec.cluster_resource_blacklist.extend(of.cluster_resource_blacklist.iter().cloned());
        spec.namespace_resource_blacklist.extend(of.namespace_resource_blacklist.iter().cloned());
        if let Some(allowed) = &of.namespace_resource_whitelist {
            spec.namespace_resource_whitelist.get_or_insert_default().extend(allowed.iter().cloned());
        }
        spec.sync_windows.extend(of.sync_windows.iter().cloned());
    }
    project
}

/// The service account that syncs to this destination run as; the first rule that matches.
pub fn service_account(project: &AppProject, destination: &Destination, server: &str) -> Option<String> {
    project.spec.destination_service_accounts.iter().find_map(|rule| {
        let fits = glob::matches(&rule.server, server)
            && (rule.namespace.is_empty() || glob::matches(&rule.namespace, &destination.namespace));
        fits.then(|| rule.default_service_account.clone())
    })
}

/// The project that permits everything, as a new installation has it.
pub fn default_project(namespace: &str) -> AppProject {
    let mut project: AppProject = serde_json::from_value(serde_json::json!({
        "apiVersion": slipway_crd::names::API_VERSION, "kind": "AppProject",
        "metadata": {"name": "default"},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    }))
    .expect("a literal of the right shape");
    project.metadata.namespace = namespace.into();
    project
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn project(spec: Value) -> AppProject {
        serde_json::from_value(json!({"spec": spec, "metadata": {"name": "p", "namespace": "argocd"}}))
            .expect("readable")
    }

    #[test]
    fn denials_win() {
        let p = project(json!({
            "sourceRepos": ["*", "!https://git.example/secret*"],
            "destinations": [{"server": "*", "namespace": "*"}, {"server": "*", "namespace": "!kube-system"}, {"server": "!https://prod", "namespace": "*"}],
        }));
        assert!(permits_source(&p, "https://git.example/shop.git"));
        assert!(!permits_source(&p, "https://git.example/secret.git"));
        let at = |server, namespace| permits_destination(&p, &ClusterNames { server, name: "" }, namespace);
        assert!(at("https://dev", "shop"));
        assert!(!at("https://dev", "kube-system"));
        assert!(!at("https://prod", "shop"));
    }

    #[test]
    fn cluster_kinds_need_a_rule_and_namespaced_ones_do_not() {
        let p = project(
            json!({"clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": "team-*"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]}),
        );
        assert!(permits_kind(&p, "", "Namespace", "team-a", false));
        assert!(!permits_kind(&p, "", "Namespace", "kube-system", false));
        assert!(!permits_kind(&p, "rbac.authorization.k8s.io", "ClusterRole", "x", false));
        assert!(permits_kind(&p, "apps", "Deployment", "x", true));
        assert!(!permits_kind(&p, "", "Secret", "x", true));
        let none = project(json!({"namespaceResourceWhitelist": []}));
        assert!(!permits_kind(&none, "apps", "Deployment", "x", true));
    }

    #[test]
    fn applications_need_a_namespace_that_is_named() {
        let p = project(json!({"sourceNamespaces": ["team-*", "/^x-[0-9]+$/", "/(/"]}));
        let may = |namespace| permits_application_namespace(&p, namespace, "argocd");
        assert!(may("argocd") && may("team-a") && may("x-12"));
        assert!(!may("x-a") && !may("other") && !may("("));
    }

    #[test]
    fn commits_need_the_signatures_of_the_first_policy_that_names_their_repository() {
        let rules = |spec: Value, url: &str| signature_rules(&project(spec), url);
        let rule = |key: &str, history: bool| SignatureRule { keys: vec![key.to_owned()], history };
        assert_eq!(rules(json!({}), "https://git.example/a"), Ok(vec![]));
        let old = json!({"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]});
        assert_eq!(rules(old, "https://x"), Ok(vec![rule("4AEE18F83AFDEB23", false)]));
        let policies = |mode: &str| {
            json!({"sourceIntegrity": {"git": {"policies": [
                {"repos": [{"url": "https://git.example/*"}, {"url": "!https://git.example/free"}],
                 "gpg": {"mode": mode, "keys": ["A"]}},
                {"repos": ["*"], "gpg": {"mode": "head", "keys": ["B"]}}]}}})
        };
        assert_eq!(rules(policies("head"), "https://git.example/a.git"), Ok(vec![rule("A", false)]));
        assert_eq!(rules(policies("strict"), "https://git.example/a"), Ok(vec![rule("A", true)]));
        assert_eq!(rules(policies("none"), "https://git.example/a"), Ok(vec![]));
        assert_eq!(rules(policies("strict"), "https://git.example/free"), Ok(vec![rule("B", false)]));
        assert!(
            rules(policies("strictly"), "https://git.example/a").is_err_and(|why| why.contains("strictly"))
        );
        let print = ["1234567890ABCDEF12344AEE18F83AFDEB23".to_owned()];
        assert!(is_signer(&["4aee18f83afdeb23".into()], &print));
        assert!(!is_signer(&["EB23".into()], &print), "a short id may be anybody's");
    }

    #[test]
    fn global_projects_add_what_they_permit_and_deny() {
        let own = project(
            json!({"sourceRepos": ["https://git.example/*"], "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]}),
        );
        let global = project(
            json!({"sourceRepos": ["!https://git.example/old"], "namespaceResourceBlacklist": [{"group": "", "kind": "Pod"}]}),
        );
        let both = with_globals(own, &[&global]);
        assert!(
            permits_source(&both, "https://git.example/new")
                && !permits_source(&both, "https://git.example/old")
        );
        assert!(!permits_kind(&both, "", "Pod", "x", true) && !permits_kind(&both, "", "Secret", "x", true));
    }

    #[test]
    fn the_default_project_permits_all() {
        let p = default_project("argocd");
        assert!(permits_source(&p, "https://x"));
        assert!(permits_destination(&p, &ClusterNames { server: "https://x", name: "x" }, "any"));
        assert!(permits_kind(&p, "", "Namespace", "x", false));
    }
}
