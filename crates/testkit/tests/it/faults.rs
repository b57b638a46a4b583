//! Each fault is seen, and ends.

use slipway_testkit::{Kube, Namespace, OwnKube};

fn node_is(namespace: &Namespace<'_>, kube: &OwnKube, wanted: &str) {
    namespace.until(&format!("the node's readiness being {wanted}"), || {
        let path = "jsonpath={.items[0].status.conditions[?(@.type=='Ready')].status}";
        kube.kubectl(&["get", "nodes", "-o", path]) == wanted
    });
}

#[test]
fn faults_are_seen_and_mended() {
    let kube = Kube::own("faults");
    let namespace = kube.namespace("faults");
    namespace.kubectl(&["create", "configmap", "kept", "--from-literal=k=v"]);

    let stopped = kube.stop_etcd();
    assert!(!namespace.succeeds(&["create", "configmap", "lost", "--request-timeout=3s"]));
    drop(stopped);
    assert!(namespace.succeeds(&["get", "configmap", "kept"]));

    kube.restart_apiserver();
    assert!(namespace.succeeds(&["get", "configmap", "kept"]));

    let paused = kube.pause_kubelet();
    node_is(&namespace, &kube, "Unknown");
    drop(paused);
    node_is(&namespace, &kube, "True");

    let dropped = kube.drop_network();
    node_is(&namespace, &kube, "Unknown");
    drop(dropped);
    node_is(&namespace, &kube, "True");
}
