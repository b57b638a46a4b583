//! How large the definitions are: every API server keeps them, and every client that asks for them reads all of it.

use slipway_crd::{manifests, rollout_manifests, workflow_manifests};

/// Of upstream's the largest has more than a megabyte.
const AT_MOST: usize = 80 * 1024;

#[test]
fn no_definition_is_large() {
    for one in manifests().into_iter().chain(rollout_manifests()).chain(workflow_manifests()) {
        let size = one.to_string().len();
        println!("{} {size}", one["metadata"]["name"]);
        assert!(size < AT_MOST, "{} has {size} bytes", one["metadata"]["name"]);
    }
}
