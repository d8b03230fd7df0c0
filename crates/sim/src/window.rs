//! A list whose beginning can be forgotten, while every item keeps its index.
//!
//! The oracle of a run that lasts for hours would otherwise keep all of it.

/// The list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<T> {
    /// The number of items that were forgotten.
    forgotten: usize,
    kept: Vec<T>,
}

impl<T> Default for Window<T> {
    fn default() -> Window<T> {
        Window::EMPTY
    }
}

impl<T> Window<T> {
    /// Without an item.
    pub const EMPTY: Window<T> = Window { forgotten: 0, kept: Vec::new() };

    /// The number of items, with the forgotten ones: the index of the next one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.forgotten + self.kept.len()
    }

    /// True if there never was an item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of the first item that is kept.
    #[must_use]
    pub fn begin(&self) -> usize {
        self.forgotten
    }

    /// The items that are kept.
    #[must_use]
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// The kept items from an index on.
    #[must_use]
    pub fn from(&self, index: usize) -> &[T] {
        self.kept.get(index.saturating_sub(self.forgotten)..).unwrap_or_default()
    }

    /// The item with this index; `None` if it is forgotten or does not exist.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.kept.get(index.checked_sub(self.forgotten)?)
    }

    /// The last item, if it is kept.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.kept.last()
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.kept.push(item);
    }

    /// Appends items.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        self.kept.extend(items);
    }

    /// Removes the items from an index on.
    ///
    /// # Panics
    /// When it is the index of a forgotten item.
    pub fn truncate(&mut self, len: usize) {
        let kept = len.checked_sub(self.forgotten).expect("no forgotten item is removed");
        self.kept.truncate(kept);
    }

    /// Removes all kept items; the next one gets the index of the first of them.
    pub fn take_kept(&mut self) -> Vec<T> {
        std::mem::take(&mut self.kept)
    }

    /// Forgets the items before an index, and returns them.
    pub fn forget_before(&mut self, index: usize) -> Vec<T> {
        let count = index.saturating_sub(self.forgotten).min(self.kept.len());
        self.forgotten += count;
        self.kept.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_index_when_those_before_them_are_forgotten() {
        let mut window = Window::default();
        window.extend(0..10);
        assert_eq!(window.forget_before(4), [0, 1, 2, 3]);
        assert!(window.forget_before(2).is_empty());
        assert_eq!((window.begin(), window.len()), (4, 10));
        assert_eq!((window.get(3), window.get(4), window.get(10)), (None, Some(&4), None));
        assert_eq!((window.from(0), window.from(8)), (&[4, 5, 6, 7, 8, 9][..], &[8, 9][..]));
        assert!(window.from(11).is_empty());
        window.truncate(6);
        window.push(60);
        assert_eq!((window.kept(), window.last()), (&[4, 5, 60][..], Some(&60)));
        assert_eq!(window.take_kept(), [4, 5, 60]);
        window.push(40);
        assert_eq!(window.get(4), Some(&40));
        assert_eq!(window.forget_before(100), [40]);
        assert_eq!((window.len(), window.last()), (5, None));
    }
}
