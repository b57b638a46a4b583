//! Who is asking: client certificates of the cluster's own CA, the admin token, service account tokens.
//!
//! A service account's token ends with its account, and one that is bound to a pod ends with the pod.
//!
//! Does not know: permissions. Whoever is authenticated may do everything; the documentation says so.

use std::path::Path;

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::api::Cluster;
use crate::value::{Json as _, base64_url, base64_url_decode, random_bytes};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    pub(crate) fn admin() -> Self {
        User {
            name: "kubernetes-admin".to_owned(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }
}

/// Makes and checks bearer tokens.
pub(crate) struct Tokens {
    admin: String,
    key: hmac::Key,
}

impl Tokens {
    /// Reads the secrets of this cluster, or makes them on the first start.
    pub(crate) fn load(pki: &Path) -> std::io::Result<Self> {
        let admin = crate::tls::keep(&pki.join("admin.token"), || hex::encode(random_bytes::<32>()))?;
        let key = crate::tls::keep(&pki.join("service-accounts.key"), || hex::encode(random_bytes::<32>()))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.trim().as_bytes());
        Ok(Tokens { admin: admin.trim().to_owned(), key })
    }

    pub(crate) fn admin(&self) -> &str {
        &self.admin
    }

    /// A token for a service account, as the TokenRequest API gives it.
    pub(crate) fn issue(&self, claims: &Value) -> String {
        let head = base64_url(br#"{"alg":"HS256","typ":"JWT"}"#);
        let body = base64_url(claims.to_string().as_bytes());
        let signature = hmac::sign(&self.key, format!("{head}.{body}").as_bytes());
        format!("{head}.{body}.{}", base64_url(signature.as_ref()))
    }

    /// Who a token speaks for, as the cluster is now.
    pub(crate) fn verify(&self, token: &str, cluster: &Cluster) -> Option<User> {
        if aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), self.admin.as_bytes()).is_ok()
        {
            return Some(User::admin());
        }
        let (signed, signature) = token.rsplit_once('.')?;
        hmac::verify(&self.key, signed.as_bytes(), &base64_url_decode(signature)?).ok()?;
        let claims: Value = serde_json::from_slice(&base64_url_decode(signed.split_once('.')?.1)?).ok()?;
        if claims.int_at("exp").is_some_and(|end| end < jiff::Timestamp::now().as_second()) {
            return None;
        }
        let bound = claims.get("kubernetes.io")?;
        let namespace = bound.str_at("namespace").to_owned();
        let lives = |kind: &str, about: &Value| {
            let found = cluster.get(kind, &namespace, about.str_at("name"));
            found.is_some_and(|object| object.uid() == about.str_at("uid"))
        };
        if !lives("serviceaccounts", bound.get("serviceaccount")?)
            || bound.get("pod").is_some_and(|pod| !lives("pods", pod))
            || bound.get("secret").is_some_and(|secret| !lives("secrets", secret))
        {
            return None;
        }
        let subject = claims.str_at("sub").to_owned();
        let groups = vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".into(),
        ];
        Some(User { name: subject, groups })
    }
}

/// The claims of a service account token.
pub(crate) fn claims(namespace: &str, account: &str, uid: &str, audiences: &[Value], seconds: i64) -> Value {
    let now = jiff::Timestamp::now().as_second();
    let issuer = "https://kubernetes.default.svc.cluster.local";
    let audiences = if audiences.is_empty() { vec![json!(issuer)] } else { audiences.to_vec() };
    json!({
        "aud": audiences, "iss": issuer, "iat": now, "nbf": now, "exp": now + seconds,
        "jti": crate::value::new_uid(),
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account, "uid": uid}},
    })
}
