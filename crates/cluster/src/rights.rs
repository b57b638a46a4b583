//! What whoever connects may do, as the API server says.

use serde_json::{Value, json};

use crate::ClusterError;
use crate::connect::Cluster;

/// One thing that may be allowed: a verb on a resource, in a namespace or everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right<'a> {
    pub verb: &'a str,
    /// Empty: the core group.
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty: in all of them.
    pub namespace: &'a str,
}

impl std::fmt::Display for Right<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, group, resource, namespace } = self;
        match (*group, *resource) {
            ("*", "*") => write!(f, "{verb} resources of every kind")?,
            ("", resource) => write!(f, "{verb} {resource}")?,
            (group, resource) => write!(f, "{verb} {resource}.{group}")?,
        }
        match *namespace {
            "" => Ok(()),
            namespace => write!(f, " in namespace {namespace}"),
        }
    }
}

impl Cluster {
    /// Those that are not allowed.
    pub async fn missing_rights<'a>(&self, wanted: &[Right<'a>]) -> Result<Vec<Right<'a>>, ClusterError> {
        let mut missing = Vec::new();
        for right in wanted {
            let attributes = json!({"verb": right.verb, "group": right.group, "resource": right.resource,
                "namespace": right.namespace});
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes}});
            let request = http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(review.to_string().into_bytes())
                .expect("a fixed path");
            let answer: Value = self.send(request, "what we may do").await?;
            if answer["status"]["allowed"] != true {
                missing.push(*right);
            }
        }
        Ok(missing)
    }
}
