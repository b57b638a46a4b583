//! `slipway sign`: a key, a signed file that is still the same pipeline, and what it refuses.

use std::os::unix::fs::PermissionsExt;

use crate::process::slipway;

#[test]
fn a_file_is_signed_in_place_and_stays_the_pipeline_that_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (key, file) = (at("team.jwk"), at("codefresh.yml"));
    let text = "# ours\nversion: '1.0'\nsteps:\n  say: {image: alpine, commands: [echo hello]}\n";
    std::fs::write(&file, text).unwrap();

    let made = slipway(&["sign", "--new-key", "team-2026", "--key", &key]);
    assert!(made.status.success(), "{made:?}");
    let public: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(
        (&public["keys"][0]["kid"], &public["keys"][0]["crv"]),
        (&"team-2026".into(), &"Ed25519".into())
    );
    assert!(public["keys"][0].get("d").is_none(), "the private part is not printed");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let again = slipway(&["sign", "--new-key", "other", "--key", &key]);
    assert!(!again.status.success(), "a key is not written over");

    let printed = slipway(&["sign", &file, "--key", &key]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.starts_with(text) && printed.contains("# slipway-signature: team-2026 "), "{printed}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert!(slipway(&["sign", &file, "--key", &key, "--write"]).status.success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), printed);
    assert!(slipway(&["lint", &file]).status.success());

    std::fs::write(at("public.json"), &made.stdout).unwrap();
    let (public, none) = (at("public.json"), at("none.yml"));
    for (arguments, why) in
        [(["sign", &file, "--key", &public], "JSON Web Key"), (["sign", &none, "--key", &key], "cannot read")]
    {
        let refused = slipway(&arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
}
