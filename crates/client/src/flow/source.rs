//! Opens a file of order flow in any supported format, by its name, and transcodes it to the normal
//! form.
//!
//! The whole stream is held in memory, at about 100 bytes an event: look-ahead needs it anyway.

use std::path::Path;

use super::bitstamp::{self, PRICE_DECIMALS, QTY_DECIMALS};
use super::bitstamp_flow::{BitstampNotes, bitstamp_flow};
use super::error::FlowError;
use super::lobster::{self, BookRow, Message};
use super::lobster_flow::{LobsterFlow, Survey};
use super::model::FlowItem;
use super::packed::{FlowHeader, PackedFlow, TimeBase, decode};

/// The most bytes of a packed file.
const PACKED_LEN_MAX: u64 = 256 << 20;

/// A file's format, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// `.zip`: a LOBSTER day in the vendor's form.
    Lobster,
    /// `.log.xz`: a Bitstamp day with snapshots and trades.
    BitstampLog,
    /// `.csv.xz`: a Bitstamp day's table of order events.
    BitstampTable,
    /// `.wflow`: packed.
    Packed,
}

impl SourceKind {
    /// Returns the format of a file; `None` for an unknown name.
    #[must_use]
    pub fn of(path: &Path) -> Option<SourceKind> {
        let name = path.file_name()?.to_str()?;
        let ends = [
            (".zip", SourceKind::Lobster),
            (".log.xz", SourceKind::BitstampLog),
            (".csv.xz", SourceKind::BitstampTable),
            (".wflow", SourceKind::Packed),
        ];
        ends.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| kind)
    }
}

/// Reads a file of any supported format.
///
/// # Errors
/// The name is of no known format, or the file is not of the format of its name.
pub fn load(path: &Path) -> Result<PackedFlow, FlowError> {
    match SourceKind::of(path) {
        Some(SourceKind::Lobster) => load_lobster(path),
        Some(SourceKind::BitstampLog | SourceKind::BitstampTable) => {
            load_bitstamp(path).map(|(flow, _)| flow)
        }
        Some(SourceKind::Packed) => load_packed(path),
        None => {
            // A file that is not there is said to be so, whatever its name.
            let file = path.display().to_string();
            std::fs::metadata(path)
                .map_err(|source| FlowError::Io { file: file.clone(), source })?;
            Err(FlowError::UnknownKind { file })
        }
    }
}

/// Reads a Bitstamp day, with the counts from its transcoding.
///
/// # Errors
/// The file is not of the format of its name.
pub fn load_bitstamp(path: &Path) -> Result<(PackedFlow, BitstampNotes), FlowError> {
    let records: Vec<_> = if SourceKind::of(path) == Some(SourceKind::BitstampTable) {
        bitstamp::open_csv(path)?.collect::<Result<_, _>>()?
    } else {
        bitstamp::open_log(path)?.collect::<Result<_, _>>()?
    };
    let flow = bitstamp_flow(&records);
    let header = FlowHeader {
        source: "Bitstamp order events and book snapshots, as recorded by phil8192/ob-analytics \
                 (inst/extdata/2015-05-01.log.xz)"
            .to_owned(),
        instrument: "BTCUSD".to_owned(),
        price_exponent: -(PRICE_DECIMALS as i8),
        qty_exponent: -(QTY_DECIMALS as i8),
        time_base: TimeBase::UnixEpoch,
    };
    Ok((PackedFlow { header, items: flow.items }, flow.notes))
}

fn load_lobster(path: &Path) -> Result<PackedFlow, FlowError> {
    let day: Vec<(Message, BookRow)> = lobster::open_zip(path)?.collect::<Result<_, _>>()?;
    let mut flow = LobsterFlow::new(Survey::of(day.iter().map(|(message, _)| message)));
    let mut items: Vec<FlowItem> = Vec::with_capacity(day.len() * 3);
    for (message, row) in &day {
        flow.push(message, row, &mut items);
    }
    let file = name_of(path);
    let ticker = file.trim_start_matches("LOBSTER_SampleFile_").split(['_', '.']).next();
    let header = FlowHeader {
        source: format!("LOBSTER, {file}"),
        instrument: ticker.unwrap_or_default().chars().take(32).collect(),
        price_exponent: -4,
        qty_exponent: 0,
        time_base: TimeBase::Midnight,
    };
    Ok(PackedFlow { header, items })
}

fn load_packed(path: &Path) -> Result<PackedFlow, FlowError> {
    let file = name_of(path);
    let failed = |source| FlowError::Io { file: file.clone(), source };
    let len = std::fs::metadata(path).map_err(failed)?.len();
    if len > PACKED_LEN_MAX {
        return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    decode(&bytes).map_err(|source| FlowError::Packed { file, source })
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
