//! Writes rows to Parquet files: columns, row groups, complete files only.
//!
//! A file is written under a name that ends in `.part`, then synced and renamed when it is closed,
//! so that a file under its final name is complete. Rows that cannot be written are counted and
//! reported, and the next rows begin a new file; a failure never blocks the caller.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use weir_types::{Nanos, WallOffset};

use super::moment::{day, moment};
use super::storage::{Storage, StoredFile};

pub(super) const PART: &str = ".parquet.part";
const SECOND_NS: u64 = 1_000_000_000;

/// A row of a table.
pub(super) trait Row: Copy + Send {
    /// The table's columns, in the syntax of Parquet schemas.
    const SCHEMA: &'static str;
    /// The indices of the columns by which a row group is sorted.
    const SORTED_BY: &'static [i32];

    /// The sort key within a row group.
    fn key(&self) -> (u64, u64, u64);

    /// Writes all columns of the rows, in the schema's order.
    fn put(rows: &[Self], group: &mut Group<'_>) -> Result<(), ParquetError>;
}

type Writer = SerializedFileWriter<Box<dyn StoredFile>>;

/// A row group, written column by column.
pub(super) struct Group<'a> {
    group: SerializedRowGroupWriter<'a, Box<dyn StoredFile>>,
}

impl Group<'_> {
    fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let column = self.group.next_column()?;
        let mut column = column.ok_or_else(|| ParquetError::General("a column too many".into()))?;
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()
    }

    /// Writes a column of 32-bit numbers.
    pub(super) fn small(&mut self, all: impl Iterator<Item = u32>) -> Result<(), ParquetError> {
        self.column::<Int32Type>(&all.map(u32::cast_signed).collect::<Vec<_>>(), None)
    }

    /// Writes a column of 64-bit numbers.
    pub(super) fn numbers(&mut self, all: impl Iterator<Item = u64>) -> Result<(), ParquetError> {
        self.column::<Int64Type>(&all.map(u64::cast_signed).collect::<Vec<_>>(), None)
    }

    /// Writes a column of optional 64-bit numbers.
    pub(super) fn some_numbers(
        &mut self,
        all: impl Iterator<Item = Option<u64>>,
    ) -> Result<(), ParquetError> {
        let (values, levels) = split(all.map(|number| number.map(u64::cast_signed)));
        self.column::<Int64Type>(&values, Some(&levels))
    }

    /// Writes a column of times, capped in the year 2262.
    pub(super) fn times(&mut self, all: impl Iterator<Item = Nanos>) -> Result<(), ParquetError> {
        self.column::<Int64Type>(&all.map(time).collect::<Vec<_>>(), None)
    }

    /// Writes a column of optional times.
    pub(super) fn some_times(
        &mut self,
        all: impl Iterator<Item = Option<Nanos>>,
    ) -> Result<(), ParquetError> {
        let (values, levels) = split(all.map(|at| at.map(time)));
        self.column::<Int64Type>(&values, Some(&levels))
    }

    /// Writes a column of optional decimals, given as unscaled digits, in `LEN` bytes each.
    pub(super) fn decimals<const LEN: usize>(
        &mut self,
        all: impl Iterator<Item = Option<i128>>,
    ) -> Result<(), ParquetError> {
        let bytes = |digits: i128| {
            let bytes = digits.to_be_bytes();
            FixedLenByteArray::from(bytes[bytes.len() - LEN..].to_vec())
        };
        let (values, levels) = split(all.map(|digits| digits.map(bytes)));
        self.column::<FixedLenByteArrayType>(&values, Some(&levels))
    }

    /// Writes a column of booleans.
    pub(super) fn flags(&mut self, all: impl Iterator<Item = bool>) -> Result<(), ParquetError> {
        self.column::<BoolType>(&all.collect::<Vec<_>>(), None)
    }

    /// Writes a column of optional strings.
    pub(super) fn texts<'t>(
        &mut self,
        all: impl Iterator<Item = Option<&'t str>>,
    ) -> Result<(), ParquetError> {
        let (values, levels) = split(all.map(|text| text.map(Into::into)));
        self.column::<ByteArrayType>(&values, Some(&levels))
    }
}

fn time(at: Nanos) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// Splits optional values into those present and the definition levels.
fn split<T>(all: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let mut levels = Vec::new();
    let values = all.inspect(|value| levels.push(i16::from(value.is_some()))).flatten().collect();
    (values, levels)
}

/// The files of a table and their limits.
#[derive(Clone, Debug)]
pub(super) struct TableConfig {
    pub(super) dir: PathBuf,
    /// The prefix of file names, followed by the time of the first row.
    pub(super) name: String,
    pub(super) group_rows: usize,
    pub(super) file_bytes: u64,
    pub(super) file_s: u64,
    pub(super) level: i32,
    /// The key-value metadata of a file.
    pub(super) about: Vec<(&'static str, String)>,
}

/// Counters of rows and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableFigures {
    /// Rows in complete files.
    pub rows: u64,
    /// Complete files.
    pub files: u64,
    /// The bytes of complete files.
    pub bytes: u64,
    /// Rows in memory and in the open file.
    pub open_rows: u64,
    /// Rows lost with files that could not be written.
    pub lost: u64,
    /// Write failures.
    pub failures: u64,
}

impl TableFigures {
    /// Returns the sum of two sets of counters.
    #[must_use]
    pub fn plus(self, other: TableFigures) -> TableFigures {
        TableFigures {
            rows: self.rows + other.rows,
            files: self.files + other.files,
            bytes: self.bytes + other.bytes,
            open_rows: self.open_rows + other.open_rows,
            lost: self.lost + other.lost,
            failures: self.failures + other.failures,
        }
    }
}

struct Open {
    writer: Writer,
    part: PathBuf,
    path: PathBuf,
    rows: u64,
}

/// The arrival of a row: the time, and the wall clock at it.
#[derive(Clone, Copy)]
struct Arrival {
    /// The age of a file counts from it.
    time: Nanos,
    /// A file has its name and its day from it.
    wall: Nanos,
}

/// Writes the rows of one table to consecutive files.
pub(super) struct TableWriter<R> {
    config: TableConfig,
    storage: Box<dyn Storage>,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    rows: Vec<R>,
    open: Option<Open>,
    /// The arrival of the first row that is not in a complete file.
    since: Option<Arrival>,
    /// The distance of the wall clock.
    wall: WallOffset,
    figures: TableFigures,
}

impl<R: Row> TableWriter<R> {
    /// # Errors
    /// An error of the directory, or an invalid compression level.
    pub(super) fn new(
        config: TableConfig,
        mut storage: Box<dyn Storage>,
    ) -> Result<TableWriter<R>, ParquetError> {
        let prefix = format!("{}-", config.name);
        for (name, _) in storage.list(&config.dir)? {
            // An unfinished file of a crash.
            if name.starts_with(&prefix) && name.ends_with(PART) {
                storage.remove(&config.dir.join(name))?;
            }
        }
        let sorted = R::SORTED_BY.iter().map(|column_idx| SortingColumn {
            column_idx: *column_idx,
            descending: false,
            nulls_first: false,
        });
        let about = config.about.iter();
        let about = about.map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(config.level)?))
            .set_created_by("weir".to_owned())
            .set_sorting_columns(Some(sorted.collect()))
            .set_key_value_metadata(Some(about.collect()))
            .build();
        Ok(TableWriter {
            schema: Arc::new(parse_message_type(R::SCHEMA)?),
            properties: Arc::new(properties),
            rows: Vec::with_capacity(config.group_rows),
            config,
            storage,
            open: None,
            since: None,
            wall: WallOffset::default(),
            figures: TableFigures::default(),
        })
    }

    /// The counters of rows and files.
    pub(super) fn figures(&self) -> TableFigures {
        let in_file = self.open.as_ref().map_or(0, |open| open.rows);
        TableFigures { open_rows: in_file + self.rows.len() as u64, ..self.figures }
    }

    /// Notes the distance of the wall clock.
    pub(super) fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Takes a row.
    pub(super) fn push(&mut self, row: R, now: Nanos) {
        self.tick(now);
        self.since.get_or_insert(Arrival { time: now, wall: self.wall.wall_at(now) });
        self.rows.push(row);
        if self.rows.len() >= self.config.group_rows {
            self.put_group();
        }
    }

    /// Closes the file when its time, its day or its size is exceeded.
    pub(super) fn tick(&mut self, now: Nanos) {
        let Some(since) = self.since else { return };
        let is_old = now.since(since.time).0 / SECOND_NS >= self.config.file_s;
        let is_other_day = day(self.wall.wall_at(now)) != day(since.wall);
        let written = self.open.as_ref().map_or(0, |open| open.writer.bytes_written());
        if is_old || is_other_day || written as u64 >= self.config.file_bytes {
            self.close();
        }
    }

    /// Writes all rows and closes the file.
    pub(super) fn close(&mut self) {
        self.put_group();
        self.since = None;
        let Some(mut open) = self.open.take() else { return };
        let rows = open.rows;
        match self.end(&mut open) {
            Ok(bytes) => {
                self.figures.rows += rows;
                self.figures.files += 1;
                self.figures.bytes += bytes;
            }
            Err(error) => self.fail(open, 0, &error),
        }
    }

    /// Completes a file; returns its length in bytes.
    fn end(&mut self, open: &mut Open) -> Result<u64, ParquetError> {
        open.writer.finish()?;
        // The footer must reach the system before the sync.
        open.writer.flush()?;
        open.writer.inner_mut().sync()?;
        self.storage.rename(&open.part, &open.path)?;
        Ok(open.writer.bytes_written() as u64)
    }

    /// Writes the rows in memory as a row group.
    fn put_group(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match self.begin() {
                Ok(open) => open,
                Err(error) => return self.lose(0, &error),
            },
        };
        self.rows.sort_unstable_by_key(Row::key);
        let count = self.rows.len() as u64;
        match put(&mut open.writer, &self.rows) {
            Ok(()) => {
                open.rows += count;
                self.rows.clear();
                self.open = Some(open);
            }
            Err(error) => self.fail(open, count, &error),
        }
    }

    fn begin(&mut self) -> Result<Open, ParquetError> {
        let dir = &self.config.dir;
        let there = self.storage.list(dir)?;
        let mut at = self.since.map_or(Nanos(0), |since| since.wall);
        let (path, part) = loop {
            let name = format!("{}-{}.parquet", self.config.name, moment(at));
            let part = format!("{name}.part");
            if !there.iter().any(|(file, _)| *file == name || *file == part) {
                break (dir.join(name), dir.join(part));
            }
            at.0 = at.0.saturating_add(1);
        };
        let file = self.storage.create(&part)?;
        let (schema, properties) = (Arc::clone(&self.schema), Arc::clone(&self.properties));
        let writer = SerializedFileWriter::new(file, schema, properties)?;
        Ok(Open { writer, part, path, rows: 0 })
    }

    /// Removes a file that could not be written.
    #[cold]
    fn fail(&mut self, open: Open, in_memory: u64, error: &ParquetError) {
        let lost = open.rows;
        let part = open.part.clone();
        drop(open);
        // A file that cannot be removed is removed at the next start.
        _ = self.storage.remove(&part);
        debug_assert!(in_memory == self.rows.len() as u64);
        self.lose(lost, error);
    }

    /// Counts the rows of a file and those in memory as lost.
    fn lose(&mut self, in_file: u64, error: &ParquetError) {
        self.figures.lost += in_file + self.rows.len() as u64;
        self.figures.failures += 1;
        self.rows.clear();
        self.since = None;
        let (dir, table) = (self.config.dir.display(), &self.config.name);
        tracing::error!(%dir, %table, lost = self.figures.lost, %error, "rows lost");
    }
}

fn put<R: Row>(writer: &mut Writer, rows: &[R]) -> Result<(), ParquetError> {
    {
        let mut group = Group { group: writer.next_row_group()? };
        R::put(rows, &mut group)?;
        group.group.close()?;
    }
    writer.flush().map_err(ParquetError::from)
}

/// Converts an error of a directory or a compression level at the start.
pub(super) fn as_io(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
