//! Tests of the room from outside.

mod kubernetes;
mod limits;
mod pipeline;
mod places;
