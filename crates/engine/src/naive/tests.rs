//! The naive engine against the page's tables.
