//! Real order flow from the files, through the oracle, into a slow and obvious book.
//!
//! The files are found by `WEIR_DATA`. Without it the tests that need them say so, loudly, and
//! check nothing; the shipped sample is checked always.

mod files;
mod hostile;
mod sample;
mod slow_book;
