//! A value that cannot be printed, logged or serialised by accident.

/// Holds a secret. It has no `Debug`, `Display` or `Serialize`: a leak is a compile error first.
#[derive(Clone)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The one door out; whoever calls it is where a reviewer looks.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}
