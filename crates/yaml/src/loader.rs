//! Events → tree: anchors, aliases, merge keys, repeated keys, and budgets against hostile text.

use std::borrow::Cow;
use std::collections::HashMap;

use libyaml_safer::{Error, Event, EventData, Mark, Parser, ScalarStyle};

use crate::scalar::{RawScalar, resolve};
use crate::{Dialect, Node, NodeKind, Span, YamlError};

/// What one text may cost. A stream past a limit is refused with the place where it went past.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of text.
    pub text_bytes: usize,
    /// Nesting of collections; the tree is walked recursively by its readers.
    pub depth: usize,
    /// Nodes that aliases may add by being expanded (the "billion laughs" budget).
    pub alias_nodes: usize,
    /// Scalar bytes that aliases may add.
    pub alias_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text_bytes: 16 << 20, depth: 256, alias_nodes: 200_000, alias_bytes: 16 << 20 }
    }
}

/// Reads every document of a text with the usual limits.
pub fn parse(text: &str, dialect: Dialect) -> Result<Vec<Node>, Vec<YamlError>> {
    parse_with(text, dialect, &Limits::default())
}

/// Reads every document of a text. The error carries every finding, in file order.
pub fn parse_with(text: &str, dialect: Dialect, limits: &Limits) -> Result<Vec<Node>, Vec<YamlError>> {
    if text.len() > limits.text_bytes {
        let message = format!("the text has {} bytes; the limit is {}", text.len(), limits.text_bytes);
        return Err(vec![YamlError { line: 1, column: 1, message }]);
    }
    let new = || Loader {
        dialect,
        limits,
        budget: Budget::default(),
        findings: Vec::new(),
        reached: Span::start(),
    };
    let mut text = Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut loader = new();
    let mut documents = loader.load_fenced(&text);
    for _ in 0..BLANK_TABS_MAX.min(BYTES_AGAIN_MAX / text.len().max(1)) {
        let Some(without) = documents.as_ref().err().and_then(|fatal| without_blank_tabs(&text, fatal.line))
        else {
            break;
        };
        text = Cow::Owned(without);
        loader = new();
        documents = loader.load_fenced(&text);
    }
    let documents = documents.unwrap_or_else(|fatal| {
        loader.findings.extend(indentation_tabs(&text, &fatal));
        loader.findings.push(fatal);
        Vec::new()
    });
    if loader.findings.is_empty() {
        return Ok(documents);
    }
    loader.findings.sort_by_key(|finding| (finding.line, finding.column));
    loader.findings.dedup();
    Err(loader.findings)
}

/// What copies have cost so far: by aliases, and by anchors that are kept for them.
#[derive(Default)]
struct Budget {
    alias_nodes: usize,
    alias_bytes: usize,
    anchor_nodes: usize,
    anchor_bytes: usize,
}

/// Anchors around anchors copy the same text again and again; an honest file copies most of it once.
const ANCHOR_SHARE: usize = 4;

struct Loader<'a> {
    dialect: Dialect,
    limits: &'a Limits,
    budget: Budget,
    findings: Vec<YamlError>,
    /// The last place the parser spoke of.
    reached: Span,
}

/// A finished subtree with what copying it costs.
#[derive(Clone)]
struct Built {
    node: Node,
    nodes: usize,
    bytes: usize,
    /// Written as a plain, untagged `<<`: only then is a key a merge key.
    merge_key: bool,
}

enum Frame {
    Sequence {
        items: Vec<Node>,
        span: Span,
        anchor: Option<String>,
        nodes: usize,
        bytes: usize,
    },
    Mapping {
        entries: Vec<Entry>,
        key: Option<Built>,
        span: Span,
        anchor: Option<String>,
        nodes: usize,
        bytes: usize,
    },
}

struct Entry {
    key: Node,
    value: Node,
    merge: bool,
}

impl Loader<'_> {
    /// The parser is a port that asserts in a few corners (a tag before a comma, for one); hostile
    /// text must be a finding there too, never the end of the process.
    fn load_fenced(&mut self, text: &str) -> Result<Vec<Node>, YamlError> {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.load(text)));
        result.unwrap_or_else(|_| {
            let message =
                "the text after this place cannot be read; look for tags and quotes that do not belong";
            Err(YamlError::at(self.reached, message))
        })
    }

    fn load(&mut self, original: &str) -> Result<Vec<Node>, YamlError> {
        // The port cannot end inside a block scalar, so every text ends with a line break; what this
        // adds to a last block scalar is taken away again.
        let text = if original.ends_with('\n') {
            Cow::Borrowed(original)
        } else {
            Cow::Owned(format!("{original}\n"))
        };
        let mut input = text.as_bytes();
        let mut parser = Parser::new();
        parser.set_input_string(&mut input);
        let mut documents = Vec::new();
        let mut anchors: HashMap<String, Option<Built>> = HashMap::new();
        let mut stack: Vec<Frame> = Vec::new();
        let mut root: Option<Node> = None;
        loop {
            let event = parser.parse().map_err(|error| syntax_error(&error, original))?;
            let span = span_of(&event);
            self.reached = span;
            let built = match event.data {
                EventData::StreamStart { .. } => continue,
                EventData::StreamEnd => return Ok(documents),
                EventData::DocumentStart { .. } => {
                    anchors.clear();
                    root = None;
                    continue;
                }
                EventData::DocumentEnd { .. } => {
                    documents.push(root.take().unwrap_or_else(|| Node::new(NodeKind::Null, span)));
                    continue;
                }
                EventData::SequenceStart { anchor, .. } => {
                    self.check_depth(stack.len(), span)?;
                    if let Some(name) = &anchor {
                        anchors.insert(name.clone(), None);
                    }
                    stack.push(Frame::Sequence { items: Vec::new(), span, anchor, nodes: 1, bytes: 0 });
                    continue;
                }
                EventData::MappingStart { anchor, .. } => {
                    self.check_depth(stack.len(), span)?;
                    if let Some(name) = &anchor {
                        anchors.insert(name.clone(), None);
                    }
                    stack.push(Frame::Mapping {
                        entries: Vec::new(),
                        key: None,
                        span,
                        anchor,
                        nodes: 1,
                        bytes: 0,
                    });
                    continue;
                }
                EventData::SequenceEnd | EventData::MappingEnd => {
                    let frame = stack.pop().expect("libyaml pairs every end with a start");
                    let (built, anchor) = self.finish(frame, span);
                    self.keep(anchor, &built, &mut anchors, span)?;
                    built
                }
                EventData::Scalar { anchor, tag, mut value, style, .. } => {
                    let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                    let at_end = event.end_mark.index as usize > original.len();
                    // js-yaml ends every text with a line break, as the added one does.
                    if block && at_end && self.dialect == Dialect::Kubernetes {
                        restore_end(&mut value, original, event.start_mark);
                    }
                    let plain = style == ScalarStyle::Plain;
                    let raw = RawScalar { value: &value, tag: tag.as_deref(), plain };
                    let kind = resolve(&raw, self.dialect).unwrap_or_else(|message| {
                        self.findings.push(YamlError::at(span, message));
                        NodeKind::Null
                    });
                    let built = Built {
                        node: Node::new(kind, span),
                        nodes: 1,
                        bytes: value.len(),
                        merge_key: plain && tag.is_none() && value == "<<",
                    };
                    self.keep(anchor, &built, &mut anchors, span)?;
                    built
                }
                EventData::Alias { anchor } => self.expand(&anchor, &anchors, span)?,
            };
            match stack.last_mut() {
                Some(frame) => frame.push(built),
                None => root = Some(built.node),
            }
        }
    }

    fn check_depth(&self, depth: usize, span: Span) -> Result<(), YamlError> {
        if depth < self.limits.depth {
            return Ok(());
        }
        Err(YamlError::at(
            span,
            format!("nested deeper than {} levels; flatten the document", self.limits.depth),
        ))
    }

    fn keep(
        &mut self,
        anchor: Option<String>,
        built: &Built,
        anchors: &mut HashMap<String, Option<Built>>,
        span: Span,
    ) -> Result<(), YamlError> {
        let Some(name) = anchor else { return Ok(()) };
        self.budget.anchor_nodes += built.nodes;
        self.budget.anchor_bytes += built.bytes;
        if self.budget.anchor_nodes > ANCHOR_SHARE * self.limits.alias_nodes
            || self.budget.anchor_bytes > ANCHOR_SHARE * self.limits.alias_bytes
        {
            return Err(YamlError::at(span, "anchors hold more data than is allowed; write fewer of them"));
        }
        anchors.insert(name, Some(built.clone()));
        Ok(())
    }

    fn expand(
        &mut self,
        name: &str,
        anchors: &HashMap<String, Option<Built>>,
        span: Span,
    ) -> Result<Built, YamlError> {
        let built = match anchors.get(name) {
            Some(Some(built)) => built,
            Some(None) => {
                return Err(YamlError::at(
                    span,
                    format!("the anchor `&{name}` contains itself through `*{name}`"),
                ));
            }
            None => {
                let message = format!("the alias `*{name}` has no anchor above it; add `&{name}` to a value");
                return Err(YamlError::at(span, message));
            }
        };
        self.budget.alias_nodes += built.nodes;
        self.budget.alias_bytes += built.bytes;
        if self.budget.alias_nodes > self.limits.alias_nodes
            || self.budget.alias_bytes > self.limits.alias_bytes
        {
            return Err(YamlError::at(
                span,
                "aliases expand to more data than is allowed; write fewer of them",
            ));
        }
        Ok(Built { merge_key: false, ..built.clone() })
    }

    fn finish(&mut self, frame: Frame, end: Span) -> (Built, Option<String>) {
        match frame {
            Frame::Sequence { items, span, anchor, nodes, bytes } => {
                let span = closed(span, items.last().map(|item| item.span), end);
                let node = Node::new(NodeKind::Sequence(items), span);
                (Built { node, nodes, bytes, merge_key: false }, anchor)
            }
            Frame::Mapping { entries, span, anchor, nodes, bytes, .. } => {
                let span = closed(span, entries.last().map(|entry| entry.value.span), end);
                let entries = self.settle(entries);
                let node = Node::new(NodeKind::Mapping(entries), span);
                (Built { node, nodes, bytes, merge_key: false }, anchor)
            }
        }
    }

    /// Applies merge keys and the dialect's rule for repeated keys.
    fn settle(&mut self, entries: Vec<Entry>) -> Vec<(Node, Node)> {
        let mut settled = Settled::default();
        for Entry { key, value, merge } in entries {
            if merge {
                self.merge(&mut settled, &key, value);
                continue;
            }
            let text = self.key_of(&key);
            let key = if key.is_mapping() || key.is_sequence() {
                Node::new(NodeKind::String(text.clone()), key.span)
            } else {
                key
            };
            match settled.index.get(&text) {
                None => settled.push(text, key, value, false),
                Some(&at) if settled.merged[at] => settled.replace(at, key, value),
                Some(&at) => {
                    let first = settled.entries[at].0.span;
                    if self.dialect == Dialect::Pipeline {
                        let message = format!(
                            "the key `{text}` is written twice; the first is at {}:{}; keep one of them",
                            first.line, first.column
                        );
                        self.findings.push(YamlError::at(key.span, message));
                    }
                    settled.replace(at, key, value);
                }
            }
        }
        settled.entries
    }

    fn merge(&mut self, settled: &mut Settled, key: &Node, value: Node) {
        let sources = match value.kind {
            NodeKind::Mapping(entries) => vec![entries],
            NodeKind::Sequence(items) if items.iter().all(Node::is_mapping) => items
                .into_iter()
                .map(|item| if let NodeKind::Mapping(entries) = item.kind { entries } else { Vec::new() })
                .collect(),
            _ => {
                let message = "`<<` takes a mapping, or a list of mappings, usually through an alias";
                self.findings.push(YamlError::at(key.span, message));
                return;
            }
        };
        // Within one `<<` the first source that has a key gives it.
        let mut given: HashMap<String, ()> = HashMap::new();
        for (key, value) in sources.into_iter().flatten() {
            let text = self.key_of(&key);
            if given.insert(text.clone(), ()).is_some() {
                continue;
            }
            match settled.index.get(&text) {
                None => settled.push(text, key, value, true),
                // go-yaml v2 writes merged keys at the place of the `<<`, over what stands above it.
                Some(&at) if self.dialect == Dialect::Kubernetes => {
                    settled.replace(at, key, value);
                    settled.merged[at] = true;
                }
                Some(_) => {}
            }
        }
    }

    /// The text under which a key is stored. JSON has no other keys than text, so what Kubernetes
    /// could not store is an error; js-yaml makes text of everything.
    fn key_of(&mut self, key: &Node) -> String {
        let strict = self.dialect == Dialect::Kubernetes;
        match &key.kind {
            NodeKind::Null if strict => {
                self.findings
                    .push(YamlError::at(key.span, "a key may not be empty or null; quote it or name it"));
            }
            NodeKind::Sequence(_) | NodeKind::Mapping(_) if strict => {
                let message = "a key may not be a list or a map; text that starts with `{` has to be quoted";
                self.findings.push(YamlError::at(key.span, message));
            }
            NodeKind::Mapping(_) => return "[object Object]".to_owned(),
            NodeKind::Sequence(items) => {
                return items.iter().map(Node::key_text).collect::<Vec<_>>().join(",");
            }
            _ => {}
        }
        key.key_text()
    }
}

#[derive(Default)]
struct Settled {
    entries: Vec<(Node, Node)>,
    merged: Vec<bool>,
    index: HashMap<String, usize>,
}

impl Settled {
    fn push(&mut self, text: String, key: Node, value: Node, merged: bool) {
        self.index.insert(text, self.entries.len());
        self.entries.push((key, value));
        self.merged.push(merged);
    }

    fn replace(&mut self, at: usize, key: Node, value: Node) {
        self.entries[at] = (key, value);
        self.merged[at] = false;
    }
}

impl Frame {
    fn push(&mut self, built: Built) {
        match self {
            Frame::Sequence { items, nodes, bytes, .. } => {
                *nodes += built.nodes;
                *bytes += built.bytes;
                items.push(built.node);
            }
            Frame::Mapping { entries, key, nodes, bytes, .. } => {
                *nodes += built.nodes;
                *bytes += built.bytes;
                match key.take() {
                    None => *key = Some(built),
                    Some(first) => {
                        entries.push(Entry { key: first.node, value: built.node, merge: first.merge_key });
                    }
                }
            }
        }
    }
}

/// A block collection ends, for libyaml, where the next token starts; a reader wants its last line.
fn closed(start: Span, last: Option<Span>, end: Span) -> Span {
    let flow = end.line != end.end_line || end.column != end.end_column;
    let (end_line, end_column) = match last {
        Some(last) if !flow => (last.end_line, last.end_column),
        _ => (end.end_line, end.end_column),
    };
    Span { end_line, end_column, ..start }
}

/// Takes back what the added line break did to a block scalar that runs to the end of the text:
/// libyaml gives `text` for `|` + `text` without a final break, and Kubernetes users see the difference.
fn restore_end(value: &mut String, original: &str, start: Mark) {
    let header = original.get(start.index as usize..).unwrap_or_default();
    let keeps = header.split_whitespace().next().is_some_and(|header| header.contains('+'));
    let last_line = original.rsplit('\n').next().unwrap_or_default();
    let indent_of = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let indent = header.lines().skip(1).find(|line| !line.trim().is_empty()).map_or(usize::MAX, indent_of);
    // A last line of spaces is empty up to the indentation, and text beyond it.
    let has_content = !last_line.trim_matches(' ').is_empty() || indent_of(last_line) > indent;
    if (has_content || keeps) && value.ends_with('\n') {
        value.pop();
    }
}

fn span_of(event: &Event) -> Span {
    let place = |mark: Mark| (mark.line as usize + 1, mark.column as usize + 1);
    let (line, column) = place(event.start_mark);
    let (end_line, end_column) = place(event.end_mark);
    Span { line, column, end_line, end_column }
}

fn syntax_error(error: &Error, text: &str) -> YamlError {
    let mark = error.problem_mark().unwrap_or_default();
    let (mut line, mut column) = (mark.line as usize + 1, mark.column as usize + 1);
    // What is missing at the end of the text is missing at the end of its last line.
    let lines = text.split('\n').count();
    if line > lines {
        line = lines;
        column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    }
    let character = text.lines().nth(line - 1).and_then(|line| line.chars().nth(column - 1));
    let message = match character {
        Some('\t') => TAB_MESSAGE.to_owned(),
        Some(c @ ('@' | '`')) => format!("a plain value cannot start with `{c}`; put the value in quotes"),
        Some(c @ ('%' | '|' | '>')) if error.problem().contains("cannot start any token") => {
            format!("a plain value cannot start with `{c}`; put the value in quotes")
        }
        _ => match error.context() {
            Some(context) if !context.is_empty() => format!("{} ({context})", error.problem()),
            _ => error.problem().to_owned(),
        },
    };
    YamlError { line, column, message }
}

const TAB_MESSAGE: &str = "a tab is used for indentation; use spaces";

/// How many empty lines with tabs a text may have: each costs another reading, so in a large text it is few, or none.
const BLANK_TABS_MAX: usize = 64;
const BYTES_AGAIN_MAX: usize = 8 << 20;

/// The text with spaces in place of the tabs of one line, if it has nothing else: such a line is empty, but the parser takes
/// it for an indented one. Only the line at which it stopped is changed; in a block scalar it would not have.
fn without_blank_tabs(text: &str, line: usize) -> Option<String> {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let blank = text[start..].split('\n').next()?;
    let only_white = blank.contains('\t') && blank.trim_matches([' ', '\t', '\r']).is_empty();
    only_white.then(|| {
        let end = start + blank.len();
        format!("{}{}{}", &text[..start], blank.replace('\t', " "), &text[end..])
    })
}

/// Every line that starts with a tab, once the text is known to be broken: people fix them together.
fn indentation_tabs(text: &str, fatal: &YamlError) -> Vec<YamlError> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            let at = line[..indent].find('\t')?;
            let blank = indent == line.len();
            (!blank && index + 1 >= fatal.line).then(|| YamlError {
                line: index + 1,
                column: at + 1,
                message: TAB_MESSAGE.to_owned(),
            })
        })
        .collect()
}
