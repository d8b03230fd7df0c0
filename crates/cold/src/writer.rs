//! Writing a segment, entry by entry, and opening one.
//!
//! A segment is written to a part file, which is synced and then renamed. Opening checks the
//! header, the footer and the index; a block is checked when it is read.

use weir_io::{Access, Disk, DiskError, DiskErrorKind, FileId};
use weir_types::ChangeId;

use crate::block::{Block, BlockError, StoredBlock, pack};
use crate::entry::Image;
use crate::segment::{
    BlockSummary, ENTRY_LEN, FOOTER_LEN, Fault, Footer, HEADER_LEN, Header, PART_SUFFIX, Segment,
};

/// Bytes per write.
const WRITE_LEN: usize = 1 << 20;

/// A segment in progress. To give it up, the caller calls [`SegmentWriter::discard`].
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    header: Header,
    file: FileId,
    /// The bytes in the file, and those still to be written.
    written: u64,
    out: Vec<u8>,
    images: Vec<u8>,
    attributes: Vec<u8>,
    summary: BlockSummary,
    block_entries: u32,
    index: Vec<u8>,
    entry_count: u64,
}

impl SegmentWriter {
    pub(crate) fn create<D: Disk>(
        disk: &mut D,
        header: Header,
        block_entries: u32,
    ) -> Result<SegmentWriter, DiskError> {
        let file = disk.create(&part_name(&header))?;
        Ok(SegmentWriter {
            header,
            file,
            written: 0,
            out: header.encode().to_vec(),
            images: Vec::new(),
            attributes: Vec::new(),
            summary: BlockSummary::new(HEADER_LEN as u64),
            block_entries,
            index: Vec::new(),
            entry_count: 0,
        })
    }

    /// Adds an entry; entries come in the order of their places.
    pub(crate) fn push<D: Disk>(
        &mut self,
        disk: &mut D,
        image: Image<'_>,
        attributes: &[u8],
    ) -> Result<(), DiskError> {
        let change_id = image.change_id();
        assert!(
            change_id >= self.summary.last && change_id > self.header.after,
            "in order of places"
        );
        // A record and the mark of its former keys stay together, so that a page can end between
        // any two blocks.
        if self.summary.count >= self.block_entries && change_id > self.summary.last {
            self.end_block(disk)?;
        }
        self.summary.add(change_id, image.keys().to_words());
        self.images.extend_from_slice(image.0);
        self.attributes.extend_from_slice(attributes);
        Ok(())
    }

    fn end_block<D: Disk>(&mut self, disk: &mut D) -> Result<(), DiskError> {
        if self.summary.count == 0 {
            return Ok(());
        }
        self.summary.parts = pack(&self.images, &self.attributes, &mut self.out);
        self.entry_count += u64::from(self.summary.count);
        self.summary.put(&mut self.index);
        self.images.clear();
        self.attributes.clear();
        let last = self.summary.last;
        self.summary = BlockSummary::new(self.written + self.out.len() as u64);
        self.summary.last = last;
        if self.out.len() >= WRITE_LEN { self.flush(disk) } else { Ok(()) }
    }

    fn flush<D: Disk>(&mut self, disk: &mut D) -> Result<(), DiskError> {
        disk.write_all(self.file, self.written, &self.out)?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes the rest and gives the file its name. When it returns, the segment survives a power
    /// loss.
    pub(crate) fn finish<D: Disk>(mut self, disk: &mut D) -> Result<Segment, DiskError> {
        let made = self.write_end(disk);
        disk.forget_cached(self.file);
        disk.close(self.file);
        let file_len = match made {
            Ok(file_len) => file_len,
            Err(error) => {
                // Nothing refers to the part file, so a failure to remove it as well has no effect.
                let _ = disk.remove(&part_name(&self.header));
                return Err(error);
            }
        };
        disk.rename(&part_name(&self.header), &self.header.file_name())?;
        disk.sync_dir()?;
        Ok(Segment::new(self.header, self.index, file_len).expect("it was written in order"))
    }

    fn write_end<D: Disk>(&mut self, disk: &mut D) -> Result<u64, DiskError> {
        self.end_block(disk)?;
        let footer = Footer {
            index_at: self.written + self.out.len() as u64,
            index_crc: crc32c::crc32c(&self.index),
            block_count: u32::try_from(self.index.len() / ENTRY_LEN).expect("blocks are few"),
            entry_count: self.entry_count,
            header_crc: crc32c::crc32c(&self.header.encode()),
        };
        self.out.extend_from_slice(&self.index);
        self.out.extend_from_slice(&footer.encode());
        self.flush(disk)?;
        disk.sync(self.file)?;
        Ok(self.written)
    }

    /// Discards the file.
    pub(crate) fn discard<D: Disk>(self, disk: &mut D) {
        disk.close(self.file);
        // Nothing refers to the part file, and the next start removes it.
        let _ = disk.remove(&part_name(&self.header));
    }
}

fn part_name(header: &Header) -> String {
    header.file_name() + PART_SUFFIX
}

/// The reason that a file is not a readable segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is damaged.
    #[error("{file}: {fault}")]
    Damaged {
        /// The file.
        file: String,
        /// The fault and its position.
        fault: Fault,
    },
}

impl SegmentError {
    /// True when the file will never be valid or present again: it is then given up together with
    /// older ones. A failed disk may work again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            SegmentError::Damaged { .. } => true,
            SegmentError::Disk(error) => error.kind == DiskErrorKind::NotFound,
        }
    }

    pub(crate) fn of(file: &str, error: BlockError) -> SegmentError {
        match error {
            BlockError::Disk(error) => SegmentError::Disk(error),
            BlockError::Fault(fault) => SegmentError::Damaged { file: file.to_owned(), fault },
        }
    }
}

/// Reads the header, footer and index of the file `name`.
///
/// # Errors
/// [`SegmentError`], with the fault.
pub(crate) fn open_segment<D: Disk>(disk: &mut D, name: &str) -> Result<Segment, SegmentError> {
    let file = disk.open(name, Access::Read)?;
    let opened = read_segment(disk, file, name);
    disk.close(file);
    opened.map_err(|error| SegmentError::of(name, error))
}

fn read_segment<D: Disk>(disk: &mut D, file: FileId, name: &str) -> Result<Segment, BlockError> {
    let fault = |fault| Err(BlockError::Fault(fault));
    let file_len = disk.len(file)?;
    let mut head = [0; HEADER_LEN];
    let got = disk.read(file, 0, &mut head)?;
    let header = Header::decode(&head[..got]).map_err(BlockError::Fault)?;
    if header.file_name() != name {
        return fault(Fault::OtherName);
    }
    if file_len < (HEADER_LEN + FOOTER_LEN) as u64 {
        return fault(Fault::Truncated(file_len));
    }
    let mut foot = [0; FOOTER_LEN];
    if disk.read(file, file_len - FOOTER_LEN as u64, &mut foot)? != FOOTER_LEN {
        return fault(Fault::Truncated(file_len));
    }
    let footer = Footer::decode(&foot, file_len).map_err(BlockError::Fault)?;
    if footer.header_crc != crc32c::crc32c(&head) {
        return fault(Fault::Footer(file_len - FOOTER_LEN as u64));
    }
    let mut index = vec![0; footer.block_count as usize * ENTRY_LEN];
    let got = disk.read(file, footer.index_at, &mut index)?;
    if got != index.len() || crc32c::crc32c(&index) != footer.index_crc {
        return fault(Fault::Index(footer.index_at));
    }
    let segment = Segment::new(header, index, file_len).map_err(BlockError::Fault)?;
    match segment.entry_count == footer.entry_count {
        true => Ok(segment),
        false => fault(Fault::Footer(file_len - FOOTER_LEN as u64)),
    }
}

/// Calls `visit` with each entry's place and whether it is a mark, in order.
pub(crate) fn visit_keys<D: Disk>(
    disk: &mut D,
    segment: &Segment,
    mut visit: impl FnMut(ChangeId, bool),
) -> Result<(), SegmentError> {
    let name = segment.header.file_name();
    let file = disk.open(&name, Access::Read)?;
    let mut block = Block::default();
    let mut visited = Ok(());
    for number in 0..segment.block_count() {
        let index = segment.block(number);
        visited = block.read_keys(&mut StoredBlock { disk: &mut *disk, file, number, index });
        if visited.is_err() {
            break;
        }
        for index in 0..block.len() {
            let image = block.image(index);
            visit(image.change_id(), image.is_mark());
        }
    }
    disk.forget_cached(file);
    disk.close(file);
    visited.map_err(|error| SegmentError::of(&name, error))
}
