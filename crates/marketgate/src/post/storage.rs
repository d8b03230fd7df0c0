//! The file system of post-processing, behind a seam, so that tests can simulate a full or failing
//! disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A file system for the output.
pub trait Storage: Send {
    /// Creates a file, which must not exist yet.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>>;

    /// Renames a file within its directory, durably: the directory is synced.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Lists the names and lengths in bytes of a directory's files; creates the directory if
    /// missing.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn list(&mut self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
}

/// A file open for writing.
pub trait StoredFile: Write + Send {
    /// Syncs the written bytes to the disk.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn sync(&mut self) -> io::Result<()>;

    /// Truncates the file to a length and continues writing there.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Storage for FileSystem {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // Opened before: a process without a descriptor must not fail between the two.
        let dir = to.parent().map(File::open).transpose()?;
        fs::rename(from, to)?;
        dir.map_or(Ok(()), |dir| dir.sync_all())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&mut self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        fs::create_dir_all(dir)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if let Ok(name) = entry.file_name().into_string()
                && about.is_file()
            {
                files.push((name, about.len()));
            }
        }
        Ok(files)
    }
}

impl StoredFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        use std::io::{Seek as _, SeekFrom};
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(|_| ())
    }
}

#[cfg(test)]
pub(super) mod full {
    //! A file system with limited space.

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// The file system with this many bytes left to write; removing files frees none.
    #[derive(Clone)]
    pub struct LimitedStorage(pub Arc<AtomicU64>);

    struct FillingFile(File, Arc<AtomicU64>);

    impl LimitedStorage {
        /// Creates a file system with this much space.
        pub fn with(bytes: u64) -> LimitedStorage {
            LimitedStorage(Arc::new(AtomicU64::new(bytes)))
        }

        /// Sets the space that is left.
        pub fn set(&self, bytes: u64) {
            self.0.store(bytes, Ordering::SeqCst);
        }
    }

    impl Storage for LimitedStorage {
        fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
            Ok(Box::new(FillingFile(File::create_new(path)?, Arc::clone(&self.0))))
        }
        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            FileSystem.rename(from, to)
        }
        fn remove(&mut self, path: &Path) -> io::Result<()> {
            FileSystem.remove(path)
        }
        fn list(&mut self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
            FileSystem.list(dir)
        }
    }

    impl Write for FillingFile {
        /// A nearly full disk accepts a part.
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let left = self.1.load(Ordering::SeqCst);
            let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1.fetch_sub(taken as u64, Ordering::SeqCst);
            self.0.write(&bytes[..taken])
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl StoredFile for FillingFile {
        fn sync(&mut self) -> io::Result<()> {
            self.0.sync()
        }
        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.0.cut(len)
        }
    }
}
