//! Writes the blocks of an audit capture, appending them to a byte vector.

use core::fmt::Write;

use weir_types::Nanos;

use super::super::WriteError;
use super::super::writer::put_frame;
use super::*;

/// The longest frame that a reader must expect, in bytes.
const SNAP_LEN: u32 = 1 << 17;
const LINK_ETHERNET: u16 = 1;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Time stamps are nanoseconds.
const RESOLUTION: u8 = 9;

/// Appends the head of a file with these lines.
pub fn put_audit_head<'a>(out: &mut Vec<u8>, lines: impl Iterator<Item = &'a str>) {
    put_block(out, SECTION_HEADER, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // The length of the section is unknown.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        put_option(out, SHB_USERAPPL, APPLICATION.as_bytes());
        end_options(out);
    });
    for name in lines {
        put_block(out, INTERFACE, |out| {
            out.extend_from_slice(&LINK_ETHERNET.to_le_bytes());
            out.extend_from_slice(&0_u16.to_le_bytes());
            out.extend_from_slice(&SNAP_LEN.to_le_bytes());
            put_option(out, IF_NAME, name.as_bytes());
            put_option(out, IF_TSRESOL, &[RESOLUTION]);
            end_options(out);
        });
    }
}

/// Appends a datagram.
///
/// # Errors
/// Returns [`WriteError`], and appends nothing, when IP cannot carry the datagram.
pub fn put_audit_datagram(out: &mut Vec<u8>, it: &AuditDatagram<'_>) -> Result<(), WriteError> {
    let start = out.len();
    let Datagram { ts_recv, src, dst, payload } = it.datagram;
    let mut done = Ok(0);
    put_block(out, PACKET, |out| {
        out.extend_from_slice(&u32::from(it.line.0).to_le_bytes());
        put_time(out, ts_recv);
        let lens_at = out.len();
        out.extend_from_slice(&[0; 8]);
        done = put_frame(out, src, dst, payload);
        let len = done.unwrap_or(0).to_le_bytes();
        out[lens_at..lens_at + 4].copy_from_slice(&len);
        out[lens_at + 4..lens_at + 8].copy_from_slice(&len);
        pad(out, lens_at + 8);
        put_polled(out, ts_recv, it.polled);
        end_options(out);
    });
    done.map(|_| ()).inspect_err(|_| out.truncate(start))
}

/// Appends a gap. `missing` is the total of missing datagrams of its line in this file, including
/// this gap.
pub fn put_audit_gap(out: &mut Vec<u8>, gap: &AuditGap, missing: u64) {
    put_block(out, STATISTICS, |out| {
        out.extend_from_slice(&u32::from(gap.line.0).to_le_bytes());
        put_time(out, gap.to);
        put_option(out, OPT_COMMENT, GAP.as_bytes());
        for (code, time) in [(ISB_STARTTIME, gap.from), (ISB_ENDTIME, gap.to)] {
            let (high, low) = halves(time);
            put_option(out, code, &[high, low].concat());
        }
        put_option(out, ISB_IFDROP, &missing.to_le_bytes());
        end_options(out);
    });
}

/// Appends the totals of a line at time `now`. A file ends with the totals of every line.
pub fn put_audit_end(out: &mut Vec<u8>, line: LineNo, totals: &LineTotals, now: Nanos) {
    put_block(out, STATISTICS, |out| {
        out.extend_from_slice(&u32::from(line.0).to_le_bytes());
        put_time(out, now);
        put_option(out, OPT_COMMENT, END.as_bytes());
        put_option(out, ISB_IFDROP, &totals.missing.to_le_bytes());
        put_option(out, ISB_USRDELIV, &totals.written.to_le_bytes());
        end_options(out);
    });
}

/// Appends a block: its type, its length, the body, and its length again.
fn put_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    // Fits: a frame has at most 64 KiB plus headers, a name at most 64 KiB.
    let len = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&len);
    out.extend_from_slice(&len);
}

/// Returns the upper half of a time, then the lower half.
fn halves(time: Nanos) -> ([u8; 4], [u8; 4]) {
    (((time.0 >> 32) as u32).to_le_bytes(), (time.0 as u32).to_le_bytes())
}

fn put_time(out: &mut Vec<u8>, time: Nanos) {
    let (high, low) = halves(time);
    out.extend_from_slice(&high);
    out.extend_from_slice(&low);
}

fn pad(out: &mut Vec<u8>, from: usize) {
    let len = (out.len() - from).next_multiple_of(4);
    out.resize(from + len, 0);
}

fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    let from = out.len();
    out.extend_from_slice(value);
    pad(out, from);
}

/// Appends the delay from receipt to poll, as a comment.
fn put_polled(out: &mut Vec<u8>, came: Nanos, polled: Nanos) {
    let later = i128::from(polled.0) - i128::from(came.0);
    let mut text = Text { bytes: [0; 48], len: 0 };
    // The difference of two 64-bit numbers has at most 21 characters.
    _ = write!(text, "{POLLED}{later:+} ns");
    put_option(out, OPT_COMMENT, &text.bytes[..text.len]);
}

fn end_options(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 4]);
}

/// A short text buffer that does not allocate.
struct Text {
    bytes: [u8; 48],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
