//! Files that go from one node to another, and where they are kept.

use super::PodMetadata;
use crate::wire::wire_struct;
use serde_json::Value;

wire_struct! {
    /// A file or a folder.
    Artifact {
        omit {
            name: String,
            path: String,
            mode: Option<i64>,
            from: String,
            from_expression: String,
            archive_logs: Option<bool>,
            global_name: String,
            archive: Option<Archive>,
            optional: bool,
            sub_path: String,
            recurse_mode: bool,
            artifact_gc as "artifactGC": Option<ArtifactGc>,
            deleted: bool,
            s3: Option<Value>,
            git: Option<GitArtifact>,
            http: Option<Value>,
            artifactory: Option<Value>,
            hdfs: Option<HdfsArtifact>,
            raw: Option<RawArtifact>,
            oss: Option<Value>,
            gcs: Option<Value>,
            azure: Option<Value>,
            plugin: Option<Value>,
        }
    }
}

impl Artifact {
    /// The locations that it names.
    pub fn locations(&self) -> Vec<&'static str> {
        [
            ("s3", self.s3.is_some()),
            ("git", self.git.is_some()),
            ("http", self.http.is_some()),
            ("artifactory", self.artifactory.is_some()),
            ("hdfs", self.hdfs.is_some()),
            ("raw", self.raw.is_some()),
            ("oss", self.oss.is_some()),
            ("gcs", self.gcs.is_some()),
            ("azure", self.azure.is_some()),
            ("plugin", self.plugin.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, there)| there.then_some(name))
        .collect()
    }
}

wire_struct! {
    /// How it is packed.
    Archive { omit { none: Option<Value>, tar: Option<Value>, zip: Option<Value>, } }
}

wire_struct! {
    /// When it is deleted.
    ArtifactGc { omit { strategy: String, pod_metadata: Option<PodMetadata>, service_account_name: String, } }
}

wire_struct! {
    /// A repository.
    GitArtifact {
        omit {
            repo: String,
            revision: String,
            depth: Option<i64>,
            fetch: Vec<String>,
            username_secret: Option<Value>,
            password_secret: Option<Value>,
            ssh_private_key_secret: Option<Value>,
            insecure_ignore_host_key: bool,
            disable_submodules: bool,
            single_branch: bool,
            branch: String,
            insecure_skip_tls as "insecureSkipTLS": bool,
        }
    }
}

wire_struct! {
    /// A file of HDFS.
    HdfsArtifact {
        omit {
            addresses: Vec<String>,
            path: String,
            hdfs_user: String,
            force: bool,
            data_transfer_protection: String,
            krb_c_cache_secret as "krbCCacheSecret": Option<Value>,
            krb_keytab_secret: Option<Value>,
            krb_username: String,
            krb_realm: String,
            krb_config_config_map: Option<Value>,
            krb_service_principal_name: String,
        }
    }
}

wire_struct! {
    /// Text in the manifest.
    RawArtifact { omit { data: String, } }
}
