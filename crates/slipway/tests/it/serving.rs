//! A process that serves TLS itself, the first administrator that an operator chose, and `slipway doctor`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Process, slipway};

/// An authority, and a certificate of it for loopback with its key.
fn certify(folder: &Path, name: &str) -> String {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(params, authority_key);
    let leaf_key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".into()])
        .unwrap()
        .signed_by(&leaf_key, &issuer)
        .unwrap();
    std::fs::write(folder.join("tls.crt"), leaf.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), leaf_key.serialize_pem()).unwrap();
    authority.pem()
}

fn trusting(authority: &str) -> reqwest::Client {
    let authority = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
    // A connection of its own for each call: a renewed certificate is seen by the next one.
    reqwest::Client::builder().tls_certs_only([authority]).pool_max_idle_per_host(0).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_serves_tls_and_takes_a_renewed_certificate_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let first = certify(folder.path(), "first");
    let (certificate, key, data) = (at("tls.crt"), at("tls.key"), at("data"));
    let process = Process::start(&["--data", &data, "--tls-certificate", &certificate, "--tls-key", &key]);
    assert!(process.url.starts_with("https://"), "{}", process.url);
    let ready = format!("{}/readyz", process.url);
    assert_eq!(trusting(&first).get(&ready).send().await.unwrap().text().await.unwrap(), "ready");
    let plain = reqwest::get(ready.replace("https://", "http://")).await;
    assert!(plain.is_err(), "nobody is answered without TLS");

    // Half of a renewal: a certificate whose key is not there yet.
    let old_key = std::fs::read(&key).unwrap();
    let second = certify(folder.path(), "second");
    let new_key = std::fs::read(&key).unwrap();
    std::fs::write(&key, &old_key).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(trusting(&first).get(&ready).send().await.is_ok(), "the last good pair goes on");
    std::fs::write(&key, &new_key).unwrap();
    let until = Instant::now() + slipway_testkit::PATIENCE;
    while trusting(&second).get(&ready).send().await.is_err() {
        assert!(Instant::now() < until, "the renewed certificate is not taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let authority = at("ca.pem");
    std::fs::write(&authority, &second).unwrap();
    let asked = slipway(&["doctor", "--server", &process.url, "--ca", &authority, "-o", "json"]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let checks: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let outcomes: Vec<_> = checks.as_array().unwrap().iter().map(|check| &check["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "ok"], "{checks}");
    std::fs::write(&authority, &first).unwrap();
    let distrusted = slipway(&["doctor", "--server", &process.url, "--ca", &authority]);
    let said = String::from_utf8_lossy(&distrusted.stdout).into_owned();
    assert!(distrusted.status.code() == Some(1) && said.contains("--ca FILE"), "{said}");
    assert_eq!(process.stop().1, Some(0));
    let gone = slipway(&["doctor", "--server", "http://127.0.0.1:9"]);
    assert!(gone.status.code() == Some(1) && String::from_utf8_lossy(&gone.stdout).contains("cannot reach"));
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    certify(folder.path(), "one");
    let (certificate, key, data) = (at("tls.crt"), at("tls.key"), at("data"));
    let said = |certificate: &str, key: &str| {
        let words = ["server", "--data", &data, "--listen", "127.0.0.1:0", "--tls-certificate", certificate];
        let output = slipway(&[&words[..], &["--tls-key", key]].concat());
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let missing = at("missing.pem");
    assert!(said(&missing, &key).contains("missing.pem"));
    assert!(said(&key, &key).contains("holds no certificate"));
    assert!(said(&certificate, &certificate).contains("holds no private key"));
    let text = std::fs::read(&certificate).unwrap();
    certify(folder.path(), "other");
    std::fs::write(&certificate, text).unwrap();
    assert!(said(&certificate, &key).contains("cannot be used together"));
    let half = slipway(&["server", "--data", &data, "--tls-certificate", &certificate]);
    assert!(String::from_utf8_lossy(&half.stderr).contains("--tls-key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_administrator_is_who_the_operator_says_and_their_password_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, data) = (at("password"), at("data"));
    let words = ["--data", &data, "--admin-email", "ops@example.com", "--admin-password-file", &file];
    std::fs::write(&file, "short\n").unwrap();
    let refused = slipway(&[&["server", "--listen", "127.0.0.1:0"], &words[..]].concat());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("at least 12 characters"));
    std::fs::write(&file, "a passphrase of words\n").unwrap();
    let process = Process::start(&words);
    let sign_in = async |password: &str| {
        let body = json!({"email": "ops@example.com", "password": password});
        process.call("POST", "/api/auth/login", "", Some(body)).await.0
    };
    assert_eq!(sign_in("a passphrase of words").await, 200);
    assert_eq!(sign_in("a passphrase of words\n").await, 401);
    assert_eq!(process.stop().1, Some(0));
    // It is for an empty database alone.
    std::fs::write(&file, "another passphrase entirely").unwrap();
    let again = Process::start(&words);
    assert_eq!(again.first_key, None);
    let body = json!({"email": "ops@example.com", "password": "a passphrase of words"});
    assert_eq!(again.call("POST", "/api/auth/login", "", Some(body)).await.0, 200);
}
