//! A slow model of the numbering: it keeps all packets and looks through them for each verdict.

use weir_types::Nanos;

use super::{Arrival, Beginning, Verdict};
use crate::{Packet, PacketKind};

/// A packet as the tests make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub session: u64,
    pub sequence: u64,
    pub count: u64,
    pub kind: PacketKind,
    pub ts: u64,
    pub offset: Option<u64>,
    /// Each message is this byte behind a length byte.
    pub content: u8,
    pub is_again: bool,
    /// The time at which it is received.
    pub at: u64,
}

impl Sent {
    pub fn end(&self) -> u64 {
        self.sequence + self.count
    }

    pub fn arrival(&self) -> Arrival {
        Arrival { end: self.end(), is_again: self.is_again, now: Nanos(self.at) }
    }

    pub fn messages(&self) -> Vec<u8> {
        vec![self.content; 2 * usize::try_from(self.count).expect("few")]
    }

    pub fn packet<'a>(&self, messages: &'a [u8]) -> Packet<'a> {
        Packet {
            channel: 0,
            session: self.session,
            sequence: self.sequence,
            count: u32::try_from(self.count).expect("few"),
            kind: self.kind,
            ts_send: Nanos(self.ts),
            stream_offset: self.offset,
            messages,
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// A run with all packets that were taken for its own.
#[derive(Clone, Debug)]
struct Run {
    session: u64,
    began: Option<u64>,
    left_at: Option<(u64, u64)>,
    packets: Vec<Sent>,
}

impl Run {
    fn reached(&self) -> u64 {
        self.packets.iter().map(Sent::end).max().unwrap_or(1).max(1)
    }

    fn newest(&self) -> u64 {
        let first_copies = self.packets.iter().filter(|sent| !sent.is_again);
        first_copies.map(|sent| sent.ts).max().unwrap_or(0)
    }

    /// The last position stated by a packet that came as far as any before it.
    fn position(&self) -> Option<(u64, u64)> {
        let mut position = None;
        for (index, sent) in self.packets.iter().enumerate() {
            let before = self.packets[..index].iter().map(Sent::end).max().unwrap_or(1).max(1);
            if let Some(offset) = sent.offset.filter(|_| !sent.is_again && sent.end() >= before) {
                position = Some((sent.end().max(1), offset + 2 * sent.count));
            }
        }
        position
    }

    fn is_ended(&self) -> bool {
        self.packets.iter().any(|sent| sent.kind == PacketKind::EndOfSession)
    }

    /// The last packet with messages that began with this number.
    fn last_from(&self, sequence: u64) -> Option<&Sent> {
        let is_one = |sent: &&Sent| sent.sequence == sequence && sent.count > 0 && !sent.is_again;
        self.packets.iter().rfind(is_one)
    }

    fn is_restarted_by(&self, sent: &Sent) -> bool {
        match sent.kind {
            PacketKind::Reset => self.began.is_none_or(|began| sent.ts >= began + SECOND),
            _ => {
                let is_first = sent.sequence <= 1 && sent.offset == Some(0);
                is_first && self.reached() > 1 && sent.ts > self.newest()
            }
        }
    }

    fn is_contradicted_by(&self, sent: &Sent) -> bool {
        if sent.is_again {
            return false;
        }
        let is_repeated = sent.count > 0 && sent.end() <= self.reached();
        let same = self.last_from(sent.sequence).filter(|same| same.count == sent.count);
        if is_repeated && same.is_some_and(|same| same.content != sent.content) {
            return true;
        }
        if sent.kind == PacketKind::Reset {
            return false;
        }
        let is_back = match sent.count {
            0 => sent.offset.is_some() && sent.sequence.max(1) < self.reached(),
            _ => sent.end() <= self.reached(),
        };
        if is_back && self.newest() > 0 && sent.ts > self.newest() + SECOND {
            return true;
        }
        let Some(offset) = sent.offset else { return false };
        let at = (sent.sequence.max(1), offset);
        let fits = |known: (u64, u64)| {
            let (low, high) = (known.min(at), known.max(at));
            let (between, bytes) = (high.0 - low.0, high.1.checked_sub(low.1));
            bytes.is_some_and(|bytes| if between == 0 { bytes == 0 } else { bytes >= 2 * between })
        };
        !fits((1, 0)) || self.position().is_some_and(|known| !fits(known))
    }
}

/// The time of the restart that began a run, and the end of the run before.
type Start = (Option<u64>, Option<(u64, u64)>);

/// The model.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    run: Option<Run>,
    /// Sessions that were left, the newest first, each with the number that it reached.
    left: Vec<(Run, u64)>,
    /// Packets of other runs since the last new one of the followed run.
    others: Vec<Sent>,
    /// Old packets since the last one of the followed run.
    old: Vec<Sent>,
}

impl Model {
    pub fn judge(&mut self, sent: &Sent) -> Verdict {
        let verdict = self.judge_alone(sent);
        if sent.is_again {
            return verdict;
        }
        match verdict {
            Verdict::Follows if sent.kind != PacketKind::EndOfSession => self.old.clear(),
            Verdict::Old { .. } if sent.kind == PacketKind::Data && sent.count > 0 => {
                self.old.push(*sent);
                let of_others = |old: &Sent| old.session != sent.session;
                let from = self.old.iter().rposition(of_others).map_or(0, |index| index + 1);
                let first = self.old[from..].iter().map(|old| old.at).min();
                let is_long = first.is_some_and(|first| sent.at >= first + 2 * SECOND);
                if is_long && self.old[from..].len() >= 16 {
                    let run = self.run.as_ref().filter(|run| run.session == sent.session);
                    let left_at = run.map(|run| (run.reached(), run.newest()));
                    return self.begin(Beginning::Found, sent, (None, left_at));
                }
            }
            _ => {}
        }
        verdict
    }

    fn judge_alone(&mut self, sent: &Sent) -> Verdict {
        let Some(run) = self.run.clone() else { return self.first_of_session(sent) };
        if run.session != sent.session {
            return self.of_other_session(sent);
        }
        if run.began.is_some_and(|began| sent.ts < began) {
            let old = Verdict::Old { revealed: None };
            let goes_on = |(reached, newest)| sent.end() > reached && sent.ts > newest;
            let is_new = run.left_at.is_some_and(goes_on);
            return if is_new { self.other(sent, old) } else { old };
        }
        if !sent.is_again && run.is_restarted_by(sent) {
            let (began, left_at) = (Some(sent.ts), Some((run.reached(), run.newest())));
            return self.begin(Beginning::Restart, sent, (began, left_at));
        }
        if run.is_contradicted_by(sent) {
            return self.other(sent, Verdict::Contradicts);
        }
        if sent.end() > run.reached() && !sent.is_again {
            self.others.clear();
        }
        self.run.as_mut().expect("there is one").packets.push(*sent);
        Verdict::Follows
    }

    fn first_of_session(&mut self, sent: &Sent) -> Verdict {
        match sent.kind {
            _ if sent.is_again => Verdict::Foreign,
            PacketKind::Reset => {
                self.begin(Beginning::Restart, sent, (Some(sent.ts), Some((1, 0))))
            }
            _ => self.begin(Beginning::Session, sent, (None, None)),
        }
    }

    fn of_other_session(&mut self, sent: &Sent) -> Verdict {
        let Some((left, reached)) =
            self.left.iter_mut().find(|(left, _)| left.session == sent.session)
        else {
            return self.first_of_session(sent);
        };
        if sent.end() <= *reached {
            return Verdict::Old { revealed: None };
        }
        let old = Verdict::Old { revealed: Some((*reached, sent.end())) };
        *reached = sent.end();
        if left.is_ended() || sent.is_again { old } else { self.other(sent, old) }
    }

    /// The third packet in a row of another run begins it.
    fn other(&mut self, sent: &Sent, verdict: Verdict) -> Verdict {
        self.others.push(*sent);
        let goes_on = |pair: &[Sent]| {
            let (one, next) = (&pair[0], &pair[1]);
            one.session == next.session && one.end() == next.sequence && next.ts >= one.ts
        };
        let Some([first, rest @ ..]) = self.others.last_chunk::<3>() else { return verdict };
        if ![*first, rest[0], rest[1]].windows(2).all(goes_on) {
            return verdict;
        }
        let is_back = verdict != Verdict::Contradicts;
        let began = Some(first.ts).filter(|began| !is_back && *began > 0);
        let run = self.run.as_ref().filter(|run| run.session == sent.session);
        let left_at = run.map(|run| (run.reached(), run.newest()));
        self.begin(Beginning::Found, sent, (began, left_at))
    }

    fn begin(&mut self, how: Beginning, sent: &Sent, start: Start) -> Verdict {
        let (began, left_at) = start;
        let session = sent.session;
        if let Some(old) = self.run.take().filter(|old| old.session != session) {
            let reached = old.reached();
            self.left.retain(|(left, _)| left.session != session);
            self.left.insert(0, (old, reached));
            self.left.truncate(4);
        }
        self.others.clear();
        self.old.clear();
        self.run = Some(Run { session, began, left_at, packets: vec![*sent] });
        Verdict::Begins(how)
    }
}
