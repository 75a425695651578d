//! A part of a world that its copies share until one of them changes it. An explored state is copied for each step that
//! is tried, and most steps change one client.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub(super) struct OnWrite<T>(Arc<T>);

impl<T> From<T> for OnWrite<T> {
    fn from(part: T) -> Self {
        Self(Arc::new(part))
    }
}

impl<T> Deref for OnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for OnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}
