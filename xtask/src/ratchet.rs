//! Rooms that grow no further: their number of production lines may fall and never rise.
//!
//! Comes in: the sources of a room. Goes out: how many lines it has and how many it may have. When it has fewer, the
//! number here falls with it.

use std::path::Path;

use anyhow::{Context, bail};

use crate::handlers::collect;

/// The embedded cluster is for trying out and for tests; what is new is judged by a real Kubernetes (decision 0004).
const MOST: [(&str, usize); 1] = [("crates/devcluster/src", DEVCLUSTER)];
const DEVCLUSTER: usize = 15_267;

pub(crate) fn check() -> anyhow::Result<String> {
    let mut said = Vec::new();
    for (folder, most) in MOST {
        let mut files = Vec::new();
        collect(Path::new(folder), &mut files)?;
        let mut lines = 0;
        for path in files.iter().filter(|path| !path.ends_with("tests.rs")) {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            lines += production_lines(&text);
        }
        if lines > most {
            bail!("{folder} has {lines} production lines and may have {most}: it grows no further");
        }
        said.push(format!("{folder} has {lines} production lines of at most {most}"));
    }
    Ok(said.join("\n"))
}

/// Lines before the tests of a file, without empty ones.
fn production_lines(text: &str) -> usize {
    let tests = |line: &&str| !line.starts_with("#[cfg(test)]");
    text.lines().take_while(tests).filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_empty_lines_do_not_count() {
        assert_eq!(production_lines("a\n\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
    }
}
