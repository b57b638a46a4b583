//! How much one GraphQL document may ask for, wherever GraphQL is served.
//!
//! In: a document. Out: a refusal with a sentence, before anything of it runs. Does not know any schema.

mod document;

pub use document::DocumentLimits;

pub const DEPTH_MAX: usize = 12;
pub const COMPLEXITY_MAX: usize = 1000;
pub const RECURSION_MAX: usize = 32;
pub const DIRECTIVES_MAX: usize = 5;
/// Of a WebSocket.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
