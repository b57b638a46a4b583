//! Git providers. Here so far: the built-in host, bare repositories in a folder, served by Git itself.
//!
//! In: folders, CGI requests. Out: references, commits, streams of bytes. It knows no HTTP server, no
//! accounts and no database; who may push and what a push starts is decided elsewhere.

pub mod builtin;
