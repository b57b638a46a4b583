//! What a lifecycle command says while it works: a line for each step, for people, or a line of JSON for programs (`--silent`).

use serde_json::json;

pub(super) struct Progress {
    silent: bool,
    /// `install`, `upgrade`, …
    what: &'static str,
}

impl Progress {
    pub(super) fn new(what: &'static str, silent: bool) -> Self {
        Self { silent, what }
    }

    /// A step begins. Whatever is interrupted after this line is finished by running the command again.
    pub(super) fn begins(&self, step: &str, words: &str) {
        self.say(step, "began", words);
    }

    pub(super) fn done(&self, step: &str, words: &str) {
        self.say(step, "done", words);
    }

    /// Something that is worth knowing meanwhile.
    pub(super) fn waits(&self, step: &str, words: &str) {
        self.say(step, "waiting", words);
    }

    pub(super) fn failed(&self, step: &str, words: &str) {
        self.say(step, "failed", words);
    }

    fn say(&self, step: &str, state: &str, words: &str) {
        if self.silent {
            say!("{}", json!({"command": self.what, "step": step, "state": state, "message": words}));
            return;
        }
        let sign = match state {
            "began" => "…",
            "done" => "✓",
            "failed" => "✗",
            _ => " ",
        };
        note!("{sign} {step}: {words}");
    }
}
