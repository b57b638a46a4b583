//! Short commands of an engine, and the limits that its containers can be given here.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};

/// A program with the environment of an engine and nothing else of ours.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(crate::environment()).stdin(Stdio::null());
    command
}

/// `--ulimit` flags: as much as this process may give, and no more than `files` and `processes`. Engines ask for more
/// than an ordinary process may give, and then nothing would start.
pub fn ulimits(files: u64, processes: u64) -> Vec<String> {
    [("nofile", Resource::RLIMIT_NOFILE, files), ("nproc", Resource::RLIMIT_NPROC, processes)]
        .into_iter()
        .filter_map(|(name, resource, most)| {
            let (_, hard) = getrlimit(resource).ok()?;
            let hard = hard.min(most);
            Some(["--ulimit".to_owned(), format!("{name}={hard}:{hard}")])
        })
        .flatten()
        .collect()
}

/// The image as an engine is to be asked for it: a name without a tag means `latest`. Without that, engines take a short name of hexadecimal
/// digits for the beginning of an image's id, and run whatever image of this machine has it.
pub fn image_reference(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    if image.is_empty() || last.contains(':') || image.contains('@') {
        return image.to_owned();
    }
    format!("{image}:latest")
}

/// Runs a short command; the error is what it said last.
pub fn run<S: AsRef<OsStr>>(argv: &[S], deadline: Duration) -> Result<String, String> {
    let mut child = command(&argv[0])
        .args(&argv[1..])
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "it is not installed".to_owned(),
            _ => error.to_string(),
        })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = std::thread::spawn(move || read(stdout));
    let stderr = std::thread::spawn(move || read(stderr));
    let until = Instant::now() + deadline;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not answer within {} s", deadline.as_secs()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.to_string()),
        }
    };
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if status.success() {
        return Ok(stdout);
    }
    Err(stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gave no reason").to_owned())
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(1 << 20).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_name_of_hexadecimal_digits_is_no_id() {
        for (image, asked) in [
            ("0", "0:latest"),
            ("cafe", "cafe:latest"),
            ("cafe:1", "cafe:1"),
            ("registry:5000/cafe", "registry:5000/cafe:latest"),
            ("localhost/demo-app:abc", "localhost/demo-app:abc"),
            ("web@sha256:00", "web@sha256:00"),
            ("", ""),
        ] {
            assert_eq!(image_reference(image), asked, "{image}");
        }
    }

    #[test]
    fn an_engine_sees_nothing_of_our_environment_but_what_it_needs() {
        // Cargo gives it to every test, and a CI machine has secrets in the same place.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let seen = run(&["env"], SOON).expect("it runs");
        assert!(seen.contains("PATH=") && !seen.contains("CARGO_"), "{seen}");
    }

    #[test]
    fn arguments_are_values_and_failures_have_a_reason() {
        assert_eq!(run(&["printf", "%s", "a b; $(id)"], SOON), Ok("a b; $(id)".to_owned()));
        assert_eq!(run(&["no-such-engine"], SOON), Err("it is not installed".to_owned()));
        assert_eq!(run(&["false"], SOON), Err("it gave no reason".to_owned()));
        let late = run(&["sleep", "60"], Duration::from_millis(50)).expect_err("it is ended");
        assert!(late.contains("did not answer"), "{late}");
    }
}
