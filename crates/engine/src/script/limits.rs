//! Limits around those of a duel's engines: some below the rows that they hold, now and then one
//! that no engine has.

use weir_wire::Command;
use weir_wire::reference::SetLimits;

use super::Script;

impl Script<'_> {
    /// Returns a command with new limits. Most leave room for the reference data, so that scripts
    /// go on trading.
    pub(super) fn set_limits(&mut self) -> Command {
        let mut limit = |usual: &[u32], rare: &[u32]| {
            let usual = self.one_of(usual);
            self.rarely(usual, rare)
        };
        Command::SetLimits(SetLimits {
            accounts_max: limit(&[8, 8, 7, 9], &[0, 5, 1 << 25]),
            sessions_max: limit(&[8, 8, 9, 10], &[1, 7]),
            firms_max: limit(&[3, 3, 4], &[1]),
            instruments_max: limit(&[4, 4, 5], &[2]),
            orders_max: limit(&[64, 64, 48, 24], &[0, 3]),
            positions_max: limit(&[12, 12, 11, 14], &[2]),
            trades_max: limit(&[8, 8, 7, 64], &[1, u32::MAX]),
        })
    }
}
