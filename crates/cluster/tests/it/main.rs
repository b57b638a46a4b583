//! The room against the embedded cluster, and against a server that misbehaves on purpose.

mod embedded;
mod scripted;
