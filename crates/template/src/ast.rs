//! The tree of a template. Positions are byte offsets into the text it was read from.

use crate::number::Number;

pub(crate) type Pos = usize;

#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template { pos: Pos, name: String, pipe: Option<Pipe> },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) list: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) pos: Pos,
    pub(crate) declare: Vec<String>,
    /// `=` instead of `:=`.
    pub(crate) assign: bool,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) pos: Pos,
    pub(crate) arguments: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Dot(Pos),
    Nil(Pos),
    Bool(Pos, bool),
    Number(Pos, Number),
    /// As written, and as it reads.
    Text(Pos, String, String),
    Field(Pos, Vec<String>),
    Variable(Pos, Vec<String>),
    Function(Pos, String),
    Chain(Pos, Box<Expr>, Vec<String>),
    Pipe(Pipe),
}

impl Expr {
    pub(crate) fn pos(&self) -> Pos {
        match self {
            Self::Dot(pos)
            | Self::Nil(pos)
            | Self::Bool(pos, _)
            | Self::Number(pos, _)
            | Self::Text(pos, ..)
            | Self::Field(pos, _)
            | Self::Variable(pos, _)
            | Self::Function(pos, _)
            | Self::Chain(pos, ..) => *pos,
            Self::Pipe(pipe) => pipe.pos,
        }
    }
}

/// One defined template.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    /// Nothing but white space: such a definition gives way to another.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
    }
}
