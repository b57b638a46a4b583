//! Tests of the room from outside.

mod emit;
mod kubernetes;
mod limits;
mod pipeline;
mod places;
