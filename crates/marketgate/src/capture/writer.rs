//! Writes captures: pcap with nanosecond time stamps, gzip-compressed if the name ends in `.gz`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_feed::capture::{Datagram, put_datagram, put_file_header};

enum Output {
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

/// Writes one capture file.
pub struct CaptureWriter {
    output: Output,
    record: Vec<u8>,
    written: u64,
    refused: u64,
}

impl std::fmt::Debug for CaptureWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureWriter").field("written", &self.written).finish_non_exhaustive()
    }
}

impl CaptureWriter {
    /// Creates the file, which must not exist yet.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn create(path: &Path) -> io::Result<CaptureWriter> {
        let file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
        let output = if path.extension().is_some_and(|extension| extension == "gz") {
            Output::Compressed(GzEncoder::new(file, Compression::fast()))
        } else {
            Output::Plain(file)
        };
        let mut writer = CaptureWriter { output, record: Vec::new(), written: 0, refused: 0 };
        put_file_header(&mut writer.record);
        writer.put_record()?;
        Ok(writer)
    }

    /// Appends a datagram; one that a capture cannot hold is only counted.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn write(&mut self, datagram: &Datagram<'_>) -> io::Result<()> {
        if put_datagram(&mut self.record, datagram).is_err() {
            self.refused += 1;
            return Ok(());
        }
        self.written += 1;
        self.put_record()
    }

    /// The numbers of datagrams written and of datagrams refused.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.written, self.refused)
    }

    /// Flushes all buffered records to the operating system.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Plain(file) => file.flush(),
            Output::Compressed(file) => file.flush(),
        }
    }

    /// Finishes the file.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn finish(self) -> io::Result<()> {
        match self.output {
            Output::Plain(mut file) => file.flush(),
            Output::Compressed(file) => file.finish()?.flush(),
        }
    }

    fn put_record(&mut self) -> io::Result<()> {
        let done = match &mut self.output {
            Output::Plain(file) => file.write_all(&self.record),
            Output::Compressed(file) => file.write_all(&self.record),
        };
        self.record.clear();
        done
    }
}
