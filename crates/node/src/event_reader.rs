//! placeholder
#![allow(missing_docs)]
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum ReadEvent { Record(u64), UpToDate }
pub struct EventReader;
impl EventReader {
    pub fn next(&mut self, _into: &mut Vec<u8>) -> ReadEvent { ReadEvent::UpToDate }
    pub fn read_at<'a>(&mut self, _no: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> { Some(into) }
}
