//! Real order flow from the files, through the oracle, into a slow and obvious book.
//!
//! `WEIR_DATA` is the directory of the files. Without it the tests that need them print a warning
//! and check nothing; the shipped sample is always checked.

mod files;
mod hostile;
mod sample;
mod slow_book;
