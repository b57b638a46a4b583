//! How Go writes a node in its messages: `executing "x" at <.a.b | quote>`.

use std::fmt::{self, Display, Formatter};

use crate::ast::{Command, Expr, Pipe};

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.declare.is_empty() {
            write!(f, "{} {} ", self.declare.join(", "), if self.assign { "=" } else { ":=" })?;
        }
        for (index, command) in self.commands.iter().enumerate() {
            if index > 0 {
                f.write_str(" | ")?;
            }
            command.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, argument) in self.arguments.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            match argument {
                Expr::Pipe(pipe) => write!(f, "({pipe})")?,
                other => other.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dot(_) => f.write_str("."),
            Self::Nil(_) => f.write_str("nil"),
            Self::Bool(_, value) => value.fmt(f),
            Self::Number(_, number) => f.write_str(&number.text),
            Self::Text(_, quoted, _) => f.write_str(quoted),
            Self::Field(_, names) => {
                for name in names {
                    write!(f, ".{name}")?;
                }
                Ok(())
            }
            Self::Variable(_, names) => f.write_str(&names.join(".")),
            Self::Function(_, name) => f.write_str(name),
            Self::Chain(_, node, names) => {
                match &**node {
                    Self::Pipe(pipe) => write!(f, "({pipe})")?,
                    other => other.fmt(f)?,
                }
                for name in names {
                    write!(f, ".{name}")?;
                }
                Ok(())
            }
            Self::Pipe(pipe) => pipe.fmt(f),
        }
    }
}
