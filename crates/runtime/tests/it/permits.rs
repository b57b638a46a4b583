//! What a project permits, on the real Kubernetes: Applications of other namespaces, signed commits, somebody else's
//! hand, and what lies about.
//!
//! Engines of several tests look at one cluster, and objects say by the name of their Application whose they are: so
//! these names hold that of the target namespace.

use std::process::Command;

use serde_json::{Value, json};

use crate::site::{Site, automated};

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

fn project(site: &Site<'_>, name: &str, rules: Value) -> Value {
    let mut spec = json!({
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    });
    spec.as_object_mut().expect("an object").extend(rules.as_object().expect("an object").clone());
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": name, "namespace": site.control.name()}, "spec": spec})
}

fn config(site: &Site<'_>, name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": site.control.name(),
        "labels": {"app.kubernetes.io/part-of": "argocd"}}, "data": data})
}

fn conditions(app: &Value) -> String {
    app["status"]["conditions"].to_string()
}

#[test]
fn applications_of_other_namespaces_are_looked_after_where_settings_and_project_allow_it() {
    let site = Site::new(&[("app/a.yaml", map("a"))]);
    let team = site.target.name().to_owned();
    let elsewhere = |name: &str, project: &str| {
        let mut app = site.application(name, "app", automated());
        app["metadata"]["namespace"] = json!(team);
        app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
        app["spec"]["project"] = json!(project);
        app
    };
    let read = |name: &str| -> Value {
        serde_json::from_str(&site.target.kubectl(&["get", "app", name, "-o", "json"])).expect("JSON")
    };
    site.create(&project(
        &site,
        "open",
        json!({"sourceNamespaces": [format!("{}*", &team[..team.len() - 1])]}),
    ));
    site.create(&project(&site, "closed", json!({"sourceNamespaces": ["another"]})));
    site.target.apply(&elsewhere("ours", "open").to_string());
    // Nobody looks after it yet: an Application of the own namespace that came later is done, and this one untouched.
    site.create(&site.application(&format!("witness-{team}"), "app", json!({})));
    site.wait(&format!("witness-{team}"), "{.status.sync.status}=OutOfSync");
    assert_eq!(read("ours")["status"].as_object().map_or(0, serde_json::Map::len), 0);

    site.create(&config(
        &site,
        "argocd-cmd-params-cm",
        json!({"application.namespaces": format!("x, {team}")}),
    ));
    site.until("the Application of the other namespace", || {
        read("ours")["status"]["sync"]["status"] == "Synced"
    });
    let tracking = "jsonpath={.metadata.annotations.argocd\\.argoproj\\.io/tracking-id}";
    let said = site.target.kubectl(&["get", "configmap", "a", "-o", tracking]);
    assert_eq!(said, format!("{team}_ours:/ConfigMap:{team}/a"));

    // A project that does not name the namespace is neither used nor deleted with.
    site.target.apply(&elsewhere("theirs", "closed").to_string());
    site.until("the refusal", || {
        conditions(&read("theirs")).contains("is not permitted to use project 'closed'")
    });
    site.target.kubectl(&["delete", "app", "theirs", "--wait=false"]);
    site.until("the refusal of the deletion", || conditions(&read("theirs")).contains("DeletionError"));
    assert!(site.target.succeeds(&["get", "configmap", "a"]));
    site.target.kubectl(&[
        "patch",
        "app",
        "theirs",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ]);
    site.target.kubectl(&["delete", "app", "ours", "--timeout=120s"]);
    site.until("the end of what it deployed", || !site.target.succeeds(&["get", "configmap", "a"]));
}

/// A key of somebody, in a home of its own.
struct Signer {
    home: tempfile::TempDir,
    print: String,
}

impl Signer {
    fn new(name: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut made = Self { print: String::new(), home };
        made.gpg(&[
            "--passphrase",
            "",
            "--quick-generate-key",
            &format!("{name} <{name}@example.org>"),
            "ed25519",
            "sign",
        ]);
        let listed = made.gpg(&["--list-keys", "--with-colons"]);
        let print = listed.lines().find_map(|line| line.strip_prefix("fpr:")).expect("a fingerprint");
        print.trim_matches(':').clone_into(&mut made.print);
        made
    }

    fn gpg(&self, arguments: &[&str]) -> String {
        let output = Command::new("gpg")
            .args(["--batch", "--no-tty", "--homedir"])
            .arg(self.home.path())
            .args(arguments)
            .output()
            .expect("gpg runs");
        assert!(output.status.success(), "gpg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn public(&self) -> String {
        self.gpg(&["--armor", "--export"])
    }

    /// Signs the newest commit anew.
    fn sign(&self, site: &Site<'_>) -> String {
        let key = format!("-S{}", self.print);
        site.git(&[
            "-c",
            &self.program(),
            "commit",
            "--quiet",
            "--amend",
            "--allow-empty",
            "--no-edit",
            &key,
        ]);
        site.git(&["rev-parse", "HEAD"])
    }

    /// Tags the newest commit, which nobody signs by that.
    fn tag(&self, site: &Site<'_>, name: &str) {
        let words = ["tag", "--annotate", "--message", "Good", "--local-user", &self.print, name];
        site.git(&[&["-c", &self.program()], &words[..]].concat());
    }

    /// git's setting of the program that signs.
    fn program(&self) -> String {
        let program = self.home.path().join("sign");
        let script = format!("#!/bin/sh\nexec gpg --homedir '{}' \"$@\"\n", self.home.path().display());
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
        format!("gpg.program={}", program.display())
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        let _ =
            Command::new("gpgconf").arg("--homedir").arg(self.home.path()).args(["--kill", "all"]).status();
    }
}

#[test]
fn only_commits_that_somebody_trusted_has_signed_are_deployed() {
    let (ada, eve) = (Signer::new("ada"), Signer::new("eve"));
    let site = Site::new(&[("app/a.yaml", map("unsigned"))]);
    let keys = json!({&ada.print[24..]: ada.public(), &eve.print[24..]: eve.public()});
    site.create(&config(&site, "argocd-gpg-keys-cm", keys));
    site.create(&project(&site, "signed", json!({"signatureKeys": [{"keyID": &ada.print[24..]}]})));
    let name = format!("app-{}", site.target.name());
    let mut app = site.application(&name, "app", automated());
    app["spec"]["project"] = json!("signed");
    site.create(&app);
    let refused = |what: &str| {
        site.control.kubectl(&["annotate", "app", &name, "argocd.argoproj.io/refresh=normal", "--overwrite"]);
        site.until(what, || conditions(&site.app(&name)).contains(what));
    };
    refused("is not signed");

    // What was never pushed cannot have been signed either.
    let local = json!({"operation": {"sync": {"manifests": [map("local")]}}}).to_string();
    site.control.kubectl(&["patch", "app", &name, "--type=merge", "-p", &local]);
    site.until("the refusal of local manifests", || {
        site.app(&name)["status"]["operationState"]["message"].to_string().contains("asks for signed commits")
    });

    site.commit(&[("app/a.yaml", map("by-eve"))]);
    eve.sign(&site);
    refused("which is not a key that project 'signed' trusts");

    // Ada's signature under other words.
    site.commit(&[("app/a.yaml", map("forged"))]);
    let signed = ada.sign(&site);
    let text = site.git(&["cat-file", "commit", &signed]).replace("A change", "Another one");
    let forged = site.folder.path().join("forged");
    std::fs::write(&forged, format!("{text}\n")).expect("written");
    let id = site.git(&["hash-object", "-t", "commit", "-w", forged.to_str().expect("a path")]);
    site.git(&["reset", "--quiet", "--hard", &id]);
    refused("is not good: it does not fit the commit");

    site.commit(&[("app/a.yaml", map("by-ada"))]);
    let good = ada.sign(&site);
    site.control.kubectl(&["annotate", "app", &name, "argocd.argoproj.io/refresh=normal", "--overwrite"]);
    site.wait(&name, &format!("{{.status.operationState.syncResult.revision}}={good}"));
    site.wait(&name, "{.status.sync.status}=Synced");
    let there = site.target.kubectl(&["get", "configmaps", "-o", "name"]);
    for name in ["unsigned", "local", "by-eve", "forged"] {
        assert!(!there.contains(name), "{there}");
    }
    assert!(there.contains("by-ada"), "{there}");
}

#[test]
fn a_tag_counts_by_its_own_signature() {
    let ada = Signer::new("ada");
    let site = Site::new(&[("app/a.yaml", map("unsigned"))]);
    site.create(&config(&site, "argocd-gpg-keys-cm", json!({&ada.print[24..]: ada.public()})));
    site.create(&project(&site, "signed", json!({"signatureKeys": [{"keyID": &ada.print[24..]}]})));
    site.git(&["tag", "--annotate", "--message", "By nobody", "v1"]);
    site.commit(&[("app/a.yaml", map("tagged"))]);
    ada.tag(&site, "v2");
    let good = site.git(&["rev-parse", "HEAD"]);
    let name = format!("app-{}", site.target.name());
    let mut app = site.application(&name, "app", automated());
    app["spec"]["project"] = json!("signed");
    app["spec"]["source"]["targetRevision"] = json!("v1");
    site.create(&app);
    site.until("the tag is not signed", || conditions(&site.app(&name)).contains("sign the tag"));
    let newer = json!({"spec": {"source": {"targetRevision": "v2"}}}).to_string();
    site.control.kubectl(&["patch", "app", &name, "--type=merge", "-p", &newer]);
    site.wait(&name, &format!("{{.status.operationState.syncResult.revision}}={good}"));
    site.wait(&name, "{.status.sync.status}=Synced");
    let there = site.target.kubectl(&["get", "configmaps", "-o", "name"]);
    assert!(there.contains("tagged") && !there.contains("unsigned"), "{there}");
}

#[test]
fn a_strict_policy_asks_for_every_commit_back_to_a_seal() {
    let (ada, eve) = (Signer::new("ada"), Signer::new("eve"));
    let site = Site::new(&[("app/a.yaml", map("a"))]);
    let unsigned = site.git(&["rev-parse", "HEAD"]);
    let keys = json!({&ada.print[24..]: ada.public(), &eve.print[24..]: eve.public()});
    site.create(&config(&site, "argocd-gpg-keys-cm", keys));
    let policy = json!({"repos": [{"url": "*"}], "gpg": {"mode": "strict", "keys": [&ada.print[24..]]}});
    site.create(&project(&site, "strict", json!({"sourceIntegrity": {"git": {"policies": [policy]}}})));
    site.commit(&[("app/b.yaml", map("b"))]);
    ada.sign(&site);
    let name = format!("app-{}", site.target.name());
    let mut app = site.application(&name, "app", automated());
    app["spec"]["project"] = json!("strict");
    site.create(&app);
    let refresh = || {
        site.control.kubectl(&["annotate", "app", &name, "argocd.argoproj.io/refresh=normal", "--overwrite"]);
    };
    let refused = |what: &str| site.until(what, || conditions(&site.app(&name)).contains(what));
    // The newest commit is good, and what it was made from is not.
    refused(&format!("commit {unsigned} is not signed"));
    assert!(!site.target.succeeds(&["get", "configmap", "b"]));

    let seal = |by: &Signer| {
        let words = "Looked at\n\nArgocd-gpg-seal: all of it was reviewed";
        site.git(&["commit", "--quiet", "--allow-empty", "--message", words]);
        by.sign(&site)
    };
    // A seal of somebody who is not trusted seals nothing.
    let by_eve = seal(&eve);
    refresh();
    refused(&format!("commit {by_eve} has a good signature"));
    let sealed = seal(&ada);
    refresh();
    site.wait(&name, &format!("{{.status.operationState.syncResult.revision}}={sealed}"));
    site.wait(&name, "{.status.sync.status}=Synced");
    assert!(site.target.succeeds(&["get", "configmap", "b"]));

    // After the seal everything counts again, also what came in by a merge.
    site.git(&["checkout", "--quiet", "-b", "side"]);
    site.commit(&[("app/c.yaml", map("c"))]);
    let side = eve.sign(&site);
    site.git(&["checkout", "--quiet", "main"]);
    site.git(&["merge", "--quiet", "--no-ff", "--message", "Merged", "side"]);
    ada.sign(&site);
    refresh();
    refused(&format!("commit {side} has a good signature"));
    assert!(!site.target.succeeds(&["get", "configmap", "c"]));
}

#[test]
fn a_sync_runs_as_the_service_account_that_the_project_names() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n";
    let site = Site::new(&[("maps/a.yaml", map("a")), ("secrets/s.yaml", secret.to_owned())]);
    let target = site.target.name().to_owned();
    site.target.kubectl(&["create", "serviceaccount", "deployer"]);
    site.target.kubectl(&["create", "role", "maps", "--verb=*", "--resource=configmaps"]);
    site.target.kubectl(&[
        "create",
        "rolebinding",
        "maps",
        "--role=maps",
        &format!("--serviceaccount={target}:deployer"),
    ]);
    site.create(&config(&site, "argocd-cm", json!({"application.sync.impersonation.enabled": "true"})));
    let accounts = json!({"destinationServiceAccounts": [
        {"server": "*", "namespace": target, "defaultServiceAccount": "deployer"}]});
    site.create(&project(&site, "narrow", accounts));
    let full = |name: &str| format!("{name}-{target}");
    let named = |name: &str, project: &str| {
        let mut app = site.application(&full(name), name, json!({}));
        app["spec"]["project"] = json!(project);
        app["operation"] = json!({"sync": {}});
        app
    };
    let message = |name: &str| {
        site.until("the end of the sync", || {
            site.app(&full(name))["status"]["operationState"]["finishedAt"].is_string()
        });
        let state = site.app(&full(name))["status"]["operationState"].clone();
        (state["phase"].as_str().unwrap_or_default().to_owned(), state.to_string())
    };
    site.create(&named("maps", "narrow"));
    let (phase, said) = message("maps");
    assert_eq!(phase, "Succeeded", "{said}");
    site.create(&named("secrets", "narrow"));
    let (phase, said) = message("secrets");
    assert_eq!(phase, "Failed", "{said}");
    assert!(said.contains(&format!("system:serviceaccount:{target}:deployer")), "{said}");
    assert!(!site.target.succeeds(&["get", "secret", "s"]));

    // A project that names nobody writes nothing.
    site.target.kubectl(&["delete", "configmap", "a"]);
    site.control.kubectl(&["delete", "app", &full("maps")]);
    site.create(&named("maps", "default"));
    let (phase, said) = message("maps");
    assert_eq!(phase, "Error", "{said}");
    assert!(said.contains("no service account is named"), "{said}");
    assert!(!site.target.succeeds(&["get", "configmap", "a"]));
}

#[test]
fn what_belongs_to_nobody_is_counted_where_the_project_wants_to_know() {
    let site = Site::new(&[("app/a.yaml", map("a"))]);
    for name in ["lost", "tmp-1"] {
        site.target.apply(&map(name));
    }
    let watch = json!({"orphanedResources": {"warn": true, "ignore": [{"group": "", "kind": "ConfigMap", "name": "tmp-*"}]}});
    site.create(&project(&site, "watched", watch));
    let name = format!("app-{}", site.target.name());
    let mut app = site.application(&name, "app", automated());
    app["spec"]["project"] = json!("watched");
    site.create(&app);
    site.wait(&name, "{.status.sync.status}=Synced");
    site.until("the warning", || {
        conditions(&site.app(&name)).contains("Application has 1 orphaned resources")
    });
    site.target.kubectl(&["delete", "configmap", "lost"]);
    site.until("the end of the warning", || {
        !conditions(&site.app(&name)).contains("OrphanedResourceWarning")
    });
}
