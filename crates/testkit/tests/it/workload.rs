//! Pods, service addresses and names, as a workload uses them.

use slipway_testkit::{Kube, TEST_IMAGE};

fn web(text: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: web
          image: {TEST_IMAGE}
          command: [sh, -c, "echo '{text}' >/www/index.html; exec httpd -f -p 8080 -h /www"]
          readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec:
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080}}]
"#
    )
}

fn curl(script: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: curl}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
    - {{name: curl, image: "{TEST_IMAGE}", command: [sh, -ec, {script:?}]}}
"#
    )
}

#[test]
fn a_pod_reaches_a_service_by_its_name_and_the_api_too() {
    let namespace = Kube::shared().namespace("reach");
    namespace.apply(&web("hello from the pods"));
    namespace.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    let script = format!(
        "curl -sS --fail --max-time 20 --retry 20 --retry-connrefused --retry-delay 1 http://web/; \
         curl -sS --fail --max-time 20 http://web.{}.svc.cluster.local/; \
         curl -sS --fail --max-time 20 --cacert {account}/ca.crt -H \"Authorization: Bearer $(cat {account}/token)\" https://kubernetes.default.svc/version",
        namespace.name()
    );
    namespace.apply(&curl(&script));
    namespace.until("the pod with curl ending", || {
        let phase = namespace.kubectl(&["get", "pod", "curl", "-o", "jsonpath={.status.phase}"]);
        assert_ne!(phase, "Failed", "{}", namespace.kubectl(&["logs", "curl"]));
        phase == "Succeeded"
    });
    let log = namespace.kubectl(&["logs", "curl"]);
    assert_eq!(log.matches("hello from the pods").count(), 2, "{log}");
    assert!(log.contains("\"gitVersion\": \"v1.34."), "{log}");
}

#[test]
fn a_namespace_goes_away_with_its_value() {
    let kube = Kube::shared();
    let namespace = kube.namespace("short");
    let name = namespace.name().to_owned();
    assert!(name.starts_with("short-"), "{name}");
    drop(namespace);
    kube.kubectl(&["wait", "--for=delete", &format!("namespace/{name}"), "--timeout=60s"]);
}

#[test]
fn an_image_from_a_folder_runs() {
    let kube = Kube::shared();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    std::fs::create_dir_all(folder.join("bin")).expect("a folder");
    std::fs::copy("/bin/busybox", folder.join("bin/busybox")).expect("busybox-static is installed");
    kube.image(&folder, "localhost/slipway-testkit-own:1", &["/bin/busybox", "echo", "say \"this\""]);
    let namespace = kube.namespace("image");
    let pod = "\
apiVersion: v1
kind: Pod
metadata: {name: own}
spec: {restartPolicy: Never, containers: [{name: own, image: 'localhost/slipway-testkit-own:1'}]}
";
    namespace.apply(pod);
    namespace.until("the pod ending", || {
        namespace.kubectl(&["get", "pod", "own", "-o", "jsonpath={.status.phase}"]) == "Succeeded"
    });
    assert_eq!(namespace.kubectl(&["logs", "own"]), "say \"this\"\n");
}
