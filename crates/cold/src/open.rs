//! Changes that were taken and are in no segment yet, in the order of their places.
//!
//! They are in memory only: after a crash the order store must feed them again. All changes of a
//! record are kept until a segment is written, which then gets the last one, and each end.

use weir_io::{Disk, DiskError};
use weir_types::{ChangeId, Nanos};

use crate::entry::{IMAGE_LEN, Image};
use crate::newest::RecSet;
use crate::plant::{self, Plant};
use crate::writer::SegmentWriter;

/// Changes that are not in a segment yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    pub(crate) images: Vec<u8>,
    pub(crate) attributes: Vec<u8>,
    pub(crate) first_time: Nanos,
    pub(crate) last_time: Nanos,
}

impl Open {
    pub(crate) fn bytes(&self) -> u64 {
        (self.images.len() + self.attributes.len()) as u64
    }

    pub(crate) fn images(&self) -> impl Iterator<Item = Image<'_>> {
        self.images.chunks_exact(IMAGE_LEN).map(Image)
    }

    pub(crate) fn note_time(&mut self, time: Nanos) {
        if time == Nanos(0) {
            return;
        }
        if self.first_time == Nanos(0) {
            self.first_time = time;
        }
        self.last_time = self.last_time.max(time);
    }

    /// Drops the changes after `change_id`.
    pub(crate) fn forget_after(&mut self, change_id: ChangeId) {
        let (mut count, mut attributes_len, mut times) = (0, 0, Open::default());
        for image in self.images().take_while(|image| image.change_id() <= change_id) {
            count += 1;
            attributes_len += image.attributes_len();
            times.note_time(image.transact_time());
        }
        self.images.truncate(count * IMAGE_LEN);
        self.attributes.truncate(attributes_len);
        (self.first_time, self.last_time) = (times.first_time, times.last_time);
    }

    /// Writes the last change of each record, and all ends and marks.
    pub(crate) fn write<D: Disk>(
        &self,
        writer: &mut SegmentWriter,
        disk: &mut D,
    ) -> Result<(), DiskError> {
        let count = self.images.len() / IMAGE_LEN;
        let mut is_last = vec![true; count];
        let mut seen = RecSet::default();
        let image = |index: usize| Image(&self.images[index * IMAGE_LEN..(index + 1) * IMAGE_LEN]);
        for index in (0..count).rev() {
            let image = image(index);
            let is_latest = !image.is_mark() && seen.insert(image.change_id().rec);
            is_last[index] = is_latest || !image.may_become_history();
        }
        if plant::is(Plant::LastChangeLost) {
            is_last[count - 1] = count == 1;
        }
        let mut at = 0;
        for (index, is_last) in is_last.into_iter().enumerate() {
            let end = at + image(index).attributes_len();
            if is_last {
                writer.push(disk, image(index), &self.attributes[at..end])?;
            }
            at = end;
        }
        Ok(())
    }
}
