//! Tests of the room from outside.

mod conformance;
mod interruption;
mod robustness;
mod simulation;
mod specs;
