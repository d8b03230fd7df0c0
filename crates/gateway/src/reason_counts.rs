//! Counts per reason: every refusal, cut and drop is counted.

use weir_runtime::figures::Value;
use weir_types::Reason;

/// Codes below this have a count each.
const CODES: usize = 256;

const _: () = {
    let mut at = 0;
    while at < Reason::ALL.len() {
        assert!((Reason::ALL[at].code() as usize) < CODES, "every reason has its count");
        at += 1;
    }
};

/// A count for each reason.
#[derive(Clone, Debug)]
pub struct ReasonCounts([u64; CODES]);

impl Default for ReasonCounts {
    fn default() -> Self {
        ReasonCounts([0; CODES])
    }
}

impl ReasonCounts {
    /// Counts a reason.
    #[inline]
    pub fn add(&mut self, reason: Reason) {
        self.add_code(reason.code());
    }

    /// Counts a reason by its code. Codes without a reason are not counted.
    #[inline]
    pub fn add_code(&mut self, code: u16) {
        if let Some(count) = self.0.get_mut(usize::from(code)) {
            *count += 1;
        }
    }

    /// Returns the reasons with a count above zero, each with its count.
    pub fn given(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let counts = Reason::ALL.iter().map(|reason| (*reason, self.0[usize::from(reason.code())]));
        counts.filter(|(_, count)| *count > 0)
    }

    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.given().map(|(_, count)| count).sum()
    }
}

impl Value for ReasonCounts {
    fn rows(&self, row: &mut dyn FnMut(&str, u64)) {
        self.given().for_each(|(reason, count)| row(&format!("{reason:?}"), count));
    }

    fn plus(&self, other: &ReasonCounts) -> ReasonCounts {
        ReasonCounts(std::array::from_fn(|code| self.0[code] + other.0[code]))
    }

    fn set(&mut self, value: u64) {
        self.0[usize::from(Reason::ALL[0].code())] = value;
    }
}

impl serde::Serialize for ReasonCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.given().map(|(reason, count)| (format!("{reason:?}"), count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself() {
        let mut counts = ReasonCounts::default();
        counts.add(Reason::UnknownKey);
        counts.add(Reason::LogFull);
        counts.add(Reason::UnknownKey);
        counts.add_code(u16::MAX);
        let mut given: Vec<_> = counts.given().collect();
        given.sort();
        let mut expected = [(Reason::UnknownKey, 2), (Reason::LogFull, 1)];
        expected.sort();
        assert_eq!(given, expected);
        assert_eq!(counts.total(), 3);
        let json = serde_json::to_value(&counts).unwrap();
        assert_eq!(json, serde_json::json!({"UnknownKey": 2, "LogFull": 1}));
    }
}
