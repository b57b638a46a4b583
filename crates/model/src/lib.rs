//! Room `model`.
