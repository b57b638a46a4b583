//! Tests of the room from outside.

mod conformance;
mod interruption;
mod simulation;
mod specs;
