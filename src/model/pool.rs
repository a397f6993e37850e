//! Values that many objects share, each kept once.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::{HashSet, HashSetExt as _};

/// Values of one type, such as label keys.
#[derive(Debug)]
pub(crate) struct Pool<T: ?Sized> {
    /// With a hash that is fast for short texts: each event of a node looks up some thirty of them.
    interned: HashSet<Arc<T>>,
    /// The size at which values without users are dropped.
    sweep_at: usize,
}

impl<T: ?Sized> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { interned: self.interned.clone(), sweep_at: self.sweep_at }
    }
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { interned: HashSet::new(), sweep_at: 0 }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    /// Returns the one copy of `value`.
    pub(crate) fn intern<'a>(&mut self, value: &'a T) -> Arc<T>
    where
        Arc<T>: From<&'a T>,
    {
        if let Some(interned) = self.interned.get(value) {
            return Arc::clone(interned);
        }
        if self.interned.len() >= self.sweep_at {
            self.interned.retain(|interned| Arc::strong_count(interned) > 1);
            self.sweep_at = 2 * self.interned.len().max(1024);
        }
        let interned = Arc::from(value);
        self.interned.insert(Arc::clone(&interned));
        interned
    }

    /// Gives back a value that [`Self::intern`] has returned. It is dropped at once if it was the last: large values must
    /// not wait until there are thousands of them.
    pub(crate) fn release(&mut self, value: Arc<T>) {
        // This one, and that of the pool.
        if Arc::strong_count(&value) == 2 {
            self.interned.remove(&*value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_drops_values_that_nothing_uses() {
        let mut pool = Pool::<str>::default();
        for number in 0..10_000 {
            pool.intern(&number.to_string());
        }
        assert!(pool.interned.len() <= 2048, "{}", pool.interned.len());
        let kept = pool.intern("kept");
        assert!(Arc::ptr_eq(&kept, &pool.intern("kept")));
    }

    #[test]
    fn pool_drops_the_last_of_a_value_that_is_released() {
        let mut pool = Pool::<str>::default();
        let (one, other) = (pool.intern("a"), pool.intern("a"));
        pool.release(one);
        assert_eq!(pool.interned.len(), 1);
        pool.release(other);
        assert_eq!(pool.interned.len(), 0);
    }
}
