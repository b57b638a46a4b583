//! The engine as its shell uses it, against a cluster made of a map.

mod appset;
mod compare;
mod golden;
mod health;
mod health_scripts;
mod interruption;
mod scale;
mod sim;
mod sync;
mod truth;
