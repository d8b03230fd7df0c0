//! Where post-processing puts its files: the file system, behind a seam, so that a disk that fills
//! up or fails can be tried.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A place for files.
pub trait Storage: Send {
    /// A new file, which must not be there yet.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>>;

    /// Gives a file another name in the same directory, for good: the directory is synced.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file away.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Names and lengths in bytes of the files of a directory, which is made when it is not there.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn list(&mut self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
}

/// A file that is written.
pub trait StoredFile: Write + Send {
    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to a length, after which writing goes on.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Storage for FileSystem {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        to.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
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
    //! A file system that has only so much room.

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// The file system with so many bytes left to write; removing files gives none back.
    #[derive(Clone)]
    pub struct Filling(pub Arc<AtomicU64>);

    struct FillingFile(File, Arc<AtomicU64>);

    impl Filling {
        /// With so much room.
        pub fn with(bytes: u64) -> Filling {
            Filling(Arc::new(AtomicU64::new(bytes)))
        }

        /// Has so much room from now on.
        pub fn set(&self, bytes: u64) {
            self.0.store(bytes, Ordering::SeqCst);
        }
    }

    impl Storage for Filling {
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
        /// A disk that is nearly full takes a part.
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
