//! The cage with a real program inside that tells what it sees.

mod ends;
mod levels;
mod networks;
